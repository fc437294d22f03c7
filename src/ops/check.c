/*
 * `inboxd check`: tries everything that the configuration names, by a table of checks. Each check
 * reports what it found, or what is wrong and what to do. The result is printed as one line per
 * check as soon as it is done, or everything as one JSON object at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "config/show.h"
#include "dispatch/sessions/socket.h"
#include "http/listen.h"
#include "ingest/ingest.h"
#include "json/text.h"
#include "ops/commands.h"
#include "queries.h"
#include "store/claims/sql_calls.h"
#include "store/connection_options.h"
#include "store/schema/binding.h"
#include "store/schema/migrate.h"
#include "store/schema/privileges.h"

#define UNLISTED_MOST 5 /* consumers that one line names */

enum check_outcome { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };

struct check_result {
	const char *name;
	enum check_outcome outcome;
	struct err fault; /* of a failed check */
	struct buf found; /* lines, also of a failed check */
};

/* The output: lines are printed at once, JSON is collected in `out`. */
struct check_print {
	bool json;
	size_t checks;
	struct buf out; /* JSON */
};

static const struct {
	const char *line;
	const char *json;
} outcomes[] = {
	[CHECK_OK] = { "ok", "ok" },
	[CHECK_FAILED] = { "FAILED", "failed" },
	[CHECK_SKIPPED] = { "-", "skipped" },
};

/* --- Printing lines ---------------------------------------------------------------------------- */

/* Each line of a check is indented under its first one; `first` begins the row. */
static void print_lines(const char *text, bool first)
{
	while (*text != '\0') {
		int length = (int)strcspn(text, "\n");

		(void)printf("%*s%.*s\n", first ? 0 : 19, "", length, text);
		text += length + (text[length] == '\n' ? 1 : 0);
		first = false;
	}
}

static void print_row(struct check_result *result)
{
	bool failed = result->outcome == CHECK_FAILED;

	(void)printf("%-6s %-11s ", outcomes[result->outcome].line, result->name);
	if (failed)
		(void)puts(result->fault.text);
	print_lines(buf_str(&result->found), !failed);
	(void)fflush(stdout); /* the next check may take seconds */
}

/* --- Printing JSON ----------------------------------------------------------------------------- */

/* Replaces bytes that are not UTF-8 by '?', for example in a message of PostgreSQL in another
 * encoding. */
static void add_text(struct buf *out, struct bytes text)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT;
	const char *at = text.data;
	const char *end = at + text.length;

	while (at < end) {
		size_t length = utf8_character(at, (size_t)(end - at));

		buf_add(&clean, length == 0 ? "?" : at, length == 0 ? 1 : length);
		at += length == 0 ? 1 : length;
	}
	json_add_string(out, bytes_of(buf_str(&clean)));
}

static void add_member(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, ",\"%s\":", name);
	add_text(out, bytes_of(text));
}

static void add_value(const struct config_line *line, void *arg)
{
	struct buf *out = arg;

	buf_add_str(out, out->data[out->length - 1] == '[' ? "{\"key\":" : ",{\"key\":");
	add_text(out, bytes_of(line->key));
	add_member(out, "value", line->text);
	add_member(out, "origin", line->origin);
	buf_add_char(out, '}');
}

/* The error comes first, then the findings. */
static void add_result(struct buf *out, struct check_result *result)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const char *found = buf_str(&result->found);
	size_t length = strlen(found);

	if (result->outcome == CHECK_FAILED)
		buf_add(&text, result->fault.text, err_words(&result->fault));
	if (result->outcome == CHECK_FAILED && length > 0)
		buf_add_char(&text, '\n');
	buf_add(&text, found, length > 0 && found[length - 1] == '\n' ? length - 1 : length);
	buf_addf(out, "{\"name\":\"%s\",\"result\":\"%s\"", result->name,
		outcomes[result->outcome].json);
	add_member(out, "text", buf_str(&text));
	if (result->outcome == CHECK_FAILED)
		add_member(out, "advice", err_advice(&result->fault));
	else
		buf_add_str(out, ",\"advice\":null");
	buf_add_char(out, '}');
}

/* --- Printing either --------------------------------------------------------------------------- */

