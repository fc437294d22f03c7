/*
 * Implements pg_wire.h.
 */
#include "store/pg/pg_wire.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/threads/progress.h"
#include "base/threads/wake.h"
#include "base/time/clock.h"

int pg_wire_wait(int fd, short events, int wake_fd, int64_t deadline_ms, struct err *err)
{
	struct pollfd fds[2] = { { .fd = fd, .events = events },
		{ .fd = wake_fd, .events = POLLIN } };
	int64_t left = deadline_ms - clock_now_ms();
	int timeout = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
	struct wake wake = { .fd = wake_fd };
	int ready;

	if (fd < 0)
		return err_set(err, FAULT_DATABASE, "connection to PostgreSQL lost");
	progress_note(timeout);
	ready = poll(fds, 2, timeout);
	progress_note(0);
	if (ready < 0 && errno != EINTR)
		return err_set(
			err, FAULT_DATABASE, "cannot wait for PostgreSQL: %s", strerror(errno));
	if (ready == 0)
		return err_set(err, FAULT_DATABASE, "no answer from PostgreSQL in time");
	if (ready > 0 && fds[1].revents != 0) {
		wake_clear(&wake);
		return err_set(err, FAULT_DATABASE, "the wait for PostgreSQL was interrupted");
	}
	return 0;
}

/* A name in PostgreSQL has at most 63 bytes. */
static void note_name(char out[64], const struct pg_result *result, int field)
{
	const char *name = PQresultErrorField(result, field);

	(void)snprintf(out, 64, "%s", name == NULL ? "" : name);
}

int pg_wire_error(const struct pg_result *result, struct err *err)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
	bool quotes_values =
		state != NULL && state[0] == '2' && (state[1] == '2' || state[1] == '3');

	if (state == NULL)
		return err_set(err, FAULT_DATABASE, "PostgreSQL: %s", PQresultErrorMessage(result));
	if (detail == NULL || quotes_values)
		(void)err_set(err, FAULT_DATABASE, "%s [%s]", words, state);
	else
		(void)err_set(err, FAULT_DATABASE, "%s: %s [%s]", words, detail, state);
	if (err != NULL) {
		memcpy(err->state, state, sizeof(err->state) - 1);
		err->state[sizeof(err->state) - 1] = '\0';
		note_name(err->schema, result, PG_DIAG_SCHEMA_NAME);
		note_name(err->table, result, PG_DIAG_TABLE_NAME);
	}
	/* the SQLSTATE is that of any missing privilege, and the words are in the language of the server */
	if (function != NULL && strcmp(function, "check_enable_rls") == 0)
		return err_advise(err,
			"row-level security hides its rows from inboxd; switch it off with ALTER "
			"TABLE ... DISABLE ROW LEVEL SECURITY, or give the user of inboxd "
			"BYPASSRLS; if a trigger of yours uses this table: ALTER FUNCTION ... SET "
			"row_security = on");
	return FAULT_DATABASE;
}
