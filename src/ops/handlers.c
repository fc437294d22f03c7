/*
 * `inboxd handlers` and `inboxd consumers`: list what the sidecars of the schema know; `forget NAME`
 * removes one. Messages for a known handler wait for it while it is away, and messages are stored
 * for a known consumer, although no running sidecar lists it. When a service was removed or renamed
 * for good, its name does not come back: without `forget` this goes on until its memory ends.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/numbers.h"
#include "ops/op.h"

/* What differs between the two commands. The row as JSON follows the cells. */
struct list {
	const char *name; /* of the command */
	const char *one;
	enum query query;
	int cells;
	const char *titles[9];
};

static const struct list handlers = { "handlers", "handler", QUERY_OP_HANDLERS, 9,
	{ "HANDLER", "CONSUMER", "STATUS", "CONNECTED TO", "KNOWN SINCE", "NEWEST HELLO",
		"LAST SEEN", "KNOWN UNTIL", "SUBSCRIPTIONS" } };
static const struct list consumers = { "consumers", "consumer", QUERY_OP_CONSUMERS, 9,
	{ "NAME", "STATUS", "ORDERING", "WAITING", "KNOWN SINCE", "LAST LISTED", "KNOWN UNTIL",
		"TOPICS", "TYPES" } };

static int print_list(const struct op *op, const struct list *list, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(op->db, list->query, NULL, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->json)
		op_print_lines(rows, list->cells);
	else
		op_print_table(rows, list->titles, list->cells);
	return 0;
}

/* There is no question: what a sidecar connects or lists again is known again, and nothing is lost. */
static int forget_handler(const struct op *op, const char *name, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, name);
	params_text(&params, op->cli->reason);
	params_text(&params, op->cli->filter.consumer);
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

static int forget_consumer(const struct op *op, const char *name, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const char *what;
	int64_t waiting;
	int r;

	params_text(&params, name);
	params_text(&params, op->cli->reason);
	r = db_run(op->db, QUERY_OP_FORGET_CONSUMER, &params, &rows, err);
	if (r != 0)
		return r;
	op_print_change(op, "forget", rows_bool(rows, 0, 0) ? 1 : 0);
	if (!rows_bool(rows, 0, 0))
		return err_set(err, FAULT_CHECK,
			"no consumer \"%s\" is known (`inboxd consumers` lists them)", name);
	waiting = rows_int(rows, 0, 1);
	if (op->cli->json)
		return 0;
	what = rows_bool(rows, 0, 2) ? "a sidecar listed it within the last minute; if it still "
				       "does, the consumer is known again"
				     : "no messages are stored for it any more";
	(void)printf("consumer \"%s\" is forgotten: %s\n", name, what);
	if (waiting > 0)
		(void)printf("%" PRId64 " message%s wait%s for it; to end %s: inboxd discard "
			     "--consumer '%s'\n",
			waiting, plural(waiting), waiting == 1 ? "s" : "",
			waiting == 1 ? "it" : "them", name);
	return 0;
}

typedef int forget_function(const struct op *op, const char *name, struct err *err);

static int run(
	const struct op *op, const struct list *list, forget_function *forget, struct err *err)
{
	const char *const *words = op->cli->words;

	if (op->cli->word_count == 0)
		return print_list(op, list, err);
	if (strcmp(words[0], "forget") != 0)
		return err_set(err, FAULT_USAGE,
			"%s: unknown argument \"%s\"; the only one is `inboxd %s forget NAME`",
			list->name, words[0], list->name);
	if (op->cli->word_count == 1)
		return err_set(err, FAULT_USAGE, "%s forget: give the name of a %s", list->name,
			list->one);
	return forget(op, words[1], err);
}

int op_handlers(const struct op *op, struct err *err)
{
	return run(op, &handlers, forget_handler, err);
}

int op_consumers(const struct op *op, struct err *err)
{
	return run(op, &consumers, forget_consumer, err);
}
