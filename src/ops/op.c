/*
 * What the commands share: the connection, the faults in an operator's words, and Ctrl-C during a
 * command that works in pages. See op.h.
 */
#include "ops/op.h"

#include <signal.h>
#include <string.h>
#include <time.h>

/* --- The connection ---------------------------------------------------------------------------- */

/* An operator waits for the answer, which may be large. */
#define PAGE_PAUSE           3
#define PAUSE_MOST_US        500000
#define STATEMENT_TIMEOUT_MS 600000
#define LOCK_TIMEOUT_MS      10000
#define IDLE_TIMEOUT_MS      60000

/* The columns of QUERY_OP_MAY. The roles have the prefix of the schema. */
enum may_column { MAY_USER, MAY_CALL, MAY_OPERATOR, MAY_READER };

/* The function of the schema that a command with changes calls. */
static const char *const changes[COMMAND_VERSION + 1] = {
	[COMMAND_REPLAY] = "replay_page",
	[COMMAND_RETRY] = "retry_page",
	[COMMAND_RESOLVE] = "resolve",
	[COMMAND_DISCARD] = "discard_page",
	[COMMAND_PURGE] = "purge",
	[COMMAND_ADOPT] = "adopt",
	[COMMAND_SEEK] = "seek",
	[COMMAND_HANDLERS] = "forget_handler",
	[COMMAND_SKIP] = "skip_key",
	[COMMAND_PAUSE] = "pause",
	[COMMAND_RESUME] = "resume",
	[COMMAND_CONSUMERS] = "forget_consumer",
	[COMMAND_BACKFILL] = "backfill_page",
	[COMMAND_REQUESTS] = "request_forget",
};

/* `rows` of QUERY_OP_MAY. */
static int advise_grant(const struct rows *rows, enum may_column role, struct err *err)
{
	return err_advise(err,
		"GRANT %s TO %s, or set another user with INBOXD_POSTGRES_USER and "
		"INBOXD_POSTGRES_PASSWORD",
		rows_text(rows, 0, role), rows_text(rows, 0, MAY_USER));
}

/* Checked before the confirmation, so that no part of the work is done without the privilege. The
 * user of an instance and a reader may read, also with --dry-run. */
static int check_right(const struct op *op, struct err *err)
{
	const char *first = op->cli->word_count == 0 ? "" : op->cli->words[0];
	bool lists =
		(op->cli->command == COMMAND_HANDLERS || op->cli->command == COMMAND_CONSUMERS ||
			op->cli->command == COMMAND_REQUESTS) &&
		strcmp(first, "forget") != 0 && strcmp(first, "rename") != 0;
	const char *function = op->cli->command == COMMAND_OUTBOX ? op_outbox_function(op->cli)
								  : changes[op->cli->command];
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	if (function == NULL || op->cli->dry_run || lists)
		return 0;
	params_text(&params, function);
	r = db_run(op->db, QUERY_OP_MAY, &params, &rows, err);
	if (r != 0 || rows_bool(rows, 0, MAY_CALL))
		return r;
	(void)err_set(err, FAULT_DATABASE, "this command changes data, and user %s may only read",
		rows_text(rows, 0, MAY_USER));
	return advise_grant(rows, MAY_OPERATOR, err);
}

/* The application name distinguishes an operator's connection from those of the sidecars in
 * pg_stat_activity. By that of a backfill, inbox.recent_backfills() knows whether it runs. */
int op_open(struct op *op, struct err *err)
{
	const struct db_options options = {
		.postgres = &op->config->postgres,
		.schema = op->config->inbox.schema,
		.application =
			op->cli->command == COMMAND_BACKFILL ? "inboxd backfill" : "inboxd command",
		.lock_timeout_ms = LOCK_TIMEOUT_MS,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.statement_timeout_ms = STATEMENT_TIMEOUT_MS,
	};
	int r = db_new(&op->db, &options, err);

	if (r == 0)
		r = db_open(op->db, err);
	return r != 0 ? r : check_right(op, err);
}

