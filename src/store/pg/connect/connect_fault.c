/*
 * Implements connect_fault.h. libpq has an API for two reasons of a failure: PQpingParams() shows
 * that it refused the keywords, and PQconnectionNeedsPassword() that the server wanted a password.
 * For all others there is only the text (docs/adr/0023-libpq-texts-are-read-only-without-an-api.md). Texts
 * of libpq are matched in English; SQLSTATEs work in every language.
 */
#include "store/pg/connect/connect_fault.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "store/pg/pg_error_class.h"

#define MISTAKE      "F0000"
#define ATTEMPT      "connection to server"
/* The function in the server's source that looks up a role. It is part of the verbose text in every
 * language. */
#define NO_SUCH_ROLE "InitializeSessionUserId"

/* Texts of libpq about settings that can never work, which no API reports. */
static const char *const disagreements[] = {
	"invalid port number", "invalid integer value",
	"server does not support SSL, but SSL was required",
	"GSSAPI encryption, but it was required", "GSSAPI encryption required",
	"certificate verify failed", "root certificate file", "server certificate for",
	"could not read certificate file", "could not load private key file",
	"certificate present, but not private key file", "channel binding is required",
	"channel binding required",
	"authentication method ", /* not supported here, or excluded by require_auth */
};

bool connect_is_mistaken(PGconn *conn, const char *const *names, const char *const *values)
{
	/* A connection that is refused at once looks the same. Only PQping() distinguishes the two,
	 * and it is as quick, because it repeats what has just failed. */
	return PQstatus(conn) == CONNECTION_BAD &&
	       PQpingParams(names, values, 1) == PQPING_NO_ATTEMPT;
}

static void set_state(struct err *err, const char *state)
{
	if (err != NULL)
		(void)snprintf(err->state, sizeof(err->state), "%s", state);
}

int connect_mistake(const PGconn *conn, struct err *err)
{
	int r = err_set(err, FAULT_DATABASE, "the settings under postgres cannot be used: %s",
		PQerrorMessage(conn));

	(void)err_advise(err, "correct them");
	set_state(err, MISTAKE);
	return r;
}

int connect_wrong(struct err *err, const char *advice, const char *format, ...)
{
	va_list args;
	char words[512];

	va_start(args, format);
	(void)vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	(void)err_set(err, FAULT_DATABASE, "%s", words);
	(void)err_advise(err, "%s", advice);
	set_state(err, MISTAKE);
	return FAULT_DATABASE;
}

/* Finds five digits or letters between "SEVERITY: " and ": ", in any language. */
static const char *find_state(const char *words, size_t length)
{
	for (size_t i = 0; i + 9 < length; i++) {
		size_t n = 0;

		if (strncmp(words + i, ":  ", 3) != 0)
			continue;
		while (n < 5 && (isdigit((unsigned char)words[i + 3 + n]) ||
					isupper((unsigned char)words[i + 3 + n])))
			n++;
		if (n == 5 && strncmp(words + i + 8, ": ", 2) == 0)
			return words + i + 3;
	}
	return NULL;
}

/* Reads the SQLSTATE from the text about one host. */
static void state_of_one(const char *words, size_t length, char state[6])
{
	const char *found = find_state(words, length);

	for (size_t i = 0; found == NULL && i < sizeof(disagreements) / sizeof(disagreements[0]);
		i++) {
		const char *at = strstr(words, disagreements[i]);

		if (at != NULL && at < words + length)
			found = MISTAKE;
	}
	(void)snprintf(state, 6, "%.5s", found == NULL ? "" : found);
}

static bool same_part(const char *first, const char *second, const char *from, const char *to)
{
	const char *a = strstr(first, from);
	const char *b = strstr(second, from);
	const char *end = a == NULL ? NULL : strstr(a + strlen(from), to);

	if (a == NULL || b == NULL || end == NULL)
		return a == b;
	return strncmp(a, b, (size_t)(end - a) + 1) == 0;
}

/* True when both attempts concern the same host: another address of it, or the second attempt
 * without encryption. */
