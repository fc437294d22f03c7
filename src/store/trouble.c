#include "store/trouble.h"

#include <stddef.h>
#include <string.h>

/* The first start that fits wins, so exceptions stand before their class. */
static const struct {
	const char *start;
	enum trouble trouble;
} states[] = {
	{ "08", TROUBLE_LOST },    /* connection exceptions */
	{ "25P03", TROUBLE_LOST }, /* idle too long in a transaction: the session is over */
	{ "25P04", TROUBLE_LOST }, /* transaction_timeout: so, too */
	{ "57014", TROUBLE_SLOW }, /* query_canceled */
	{ "57", TROUBLE_LOST }, /* shutdown, crash, starting up, database dropped, idle too long */
	{ "40", TROUBLE_BUSY }, /* serialization_failure, deadlock_detected */
	{ "55P03", TROUBLE_BUSY }, /* lock_not_available */
	{ "55006", TROUBLE_BUSY }, /* object_in_use */
	{ "25006", TROUBLE_READ_ONLY },
	{ "0A", TROUBLE_READ_ONLY }, /* BEGIN READ WRITE on a standby */
	{ "53", TROUBLE_RESOURCES },
	{ "58", TROUBLE_RESOURCES }, /* the server's own files */
	{ "28", TROUBLE_REFUSED },   /* user, password, pg_hba.conf */
	{ "3D", TROUBLE_REFUSED },   /* no such database */
	{ "3F", TROUBLE_REFUSED },   /* no such schema */
	{ "42", TROUBLE_REFUSED },   /* rights, tables, columns */
	{ "F0", TROUBLE_REFUSED },   /* a mistake of the configuration */
	{ "23505", TROUBLE_OTHER },  /* an event id does not raise it: db_error_is_clash() */
	{ "22", TROUBLE_DATA },
	{ "23", TROUBLE_DATA },
	{ "54", TROUBLE_DATA },
};

enum trouble trouble_of(const char *state)
{
	if (state[0] == '\0')
		return TROUBLE_LOST;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (strncmp(states[i].start, state, strlen(states[i].start)) == 0)
			return states[i].trouble;
	}
	return TROUBLE_OTHER;
}

const char *trouble_name(enum trouble trouble)
{
	static const char *const names[TROUBLE_KINDS] = {
		[TROUBLE_LOST] = "connection",
		[TROUBLE_BUSY] = "busy",
		[TROUBLE_SLOW] = "timeout",
		[TROUBLE_RESOURCES] = "resources",
		[TROUBLE_READ_ONLY] = "read_only",
		[TROUBLE_REFUSED] = "refused",
		[TROUBLE_DATA] = "data",
		[TROUBLE_OTHER] = "other",
	};

	return names[trouble];
}
