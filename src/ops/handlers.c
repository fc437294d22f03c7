/*
 * `inboxd handlers` and `inboxd consumers`: list what the sidecars of the schema know; `forget NAME`
 * removes one, and `consumers rename` gives a consumer another name (sql/functions/consumers.sql). Messages for a known handler wait for it while it is away, and messages are stored
 * for a known consumer, although no running sidecar lists it. When a service was removed or renamed
 * for good, its name does not come back: without `forget` this goes on until its memory ends.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "ops/op.h"

/* What differs between the two commands. The row as JSON follows the cells. */
struct list {
	const char *name; /* of the command */
	const char *one;
	enum query query;
	int cells;
	const char *titles[12];
};

static const struct list handlers = { "handlers", "handler", QUERY_OP_HANDLERS, 9,
	{ "HANDLER", "CONSUMER", "STATUS", "CONNECTED TO", "KNOWN SINCE", "NEWEST HELLO",
		"LAST SEEN", "KNOWN UNTIL", "SUBSCRIPTIONS" } };
static const struct list consumers = { "consumers", "consumer", QUERY_OP_CONSUMERS, 12,
	{ "NAME", "STATUS", "ORDERING", "WAITING", "KNOWN SINCE", "LAST LISTED", "KNOWN UNTIL",
		"TOPICS", "TYPES", "HANDLERS", "EARLIER NAMES", "ATTENTION" } };

static int print_list(const struct op *op, const struct list *list, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(op->db, list->query, NULL, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->json)
		op_print_lines(rows, list->cells);
	else
		op_print_table(rows, list->titles, list->cells, true);
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

/* Rows that one page looks at. */
#define PAGE 2000

struct rename {
	int64_t open; /* messages that were not done */
	int64_t done; /* messages that were, as far as they have moved */
	bool listed;  /* a sidecar lists the consumer */
};

static int move_page(
	const struct op *op, const char *name, struct rename *rename, bool *more, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, name);
	params_int(&params, PAGE);
	r = db_run(op->db, QUERY_OP_RENAME_PAGE, &params, &rows, err);
	if (r != 0)
		return r;
	rename->done += rows_int(rows, 0, 0);
	*more = rows_bool(rows, 0, 1);
	rename->listed = rows_bool(rows, 0, 2);
	return 0;
}

static int move_pages(const struct op *op, const char *name, struct rename *rename, struct err *err)
{
	bool more = true;
	int r = 0;

	op_interrupt_begin();
	while (r == 0 && more && !op_interrupted()) {
		int64_t began_us = clock_now_us();

		r = move_page(op, name, rename, &more, err);
		if (r == 0 && more)
			op_pause_after(clock_now_us() - began_us);
	}
	if (r == 0 && more) {
		(void)fprintf(stderr, "inboxd: interrupted: the consumer has its new name, and "
				      "some of its messages that are done "
				      "still have the earlier one; run the same command again\n");
		op_interrupt_obey();
	}
	op_interrupt_end();
	return r == 0 ? 0
		      : err_prefix(err,
				"the consumer has its new name, but not all of its messages "
				"(run the same command again)");
}

static int begin_rename(
	const struct op *op, const char *const *names, struct rename *rename, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, names[0]);
	params_text(&params, names[1]);
	params_text(&params, op->cli->reason);
	r = db_run(op->db, QUERY_OP_RENAME_CONSUMER, &params, &rows, err);
	if (r == 0 && !rows_is_null(rows, 0, 0))
		rename->open = rows_int(rows, 0, 0);
	return r;
}

/* The command asks for no confirmation, because the same command with the names exchanged undoes the rename. */
static int rename_consumer(const struct op *op, const char *const *names, struct err *err)
{
	struct rename rename = { .open = 0 };
	int r;

	/* after the rename, no sidecar with such a configuration could begin its next instance run */
	if (config_consumer_rules(op->config, names[0]) != NULL &&
		config_consumer_rules(op->config, names[1]) != NULL)
		return err_set(err, FAULT_USAGE,
			"consumers rename: the configuration lists both \"%s\" and \"%s\", which "
			"would be "
			"one consumer: first remove one of them from the configuration of all "
			"sidecars, and restart these",
			names[0], names[1]);
	r = begin_rename(op, names, &rename, err);
	if (r == 0)
		r = move_pages(op, names[0], &rename, err);
	if (r != 0)
		return r;
	op_print_change(op, "rename", rename.open + rename.done);
	if (op->cli->json)
		return 0;
	(void)printf("consumer \"%s\" is named \"%s\" now: %" PRId64
		     " message%s of it wait%s or %s delivered, "
		     "%" PRId64 " %s done\n",
		names[0], names[1], rename.open, plural(rename.open), rename.open == 1 ? "s" : "",
		rename.open == 1 ? "is" : "are", rename.done, rename.done == 1 ? "is" : "are");
	if (!rename.listed && *names[1] != '\0')
		(void)printf(
			"sidecars that list it by its earlier name go on with it; write \"%s\" "
			"under consumers in the configuration of all sidecars\n",
			names[1]);
	return 0;
}

typedef int forget_function(const struct op *op, const char *name, struct err *err);

static int run_list_command(
	const struct op *op, const struct list *list, forget_function *forget, struct err *err)
{
	const char *const *words = op->cli->words;
	bool renames =
		list == &consumers && op->cli->word_count > 0 && strcmp(words[0], "rename") == 0;

	if (op->cli->word_count == 0)
		return print_list(op, list, err);
	if (renames && op->cli->word_count == 3)
		return rename_consumer(op, words + 1, err);
	if (renames)
		return err_set(err, FAULT_USAGE,
			"consumers rename: give the name of a consumer and its new name; '' stands "
			"for the "
			"consumer without a name");
	if (strcmp(words[0], "forget") != 0)
		return err_set(err, FAULT_USAGE,
			"%s: unknown argument \"%s\"; write `inboxd %s forget NAME`%s", list->name,
			words[0], list->name,
			list == &consumers ? " or `inboxd consumers rename NAME NEW_NAME`" : "");
	if (op->cli->word_count != 2)
		return err_set(err, FAULT_USAGE, "%s forget: give the name of a %s", list->name,
			list->one);
	return forget(op, words[1], err);
}

int op_handlers(const struct op *op, struct err *err)
{
	return run_list_command(op, &handlers, forget_handler, err);
}

int op_consumers(const struct op *op, struct err *err)
{
	return run_list_command(op, &consumers, forget_consumer, err);
}
