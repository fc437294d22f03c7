/*
 * `inboxd backfill`: copies the messages that the table still holds to a consumer that does not have
 * them, page by page. Each page is a transaction of its own (sql/functions/backfill.sql), and no
 * message is copied twice, so an interrupted backfill is continued by running it again.
 *
 * The copies wait. When more messages wait than ingest.max_pending, the sidecars stop reading Kafka.
 * So the command stops at half of this limit, and continues when fewer messages wait.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "ops/op.h"

/* Messages in one transaction. With larger pages a COMMIT of the load has more WAL of the backfill to flush. */
#define PAGE        1000
#define CHECK_EVERY 50000 /* minimum number of copies between two counts of the waiting messages */

struct backfill {
	struct op op; /* with the details of this command */
	struct buf filter;
	struct buf details;
	int64_t wanted;
	int64_t without_payload;
	int64_t late;
	int64_t repeats; /* the handler would process them again */
	char handler[128];
	char done_for[72];
	int64_t affected;
	int64_t after;
	int64_t room; /* copies until the next count of the waiting messages */
	bool over;
};

static const char *name_of(const struct backfill *backfill)
{
	return backfill->op.cli->words[0];
}

/* Counts what the operator confirms. The filter then ends at the last seq of now: later messages
 * are stored for the consumer anyway, and the copies must not be read again. */
static int count_wanted(struct backfill *backfill, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t most = backfill->op.cli->bounds.limit;
	int r = op_backfill_filter(&backfill->filter, backfill->op.cli, -1, err);

	if (r != 0)
		return r;
	params_jsonb(&params, (struct bytes){ backfill->filter.data, backfill->filter.length });
	r = db_run(backfill->op.db, QUERY_OP_BACKFILL_COUNT, &params, &rows, err);
	if (r != 0)
		return r;
	backfill->wanted = rows_int(rows, 0, 0);
	backfill->without_payload = rows_int(rows, 0, 1);
	backfill->late = rows_int(rows, 0, 2);
	backfill->repeats = rows_int(rows, 0, 4);
	if (backfill->repeats > 0) {
		(void)snprintf(
			backfill->handler, sizeof(backfill->handler), "%s", rows_text(rows, 0, 5));
		(void)snprintf(backfill->done_for, sizeof(backfill->done_for), "%s",
			rows_text(rows, 0, 6));
	}
	if (most > 0 && backfill->wanted > most)
		backfill->wanted = most;
	buf_addf(&backfill->details, ",\"without_payload\":%" PRId64 ",\"late\":%" PRId64,
		backfill->without_payload, backfill->late);
	if (backfill->repeats > 0)
		buf_addf(&backfill->details, ",\"repeats\":%" PRId64, backfill->repeats);
	if (!buf_ok(&backfill->details))
		return err_memory(err);
	backfill->op.details = buf_str(&backfill->details);
	buf_reset(&backfill->filter);
	return op_backfill_filter(&backfill->filter, backfill->op.cli, rows_int(rows, 0, 3), err);
}

static void print_counts(const struct backfill *backfill)
{
	if (backfill->without_payload > 0)
		(void)fprintf(stderr, "%" PRId64 " left out: retention has dropped their payload\n",
			backfill->without_payload);
	if (backfill->late > 0)
		(void)fprintf(stderr,
			"%" PRId64 " come%s late: a later message of the key is already "
			"claimed, processed or dead\n",
			backfill->late, backfill->late == 1 ? "s" : "");
}

/* Refuses to copy messages that a handler of the consumer has processed for another consumer. This happens if a new
 * consumer has the name of a handler that existed before. */
static int check_repeats(const struct backfill *backfill, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;

	if (backfill->repeats == 0)
		return 0;
	buf_addf(&words,
		"the handler \"%s\" has processed %" PRId64
		" of these messages for the consumer \"%s\"",
		backfill->handler, backfill->repeats, backfill->done_for);
	if (!backfill->op.cli->dry_run && !backfill->op.cli->again)
		return err_set(err, FAULT_CHECK,
			"%s. If \"%s\" is another name for that consumer: `inboxd consumers rename "
			"'%s' "
			"'%s'`. To process them again: --again",
			buf_str(&words), name_of(backfill), backfill->done_for, name_of(backfill));
	(void)fprintf(stderr, "%s: it would process them again\n", buf_str(&words));
	return 0;
}

static int copy_page(struct backfill *backfill, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t left = backfill->wanted - backfill->affected;
	int64_t copied;
	int r;

	params_jsonb(&params, (struct bytes){ backfill->filter.data, backfill->filter.length });
	params_bigint(&params, backfill->after);
	params_int(&params, (int32_t)(left < PAGE ? left : PAGE));
	params_text(&params, backfill->op.cli->reason);
	params_bool(&params, left > PAGE);
	r = db_run(backfill->op.db, QUERY_OP_BACKFILL_PAGE, &params, &rows, err);
	if (r != 0)
		return r;
	copied = rows_int(rows, 0, 0);
	backfill->affected += copied;
	backfill->room -= copied;
	backfill->over = rows_is_null(rows, 0, 1);
	if (!backfill->over)
		backfill->after = rows_int(rows, 0, 1);
	return 0;
}

static int64_t most_waiting(const struct backfill *backfill)
{
	return backfill->op.config->ingest.max_pending / 2;
}

static int count_waiting(struct backfill *backfill, int64_t cap, int64_t *waiting, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_bigint(&params, cap);
	r = db_run(backfill->op.db, QUERY_OP_BACKFILL_WAITING, &params, &rows, err);
	if (r == 0)
		*waiting = rows_int(rows, 0, 0);
	return r;
}

