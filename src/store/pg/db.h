/*
 * One connection to PostgreSQL, used by one thread. This interface hides libpq: parameters are
 * binary arrays, a transaction is sent as a pipeline, and every wait has a deadline.
 *
 * Correctness never depends on session state (rule R19), so that a pooler may sit in between: there, every
 * transaction sets its own lock_timeout, idle_in_transaction_session_timeout and statement_timeout. A session that no
 * pooler shares keeps them, and gets them again each second (ADR 48). If the session does not know a named statement, the
 * transaction fails as a whole and is repeated with unnamed ones (PG_ERROR_STALE).
 *
 * A fault is FAULT_DATABASE. err->state is the SQLSTATE, or "" when the connection itself failed.
 * After a fault that ended the connection, db_is_open() is false, whatever err->state is: a server
 * that shuts down sends an SQLSTATE first. Only db_open() connects again.
 */
#ifndef STORE_PG_DB_H
#define STORE_PG_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/threads/wake.h"
#include "config/config.h"
#include "report/metrics.h"
#include "store/pg/params.h"
#include "store/pg/pg_error_class.h"
#include "store/pg/rows.h"

struct db;

struct db_options {
	const struct settings *postgres; /* libpq keywords; kept */
	const char *schema;              /* kept */
	const char *application;         /* application_name, e.g. "inboxd/12345"; copied */
	struct metrics *metrics; /* kept; receive the state of the connection; NULL = none */
	int64_t lock_timeout_ms;
	int64_t idle_timeout_ms; /* idle_in_transaction_session_timeout */
	/* for the server; the client waits up to two seconds longer; 0 = no limit */
	int64_t statement_timeout_ms;
	/* The transactions call functions of the user: lock_timeout and the planner stay as the role
	 * and the database have them, what such a function has set for the session (SET) is reset
	 * before the next transaction, and the client waits for two statement timeouts. */
	bool user_functions;
	/* The connection stores batches: the server process keeps the memory of one (pin_server_memory.sql). */
	bool stores;
	/* Whether statements are prepared under names. Never with user_functions: named statements are executed with
	 * generic plans, and plan_cache_mode concerns those functions, too. */
	enum prepare prepare;
};

int db_new(struct db **out, const struct db_options *options, struct err *err);
void db_free(struct db *db);
DEFINE_CLEANUP(struct db *, db_free);
/* Connects unless already connected. Blocks for at most 10 s (or the user's connect_timeout) for
 * each host. Refuses a server older than version 14 and a database whose encoding is not UTF8; the
 * error text says what to do. */
int db_open(struct db *db, struct err *err);
void db_close(struct db *db);
/* Closes the connection because there is no work for it at present. db_open() or db_begin() connects again; if that fails, the
 * connection counts as lost. Until then inboxd_pg_connections leaves it out, like one that was never opened. */
void db_rest(struct db *db);
/* db_rest(), unless the connection was used within the last minute; within two or four minutes if it was needed again soon after
 * the last rests. Call it outside a transaction, with nothing queued. */
void db_rest_unused(struct db *db);
bool db_is_open(const struct db *db);
/* Whether frequent statements are prepared under names on this connection. */
bool db_names_statements(const struct db *db);
/* Any thread. Ends the wait that is in progress, or otherwise the next wait. The interrupted call
 * closes the connection and returns a fault. A stop uses it so that it never hangs. */
void db_interrupt(struct db *db);

/* The class of a FAULT_DATABASE. The caller chooses its reaction by this class. */
enum pg_error_class db_error_kind(const struct err *err);
/* True when the error concerns the values or the size of single rows (class PG_ERROR_DATA). The caller
 * then bisects the batch (rule R9). Not when the error names a table that is none of inboxd's: then a
 * trigger of the user has failed, and perhaps fails for every row. */
bool db_error_is_data(const struct db *db, const struct err *err);
/* True when the error may concern a single row: also when a user's trigger raises it, or when a
 * page is damaged. That it concerns a single row is proved only when other rows are accepted. */
bool db_error_may_be_row(const struct err *err);
/* True for unique_violation (23505) on a table of this schema. The statements of inboxd use ON
 * CONFLICT for event ids, so this error means a damaged schema, for example a sequence that is
 * behind the rows. */
