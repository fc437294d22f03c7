/*
 * The wire to PostgreSQL below db.h: one libpq connection in pipeline mode, the waits on it, and the
 * words for what went wrong. Knows statements, not transactions. One thread, but link_interrupt().
 *
 * Statements are queued and go out together as a flight; what any of them got is known when the
 * flight has landed. A flight that cannot land closes the connection: what the server did with it
 * is then unknown. A single statement may go ahead of a flight, unanswered when that departs.
 */
#ifndef STORE_LINK_H
#define STORE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "config/config.h"
#include "store/params.h"
#include "store/rows.h"

struct link;

/* Keeps `settings`, copies `application`. Does not connect. */
int link_new(struct link **out, const struct settings *settings, const char *application,
	struct err *err);
void link_free(struct link *link);
DEFINE_CLEANUP(struct link *, link_free);

/* Connects unless connected; see db_open(). */
int link_open(struct link *link, struct err *err);
void link_close(struct link *link);
bool link_is_open(const struct link *link);
/* Any thread: ends the wait under way, or else the next one. */
void link_interrupt(struct link *link);

/* Queues a statement; `rows` (may be NULL) is filled when the flight lands without any fault.
 * `params` may be NULL; it is copied. A statement of 1000 MiB or more is a fault with SQLSTATE 54000, as
 * one with a value too large; nothing is sent then. */
int link_queue(struct link *link, const char *sql, const struct params *params, struct rows **rows,
	struct err *err);
/* Sends what is queued and waits for all of it, at most timeout_ms. The first statement that failed
 * ends the others of the flight and is the fault. */
int link_fly(struct link *link, int64_t timeout_ms, struct err *err);
/* The same in two halves: sends all of it, which waits for the server to read; and waits for what came of
 * it, until timeout_ms after the start. In between nothing is queued, and link_look() says, without waiting,
 * whether link_land() would wait. */
int link_depart(struct link *link, int64_t timeout_ms, struct err *err);
bool link_look(struct link *link);
int link_land(struct link *link, struct err *err);
/* Sends one statement without rows whose fate the next flight does not share, and does not wait: nothing may be
 * queued, and no other be ahead. */
int link_go_ahead(struct link *link, const char *sql, struct err *err);
/* Waits at most timeout_ms for its answer, which comes before all that was sent behind it and then has as long. A
 * statement that failed is the fault; the connection is open then, unless that ended it. */
int link_await_ahead(struct link *link, int64_t timeout_ms, struct err *err);
/* Several statements as text, by the simple protocol; nothing may be queued. */
int link_script(struct link *link, const char *sql, int64_t timeout_ms, struct err *err);

/* Waits at most timeout_ms for a notification; takes all that came. 0, or LINK_NOTICE. */
enum { LINK_NOTICE = 1 };
int link_await_notice(struct link *link, int64_t timeout_ms, struct err *err);

/* What the server said last. */
enum link_transaction { LINK_IDLE, LINK_OPEN, LINK_FAILED };
enum link_transaction link_transaction(const struct link *link);

struct pg_result;
struct rows *rows_of_result(struct pg_result *result);

#endif
