/*
 * Explains a database fault to the operator. See op.h.
 */
#include <string.h>

#include "ops/op.h"

#define TIMES   "--since and --until take a time such as 2026-11-21T05:00Z, or an age such as 2h"
#define MISSING "the schema does not exist; run `inboxd migrate`, or correct inbox.schema"
#define OLDER   "the schema is older than this inboxd; run `inboxd migrate`"
#define STANDBY "this server is a standby; name the primary under postgres"
#define LOCKED  "timed out waiting for a lock; see pg_locks, then try again"
#define GRANT                                                                                      \
	"this PostgreSQL user may not do that; grant it %s, or name another with "                 \
	"INBOXD_POSTGRES_USER and INBOXD_POSTGRES_PASSWORD"

/* Each key of the configuration is read separately, so a user from the environment would get the
 * password of the file. */
#define PASSWORD                                                                                   \
	"a user named with INBOXD_POSTGRES_USER needs a password of its own in "                   \
	"INBOXD_POSTGRES_PASSWORD, best as file:/path"

static const struct {
	const char *state;
	const char *words; /* must be in the error; "" = any error */
	const char *hint;
	int fault; /* 0 = the fault stays */
} hints[] = {
	{ "42P01", "", MISSING, 0 },
	{ "28P01", "", PASSWORD, 0 },
	{ "3F000", "", MISSING, 0 },
	{ "42883", "", OLDER, 0 },
	{ "0A000", "", STANDBY, 0 }, /* the error of a standby for BEGIN READ WRITE */
	{ "55P03", "", LOCKED, 0 },
	{ "22023", "there is no filter \"", OLDER, FAULT_DATABASE },
	{ "22023", "received_from is later", "--since must be earlier than --until", FAULT_USAGE },
	{ "22007", "", TIMES, FAULT_USAGE },
	{ "22008", "", TIMES, FAULT_USAGE },
};

static bool only_reads(enum command command)
{
	return command == COMMAND_STATUS || command == COMMAND_LIST || command == COMMAND_SHOW ||
	       command == COMMAND_HANDLERS || command == COMMAND_VERIFY;
}

/* 0: there is no hint, or the fault stays. */
static int add_hint(enum command command, struct err *err)
{
	if (strcmp(err->state, "42501") == 0) {
		(void)err_prefix(
			err, GRANT, only_reads(command) ? "inboxd_reader" : "inboxd_operator");
		return 0;
	}
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (strcmp(hints[i].state, err->state) != 0 ||
			strstr(err->text, hints[i].words) == NULL)
			continue;
		(void)err_prefix(err, "%s", hints[i].hint);
		return hints[i].fault;
	}
	return 0;
}

int op_explain(int r, enum command command, struct err *err)
{
	int better;

	if (r != FAULT_DATABASE)
		return r;
	if (err->state[0] == '\0' && err_advice(err)[0] == '\0')
		return err_advise(err, "run `inboxd check` to test the configuration");
	if (command == COMMAND_MIGRATE)
		return r; /* migrate explains it itself */
	better = add_hint(command, err);
	if (better != 0)
		return better;
	/* Errors of the schema about arguments concern the command line. */
	if (strncmp(err->state, "22", 2) == 0)
		return FAULT_USAGE;
	return strcmp(err->state, "55000") == 0 ? FAULT_CHECK : r;
}
