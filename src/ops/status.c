/*
 * `inboxd status`: what waits, what is dead, and who works on it. The function inbox.status() reads
 * the tables once and returns one JSON object; the other queries only turn parts of this object
 * into cells, so that all tables show the same moment.
 */
#include "ops/op.h"

static int print_status(const struct op *op, const struct params *status, struct err *err)
{
	static const char *const facts_titles[] = { "WHAT", "VALUE" };
	static const char *const partition_titles[] = { "TOPIC", "PARTITION", "NEXT OFFSET",
		"WAITING", "PARKED", "OWNER", "ITS HANDLERS" };
	static const char *const consumer_titles[] = { "CONSUMER", "WAITING", "STATE",
		"ATTENTION" };
	static const char *const pause_titles[] = { "PAUSED", "NAME", "SINCE", "BY", "STOPPED",
		"REASON" };
	static const char *const handler_titles[] = { "HANDLER", "CONSUMER", "STATE" };
	CLEANUP(rows_freep) struct rows *facts = NULL;
	CLEANUP(rows_freep) struct rows *handlers = NULL;
	CLEANUP(rows_freep) struct rows *consumers = NULL;
	CLEANUP(rows_freep) struct rows *partitions = NULL;
	CLEANUP(rows_freep) struct rows *pauses = NULL;
	int r = db_run(op->db, QUERY_OP_STATUS_FACTS, status, &facts, err);

	if (r == 0)
		r = db_run(op->db, QUERY_OP_STATUS_PARTITIONS, status, &partitions, err);
	if (r == 0)
		r = db_run(op->db, QUERY_OP_STATUS_HANDLERS, status, &handlers, err);
	if (r == 0)
		r = db_run(op->db, QUERY_OP_STATUS_CONSUMERS, status, &consumers, err);
	if (r == 0)
		r = db_run(op->db, QUERY_OP_STATUS_PAUSES, status, &pauses, err);
	if (r != 0)
		return r;
	op_print_table(facts, facts_titles, 2, true);
	(void)putchar('\n');
	op_print_table(partitions, partition_titles, 7, true);
	if (rows_count(handlers) > 0) {
		(void)putchar('\n');
		op_print_table(handlers, handler_titles, 3, true);
	}
	if (rows_count(consumers) > 0) {
		(void)putchar('\n');
		op_print_table(consumers, consumer_titles, 4, true);
	}
	if (rows_count(pauses) > 0) {
		(void)putchar('\n');
		op_print_table(pauses, pause_titles, 6, true);
	}
	return 0;
}

int op_status(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(op->db, QUERY_OP_STATUS, NULL, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->json) {
		op_print_lines(rows, 0);
		return 0;
	}
	params_jsonb(&params, rows_bytes(rows, 0, 0));
	return print_status(op, &params, err);
}
