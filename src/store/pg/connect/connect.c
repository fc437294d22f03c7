/*
 * Implements connect.h with libpq's nonblocking connection functions. libpq goes through the list of
 * hosts itself, but waits without limit for one that does not answer; such a host is skipped here.
 */
#include "store/pg/connect/connect.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/threads/progress.h"
#include "base/time/clock.h"
#include "config/secret.h"
#include "store/pg/connect/connect_fault.h"
#include "store/pg/pg_wire.h"

#define OLDEST_SERVER   140000
#define CONNECT_TIMEOUT "10"
/* longer than the kernel's tcp_user_timeout, so that libpq itself goes on to the next host */
#define HOST_EXTRA_MS   500

/* Defaults that the configuration and the environment can override. A dead network is noticed
 * within half a minute, also while no answer is expected. A standby is skipped, because it cannot
 * store anything. */
static const struct {
	const char *name;
	const char *value;
	const char *environment; /* NULL: libpq reads no variable for it */
} fallbacks[] = {
	{ "connect_timeout", CONNECT_TIMEOUT, "PGCONNECT_TIMEOUT" },
	{ "target_session_attrs", "primary", "PGTARGETSESSIONATTRS" },
	{ "tcp_user_timeout", "10000",
		NULL }, /* also limits the SYN to a host that does not exist */
	{ "keepalives_idle", "10", NULL },
	{ "keepalives_interval", "5", NULL },
	{ "keepalives_count", "3", NULL },
};
#define FALLBACKS  (sizeof(fallbacks) / sizeof(fallbacks[0]))

/* Values that cannot be overridden: fencing finds sessions by their name (rule R5), and all texts
 * are UTF-8. */
#define FORCED     2

/* The keywords that are lists with one element per host. */
#define HOST_LISTS 3
static const char *const host_lists[HOST_LISTS] = { "host", "hostaddr", "port" };

enum { LIST_HOST, LIST_HOSTADDR, LIST_PORT };

struct keywords {
	const char **names;
	const char **values;
	struct buf *fresh; /* the values just read from files, one per setting */
	size_t settings;
	size_t count;
};

static void keywords_fini(struct keywords *keywords)
{
	free(keywords->names);
	free(keywords->values);
	for (size_t i = 0; keywords->fresh != NULL && i < keywords->settings; i++)
		buf_fini(&keywords->fresh[i]);
	free(keywords->fresh);
}

static void add_keyword(struct keywords *keywords, const char *name, const char *value)
{
	keywords->names[keywords->count] = name;
	keywords->values[keywords->count] = value;
	keywords->count++;
}

/* Files are read again for each connection, so that a password can be changed without a restart. */
static int add_settings(struct keywords *keywords, const struct settings *settings, struct err *err)
{
	for (size_t i = 0; i < settings->count; i++) {
		const char *value = secret_now(&settings->items[i], &keywords->fresh[i]);

		if (value == NULL)
			return err_memory(err);
		add_keyword(keywords, settings->items[i].name, value);
	}
	return 0;
}

/* If a keyword occurs twice, libpq takes the last one. */
static int fill_keywords(struct keywords *keywords, const struct settings *settings,
	const char *application, struct err *err)
{
	size_t room = settings->count + FALLBACKS + FORCED + HOST_LISTS + 1;
	int r;

	keywords->names = calloc(room, sizeof(*keywords->names));
	keywords->values = calloc(room, sizeof(*keywords->values));
	keywords->fresh = calloc(settings->count + 1, sizeof(*keywords->fresh));
	keywords->settings = settings->count;
	if (keywords->names == NULL || keywords->values == NULL || keywords->fresh == NULL)
		return err_memory(err);
	for (size_t i = 0; i < FALLBACKS; i++) {
		const char *environment = fallbacks[i].environment;

		if (environment == NULL || getenv(environment) == NULL)
			add_keyword(keywords, fallbacks[i].name, fallbacks[i].value);
	}
	r = add_settings(keywords, settings, err);
	add_keyword(keywords, "client_encoding", "UTF8");
	add_keyword(keywords, "application_name", application);
	return r;
}

/* The rest of the host lists, after a host that did not answer. The values may come from the
 * configuration, the environment or the service file, so libpq is asked for them. */
struct hosts {
	char *lists[HOST_LISTS]; /* the remaining elements; "" = none */
};

#define HOSTS_INIT                                                                                 \
	{                                                                                          \
		.lists = { NULL }                                                                  \
	}

static void hosts_fini(struct hosts *hosts)
{
	for (size_t i = 0; i < HOST_LISTS; i++)
		free(hosts->lists[i]);
	*hosts = (struct hosts)HOSTS_INIT;
}

