/*
 * One connection to PostgreSQL, used by one thread. Hides libpq: parameters in binary arrays,
 * transactions in pipelines, deadlines on every wait.
 *
 * No correctness rests on session state (rule R19, poolers): statements are unnamed, settings are
 * local to their transaction. Every transaction starts with lock_timeout,
 * idle_in_transaction_session_timeout and statement_timeout set for itself.
 *
 * Faults are FAULT_DATABASE with err->state = SQLSTATE, or "" when the connection itself failed. After
 * a fault that ended the connection db_is_open() is false, whatever the state (a server that shuts
 * down says so first), and db_open() connects anew; nothing else does.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/metrics.h"
#include "config/config.h"
#include "store/params.h"
#include "store/pg_error_class.h"
#include "store/rows.h"

struct db;

struct db_options {
	const struct settings *postgres; /* libpq keywords; kept */
	const char *schema;              /* kept */
	const char *application;         /* application_name, e.g. "inboxd/12345"; copied */
	struct metrics *metrics; /* kept; shows the state of the connection; NULL = nowhere */
	int64_t lock_timeout_ms;
	int64_t idle_timeout_ms; /* idle_in_transaction_session_timeout */
	int64_t statement_timeout_ms; /* the server's; the client waits two seconds longer; 0 = for ever */
};

int db_new(struct db **out, const struct db_options *options, struct err *err);
void db_free(struct db *db);
DEFINE_CLEANUP(struct db *, db_free);
/* Connects unless connected; at most 10 s (or the user's connect_timeout) for each host named.
 * Refuses servers older than 14 and databases whose encoding is not UTF8, both with what to do. */
int db_open(struct db *db, struct err *err);
void db_close(struct db *db);
bool db_is_open(const struct db *db);
/* Any thread: ends the wait under way, or else the next one; that call closes the connection and
 * returns a fault. For a stop that must not hang. */
void db_interrupt(struct db *db);

/* The class of a FAULT_DATABASE, which decides what happens next. */
enum pg_error_class db_error_kind(const struct err *err);
/* True when the error is about values or limits of single rows (SQLSTATE classes 22, 23 but for 23505, 54): the
 * batch is to be bisected (rule R9). */
bool db_error_is_data(const struct err *err);
/* True when it may be about a single row for all that is known: also a user's trigger that raises, or a damaged page. That
 * it is one shows when other rows go through. */
bool db_error_may_be_row(const struct err *err);
/* True for unique_violation (23505) on a table of this schema. No statement of inboxd raises that over an event id:
 * the schema is damaged, by sequences that are behind their rows, say. */
bool db_error_is_clash(const struct db *db, const struct err *err);
/* True for lock_not_available (55P03). */
bool db_error_is_lock(const struct err *err);
/* The label for inboxd_pg_errors_total: the name of its kind. */
const char *db_error_class(const struct err *err);

/* The statements of sql/queries, by file name: include "queries.h", which is generated. */
enum query;

/* One statement in its own transaction (BEGIN, settings, statement, COMMIT in one pipeline). `rows`
 * (may be NULL) is filled on success only, and freed first if it holds something; `params` may be
 * NULL. A fault that closed the connection leaves open whether the statement was committed. */
int db_run(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);

/* A transaction by hand. db_begin() queues BEGIN and the settings; db_step() queues a statement,
 * sends everything queued and waits for its rows; db_commit() commits. After any fault the
 * transaction is over (rolled back, or the connection closed).
 * db_commit(): DB_COMMIT_UNKNOWN when the connection was lost before the answer came. */
enum { DB_COMMIT_UNKNOWN = 1 };
int db_begin(struct db *db, struct err *err);
int db_step(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);
/* Queues only; its result is checked with the next db_step() or db_commit(). `rows` is filled then,
 * and must live until then. At most 8 statements may be queued at a time. */
int db_queue(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);
/* Sends what is queued and waits for it. */
int db_flush(struct db *db, struct err *err);
/* The same in two halves. In between nothing else is asked of this connection, and db_look() says, without
 * waiting, whether db_land() would wait. After a fault of db_depart() there is nothing to land. */
int db_depart(struct db *db, struct err *err);
bool db_look(struct db *db);
int db_land(struct db *db, struct err *err);
/* Queues a savepoint; one counts at a time, the one before is released. */
int db_savepoint(struct db *db, struct err *err);
/* Back to the last savepoint after a db_step() that failed with db_error_may_be_row(): in a transaction
 * with savepoints such a fault does not end it; whoever does not go back calls db_rollback(). */
int db_rollback_to_savepoint(struct db *db, struct err *err);
int db_commit(struct db *db, struct err *err);
/* The same in two halves. When the first returns 0, COMMIT is on its way, and the next transaction may be begun
 * and depart: the server goes on with it at once. db_committed() must follow, before that one lands: unless it
 * returns 0 the connection is closed, and with it the transaction behind. */
int db_commit_ahead(struct db *db, struct err *err);
int db_committed(struct db *db, struct err *err);
void db_rollback(struct db *db);

/* Waits for a notification of a channel that db_script() said LISTEN for; outside a transaction, nothing
 * queued. 0: timeout_ms have passed without one; DB_NOTICE: one or more came. A fault closes the
 * connection. */
enum { DB_NOTICE = 1 };
int db_await_notice(struct db *db, int64_t timeout_ms, struct err *err);

/* Free text (migrations, PREPARE in tests), simple protocol, several statements allowed, `inbox.`
 * replaced by the schema. Inside a transaction begun by db_begin() it belongs to that, else it is
 * one of its own. */
int db_script(struct db *db, const char *sql, struct err *err);
/* The schema's name as configured. Borrowed. */
const char *db_schema(const struct db *db);

#endif
