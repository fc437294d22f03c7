/*
 * `inboxd seek`: moves the watermark of a partition. The argument is turned into an offset of
 * Kafka's log, and the consequences (records that are read again or never read) are printed before
 * inbox.seek() moves the watermark.
 */
#include "ops/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "ingest/ingest.h"
#include "ingest/kafka/commands/log_range.h"
#include "json/text.h"
#include "ops/op.h"
#include "store/schema/binding.h"

/* The arguments, the present state, and what the move would do. */
struct seek {
	struct op op;
	const char *topic;
	int32_t partition;
	const char *offset_text; /* OFFSET as given; NULL: --to-time */
	int64_t time_ms;         /* of --to-time; -1: not given */
	struct log_range log;
	int64_t from; /* the watermark; -1: the row exists, and nothing was stored yet */
	int64_t to;
	/* Numbers of offsets; there may be fewer records. */
	int64_t read_again;
	int64_t skipped;
	struct buf details;
};

/* --- The arguments ----------------------------------------------------------------------------- */

/* Checked before the connection is made, so that a typing error needs no database. */
static int read_words(struct seek *seek, struct err *err)
{
	const struct cli *cli = seek->op.cli;
	size_t wanted = cli->range.to_time == NULL ? 3 : 2;
	int64_t number = 0;

	if (cli->word_count == 3 && cli->range.to_time != NULL)
		return err_set(err, FAULT_USAGE, "seek: give an offset or --to-time, not both");
	if (cli->word_count < wanted)
		return err_set(err, FAULT_USAGE,
			"seek: give a topic, a partition, and an offset or --to-time (`inboxd seek "
			"--help`)");
	if (!cli_number(cli->words[1], &number) || number > INT32_MAX)
		return err_set(
			err, FAULT_USAGE, "seek: \"%s\" is not a partition number", cli->words[1]);
	seek->topic = cli->words[0];
	seek->partition = (int32_t)number;
	seek->offset_text = cli->range.to_time == NULL ? cli->words[2] : NULL;
	if (seek->offset_text != NULL && !cli_is_choice("beginning end", seek->offset_text) &&
		!cli_number(seek->offset_text, &number))
		return err_set(err, FAULT_USAGE,
			"seek: \"%s\" is not an offset; give a number, beginning or end",
			seek->offset_text);
	return 0;
}

/* An age counts from this host's clock. PostgreSQL reads any other text, as for --since. */
static int read_time(struct seek *seek, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const char *text = seek->op.cli->range.to_time;
	const int64_t now_ms = clock_wall_ms();
	int64_t age_ms = 0;
	int r;

	seek->time_ms = -1;
	if (text == NULL)
		return 0;
	if (duration_read(text, &age_ms)) {
		seek->time_ms = age_ms < now_ms ? now_ms - age_ms : 0;
		return 0;
	}
	params_text(&params, text);
	r = db_run(seek->op.db, QUERY_OP_TIME, &params, &rows, err);
	if ((r == 0 && rows_is_null(rows, 0, 0)) || (r != 0 && strncmp(err->state, "22", 2) == 0))
		return err_set(err, FAULT_USAGE,
			"--to-time takes a time such as 2026-11-21T05:00Z, or an age such as 2h, "
			"not \"%s\"",
			text);
	if (r == 0) /* Kafka interprets negative numbers in another way */
		seek->time_ms = rows_int(rows, 0, 0) < 0 ? 0 : rows_int(rows, 0, 0);
	return r;
}

/* --- The present state ------------------------------------------------------------------------- */

/* Offsets of another cluster have no meaning here. */
static int check_cluster(const struct seek *seek, struct err *err)
{
	CLEANUP(freep) char *cluster = NULL;
	const char *group = NULL;
	bool bound = false;
	int r = ingest_identify(seek->op.config, &cluster, &group, err);

	return r != 0 ? r : schema_check_binding(seek->op.db, cluster, group, &bound, err);
}

/* A partition without a row has no watermark to move: the first instance that is assigned the
 * partition begins at the group's offset in Kafka. */
static int read_watermark(struct seek *seek, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, seek->topic);
	params_int(&params, seek->partition);
	r = db_run(seek->op.db, QUERY_OP_WATERMARK, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0) {
		(void)err_set(err, FAULT_CHECK,
			"no instance of this schema has ever read partition %d of topic \"%s\"",
			seek->partition, seek->topic);
		return err_advise(err, "start an instance that reads it, or, before the first "
				       "start, set the offset of its group in Kafka");
	}
	seek->from = rows_is_null(rows, 0, 0) ? -1 : rows_int(rows, 0, 0);
	return 0;
}

/* An offset outside the log is an error and is not adjusted: the operator expects to read certain
 * records, and they are not there. */
static int choose_offset(struct seek *seek, struct err *err)
{
	const struct log_range *log = &seek->log;

	if (seek->offset_text == NULL)
		seek->to = log->at;
	else if (strcmp(seek->offset_text, "beginning") == 0)
		seek->to = log->begin;
	else if (strcmp(seek->offset_text, "end") == 0)
		seek->to = log->end;
	else
		(void)cli_number(seek->offset_text, &seek->to);
	if (seek->to >= log->begin && seek->to <= log->end)
		return 0;
	return err_set(err, FAULT_CHECK,
		"%s/%d: offset %" PRId64 " is %s of the log: it begins at %" PRId64
		" and ends before %" PRId64 "; write beginning or end for those",
		seek->topic, seek->partition, seek->to,
		seek->to < log->begin ? "before the begin" : "behind the end", log->begin,
		log->end);
}

/* The offset at which an instance would continue. If the watermark is behind the end, the topic was
 * recreated. */
