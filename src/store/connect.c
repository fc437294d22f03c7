#include "store/connect.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/link.h"

#define OLDEST_SERVER   140000
#define CONNECT_TIMEOUT "10"

/* What a connection has unless the configuration or the environment says otherwise. A dead network
 * is noticed within half a minute also where no answer is awaited. */
static const struct {
	const char *name;
	const char *value;
	const char *environment; /* NULL: libpq reads none for it */
} fallbacks[] = {
	{ "connect_timeout", CONNECT_TIMEOUT, "PGCONNECT_TIMEOUT" },
	{ "tcp_user_timeout", "10000", NULL }, /* also ends the SYN to a host that is not there */
	{ "keepalives_idle", "10", NULL },
	{ "keepalives_interval", "5", NULL },
	{ "keepalives_count", "3", NULL },
};
#define FALLBACKS (sizeof(fallbacks) / sizeof(fallbacks[0]))

/* What it always has: sessions are found by their name (rule R5), texts are UTF-8. */
#define FORCED    2

struct keywords {
	const char **names;
	const char **values;
	size_t count;
};

static void keywords_fini(struct keywords *keywords)
{
	free(keywords->names);
	free(keywords->values);
}

static void add_keyword(struct keywords *keywords, const char *name, const char *value)
{
	keywords->names[keywords->count] = name;
	keywords->values[keywords->count] = value;
	keywords->count++;
}

static const char *find_setting(const struct settings *settings, const char *name)
{
	for (size_t i = settings->count; i > 0; i--) {
		if (strcmp(settings->items[i - 1].name, name) == 0)
			return settings->items[i - 1].value;
	}
	return NULL;
}

/* Of a keyword that comes twice libpq takes the last. */
static int fill_keywords(struct keywords *keywords, const struct settings *settings,
	const char *application, struct err *err)
{
	size_t room = settings->count + FALLBACKS + FORCED + 1;

	keywords->names = calloc(room, sizeof(*keywords->names));
	keywords->values = calloc(room, sizeof(*keywords->values));
	if (keywords->names == NULL || keywords->values == NULL)
		return err_memory(err);
	for (size_t i = 0; i < FALLBACKS; i++) {
		const char *environment = fallbacks[i].environment;

		if (environment == NULL || getenv(environment) == NULL)
			add_keyword(keywords, fallbacks[i].name, fallbacks[i].value);
	}
	for (size_t i = 0; i < settings->count; i++)
		add_keyword(keywords, settings->items[i].name, settings->items[i].value);
	add_keyword(keywords, "client_encoding", "UTF8");
	add_keyword(keywords, "application_name", application);
	return 0;
}

/* A list of hosts is tried one after the other; each gets its time. */
static int64_t patience_ms(const struct settings *settings)
{
	const char *timeout = find_setting(settings, "connect_timeout");
	const char *hosts = find_setting(settings, "host");
	int64_t count = 1;
	int64_t seconds;

	if (timeout == NULL)
		timeout = getenv("PGCONNECT_TIMEOUT");
	if (hosts == NULL)
		hosts = getenv("PGHOST");
	seconds = timeout == NULL ? 0 : strtoll(timeout, NULL, 10);
	if (seconds <= 0 || seconds > 3600)
		seconds = strtoll(CONNECT_TIMEOUT, NULL, 10);
	for (const char *c = hosts; c != NULL && *c != '\0'; c++)
		count += *c == ',';
	return seconds * 1000 * count;
}

/* libpq's words, without its line ends and the "connection to server" it may start with twice. */
static int connect_failed(const PGconn *conn, struct err *err)
{
	const char *words = PQerrorMessage(conn);

	return err_set(err, FAULT_DATABASE, "cannot connect to PostgreSQL: %s",
		words[0] == '\0' ? "no reason given" : words);
}

static int connect_steps(PGconn *conn, int64_t deadline_ms, int wake_fd, struct err *err)
{
	/* libpq asks for the first poll to be about writing. */
	PostgresPollingStatusType step = PGRES_POLLING_WRITING;
	int r = 0;

	if (PQstatus(conn) == CONNECTION_BAD)
		return connect_failed(conn, err);
	while (r == 0 && step != PGRES_POLLING_OK) {
		r = link_wait(PQsocket(conn), step == PGRES_POLLING_READING ? POLLIN : POLLOUT,
			wake_fd, deadline_ms, err);
		if (r != 0)
			return err_prefix(err, "cannot connect to PostgreSQL at %s port %s",
				PQhost(conn) == NULL ? "?" : PQhost(conn),
				PQport(conn) == NULL ? "?" : PQport(conn));
		step = PQconnectPoll(conn);
		if (step == PGRES_POLLING_FAILED)
			r = connect_failed(conn, err);
	}
	return r;
}

static int check_server(const PGconn *conn, struct err *err)
{
	const char *encoding = PQparameterStatus(conn, "server_encoding");
	int version = PQserverVersion(conn);

	if (version < OLDEST_SERVER)
		return err_set(err, FAULT_DATABASE,
			"PostgreSQL at %s is version %d.%d; inboxd needs 14 or later: upgrade the "
			"server or name another one under postgres",
			PQhost(conn), version / 10000, version % 10000);
	/* A pooler may not pass it on: then the server itself refuses what it cannot store. */
	if (encoding != NULL && strcmp(encoding, "UTF8") != 0)
		return err_set(err, FAULT_DATABASE,
			"database \"%s\" is encoded in %s; inboxd needs UTF8: create a database "
			"with ENCODING 'UTF8' and name it in postgres.dbname",
			PQdb(conn), encoding);
	return 0;
}

/* libpq would print notices on stderr, among the log lines. */
static void no_notice(void *arg, const PGresult *result)
{
	(void)arg;
	(void)result;
}

static void finishp(PGconn **conn)
{
	PQfinish(*conn);
}

int connect_run(struct pg_conn **out, const struct settings *settings, const char *application,
	int wake_fd, struct err *err)
{
	CLEANUP(keywords_fini) struct keywords keywords = { NULL, NULL, 0 };
	CLEANUP(finishp) PGconn *conn = NULL;
	int r = fill_keywords(&keywords, settings, application, err);

	if (r != 0)
		return r;
	conn = PQconnectStartParams(keywords.names, keywords.values, 1);
	if (conn == NULL)
		return err_memory(err);
	(void)PQsetNoticeReceiver(conn, no_notice, NULL);
	r = connect_steps(conn, clock_now_ms() + patience_ms(settings), wake_fd, err);
	if (r == 0)
		r = check_server(conn, err);
	if (r != 0)
		return r;
	if (PQsetnonblocking(conn, 1) != 0 || PQenterPipelineMode(conn) != 1)
		return connect_failed(conn, err);
	*out = conn;
	conn = NULL;
	return 0;
}
