/*
 * Implements hosts.h.
 */
#include "store/pg/hosts.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

const char *const host_lists[HOST_LISTS] = { "host", "hostaddr", "port" };

enum { LIST_HOST, LIST_HOSTADDR, LIST_PORT };

void hosts_fini(struct hosts *hosts)
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

/* One port may apply to all hosts; an empty list means the default port. */
static bool is_port(const char *list, size_t n, const char *wanted)
{
	return strchr(list, ',') == NULL || is_element(list, n, wanted);
}

/* The index of the connected host in the list, found by name and port. */
static size_t index_of(const struct hosts *hosts, const PGconn *conn)
{
	const char *names = hosts->lists[LIST_HOST][0] != '\0' ? hosts->lists[LIST_HOST]
							       : hosts->lists[LIST_HOSTADDR];
	const char *host = PQhost(conn) == NULL ? "" : PQhost(conn);
	const char *port = PQport(conn) == NULL ? "" : PQport(conn);
	size_t n = 0;

	while (behind(names, n) != NULL &&
		!(is_element(names, n, host) && is_port(hosts->lists[LIST_PORT], n, port)))
		n++;
	return n;
}

static void cut(char *list, size_t n)
{
	const char *rest = behind(list, n);

	if (rest != NULL)
		memmove(list, rest, strlen(rest) + 1);
}

bool hosts_skip(struct hosts *hosts, PGconn *conn)
{
	size_t next;
	bool more;

	hosts_fini(hosts);
	if (!read_lists(hosts, conn))
		return false;
	next = index_of(hosts, conn) + 1;
	more = behind(hosts->lists[LIST_HOST], next) != NULL ||
	       behind(hosts->lists[LIST_HOSTADDR], next) != NULL;
	for (size_t i = 0; more && i < HOST_LISTS; i++)
		cut(hosts->lists[i], next);
	return more;
}