/* Reads the lists as libpq uses them. */
static bool read_lists(struct hosts *hosts, PGconn *conn)
{
	PQconninfoOption *options = PQconninfo(conn);
	bool complete = options != NULL;

	for (size_t i = 0; complete && i < HOST_LISTS; i++) {
		const char *value = NULL;

		for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
			if (strcmp(o->keyword, host_lists[i]) == 0)
				value = o->val;
		}
		hosts->lists[i] = strdup(value == NULL ? "" : value);
		complete = hosts->lists[i] != NULL;
	}
	PQconninfoFree(options);
	return complete;
}

/* The part after the n-th comma; NULL when the list has fewer. */
static const char *behind(const char *list, size_t n)
{
	while (list != NULL && n-- > 0) {
		list = strchr(list, ',');
		list = list == NULL ? NULL : list + 1;
	}
	return list;
}

static bool is_element(const char *list, size_t n, const char *wanted)
{
	const char *at = behind(list, n);
	size_t length = at == NULL ? 0 : strcspn(at, ",");

	return at != NULL && length == strlen(wanted) && strncmp(at, wanted, length) == 0;
}

/* The index of the connected host in the list, found by name and port. */
static size_t index_of(const struct hosts *hosts, const PGconn *conn)
{
	const char *names = hosts->lists[LIST_HOST][0] != '\0' ? hosts->lists[LIST_HOST]
							       : hosts->lists[LIST_HOSTADDR];
	const char *ports = hosts->lists[LIST_PORT];
	const char *host = PQhost(conn) == NULL ? "" : PQhost(conn);
	const char *port = PQport(conn) == NULL ? "" : PQport(conn);
	size_t n = 0;

	/* one port may apply to all hosts; an empty list means the default port */
	while (behind(names, n) != NULL &&
		!(is_element(names, n, host) &&
			(strchr(ports, ',') == NULL || is_element(ports, n, port))))
		n++;
	return n;
}

/* Sets the lists to the elements after the host that `conn` uses. False when there is none, or
 * without memory. */
static bool hosts_skip(struct hosts *hosts, PGconn *conn)
{
	size_t next;
	bool more;

	hosts_fini(hosts);
	if (!read_lists(hosts, conn))
		return false;
	next = index_of(hosts, conn) + 1;
	more = behind(hosts->lists[LIST_HOST], next) != NULL ||
	       behind(hosts->lists[LIST_HOSTADDR], next) != NULL;
	for (size_t i = 0; more && i < HOST_LISTS; i++) {
		const char *rest = behind(hosts->lists[i], next);

		if (rest != NULL)
			memmove(hosts->lists[i], rest, strlen(rest) + 1);
	}
	return more;
}

/* The host and address that libpq tries at present. */
struct attempt {
	const char *host; /* libpq's own pointer, which differs for each host */
	char address[64];
};

/* The time limit for each host. libpq applies connect_timeout only in its blocking functions. */
static int64_t host_timeout_ms(PGconn *conn)
{
	PQconninfoOption *options = PQconninfo(conn);
	int64_t seconds = strtoll(CONNECT_TIMEOUT, NULL, 10);

	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL) {
			int64_t wanted = strtoll(o->val, NULL, 10);

			if (wanted > 0 && wanted <= 3600)
				seconds = wanted;
		}
	}
	PQconninfoFree(options);
	return seconds * 1000 + HOST_EXTRA_MS;
}

/* True when libpq has gone on to another host or address since the last call. */
static bool moved_on(PGconn *conn, struct attempt *attempt)
{
	const char *address = PQhostaddr(conn) == NULL ? "" : PQhostaddr(conn);
	bool moved = PQhost(conn) != attempt->host || strcmp(address, attempt->address) != 0;

	attempt->host = PQhost(conn);
	(void)snprintf(attempt->address, sizeof(attempt->address), "%s", address);
	return moved;
}

