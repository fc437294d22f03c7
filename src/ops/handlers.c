/*
 * `inboxd handlers`: lists the known handlers; `handlers forget NAME` removes one. Messages for a
 * known handler wait for it while it is away. When a service was removed or renamed for good,
 * nobody connects under the old name: without `forget` its messages wait until inbox.handler_memory
 * ends.
 */
#include <string.h>

#include "ops/op.h"

/* The cells come first, then the row as JSON. */
enum { HANDLER_CELLS = 8, HANDLER_JSON = 8 };

static int list(const struct op *op, struct err *err)
{
	static const char *const titles[] = { "HANDLER", "STATUS", "CONNECTED TO", "KNOWN SINCE",
		"NEWEST HELLO", "LAST SEEN", "KNOWN UNTIL", "SUBSCRIPTIONS" };
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(op->db, QUERY_OP_HANDLERS, NULL, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->json)
		op_print_lines(rows, HANDLER_JSON);
	else
		op_print_table(rows, titles, HANDLER_CELLS);
	return 0;
}

/* There is no question: a handler that connects again is known again, and nothing is lost. */
static int forget(const struct op *op, const char *name, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, name);
	params_text(&params, op->cli->reason);
	r = db_run(op->db, QUERY_OP_FORGET_HANDLER, &params, &rows, err);
	if (r != 0)
		return r;
	op_print_change(op, "forget", rows_bool(rows, 0, 0) ? 1 : 0);
	if (!rows_bool(rows, 0, 0))
		return err_set(err, FAULT_CHECK,
			"no handler \"%s\" is known (`inboxd handlers` lists them)", name);
	if (!op->cli->json)
		(void)printf("handler \"%s\" is forgotten: nothing waits for it any more\n", name);
	return 0;
}

int op_handlers(const struct op *op, struct err *err)
{
	const char *const *words = op->cli->words;

	if (op->cli->word_count == 0)
		return list(op, err);
	if (strcmp(words[0], "forget") != 0)
		return err_set(err, FAULT_USAGE,
			"handlers: unknown argument \"%s\"; the only one is `inboxd handlers "
			"forget NAME`",
			words[0]);
	if (op->cli->word_count == 1)
		return err_set(err, FAULT_USAGE, "handlers forget: give the name of a handler");
	return forget(op, words[1], err);
}