/* --- Faults ------------------------------------------------------------------------------------ */

#define TIMES   "--since and --until take a time such as 2026-11-21T05:00Z, or an age such as 2h"
#define MISSING "the schema does not exist; run `inboxd migrate`, or correct inbox.schema"
#define OLDER   "the schema is older than this inboxd; run `inboxd migrate`"
#define STANDBY "this server is a standby; name the primary under postgres"
#define LOCKED  "timed out waiting for a lock; see pg_locks, then try again"
#define GRANT                                                                                      \
	"this PostgreSQL user may not do that; grant it %s, or the role with the prefix of this "  \
	"schema, which `inboxd migrate --roles` prints; or name another with "                     \
	"INBOXD_POSTGRES_USER and INBOXD_POSTGRES_PASSWORD"

/* Each key of the configuration is read separately, so a user from the environment would get the
 * password of the file. */
#define PASSWORD                                                                                   \
	"a user named with INBOXD_POSTGRES_USER needs a password of its own in "                   \
	"INBOXD_POSTGRES_PASSWORD, best as file:/path"

/* The missing object is part of the schema, and not one that a trigger of the user names. */
#define OURS NULL

/* What an error of PostgreSQL means for an operator; the first row that matches is used. */
static const struct {
	const char *state;
	const char *words; /* must be in the error; "" = any error; OURS = the name of the schema */
	const char *hint;
	int fault; /* 0 = the fault stays */
} hints[] = {
	{ "42P01", OURS, MISSING, 0 },
	{ "28P01", "", PASSWORD, 0 },
	{ "3F000", OURS, MISSING, 0 },
	{ "42883", OURS, OLDER, 0 },
	{ "0A000", "", STANDBY, 0 }, /* the error of a standby for BEGIN READ WRITE */
	{ "55P03", "", LOCKED, 0 },
	{ "22023", "there is no filter \"", OLDER, FAULT_DATABASE },
	{ "22023", "received_from is later", "--since must be earlier than --until", FAULT_USAGE },
	{ "22023", "died_from is later", "--since must be earlier than --until", FAULT_USAGE },
	{ "22007", "", TIMES, FAULT_USAGE },
	{ "22008", "", TIMES, FAULT_USAGE },
};

/* In the words of PostgreSQL: schema.name, "schema.name" or "schema". */
static bool names_schema(const char *words, const char *schema)
{
	const size_t length = strlen(schema);

	for (const char *at = strstr(words, schema); at != NULL; at = strstr(at + 1, schema)) {
		if (at > words && (at[-1] == ' ' || at[-1] == '"') &&
			(at[length] == '.' || at[length] == '"'))
			return true;
	}
	return false;
}

static bool reads(enum command command)
{
	return command == COMMAND_STATUS || command == COMMAND_LIST || command == COMMAND_SHOW ||
	       command == COMMAND_EXPORT || command == COMMAND_HANDLERS ||
	       command == COMMAND_VERIFY || command == COMMAND_KEYS || command == COMMAND_AUDIT ||
	       command == COMMAND_CONSUMERS || command == COMMAND_OUTBOX ||
	       command == COMMAND_REQUESTS;
}

/* What a user lacks who may use the schema. Whoever may not gets the hint GRANT, because the query fails, too. */
static void name_role(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct err ignored = ERR_INIT;

	if (strcmp(err->state, "42501") != 0 || err_advice(err)[0] != '\0')
		return;
	params_text(&params, "status");
	if (db_run(op->db, QUERY_OP_MAY, &params, &rows, &ignored) == 0)
		(void)advise_grant(rows, reads(op->cli->command) ? MAY_READER : MAY_OPERATOR, err);
}