static bool same_host(const char *first, const char *second)
{
	return same_part(first, second, " server ", "\"") && same_part(first, second, "\"", "\"") &&
	       same_part(first, second, ", port ", " ");
}

/* Advice for an operator. */
static const struct {
	const char *words;
	const char *also; /* text that must occur as well; NULL = none */
	const char *advice;
} advices[] = {
	{ "certificate verify failed", NULL,
		"name the CA that signed the server's certificate in postgres.sslrootcert" },
	{ "does not match host name", NULL,
		"use the name in the server's certificate for postgres.host, or give the server a "
		"certificate with this name" },
	{ "root certificate file", NULL,
		"name the file with the CA's certificate in postgres.sslrootcert" },
	{ "server does not support SSL", NULL,
		"turn ssl on in the server, or correct postgres.sslmode" },
	{ "  28P01: ", NULL,
		"correct postgres.user and postgres.password; a password written file:/path is "
		"read again for each connection" },
	{ "  28000: ", NO_SUCH_ROLE,
		"create this role in PostgreSQL, with LOGIN, or correct postgres.user" },
	{ "  28000: ", NULL,
		"allow this user, database and host in the server's pg_hba.conf, or correct "
		"postgres.user" },
	{ "server is in hot standby mode", NULL, "name the primary under postgres" },
	{ "  42501: ", "CONNECT",
		"GRANT CONNECT ON DATABASE ... TO ..., with the names in postgres.dbname and "
		"postgres.user" },
	{ "  3D000: ", NULL, "create the database, or correct postgres.dbname" },
};

static const char *advice_for(const char *words)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		if (strstr(words, advices[i].words) != NULL &&
			(advices[i].also == NULL || strstr(words, advices[i].also) != NULL))
			return advices[i].advice;
	}
	return NULL;
}

void connect_state(const char *words, bool needs_password, char state[6])
{
	const char *at = words;

	state[0] = '\0';
	while (*at != '\0') {
		const char *next = strstr(at + 1, ATTEMPT);
		size_t length = next == NULL ? strlen(at) : (size_t)(next - at);
		char one[6];

		state_of_one(at, length, one);
		/* libpq tries no other host after it had no password for one */
		if (next == NULL && one[0] == '\0' && needs_password)
			(void)snprintf(one, sizeof(one), MISTAKE);
		at += length;
		if (next != NULL && same_host(at - length, next))
			continue; /* the last attempt of a host counts */
		memcpy(state, one, sizeof(one));
		/* a host that is unreachable may come back, whatever the others answered */
		if (pg_error_class_of(one) != PG_ERROR_REFUSED)
			return;
	}
}

/* Removes the part of PQERRORS_VERBOSE that is meant for PostgreSQL developers, "LOCATION: …", and the
 * end of the last line. */
static void tidy(char *words)
{
	size_t length;
	char *at;

	while ((at = strstr(words, "\nLOCATION:")) != NULL) {
		char *end = strchr(at + 1, '\n');

		if (end == NULL)
			*at = '\0';
		else
			memmove(at, end, strlen(end) + 1);
	}
	for (length = strlen(words); length > 0 && words[length - 1] == '\n'; length--)
		words[length - 1] = '\0';
}

int connect_failed(const PGconn *conn, struct err *err)
{
	const char *said = PQerrorMessage(conn);
	const char *advice = advice_for(said);
	bool needs_password = PQconnectionNeedsPassword(conn) != 0;
	char words[1024];
	char state[6];

	if (advice == NULL && needs_password)
		advice = "set postgres.password, preferably as file:/path";
	connect_state(said, needs_password, state);
	(void)snprintf(words, sizeof(words), "%s", said[0] == '\0' ? "no reason given" : said);
	tidy(words);
	(void)err_set(err, FAULT_DATABASE, "cannot connect to PostgreSQL: %s", words);
	if (advice != NULL)
		(void)err_advise(err, "%s", advice);
	set_state(err, state);
	return FAULT_DATABASE;
}
