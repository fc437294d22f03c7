/*
 * The sessions of SQL handlers: functions of the service that inboxd calls itself (ADR 0033). Such a session is a
 * connection without a socket. It belongs to a handler group like any other, so routing, order, windows, suspects, retries
 * and metrics are the same. Its deliveries are ordered batches, and instead of a line a worker of its own gets them, which
 * calls the function for each message in one transaction. What the functions did is answered as a line would be.
 *
 *	 AWAY ──── the function can be called ────▶ JOINED ────▶ a call is under way ──┐
 *	  ▲ ▲                                         │ ▲                             │
 *	  │ └───────────── the function is gone ──────┘ └──────── verdicts ───────────┘
 *	  └─ checked again every CHECK_MS
 *
 * A handler is connected while its function can be called. Otherwise it is away, and its messages wait. Without SQL handlers
 * in the configuration there are no sessions and no workers. Dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_SESSIONS_SQL_SESSIONS_H
#define DISPATCH_SESSIONS_SQL_SESSIONS_H

#include "dispatch/sessions/sessions.h"

/* The text of the id of a delivery. */
struct delivery_name {
	char text[DELIVERY_ID_BYTES];
};

/* One connection to PostgreSQL. A SQL handler has one or more. */
struct sql_session {
	struct session session; /* without a socket, and in no list of `sessions` */
	const struct sql_handler_rules *rules;
	struct sql_handler handler;
	struct worker_pool *pool;    /* of one worker */
	bool joined;                 /* it is in its group */
	bool checking;               /* a JOB_CALLABLE is under way */
	int64_t next_ms;             /* when to check again, or to deliver again after a fault */
	struct outage_log outage;    /* faults in a row */
	bool refusal_logged;         /* the log has why the function cannot be called */
	struct verdict *verdicts;    /* scratch: of one call */
	struct delivery_name *names; /* scratch: their ids */
};

struct sql_sessions {
	struct sessions *sessions;
	struct sql_session *items;
	size_t count;
};

/* Starts a worker for each session. FAULT_MEMORY, FAULT_INTERNAL. */
int sql_sessions_init(struct sql_sessions *sql, struct sessions *sessions, struct err *err);
/* Gives calls and checks to idle workers. Call it after the scheduler, in the same round. */
void sql_sessions_run(struct sql_sessions *sql, int64_t now_ms);
/* Takes the results of the workers. */
void sql_sessions_take(struct sql_sessions *sql);
/* Ends all of them. Transactions that are not committed are rolled back. Call it while the other rooms exist. */
void sql_sessions_fini(struct sql_sessions *sql);

#endif
