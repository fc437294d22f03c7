/*
 * The wire to PostgreSQL below db.h: one libpq connection in pipeline mode, the waits on it, and the
 * words for what went wrong. Knows statements, not transactions. One thread, but pipeline_interrupt().
 *
 * Statements are queued and go out together as a flight; what any of them got is known when the
 * flight has landed. A flight that cannot land closes the connection: what the server did with it
 * is then unknown. A single statement may go ahead of a flight, unanswered when that departs.
 */
#ifndef STORE_PIPELINE_H
#define STORE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "config/config.h"
#include "store/params.h"
#include "store/rows.h"

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
/* Any thread: ends the wait under way, or else the next one. */
void pipeline_interrupt(struct pipeline *pipeline);

/* Queues a statement; `rows` (may be NULL) is filled when the flight lands without any fault.
 * `params` may be NULL; it is copied. A statement of 1000 MiB or more is a fault with SQLSTATE 54000, as
 * one with a value too large; nothing is sent then. */
int pipeline_queue(struct pipeline *pipeline, const char *sql, const struct params *params,
	struct rows **rows, struct err *err);
/* Sends what is queued and waits for all of it, at most timeout_ms. The first statement that failed
 * ends the others of the flight and is the fault. */
int pipeline_run(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
/* The same in two halves: sends all of it, which waits for the server to read; and waits for what came of
 * it, until timeout_ms after the start. In between nothing is queued, and pipeline_poll() says, without waiting,
 * whether pipeline_receive() would wait. */
int pipeline_send(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
bool pipeline_poll(struct pipeline *pipeline);
int pipeline_receive(struct pipeline *pipeline, struct err *err);
/* Sends one statement without rows that does not fail with the next flight, and does not wait: nothing may be
 * queued, and no other be ahead. */
int pipeline_send_first(struct pipeline *pipeline, const char *sql, struct err *err);
/* Waits at most timeout_ms for its answer, which comes before all that was sent behind it and then has as long. A
 * statement that failed is the fault; the connection is open then, unless that ended it. */
int pipeline_receive_first(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);
/* Several statements as text, by the simple protocol; nothing may be queued. */
int pipeline_script(
	struct pipeline *pipeline, const char *sql, int64_t timeout_ms, struct err *err);

/* Waits at most timeout_ms for a notification; takes all that came. 0, or PIPELINE_NOTICE. */
enum { PIPELINE_NOTICE = 1 };
int pipeline_await_notice(struct pipeline *pipeline, int64_t timeout_ms, struct err *err);

/* What the server said last. */
enum pipeline_transaction { PIPELINE_IDLE, PIPELINE_OPEN, PIPELINE_FAILED };
enum pipeline_transaction pipeline_transaction(const struct pipeline *pipeline);

struct pg_result;
struct rows *rows_of_result(struct pg_result *result);

#endif