/* Puts the hint before the words of PostgreSQL. 0: there is no hint, or the fault stays. */
static int add_hint(enum command command, const char *schema, struct err *err)
{
	/* An error that has an advice needs no other one. An exception is a wrong password: the advice of the connection knows nothing of the
	 * variables of a command. */
	if (err_advice(err)[0] != '\0' && strcmp(err->state, "28P01") != 0)
		return 0;
	if (strcmp(err->state, "42501") == 0) {
		(void)err_prefix(err, GRANT, reads(command) ? "inboxd_reader" : "inboxd_operator");
		return 0;
	}
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (strcmp(hints[i].state, err->state) != 0 ||
			(hints[i].words == OURS ? !names_schema(err->text, schema)
						: strstr(err->text, hints[i].words) == NULL))
			continue;
		(void)err_prefix(err, "%s", hints[i].hint);
		return hints[i].fault;
	}
	return 0;
}

int op_explain(int r, enum command command, const struct config *config, struct err *err)
{
	int better;

	if (r != FAULT_DATABASE)
		return r;
	/* without an SQLSTATE the error is one of the connection, not of a statement */
	if (err->state[0] == '\0' && err_advice(err)[0] == '\0')
		return err_advise(err, "run `inboxd check` to test the configuration");
	if (command == COMMAND_MIGRATE)
		return r; /* migrate explains it itself */
	better = add_hint(command, config->inbox.schema, err);
	if (better != 0)
		return better;
	/* Errors of the schema about arguments concern the command line. */
	if (strncmp(err->state, "22", 2) == 0)
		return FAULT_USAGE;
	return strcmp(err->state, "55000") == 0 ? FAULT_CHECK : r;
}

int op_nothing(const struct op *op, const char *action, struct err *err, const char *words)
{
	op_print_change(op, action, 0);
	return err_set(err, FAULT_CHECK, "%s", words);
}

int op_no_message(const struct op *op, const char *event_id, struct err *err)
{
	const char *source = op->cli->source;
	const char *consumer = op->cli->filter.consumer;

	return err_set(err, FAULT_CHECK, "there is no message with event id \"%s\"%s%s%s%s%s%s",
		event_id, source == NULL ? "" : " from source \"", source == NULL ? "" : source,
		source == NULL ? "" : "\"", consumer == NULL ? "" : " for consumer \"",
		consumer == NULL ? "" : consumer, consumer == NULL ? "" : "\"");
}

/* --- Interruption ------------------------------------------------------------------------------ */

#define SIGNALS 3

static const int signals[SIGNALS] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[SIGNALS];
static volatile sig_atomic_t caught;

static void remember(int number)
{
	caught = number;
}

/* A signal that is ignored, for example by nohup, stays ignored. The second signal ends the program
 * at once. */
void op_interrupt_begin(void)
{
	const struct sigaction action = { .sa_handler = remember, .sa_flags = (int)SA_RESETHAND };

	caught = 0;
	for (size_t i = 0; i < SIGNALS; i++) {
		if (sigaction(signals[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
			(void)sigaction(signals[i], &action, NULL);
	}
}

bool op_interrupted(void)
{
	return caught != 0;
}

void op_interrupt_end(void)
{
	for (size_t i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &before[i], NULL);
}

/* The shell must see that the program was ended by the signal, so that a script ends, too. */
void op_interrupt_obey(void)
{
	op_interrupt_end();
	(void)fflush(stdout);
	if (caught != 0)
		(void)raise(caught);
}

/* --- A whole command --------------------------------------------------------------------------- */

int op_run(
	const struct cli *cli, const struct config *config, op_function *function, struct err *err)
{
	struct op op = { .cli = cli, .config = config };
	int r = op_check_words(cli, err);

	if (r == 0)
		r = op_open(&op, err);
	if (r == 0)
		r = function(&op, err);
	if (r == FAULT_DATABASE && op.db != NULL)
		name_role(&op, err);
	db_free(op.db);
	return op_explain(r, cli->command, config, err);
}

void op_pause_after(int64_t page_us)
{
	int64_t us = page_us / PAGE_PAUSE < PAUSE_MOST_US ? page_us / PAGE_PAUSE : PAUSE_MOST_US;
	const struct timespec pause = { .tv_nsec = us * 1000 };

	(void)nanosleep(&pause, NULL);
}
