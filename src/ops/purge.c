/*
 * `inboxd purge`: deletes messages that were processed long ago, in portions. Each portion is a
 * transaction of its own: its locks are short, and an interruption keeps what was deleted before.
 *
 * A deleted message is no longer recognised as a duplicate. If Kafka still has its record and an
 * instance reads it again, it is processed again; therefore the age is mandatory.
 */
#include <inttypes.h>

#include "base/text/numbers.h"
#include "ops/op.h"

#define PORTION 20000 /* messages in one transaction */

/* Reads the whole table, because no index knows when a message was processed. The user confirms
 * this number: no more messages than that are deleted, and none that became so old after it was counted.
 * `counted` has the number and the time. */
static int count_old(const struct op *op, struct rows **counted, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_bigint(&params, op->cli->bounds.older_than);
	params_bigint(&params, op->cli->bounds.limit == 0 ? INT64_MAX : op->cli->bounds.limit);
	return db_run(op->db, QUERY_OP_PURGE_COUNT, &params, counted, err);
}

static int purge_portion(const struct op *op, const struct rows *counted, int64_t most,
	int64_t *deleted, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_bigint(&params, op->cli->bounds.older_than);
	params_int(&params, (int32_t)(most < PORTION ? most : PORTION));
	params_bigint(&params, rows_int(counted, 0, 1));
	r = db_run(op->db, QUERY_OP_PURGE, &params, &rows, err);
	*deleted = r == 0 ? rows_int(rows, 0, 0) : 0;
	return r;
}

/* Ends when a portion finds nothing: others may delete the same messages at the same time. */
static int purge_all(
	const struct op *op, const struct rows *counted, int64_t *total, struct err *err)
{
	const int64_t wanted = rows_int(counted, 0, 0);
	int64_t deleted = 1;
	int r = 0;

	op_interrupt_begin();
	for (*total = 0; r == 0 && deleted > 0 && *total < wanted && !op_interrupted();
		*total += deleted) {
		op_progress(*total, wanted);
		r = purge_portion(op, counted, wanted - *total, &deleted, err);
	}
	op_progress(0, 0);
	if (op_interrupted() && r == 0 && *total < wanted) {
		(void)fprintf(stderr,
			"inboxd: interrupted: %" PRId64 " of %" PRId64
			" deleted; run the same command again for the rest\n",
			*total, wanted);
		op_print_change(op, "purge", *total);
		op_interrupt_obey();
	}
	op_interrupt_end();
	return r;
}

int op_purge(const struct op *op, struct err *err)
{
	CLEANUP(rows_freep) struct rows *counted = NULL;
	char question[96];
	int64_t wanted;
	int64_t total = 0;
	int r;

	if (op->cli->bounds.older_than < 0)
		return err_set(
			err, FAULT_USAGE, "purge: give --older-than, for example --older-than 7d");
	r = count_old(op, &counted, err);
	if (r != 0)
		return r;
	wanted = rows_int(counted, 0, 0);
	if (wanted == 0)
		return op_nothing(op, "purge", err, "no processed message is that old");
	(void)snprintf(question, sizeof(question), "delete %" PRId64 " processed message%s", wanted,
		plural(wanted));
	r = op_confirm(op, "purge", wanted, question, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	r = purge_all(op, counted, &total, err);
	if (r != 0 && total > 0)
		op_print_change(op, "purge", total);
	if (r != 0 && total > 0)
		return err_prefix(err, "%" PRId64 " deleted, then", total);
	if (r == 0 && !op->cli->json)
		(void)printf("%" PRId64 " deleted\n", total);
	if (r == 0)
		op_print_change(op, "purge", total);
	return r;
}