static void weigh(struct seek *seek)
{
	const struct log_range *log = &seek->log;
	int64_t next = seek->from;

	if (next < log->begin || next > log->end)
		next = log->begin;
	seek->read_again = next > seek->to ? next - seek->to : 0;
	seek->skipped = seek->to > next ? seek->to - next : 0;
}

static int read_state(struct seek *seek, struct err *err)
{
	struct log_question question = { .topic = seek->topic, .partition = seek->partition };
	int r = read_time(seek, err);

	if (r == 0)
		r = check_cluster(seek, err);
	question.time_ms = seek->time_ms;
	if (r == 0)
		r = ingest_log_range(seek->op.config, &question, &seek->log, err);
	if (r == 0)
		r = read_watermark(seek, err);
	if (r == 0)
		r = choose_offset(seek, err);
	if (r == 0)
		weigh(seek);
	return r;
}

/* --- Printing ---------------------------------------------------------------------------------- */

static void print_offset(const char *name, int64_t offset)
{
	if (offset < 0)
		(void)printf("%-15s -\n", name);
	else
		(void)printf("%-15s %" PRId64 "\n", name, offset);
}

/* Lost records are reported on stderr too, for a reader who sees only the object of --json. */
static void warn(const struct seek *seek)
{
	if (seek->skipped > 0)
		(void)fprintf(stderr,
			"SKIPPED: at most %" PRId64 " record%s, offsets %" PRId64 " to %" PRId64
			": they are never stored, and no handler gets them\n",
			seek->skipped, plural(seek->skipped), seek->to - seek->skipped,
			seek->to - 1);
	if (seek->from > seek->log.end)
		(void)fputs("the watermark is behind the end of the log: the topic was created "
			    "again, and nothing of it has been read\n",
			stderr);
}

/* With --json the same facts are in the object of op_print_change(): see write_details(). */
static void print_facts(const struct seek *seek)
{
	if (seek->op.cli->json)
		return;
	print_offset("watermark now", seek->from);
	print_offset("watermark then", seek->to);
	print_offset("log begins", seek->log.begin);
	print_offset("log ends before", seek->log.end);
	if (seek->read_again > 0)
		(void)printf("read again: at most %" PRId64 " record%s, offsets %" PRId64
			     " to %" PRId64
			     "; those in the inbox are duplicates, those whose message was "
			     "deleted are handled again\n",
			seek->read_again, plural(seek->read_again), seek->to,
			seek->to + seek->read_again - 1);
	else if (seek->skipped == 0)
		(void)puts("nothing is read again, and nothing is skipped");
	if (seek->op.cli->dry_run)
		(void)printf("to do it: inboxd seek %s %d %" PRId64 " --yes\n", seek->topic,
			seek->partition, seek->to);
}

static int write_details(struct seek *seek, struct err *err)
{
	struct buf *out = &seek->details;

	buf_add_str(out, ",\"topic\":");
	json_add_string(out, bytes_of(seek->topic));
	buf_addf(out, ",\"kafka_partition\":%d,\"from\":", seek->partition);
	if (seek->from < 0)
		buf_add_str(out, "null");
	else
		buf_addf(out, "%" PRId64, seek->from);
	buf_addf(out,
		",\"to\":%" PRId64 ",\"log_begins\":%" PRId64 ",\"log_ends\":%" PRId64
		",\"read_again\":%" PRId64 ",\"skipped\":%" PRId64,
		seek->to, seek->log.begin, seek->log.end, seek->read_again, seek->skipped);
	seek->op.details = buf_str(out);
	return buf_ok(out) ? 0 : err_memory(err);
}

/* --- Moving the watermark ---------------------------------------------------------------------- */

/* inbox.seek() changes the row of the partition. The instance that owns it notices the new
 * epoch within seconds and continues there; this command does not talk to any instance. */
static int move(const struct seek *seek, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	params_text(&params, seek->topic);
	params_int(&params, seek->partition);
	params_bigint(&params, seek->to);
	params_text(&params, seek->op.cli->reason);
	r = db_run(seek->op.db, QUERY_OP_SEEK, &params, NULL, err);
	if (r != 0)
		return r;
	if (!seek->op.cli->json)
		(void)printf("%s/%d: the next record to be read is %" PRId64 "\n", seek->topic,
			seek->partition, seek->to);
	op_print_change(&seek->op, "seek", 1);
	return 0;
}

/* The question begins with what is lost for good. */
static int ask_and_move(struct seek *seek, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	int r = write_details(seek, err);

	if (r != 0)
		return r;
	print_facts(seek);
	warn(seek);
	if (seek->skipped > 0)
		buf_addf(&question, "skip %" PRId64 " record%s for good: ", seek->skipped,
			plural(seek->skipped));
	buf_addf(&question, "move the watermark of %s/%d to %" PRId64, seek->topic, seek->partition,
		seek->to);
	r = op_confirm(&seek->op, "seek", 1, buf_str(&question), err);
	return r == 0 ? move(seek, err) : r == OP_NO ? 0 : r;
}

/* The parts of op_run(), because the words are checked before the connection is made. */
int command_seek(const struct cli *cli, const struct config *config, struct err *err)
{
	struct seek seek = { .op = { .cli = cli, .config = config } };
	int r = op_check_words(cli, err);

	if (r == 0)
		r = read_words(&seek, err);
	if (r == 0)
		r = op_open(&seek.op, err);
	if (r == 0)
		r = read_state(&seek, err);
	if (r == 0)
		r = ask_and_move(&seek, err);
	db_free(seek.op.db);
	buf_fini(&seek.details);
	return op_explain(r, cli->command, config, err);
}