static int print_config(struct check_print *print, const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	int r;

	if (print->json) {
		buf_add_str(&print->out, "{\"configuration\":[");
		r = buf_ok(&print->out) ? config_each(config, add_value, &print->out, err)
					: err_memory(err);
		buf_add_str(&print->out, "],\"checks\":[");
		return r;
	}
	r = config_dump(config, false, &text, err);
	if (r == 0)
		(void)printf("%s\n", buf_str(&text));
	return r;
}

static void print_result(struct check_print *print, struct check_result *result)
{
	if (!print->json) {
		print_row(result);
		return;
	}
	if (print->checks++ > 0)
		buf_add_char(&print->out, ',');
	add_result(&print->out, result);
}

/* Prints the overall result and returns it. */
static int print_end(struct check_print *print, int fault, struct err *err)
{
	buf_addf(&print->out, "],\"exit_code\":%d}", err_exit_code(fault));
	if (!buf_ok(&print->out))
		fault = err_memory(err);
	else if (print->json && print->checks > 0)
		(void)puts(buf_str(&print->out));
	buf_fini(&print->out);
	return fault;
}

/* --- The checks -------------------------------------------------------------------------------- */

/* Fills `found` with useful facts. A fault says what is wrong and what to do. */
typedef int check_function(const struct config *config, struct buf *found, struct err *err);

/* As the sidecar connects, because its privileges are checked. Each check opens a connection of its
 * own, so that a broken one fails only its own check. */
static int open_db(const struct config *config, struct db **out, struct err *err)
{
	struct db_options options;
	char name[32];
	int r;

	connection_options(config, 0, name, &options);
	r = db_new(out, &options, err);
	return r != 0 ? r : db_open(*out, err);
}

/* libpq takes a user that is not configured from the environment. */
static void add_user_of_environment(const struct config *config, struct buf *found)
{
	const char *user = getenv("PGUSER");

	for (size_t i = 0; i < config->postgres.count; i++) {
		const char *name = config->postgres.items[i].name;

		if (strcmp(name, "user") == 0 || strcmp(name, "service") == 0)
			return;
	}
	if (user != NULL && *user != '\0')
		buf_addf(found, " as user \"%s\" (env PGUSER)", user);
}

static int check_postgres(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	if (r != 0)
		return r;
	buf_add_str(found, "reachable");
	add_user_of_environment(config, found);
	return r;
}

/* The words for a schema that this inboxd cannot use. */
static void report_version(const char *schema, int outcome, int version, struct err *err)
{
	if (outcome == SCHEMA_PRERELEASE) {
		(void)migrate_refuse_prerelease(schema, err);
		return;
	}
	if (outcome == SCHEMA_MISSING)
		(void)err_set(err, FAULT_CHECK, "there is no inbox in schema \"%s\"", schema);
	else
		(void)err_set(err, FAULT_CHECK,
			"schema \"%s\" has version %d, this inboxd needs %d", schema, version,
			migrate_latest());
	(void)err_advise(err, "%s",
		outcome == SCHEMA_NEWER ? "run a newer inboxd"
					: "run `inboxd migrate`, or correct inbox.schema");
}

static int check_schema(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int version = 0;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = migrate_check(db, &version, err);
	if (r < 0)
		return r;
	if (r > 0 && r != SCHEMA_AHEAD) {
		report_version(config->inbox.schema, r, version, err);
		return FAULT_CHECK;
	}
	buf_addf(found, "schema \"%s\" has version %d", config->inbox.schema, version);
	if (r == SCHEMA_AHEAD)
		buf_addf(
			found, ", newer than this inboxd (%d), which can use it", migrate_latest());
	return 0;
}

/* The user may connect and still lack a privilege that is needed only hours later, for a retry or a
 * rescue; therefore all are checked. */
static int check_privileges(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = privileges_check(db, config->requests.socket, err);
	if (r != 0)
		return r;
	buf_add_str(found, "this user has all privileges that inboxd needs");
	return privileges_warn(db, found, err);
}

/* "consumer \"\" (waiting: 12; handlers: billing)". */
static void add_unlisted(struct buf *out, const struct rows *rows, int row)
{
	buf_addf(out, "%sconsumer \"%s\" (waiting: %lld", row == 0 ? "" : ", ",
		rows_text(rows, row, 0), (long long)rows_int(rows, row, 1));
	if (!rows_is_null(rows, row, 2))
		buf_addf(out, "; handlers: %s", rows_text(rows, row, 2));
	buf_add_char(out, ')');
}

