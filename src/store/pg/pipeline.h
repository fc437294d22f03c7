/*
 * One libpq connection in pipeline mode, below db.h: it sends statements, waits for the results and
 * reports errors. It knows statements, not transactions.
 *
 * Statements are queued and sent together as one pipeline. The results are known when all of them
 * were received. When they cannot be received, the connection is closed, and it is unknown what the
 * server executed. One single statement may be sent ahead of a pipeline and be unanswered when the
 * pipeline is sent (the COMMIT of the previous batch).
 *
 * Every wait has a deadline. One thread, except pipeline_interrupt().
 */
#ifndef STORE_PG_PIPELINE_H
#define STORE_PG_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "config/config.h"
#include "store/pg/params.h"
#include "store/pg/rows.h"

struct pipeline;

/* Keeps `settings`, copies `application`. Does not connect. */
int pipeline_new(struct pipeline **out, const struct settings *settings, const char *application,
	struct err *err);
void pipeline_free(struct pipeline *pipeline);
DEFINE_CLEANUP(struct pipeline *, pipeline_free);

/* Connects unless connected; see db_open(). */
int pipeline_open(struct pipeline *pipeline, struct err *err);
void pipeline_close(struct pipeline *pipeline);
bool pipeline_is_open(const struct pipeline *pipeline);
/* Any thread. Ends the wait in progress, or otherwise the next wait. */
void pipeline_interrupt(struct pipeline *pipeline);

/*
 * Whether the statements that may have a name get one on this connection, until it is closed. After a statement that the
 * server does not know under its name, or cannot execute any more as it was prepared, none has a name any more. The
 * SQLSTATE of that fault is of the class PG_ERROR_STALE: 0A000 of a named statement becomes 26000. The transaction must
 * then be repeated as a whole.
 */
void pipeline_name_statements(struct pipeline *pipeline, bool names);
bool pipeline_names(const struct pipeline *pipeline);
/* Whether this libpq reports a fault that comes with the Sync, as one of a deferred constraint does without a COMMIT. Before 14.11,
 * 15.6 and 16.2 it loses the Sync, and a pipeline never ends. */
bool pipeline_reports_late_faults(void);
/* True when the process that libpq could cancel is the one with this process id: no pooler is in between. */
bool pipeline_is_process(const struct pipeline *pipeline, int64_t pid);

struct statement {
	const char *sql;
	bool named; /* may have a name; `sql` must then exist as long as the pipeline */
};

/* Queues a statement. `rows` (may be NULL) is filled when the whole pipeline was received without a
 * fault. `params` (may be NULL) is copied. A statement of 1000 MiB or more is a fault with SQLSTATE
 * 54000, like a value that is too large; nothing is sent then. A COMMIT that the server answers with a rollback is a fault
 * with SQLSTATE 40000. */
int pipeline_queue(struct pipeline *pipeline, const struct statement *statement,
	const struct params *params, struct rows **rows, struct err *err);
/* Sends the queued statements and waits for all results, at most timeout_ms. The first statement
 * that fails is the fault; the server skips the rest of the pipeline. */
int pipeline_run(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
/*
 * pipeline_run() in two halves. pipeline_send() sends everything and waits until the server has
 * read it. pipeline_receive() waits for the results until timeout_ms after the start. Nothing may
 * be queued in between. pipeline_poll() returns, without waiting, whether pipeline_receive() would
 * not wait.
 */
int pipeline_send(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
bool pipeline_poll(struct pipeline *pipeline);
int pipeline_receive(struct pipeline *pipeline, struct err *err);
/* Sends one statement without rows and does not wait. It has its own synchronization point, so that
 * it does not fail together with the next pipeline. Nothing may be queued, and no other statement
 * may be ahead. */
int pipeline_send_first(struct pipeline *pipeline, const char *sql, struct err *err);
/* Waits for the answer of pipeline_send_first(), at most timeout_ms. The answer precedes everything
 * sent later, whose time limit starts after it. If the statement failed, that is the fault; the
 * connection stays open unless the failure ended it. */
int pipeline_receive_first(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
/* Executes several statements as text with the simple protocol. Nothing may be queued. */
int pipeline_script(
	struct pipeline *pipeline, const char *sql, int64_t timeout_ms, struct err *err);

/* Waits until input arrives or the eventfd `wake_fd` is poked, at most timeout_ms. Nothing may be queued. A fault: the
 * server has closed the connection. */
int pipeline_await_notice(
	struct pipeline *pipeline, int wake_fd, int64_t timeout_ms, struct err *err);
/* The number of notifications that arrived since the last call, during any wait. Their content is dropped. */
size_t pipeline_take_notices(struct pipeline *pipeline);

/* The transaction state that the server reported last. */
enum pipeline_transaction { PIPELINE_IDLE, PIPELINE_OPEN, PIPELINE_FAILED };
enum pipeline_transaction pipeline_transaction(const struct pipeline *pipeline);

struct pg_result;
struct rows *rows_of_result(struct pg_result *result);

#endif