/* While no handler of the consumer is connected, nothing makes room for the rest of the copies. Above the limit the sidecars
 * have stopped reading; with a higher limit they first store the records of the lag, which the table does not count. */
static int note_room(struct backfill *backfill, struct err *err)
{
	int64_t most = most_waiting(backfill);
	int64_t waiting = 0;
	int r = count_waiting(backfill, INT64_MAX, &waiting, err);

	if (r == 0 && waiting + backfill->wanted > most)
		(void)fprintf(stderr,
			"the copies do not fit: the command pauses while more than %" PRId64
			" messages wait (half of ingest.max_pending), and %" PRId64
			" wait now. To avoid the pause, first raise ingest.max_pending above "
			"%" PRId64 "%s for the sidecars and for this command, and restart the "
			"sidecars. The "
			"pause also ends if a handler of the consumer is connected, but a later "
			"message of a key can then come before its copies\n",
			most, waiting, 2 * (waiting + backfill->wanted),
			waiting < backfill->op.config->ingest.max_pending
				? ""
				: " plus twice the sum of inboxd_kafka_lag, because the sidecars "
				  "have stopped reading,");
	return r;
}

/* Whether so many messages wait that the next page must wait, too. A count reads all waiting messages. The next count comes
 * when half of the copies that fit below the limit are made; the other half is for messages that the sidecars store meanwhile. */
static int is_full(struct backfill *backfill, bool *full, struct err *err)
{
	int64_t most = most_waiting(backfill);
	int64_t waiting = 0;
	int r = count_waiting(backfill, most + 1, &waiting, err);

	if (r != 0)
		return r;
	*full = waiting > most;
	backfill->room = (most - waiting) / 2;
	if (backfill->room < CHECK_EVERY)
		backfill->room = CHECK_EVERY;
	return 0;
}

static int wait_for_room(struct backfill *backfill, struct err *err)
{
	const struct timespec pause = { .tv_sec = 1 };
	bool full = true;
	int r = is_full(backfill, &full, err);

	if (r == 0 && full && backfill->affected < backfill->wanted)
		(void)fprintf(stderr,
			"%" PRId64 " of %" PRId64
			" copied; pausing until fewer messages wait than half of "
			"ingest.max_pending\n",
			backfill->affected, backfill->wanted);
	while (r == 0 && full && !op_interrupted()) {
		(void)nanosleep(&pause, NULL);
		r = is_full(backfill, &full, err);
	}
	return r;
}

static int copy_all(struct backfill *backfill, struct err *err)
{
	int r = wait_for_room(backfill, err);

	while (r == 0 && !backfill->over && backfill->affected < backfill->wanted &&
		!op_interrupted()) {
		int64_t began_us = clock_now_us();

		op_progress(backfill->affected, backfill->wanted);
		r = copy_page(backfill, err);
		if (r == 0 && backfill->room <= 0)
			r = wait_for_room(backfill, err);
		else if (r == 0 && !backfill->over && backfill->affected < backfill->wanted)
			op_pause_after(clock_now_us() - began_us);
	}
	op_progress(0, 0);
	return r;
}

static int run_pages(struct backfill *backfill, struct err *err)
{
	int r;

	op_interrupt_begin();
	r = copy_all(backfill, err);
	if (r == 0 || backfill->affected > 0)
		op_print_change(&backfill->op, "backfill", backfill->affected);
	if (r == 0 && op_interrupted() && !backfill->over &&
		backfill->affected < backfill->wanted) {
		(void)fprintf(stderr,
			"inboxd: interrupted: %" PRId64 " of %" PRId64
			" copied; run the same command again for the rest\n",
			backfill->affected, backfill->wanted);
		op_interrupt_obey();
	}
	op_interrupt_end();
	if (r != 0)
		return backfill->affected == 0
			       ? r
			       : err_prefix(err,
					 "%" PRId64 " of %" PRId64
					 " copied (run the same command again for the rest), then",
					 backfill->affected, backfill->wanted);
	if (!backfill->op.cli->json)
		(void)printf("%" PRId64 " copied\n", backfill->affected);
	return 0;
}

static bool is_narrowed(const struct cli *cli)
{
	return cli->range.from_consumer != NULL || cli->filter.topic != NULL ||
	       cli->filter.since != NULL;
}

static int copy_messages(struct backfill *backfill, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	int r = count_wanted(backfill, err);

	if (r != 0)
		return r;
	print_counts(backfill);
	r = check_repeats(backfill, err);
	if (r != 0)
		return r;
	if (backfill->wanted == 0)
		return op_nothing(&backfill->op, "backfill", err,
			is_narrowed(backfill->op.cli)
				? "there is no message to copy: the consumer has all that it wants "
				  "of those that match"
				: "there is no message to copy: the consumer has all that it "
				  "wants");
	r = note_room(backfill, err);
	if (r != 0)
		return r;
	buf_addf(&question, "copy %" PRId64 " message%s to the consumer \"%s\"", backfill->wanted,
		plural(backfill->wanted), name_of(backfill));
	r = op_confirm(&backfill->op, "backfill", backfill->wanted, buf_str(&question), err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	return run_pages(backfill, err);
}

int op_backfill(const struct op *op, struct err *err)
{
	struct backfill backfill = { .op = *op, .filter = BUF_INIT, .details = BUF_INIT };
	int r;

	if (op->cli->word_count == 0)
		return err_set(err, FAULT_USAGE,
			"backfill: give the name of a consumer (`inboxd consumers` lists them)");
	r = copy_messages(&backfill, err);
	buf_fini(&backfill.filter);
	buf_fini(&backfill.details);
	return r;
}
