/*
 * Implements operate.h: a table of commands, and the connection that they share.
 */
#include "ops/operate.h"

#include "ops/adopt.h"
#include "ops/op.h"

/* An operator waits for the answer, which may be large. */
#define STATEMENT_TIMEOUT_MS 600000
#define LOCK_TIMEOUT_MS      10000
#define IDLE_TIMEOUT_MS      60000

static int (*const functions[])(const struct op *op, struct err *err) = {
	[COMMAND_STATUS] = op_status,
	[COMMAND_LIST] = op_list,
	[COMMAND_SHOW] = op_show,
	[COMMAND_REPLAY] = op_replay,
	[COMMAND_DISCARD] = op_discard,
	[COMMAND_PURGE] = op_purge,
	[COMMAND_HANDLERS] = op_handlers,
};

/* The function of the schema that a command with changes calls. */
static const char *const changes[COMMAND_VERSION + 1] = {
	[COMMAND_REPLAY] = "replay_page",
	[COMMAND_DISCARD] = "discard_page",
	[COMMAND_PURGE] = "purge",
	[COMMAND_ADOPT] = "adopt",
	[COMMAND_SEEK] = "seek",
	[COMMAND_HANDLERS] = "forget_handler",
};

/* Checked before the confirmation, so that no part of the work is done without the privilege. The
 * user of an instance and a reader may read, also with --dry-run. */
static int check_right(const struct op *op, struct err *err)
{
	bool lists = op->cli->command == COMMAND_HANDLERS && op->cli->word_count == 0;
	const char *function = op->cli->dry_run || lists ? NULL : changes[op->cli->command];
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	if (function == NULL)
		return 0;
	params_text(&params, function);
	r = db_run(op->db, QUERY_OP_MAY, &params, &rows, err);
	if (r != 0 || rows_bool(rows, 0, 1))
		return r;
	(void)err_set(err, FAULT_DATABASE, "this command changes data, and user %s may only read",
		rows_text(rows, 0, 0));
	return err_advise(err,
		"GRANT inboxd_operator TO %s, or set another user with INBOXD_POSTGRES_USER and "
		"INBOXD_POSTGRES_PASSWORD",
		rows_text(rows, 0, 0));
}

int op_open(struct op *op, struct err *err)
{
	const struct db_options options = {
		.postgres = &op->config->postgres,
		.schema = op->config->inbox.schema,
		.application = "inboxd command",
		.lock_timeout_ms = LOCK_TIMEOUT_MS,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.statement_timeout_ms = STATEMENT_TIMEOUT_MS,
	};
	int r = db_new(&op->db, &options, err);

	if (r == 0)
		r = db_open(op->db, err);
	return r != 0 ? r : check_right(op, err);
}

int operate(const struct cli *cli, const struct config *config, struct err *err)
{
	struct op op = { .cli = cli, .config = config };
	int r = op_check_words(cli, err);

	if (r == 0)
		r = op_open(&op, err);
	if (r == 0)
		r = functions[cli->command](&op, err);
	db_free(op.db);
	return op_explain(r, cli->command, err);
}

int operate_adopt(const struct cli *cli, const struct config *config, const char *cluster_id,
	const char *group_id, struct err *err)
{
	struct op op = { .cli = cli, .config = config };
	int r = op_open(&op, err);

	if (r == 0)
		r = op_adopt(&op, cluster_id, group_id, err);
	db_free(op.db);
	return op_explain(r, cli->command, err);
}

int op_nothing(const struct op *op, const char *action, struct err *err, const char *words)
{
	op_print_change(op, action, 0);
	return err_set(err, FAULT_CHECK, "%s", words);
}

int op_no_message(const struct op *op, const char *event_id, struct err *err)
{
	const char *source = op->cli->source;

	if (source == NULL)
		return err_set(
			err, FAULT_CHECK, "there is no message with event id \"%s\"", event_id);
	return err_set(err, FAULT_CHECK,
		"there is no message with event id \"%s\" from source \"%s\"", event_id, source);
}