/* One pass through the hosts. The time limit starts again whenever libpq goes on to the next host. */
static int connect_steps(PGconn *conn, int wake_fd, bool *late, struct err *err)
{
	/* libpq requires the first poll to wait for writing */
	PostgresPollingStatusType step = PGRES_POLLING_WRITING;
	int64_t timeout_ms = host_timeout_ms(conn);
	int64_t deadline_ms = clock_now_ms() + timeout_ms;
	struct attempt attempt = { NULL, "" };
	int r = 0;

	if (PQstatus(conn) == CONNECTION_BAD)
		return connect_failed(conn, err);
	while (r == 0 && step != PGRES_POLLING_OK) {
		r = pg_wire_wait(PQsocket(conn), step == PGRES_POLLING_READING ? POLLIN : POLLOUT,
			wake_fd, deadline_ms, err);
		*late = r != 0 && clock_now_ms() >= deadline_ms;
		if (r != 0)
			return err_prefix(err, "cannot connect to PostgreSQL at %s port %s",
				PQhost(conn) == NULL ? "?" : PQhost(conn),
				PQport(conn) == NULL ? "?" : PQport(conn));
		progress_note(PROGRESS_RESOLVE_MS);
		step = PQconnectPoll(conn);
		if (moved_on(conn, &attempt))
			deadline_ms = clock_now_ms() + timeout_ms;
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
		return connect_wrong(err, "upgrade the server, or name another one under postgres",
			"PostgreSQL at %s is version %d.%d; inboxd needs 14 or later", PQhost(conn),
			version / 10000, version % 10000);
	/* a pooler may not report the encoding; the server then refuses what it cannot store */
	if (encoding != NULL && strcmp(encoding, "UTF8") != 0)
		return connect_wrong(err,
			"create a database with ENCODING 'UTF8' and name it in postgres.dbname",
			"database \"%s\" is encoded in %s; inboxd needs UTF8", PQdb(conn),
			encoding);
	return 0;
}

/* By default libpq prints notices to stderr, in between the log lines. */
static void no_notice(void *arg, const PGresult *result)
{
	(void)arg;
	(void)result;
}

static void finishp(PGconn **conn)
{
	PQfinish(*conn);
}

static int connect_through(
	PGconn **out, const struct keywords *keywords, int wake_fd, bool *late, struct err *err)
{
	int r;

	progress_note(PROGRESS_RESOLVE_MS);
	*out = PQconnectStartParams(keywords->names, keywords->values, 1);
	if (*out == NULL)
		return err_memory(err);
	(void)PQsetNoticeReceiver(*out, no_notice, NULL);
	/* so that the text of a refusal contains the SQLSTATE, which libpq does not report
	 * otherwise */
	(void)PQsetErrorVerbosity(*out, PQERRORS_VERBOSE);
	if (connect_is_mistaken(*out, keywords->names, keywords->values))
		return connect_mistake(*out, err);
	r = connect_steps(*out, wake_fd, late, err);
	(void)PQsetErrorVerbosity(*out, PQERRORS_DEFAULT);
	return r == 0 ? check_server(*out, err) : r;
}

/* libpq waits without limit for a host that does not answer. After the time limit a new connection
 * is started with the hosts behind it. */
static int connect_any(PGconn **out, struct keywords *keywords, int wake_fd, struct err *err)
{
	CLEANUP(hosts_fini) struct hosts hosts = HOSTS_INIT;
	size_t count = keywords->count;
	bool late = false;
	int r = connect_through(out, keywords, wake_fd, &late, err);

	while (late && hosts_skip(&hosts, *out)) {
		keywords->count = count;
		for (size_t i = 0; i < HOST_LISTS; i++)
			add_keyword(keywords, host_lists[i], hosts.lists[i]);
		PQfinish(*out);
		late = false;
		r = connect_through(out, keywords, wake_fd, &late, err);
	}
	return r;
}

int connect_run(struct pg_conn **out, const struct settings *settings, const char *application,
	int wake_fd, struct err *err)
{
	CLEANUP(keywords_fini) struct keywords keywords = { NULL, NULL, NULL, 0, 0 };
	CLEANUP(finishp) PGconn *conn = NULL;
	int r = fill_keywords(&keywords, settings, application, err);

	if (r == 0)
		r = connect_any(&conn, &keywords, wake_fd, err);
	if (r != 0)
		return r;
	if (PQsetnonblocking(conn, 1) != 0 || PQenterPipelineMode(conn) != 1)
		return connect_failed(conn, err);
	*out = conn;
	conn = NULL;
	return 0;
}

int connect_keywords_new(char ***out, struct err *err)
{
	PQconninfoOption *options = PQconndefaults();
	size_t count = 0;
	char **names;

	if (options == NULL)
		return err_memory(err);
	while (options[count].keyword != NULL)
		count++;
	names = calloc(count + 1, sizeof(*names));
	for (size_t i = 0; names != NULL && i < count; i++) {
		names[i] = strdup(options[i].keyword);
		if (names[i] == NULL) {
			connect_keywords_free(names);
			names = NULL;
		}
	}
	PQconninfoFree(options);
	*out = names;
	return names == NULL ? err_memory(err) : 0;
}

void connect_keywords_free(char **names)
{
	for (char **name = names; name != NULL && *name != NULL; name++)
		free(*name);
	free(names);
}

int connect_parse(const char *text, connect_visit *visit, void *arg, struct err *err)
{
	char *why = NULL;
	PQconninfoOption *options = PQconninfoParse(text, &why);
	int r = 0;

	/* the text of libpq can contain the password */
	PQfreemem(why);
	if (options == NULL)
		return err_set(err, FAULT_USAGE,
			"the database is not a connection string: write "
			"postgres://USER@HOST:PORT/DATABASE, or \"host=HOST user=USER "
			"dbname=DATABASE\"");
	for (const PQconninfoOption *option = options; option->keyword != NULL && r == 0;
		option++) {
		if (option->val != NULL)
			r = visit(option->keyword, option->val, arg, err);
	}
	PQconninfoFree(options);
	return r;
}

/* Like 150014 for 15.14: since version 10 the last four digits count the minor releases. */
void connect_add_library_version(struct buf *out)
{
	int version = PQlibVersion();

	buf_addf(out, "%d.%d", version / 10000, version % 10000);
}