static int report_unlisted(const struct config *config, const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;
	bool unnamed = rows_text(rows, 0, 0)[0] == '\0';

	for (int i = 0; i < rows_count(rows) && i < UNLISTED_MOST; i++)
		add_unlisted(&words, rows, i);
	if (!buf_ok(&words))
		return err_memory(err);
	(void)err_set(err, FAULT_CHECK, "the schema has what the configuration does not list: %s%s",
		buf_str(&words), rows_count(rows) > UNLISTED_MOST ? " and others" : "");
	if (unnamed && config->consumer_count > 0)
		(void)err_advise(err,
			"the service had no section consumers before, so its consumer "
			"has no name: choose a name, list it under consumers, and run "
			"`inboxd consumers rename '' NAME` before this configuration and "
			"the handlers of NAME are deployed; to end this consumer "
			"instead, run `inboxd consumers forget ''`");
	else
		(void)err_advise(err,
			"list the consumer under consumers; if it has another name "
			"now, run `inboxd consumers rename NAME NEW_NAME`; to end it, "
			"run `inboxd consumers forget NAME` and `inboxd discard "
			"--consumer NAME`");
	return FAULT_CHECK;
}

/* A consumer that no sidecar lists lapses. So if a configuration leaves a consumer out, the handlers of this consumer get
 * no new messages. */
static int check_consumers(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int names = params_array(&params, ARRAY_TEXT);
	int r = open_db(config, &db, err);

	if (config->consumer_count == 0)
		array_text(&params, names, "");
	for (size_t i = 0; i < config->consumer_count; i++)
		array_text(&params, names, config->consumers[i].name);
	if (r == 0)
		r = db_run(db, QUERY_CHECK_CONSUMERS, &params, &rows, err);
	if (r == 0 && rows_count(rows) > 0)
		return report_unlisted(config, rows, err);
	if (r == 0)
		buf_add_str(
			found, "the schema has no consumer that the configuration does not list");
	return r;
}

/* Whether the functions of all SQL handlers exist, and the sidecar may call them. */
static int check_handlers(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	for (size_t i = 0; i < config->handler_count && r == 0; i++) {
		const struct sql_handler_rules *rules = &config->handlers[i];
		const struct sql_handler handler = { rules->name, rules->call,
			*rules->role == '\0' ? NULL : rules->role, rules->timeout };

		r = sql_calls_check(db, &handler, err);
		buf_addf(found, "%s%s calls %s", i == 0 ? "" : "\n", rules->name, rules->call);
	}
	if (r != 0)
		buf_reset(found);
	return r == SQL_CALLS_REFUSED ? FAULT_CHECK : r;
}

static int check_socket(const struct config *config, struct buf *found, struct err *err)
{
	int r = socket_check(config, err);

	if (r == 0)
		buf_addf(found, "%s can be created", config->socket.path);
	if (r != SOCKET_SERVED)
		return r;
	buf_addf(found,
		"%s: a running inboxd serves it; a second one with this path would end with exit "
		"code 5",
		config->socket.path);
	return 0;
}

/* The schema belongs to one cluster and group.id: an instance with another pair refuses to start. */
static int check_binding(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(freep) char *cluster = NULL;
	const char *group = NULL;
	bool bound = false;
	int r = ingest_identify(config, &cluster, &group, err);

	if (r == 0)
		r = open_db(config, &db, err);
	if (r == 0)
		r = schema_check_binding(db, cluster, group, &bound, err);
	if (r == 0)
		buf_addf(found,
			bound ? "the schema belongs to cluster \"%s\" and group.id \"%s\""
			      : "the schema is free for cluster \"%s\" and group.id \"%s\"",
			cluster, group);
	return r;
}

/* In the order in which they run and are printed. */
enum check_id {
	KAFKA,
	POSTGRES,
	SCHEMA,
	PRIVILEGES,
	BINDING,
	CONSUMERS,
	HANDLERS,
	SOCKET,
	HTTP,
	CHECKS
};

#define SIDECAR_ROLE                                                                               \
	"grant this user the role inboxd_sidecar, or the one with the prefix of this schema, "     \
	"which `inboxd migrate --roles` prints"

#define NEEDS(id) (1u << (id))

