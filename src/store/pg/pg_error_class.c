/*
 * Implements pg_error_class.h.
 */
#include "store/pg/pg_error_class.h"

#include <stddef.h>
#include <string.h>

/* The first prefix that matches wins, so exceptions precede their class. */
static const struct {
	const char *start;
	enum pg_error_class class;
} states[] = {
	{ "26000", PG_ERROR_STALE }, /* no statement has this name; see also pipeline.h */
	{ "42P05", PG_ERROR_STALE }, /* another one has this name */
	{ "08", PG_ERROR_LOST },     /* connection exceptions */
	{ "25P03",
		PG_ERROR_LOST }, /* idle too long in a transaction: the server ended the session */
	{ "25P04", PG_ERROR_LOST }, /* transaction_timeout: likewise */
	{ "57014", PG_ERROR_SLOW }, /* query_canceled */
	{ "57", PG_ERROR_LOST }, /* shutdown, crash, startup, database dropped, idle for too long */
	{ "40", PG_ERROR_BUSY }, /* serialization_failure, deadlock_detected */
	{ "55P03", PG_ERROR_BUSY }, /* lock_not_available */
	{ "55006", PG_ERROR_BUSY }, /* object_in_use */
	{ "25006", PG_ERROR_READ_ONLY },
	{ "0A", PG_ERROR_READ_ONLY }, /* BEGIN READ WRITE on a standby */
	{ "53", PG_ERROR_RESOURCES }, { "58", PG_ERROR_RESOURCES }, /* the server's own files */
	{ "28", PG_ERROR_REFUSED },  /* user, password, pg_hba.conf */
	{ "3D", PG_ERROR_REFUSED },  /* no such database */
	{ "3F", PG_ERROR_REFUSED },  /* no such schema */
	{ "42", PG_ERROR_REFUSED },  /* privileges, tables, columns */
	{ "F0", PG_ERROR_REFUSED },  /* a mistake in the configuration */
	{ "23505", PG_ERROR_OTHER }, /* an event id never raises it: see db_error_is_clash() */
	{ "22", PG_ERROR_DATA }, { "23", PG_ERROR_DATA }, { "54", PG_ERROR_DATA },
	{ "IB020", PG_ERROR_DATA }, /* an event of an answer */
};

enum pg_error_class pg_error_class_of(const char *state)
{
	if (state[0] == '\0')
		return PG_ERROR_LOST;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (strncmp(states[i].start, state, strlen(states[i].start)) == 0)
			return states[i].class;
	}
	return PG_ERROR_OTHER;
}

const char *pg_error_class_name(enum pg_error_class class)
{
	static const char *const names[PG_ERROR_KINDS] = {
		[PG_ERROR_LOST] = "connection",
		[PG_ERROR_BUSY] = "busy",
		[PG_ERROR_SLOW] = "timeout",
		[PG_ERROR_RESOURCES] = "resources",
		[PG_ERROR_READ_ONLY] = "read_only",
		[PG_ERROR_REFUSED] = "refused",
		[PG_ERROR_STALE] = "stale",
		[PG_ERROR_DATA] = "data",
		[PG_ERROR_OTHER] = "other",
	};

	return names[class];
}
