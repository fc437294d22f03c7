/* `inboxd list`: pages of messages, and groups of dead ones. See op.h. */
#include <inttypes.h>
#include <string.h>

#include "admin/op.h"

#define DEFAULT_LIMIT 100
#define MOST_LIMIT    100000

static int64_t limit_of(const struct op *op)
{
	int64_t limit = op->cli->limit == 0 ? DEFAULT_LIMIT : op->cli->limit;

	return limit > MOST_LIMIT ? MOST_LIMIT : limit;
}

static int list_groups(const struct op *op, const struct buf *filter, struct err *err)
{
	static const char *const titles[] = { "MESSAGES", "TYPE", "CODE", "ERROR", "FIRST", "LAST",
		"LATEST SEQ" };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_jsonb(&params, (struct bytes){ filter->data, filter->length });
	params_int(&params, (int32_t)limit_of(op));
	r = db_run(op->db, QUERY_OP_GROUPS, &params, &rows, err);
	if (r != 0)
		return r;
	if (op->cli->json)
		op_print_lines(rows, 7);
	else
		op_print_table(rows, titles, 7);
	return 0;
}

static void print_page(const struct op *op, const struct rows *rows)
{
	static const char *const titles[] = { "SEQ", "STATUS", "RECORD", "TYPE", "EVENT ID",
		"TRIES", "RECEIVED", "ERROR" };
	int count = rows_count(rows);

	if (op->cli->json) {
		op_print_lines(rows, 8);
		return;
	}
	op_print_table(rows, titles, 8);
	if (count == limit_of(op) && ferror(stdout) == 0)
		(void)fprintf(stderr, "there may be more: --after %" PRId64 "\n",
			rows_int(rows, count - 1, 9));
}

static int check_options(const struct cli *cli, struct err *err)
{
	const char *status = op_status_of(cli, "any");

	if (cli->group && strcmp(status, "dead") != 0)
		return err_set(err, FAULT_USAGE, "list: --group is for --dead");
	if (cli->group && cli->after != 0)
		return err_set(err, FAULT_USAGE,
			"list: --group takes no --after: it shows groups, not messages");
	return 0;
}

int op_list(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(buf_fini) struct buf filter = BUF_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = check_options(op->cli, err);

	if (r != 0)
		return r;
	r = op_filter(&filter, op->cli, "any", err);
	if (r != 0)
		return r;
	if (op->cli->group)
		return list_groups(op, &filter, err);
	params_jsonb(&params, (struct bytes){ filter.data, filter.length });
	params_bigint(&params, op->cli->after);
	params_int(&params, (int32_t)limit_of(op));
	r = db_run(op->db, QUERY_OP_LIST, &params, &rows, err);
	if (r == 0)
		print_page(op, rows);
	return r;
}
