/*
 * Calls SQL handlers: functions of the service, in the transaction that marks their messages processed (ADR 0033).
 * Blocking; one db, one thread: a worker's. The db must have been made with db_options.user_functions.
 */
#ifndef STORE_CLAIMS_SQL_CALLS_H
#define STORE_CLAIMS_SQL_CALLS_H

#include "store/pg/db.h"

struct sql_handler {
	const char *name;
	const char *call; /* schema.function */
	const char *role; /* NULL = that of the session */
	/* The statement_timeout of the db. No call begins when its transaction is older. */
	int64_t timeout_ms;
};

enum call_status {
	CALL_OPEN, /* nothing of it is committed, and nothing is known about the function */
	CALL_DONE, /* committed: its effects, and the message as processed */
	CALL_LOST, /* the claim is gone, or the function has completed the message itself */
	CALL_SKIPPED, /* not tried: the message before it in its lane is not done, or the time is over */
	/* The function failed, and its effects are rolled back. */
	CALL_RETRY,
	CALL_TIMEOUT,
	CALL_DEAD,
	CALL_SNOOZE,
};

struct call_row {
	int64_t seq;
	int delivery_count;
	bool follows; /* the row before it in the list is the one before it in its lane */
	enum call_status status;
	int64_t delay_ms; /* CALL_SNOOZE: -1 = the configured one */
	char *error;      /* owned by the caller, like the next; NULL = none */
	char *error_code;
};

/* The rows that one worker calls a function for. */
struct sql_calls {
	int32_t instance;
	const struct sql_handler *handler; /* borrowed */
	struct call_row *rows;
	size_t count;
};

enum {
	/* The function cannot be called as it is: `err` says why. No row has changed. */
	SQL_CALLS_REFUSED = 1,
	/* The session ended while the functions ran, and one of the rows that are CALL_OPEN may be the cause. If the server has
	 * ended all its sessions, the result is a fault. In both cases the rows may be committed. */
	SQL_CALLS_LOST,
};

/*
 * Calls the function for each row, in their order, each in a subtransaction of its own, and commits all in one transaction.
 * If that fails, for example because of a deferred constraint, each row is tried again in a transaction of its own: the one
 * that fails then gets CALL_RETRY, or CALL_TIMEOUT, with the error. After a fault the rows that are CALL_OPEN have not been
 * committed, unless the connection ended. Takes six times handler->timeout_ms at most, and a little more: of the first
 * transaction, no call begins after one timeout, the last call takes one, and the COMMIT one; then the same for single rows.
 */
int sql_calls_run(struct db *db, const struct sql_calls *calls, struct err *err);
/* Whether the function can be called. */
int sql_calls_check(struct db *db, const struct sql_handler *handler, struct err *err);

/* Frees the texts of the rows. */
void sql_calls_clear(struct call_row *rows, size_t count);

#endif
