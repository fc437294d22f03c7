/*
 * `inboxd skip`: gives up the message that a key waits for, so that the key goes on. `inboxd keys`
 * (list.c) lists such keys. The message becomes dead with the reason and can be replayed later.
 *
 * Between the question and the answer the key may have gone on. The change names the message, so
 * that no other one becomes dead.
 */
#include <inttypes.h>

#include "base/text/numbers.h"
#include "json/text.h"
#include "ops/op.h"

/* The columns of op_skip_find.sql. */
enum {
	LANE_TOPIC,
	LANE_CONSUMER,
	LANE_PARTITION,
	LANE_SEQ,
	LANE_IS_CLAIMED,
	LANE_EVENT_ID,
	LANE_STATUS,
	LANE_ERROR,
	LANE_WAITING
};

/* The first arguments of the search and of the change. */
static void add_lane(
	struct params *params, const struct op *op, const char *topic, const char *consumer)
{
	params_text(params, topic);
	params_text(params, op->cli->word_count == 0 ? NULL : op->cli->words[0]);
	params_text(params, consumer);
}

static int check_options(const struct cli *cli, struct err *err)
{
	if (cli->word_count == 0 && cli->range.partition < 0)
		return err_set(err, FAULT_USAGE,
			"skip: give a key or, with ordering: partition, give --partition");
	if (cli->range.partition > INT32_MAX)
		return err_set(err, FAULT_USAGE, "--partition: %" PRId64 " is not a partition",
			cli->range.partition);
	return 0;
}

static void add_place(struct buf *out, const struct rows *rows, int row)
{
	const char *consumer = rows_text(rows, row, LANE_CONSUMER);

	buf_addf(out, "partition %" PRId64 " of topic \"%s\"", rows_int(rows, row, LANE_PARTITION),
		rows_text(rows, row, LANE_TOPIC));
	if (consumer[0] != '\0')
		buf_addf(out, " for consumer \"%s\"", consumer);
}

static int refuse_several(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf places = BUF_INIT;
	int count = rows_count(rows);

	add_place(&places, rows, 0);
	buf_add_str(&places, " and in ");
	add_place(&places, rows, 1);
	if (count > 2)
		buf_addf(&places, ", and in %d more", count - 2);
	if (!buf_ok(&places))
		return err_memory(err);
	return err_set(err, FAULT_USAGE,
		"messages of the key wait in %s: select one with --topic, --partition or "
		"--consumer (`inboxd keys` lists them)",
		buf_str(&places));
}

/* Finds the lane; fails unless there is exactly one. */
static int find_lane(const struct op *op, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	char partition[24] = "";
	int r;

	if (op->cli->range.partition >= 0)
		(void)snprintf(partition, sizeof(partition), "%" PRId64, op->cli->range.partition);
	add_lane(&params, op, op->cli->filter.topic, op->cli->filter.consumer);
	params_text(&params, partition[0] == '\0' ? NULL : partition);
	r = db_run(op->db, QUERY_OP_SKIP_FIND, &params, out, err);
	if (r != 0)
		return r;
	if (rows_count(*out) == 0)
		return op_nothing(op, "skip", err,
			"no message waits there (`inboxd keys` lists the keys that are blocked)");
	if (rows_count(*out) > 1)
		return refuse_several(*out, err);
	if (rows_bool(*out, 0, LANE_IS_CLAIMED))
		return err_set(err, FAULT_CHECK,
			"an instance holds event \"%s\", for which the key waits; its handler may "
			"be "
			"at work: wait for the verdict or the timeout, and try again after a "
			"failed "
			"attempt",
			rows_text(*out, 0, LANE_EVENT_ID));
	return 0;
}

static int confirm(const struct op *op, const struct rows *lane, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	const char *error = rows_text(lane, 0, LANE_ERROR);
	int64_t waiting = rows_int(lane, 0, LANE_WAITING);

	buf_addf(&question,
		"skip event \"%s\", which is %s%s%s; %" PRId64 " message%s wait%s behind it",
		rows_text(lane, 0, LANE_EVENT_ID), rows_text(lane, 0, LANE_STATUS),
		error == NULL ? "" : ": ", error == NULL ? "" : error, waiting, plural(waiting),
		waiting == 1 ? "s" : "");
	return op_confirm(op, "skip", 1, buf_str(&question), err);
}

/* Makes the message dead that was found and confirmed. */
static int skip(const struct op *op, const struct rows *lane, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	add_lane(&params, op, rows_text(lane, 0, LANE_TOPIC), rows_text(lane, 0, LANE_CONSUMER));
	params_text(&params, op->cli->reason);
	params_int(&params, (int32_t)rows_int(lane, 0, LANE_PARTITION));
	params_bigint(&params, rows_int(lane, 0, LANE_SEQ));
	r = db_run(op->db, QUERY_OP_SKIP, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_is_null(rows, 0, 0))
		return op_nothing(op, "skip", err, "the key has gone on in the meantime");
	if (!op->cli->json)
		(void)printf("event \"%s\" is dead; its key goes on within seconds\n",
			rows_text(rows, 0, 0));
	op_print_change(op, "skip", 1);
	return 0;
}

int op_skip(const struct op *op, struct err *err)
{
	CLEANUP(rows_freep) struct rows *lane = NULL;
	CLEANUP(buf_fini) struct buf details = BUF_INIT;
	struct op named = *op;
	int r = check_options(op->cli, err);

	if (r == 0)
		r = find_lane(op, &lane, err);
	if (r != 0)
		return r;
	buf_addf(&details, ",\"event_id\":");
	json_add_string(&details, bytes_of(rows_text(lane, 0, LANE_EVENT_ID)));
	if (!buf_ok(&details))
		return err_memory(err);
	named.details = buf_str(&details);
	r = confirm(&named, lane, err);
	if (r == 0)
		r = skip(&named, lane, err);
	return r == OP_NO ? 0 : r;
}