static const struct {
	const char *name;
	check_function *function;
	unsigned needs;     /* checks that must succeed first */
	const char *advice; /* used when the fault itself has no advice */
	/* the fault that is the result of the command; any other one counts as FAULT_CHECK */
	int fault;
} checks[CHECKS] = {
	[KAFKA] = { "kafka", ingest_check, 0, "correct the settings under kafka", FAULT_KAFKA },
	[POSTGRES] = { "postgres", check_postgres, 0,
		"start the server, or correct the settings under postgres", FAULT_DATABASE },
	[SCHEMA] = { "schema", check_schema, NEEDS(POSTGRES),
		"correct inbox.schema, or run `inboxd migrate`" },
	[PRIVILEGES] = { "privileges", check_privileges, NEEDS(POSTGRES) | NEEDS(SCHEMA),
		SIDECAR_ROLE },
	[BINDING] = { "binding", check_binding, NEEDS(KAFKA) | NEEDS(SCHEMA), SIDECAR_ROLE },
	[CONSUMERS] = { "consumers", check_consumers, NEEDS(POSTGRES) | NEEDS(SCHEMA),
		SIDECAR_ROLE },
	[HANDLERS] = { "handlers", check_handlers, NEEDS(POSTGRES) | NEEDS(SCHEMA),
		"run `inboxd migrate --roles` as the owner of the schema" },
	[SOCKET] = { "socket", check_socket, 0, "correct the settings under socket" },
	[HTTP] = { "http", http_check, 0, "correct http.listen" },
};

/* The first required check that failed; CHECKS: none. */
static enum check_id missing(enum check_id id, unsigned failed)
{
	for (unsigned i = 0; i < CHECKS; i++) {
		if ((checks[id].needs & failed & NEEDS(i)) != 0)
			return (enum check_id)i;
	}
	return CHECKS;
}

/* The database has priority, then Kafka, then the rest: the exit code names what to correct first. */
static int worse(int a, int b)
{
	if (a == FAULT_DATABASE || b == FAULT_DATABASE)
		return FAULT_DATABASE;
	if (a == FAULT_KAFKA || b == FAULT_KAFKA)
		return FAULT_KAFKA;
	return a != 0 || b != 0 ? FAULT_CHECK : 0;
}

static int try_one(enum check_id id, const struct config *config, struct check_result *out)
{
	int r = checks[id].function(config, &out->found, &out->fault);

	out->outcome = r == 0 ? CHECK_OK : CHECK_FAILED;
	if (r == 0)
		return 0;
	if (err_advice(&out->fault)[0] == '\0')
		(void)err_advise(&out->fault, "%s", checks[id].advice);
	return r == checks[id].fault ? r : FAULT_CHECK;
}

static int try_all(const struct config *config, struct check_print *print)
{
	struct check_result result = { .found = BUF_INIT };
	unsigned failed = 0;
	int worst = 0;

	for (enum check_id i = 0; i < CHECKS; i++) {
		int r = 0;

		if (i == HANDLERS && config->handler_count == 0)
			continue; /* there are no SQL handlers */
		result.name = checks[i].name;
		result.fault = (struct err)ERR_INIT;
		buf_reset(&result.found);
		if (missing(i, failed) == CHECKS) {
			r = try_one(i, config, &result);
		} else {
			result.outcome = CHECK_SKIPPED;
			buf_addf(&result.found, "not tried: it needs %s",
				checks[missing(i, failed)].name);
		}
		if (i == CONSUMERS && config->consumer_count == 0 && r == 0)
			continue; /* a service without consumers sees nothing of them */
		failed |= result.outcome == CHECK_OK ? 0 : NEEDS(i);
		worst = worse(worst, r);
		print_result(print, &result);
	}
	buf_fini(&result.found);
	return worst;
}

int check_servers(const struct config *config)
{
	static const enum check_id ids[] = { KAFKA, POSTGRES };
	int worst = 0;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct check_print print = { .json = false };
		struct check_result result = { .name = checks[ids[i]].name, .found = BUF_INIT };

		result.fault = (struct err)ERR_INIT;
		worst = worse(worst, try_one(ids[i], config, &result));
		print_result(&print, &result);
		buf_fini(&result.found);
	}
	return worst;
}

int command_check(const struct cli *cli, const struct config *config, struct err *err)
{
	struct check_print print = { .json = cli->json };
	int r = print_config(&print, config, err);

	if (r == 0)
		r = try_all(config, &print);
	return print_end(&print, r, err);
}