bool db_error_is_clash(const struct db *db, const struct err *err);
/* True for lock_not_available (55P03). */
bool db_error_is_lock(const struct err *err);
/* True when an event that a handler emits is wrong (IB020). */
bool db_error_is_event(const struct err *err);
/* The label for inboxd_pg_errors_total: the name of the class. */
const char *db_error_class(const struct err *err);

/* The statements of sql/queries by file name. Include the generated header "queries.h". */
enum query;

/*
 * Runs one statement in its own transaction, in one pipeline.
 * `rows` (may be NULL) is filled on success only; an earlier content is freed first. `params` may
 * be NULL. After a fault that closed the connection it is unknown whether the statement was
 * committed. A fault of the class PG_ERROR_STALE is repeated here, once.
 */
int db_run(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);

/*
 * Statements that only read, without BEGIN and COMMIT also behind a pooler. db_begin_reading() queues the settings, db_queue() the
 * statements, and db_flush() sends them and ends the transaction that PostgreSQL makes of one pipeline. Behind a pooler, its isolation
 * and access mode are those of the role. A statement waits for the lock of a table for a tenth of a second only.
 * db_read() does this with one statement, and repeats it like db_run().
 */
int db_begin_reading(struct db *db, struct err *err);
int db_read(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);

/*
 * A transaction of several steps. db_begin() begins it, with the settings. db_step() queues a
 * statement, sends everything that is queued and waits for the rows. db_commit() commits. After a
 * fault the transaction has ended: it is rolled back, or the connection is closed. db_commit()
 * returns DB_COMMIT_UNKNOWN when the connection was lost before the answer: the transaction may be
 * committed.
 */
enum { DB_COMMIT_UNKNOWN = 1 };
int db_begin(struct db *db, struct err *err);
int db_step(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);
/* Queues a statement without sending it. The next db_step() or db_commit() checks its result and
 * fills `rows`, which must exist until then. At most 64 statements may be queued, with the two of
 * db_begin() and that of db_commit(); statements that set the plan_cache_mode do not count. */
int db_queue(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err);
/* Sends the queued statements and waits for their results. */
int db_flush(struct db *db, struct err *err);
/* db_flush() in two halves, so that the caller can work while the server does. Between them no
 * other function may use this connection. db_poll() returns, without waiting, whether db_receive()
 * would not wait. After a fault of db_send() there is nothing to receive. */
int db_send(struct db *db, struct err *err);
bool db_poll(struct db *db);
int db_receive(struct db *db, struct err *err);
/* Queues a savepoint. Only the latest savepoint exists; the statement releases the previous one. */
int db_savepoint(struct db *db, struct err *err);
/* Rolls back to the savepoint after db_step() failed with db_error_may_be_row(). In a transaction
 * with a savepoint such a fault does not end the transaction: the caller must call this function or
 * db_rollback(). */
int db_rollback_to_savepoint(struct db *db, struct err *err);
int db_commit(struct db *db, struct err *err);
/* db_commit() in two halves, like db_send() and db_receive(). Only db_poll() may be called between them. After any result
 * but 0 of db_commit_send() there is nothing to receive. */
int db_commit_send(struct db *db, struct err *err);
int db_commit_receive(struct db *db, struct err *err);
/*
 * db_commit() in two halves. When db_commit_ahead() returns 0, the COMMIT is sent, and the next
 * transaction may begin and be sent; the server executes it at once. db_committed() must follow
 * before that transaction is received. Unless it returns 0, the connection is closed, which also
 * aborts the second transaction.
 */
int db_commit_ahead(struct db *db, struct err *err);
int db_committed(struct db *db, struct err *err);
void db_rollback(struct db *db);

/* Waits on an idle connection until something arrives on it or `wake` is poked, at most timeout_ms. Call it outside a
 * transaction and with nothing queued. A fault: the server has closed the connection, which is noticed here at once. */
int db_await_notice(struct db *db, const struct wake *wake, int64_t timeout_ms, struct err *err);
/* The number of notifications of channels on which db_script() executed LISTEN, since the last call. Each wait of this
 * connection reads them; their payloads are dropped. */
size_t db_take_notices(struct db *db);

/* Executes free text (migrations, PREPARE in tests) with the simple protocol. Several statements
 * are allowed, and `inbox.` is replaced by the name of the schema. Inside a transaction of
 * db_begin() the text belongs to that transaction; otherwise it is a transaction of its own. */
int db_script(struct db *db, const char *sql, struct err *err);
/* The name of the schema as configured. Borrowed. */
const char *db_schema(const struct db *db);

#endif
