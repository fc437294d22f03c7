/*
 * `inboxd outbox`: the events of the outbox. Its first argument selects what it does; list, show,
 * replay and discard work as the commands of these names do on messages.
 */
#include <string.h>

#include "ops/op.h"

static int status(const struct op *op, struct err *err)
{
	static const char *const titles[] = { "WHAT", "VALUE" };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(rows_freep) struct rows *facts = NULL;
	int r = db_run(op->db, QUERY_OP_OUTBOX_STATUS, NULL, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->json) {
		op_print_lines(rows, 0);
		return 0;
	}
	params_jsonb(&params, rows_bytes(rows, 0, 0));
	r = db_run(op->db, QUERY_OP_OUTBOX_STATUS_FACTS, &params, &facts, err);
	if (r == 0)
		op_print_table(facts, titles, 2, true);
	return r;
}

/* What each of them does, and the options and arguments that it takes. */
static const struct outbox_action {
	const char *name;
	op_function *run;
	const char *function; /* of the schema, which changes something */
	bool filters;
	bool pages;
	bool event; /* an event id or a seq may follow */
	bool payload;
} actions[] = {
	{ "status", status, NULL, false, false, false, false },
	{ "list", op_list, NULL, true, true, false, false },
	{ "show", op_show_event, NULL, false, false, true, true },
	{ "replay", op_replay_events, "outbox_replay_page", true, false, true, false },
	{ "discard", op_discard_events, "outbox_discard_page", true, false, true, false },
};

static const struct outbox_action *find_action(const struct cli *cli)
{
	for (size_t i = 0; cli->word_count > 0 && i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(actions[i].name, cli->words[0]) == 0)
			return &actions[i];
	}
	return NULL;
}

const char *op_outbox_function(const struct cli *cli)
{
	const struct outbox_action *action = find_action(cli);

	return action == NULL ? NULL : action->function;
}

/* The first option that the action does not take; NULL = none. */
static const char *misplaced_option(const struct outbox_action *action, const struct cli *cli)
{
	bool changes = action->function != NULL;

	if (!action->filters && op_has_filter(cli))
		return "filters";
	if (!action->filters && cli->bounds.after != 0)
		return "--after";
	if (!action->pages && !changes && cli->bounds.limit != 0)
		return op_limit_option(cli);
	if (!action->payload && cli->payload != NULL)
		return "--payload";
	if (!changes && cli->reason != NULL)
		return "--reason";
	return !changes && cli->dry_run ? "--dry-run" : NULL;
}

int op_outbox(const struct op *op, struct err *err)
{
	const struct cli *cli = op->cli;
	const struct outbox_action *action = find_action(cli);

	if (action == NULL)
		return err_set(err, FAULT_USAGE,
			"outbox: give one of status, list, show, replay, discard "
			"(`inboxd outbox --help`)");
	if (misplaced_option(action, cli) != NULL)
		return err_set(err, FAULT_USAGE, "outbox %s does not take %s", action->name,
			misplaced_option(action, cli));
	if (!action->event && cli->word_count > 1)
		return err_set(err, FAULT_USAGE, "outbox %s does not take the argument \"%s\"",
			action->name, cli->words[1]);
	return action->run(op, err);
}
