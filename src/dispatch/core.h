/*
 * The shared state of the dispatch thread: one struct dispatch, and the functions by which the files of
 * this folder call each other. Only files of src/dispatch include this header; everybody else uses dispatch.h.
 *
 * The way of a message through this folder:
 *
 *	arrivals.c, claim_results.c   a claimed message arrives, from ingest or from the table
 *	entries.c                     it becomes an entry; the routing assigns it a handler
 *	lanes.c                       it waits until it is the head of its lane
 *	handlers.c                    it waits in the queue of its handler
 *	scheduler.c                   a connection of the handler has room for it
 *	delivery.c, session.c         it is written to the socket
 *	requests.c, protocol*.c       the handler's answer is read
 *	retry_policy.c                the answer, a timeout or a lost connection becomes a verdict
 *	settler.c                     the verdict is written to the table; then the entry is freed
 *
 * Beside that way:
 *
 *	dispatch.c          start, event loop, end
 *	claimer.c           decides when to claim rows from the table
 *	maintenance_jobs.c  sweeps, gauges, and the rescue after a claim whose answer was lost
 *	jobs.c, worker.c    builds a database job and runs it on a worker thread
 *	key_holds.c         keys that wait for the previous owner of a partition
 *	suspects.c          messages that are delivered alone because they may have ended their handler
 *	handler_memory.c    which handlers are known, whether they are connected or not
 *	settle_batching.c   decides whether enough verdicts wait for one transaction
 *	settle_retries.c    verdicts whose rows PostgreSQL refuses
 *	stopping.c          ends dispatch without losing verdicts
 *	tracing.c           spans of deliveries and settles
 *
 * Threads: the dispatch thread owns everything in this header, except the fields that are marked. A worker
 * owns a job while it runs it, and nothing else.
 * Blocking: no function here waits for PostgreSQL, for a handler or for ingest.
 * Errors: a function that finds no memory leaves the state as it was, and a later round of the loop tries again,
 * unless its comment says otherwise.
 * Times: `*_ms` are milliseconds of clock_now_ms(), which does not follow changes of the system time.
 */
#ifndef DISPATCH_CORE_H
#define DISPATCH_CORE_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/thread.h"
#include "dispatch/dispatch.h"
#include "dispatch/order/entry.h"
#include "dispatch/order/lanes.h"
#include "dispatch/order/retry_policy.h"
#include "dispatch/protocol/protocol.h"
#include "dispatch/sessions/handler_memory.h"
#include "dispatch/table/claim_cursor.h"
#include "dispatch/table/open_claims.h"
#include "dispatch/table/refused_rows.h"
#include "dispatch/table/replay_listener.h"
#include "dispatch/table/worker.h"
#include "model/event/event.h"
#include "model/message/handover.h"
#include "model/routing/routing.h"
#include "report/meters.h"

TAILQ_HEAD(session_list, session);

/* Connections of handlers at a time. The limit of open files can make it lower. */
#define SESSIONS_MAX         1024
/* File descriptors that handlers cannot use up: PostgreSQL, Kafka, HTTP and log files need them. */
#define DESCRIPTORS_KEPT     128
/* Period of the timer that checks deadlines, polls and retries. */
#define TICK_MS              20
/* The gauges count the table this often, ... */
#define GAUGES_EVERY_MS      2000
/* ... this often while the counts do not change, ... */
#define GAUGES_UNCHANGED_MS  10000
/* ... and the expensive ones (dead messages, oldest snapshot of the server) this often. */
#define SLOW_GAUGES_EVERY_MS 10000
/* A connection that has not read this many bytes gets no further delivery. */
#define OUTPUT_MAX_BYTES     ((size_t)1024 * 1024)
/* Limit for the unfinished lines of all connections together. */
#define INPUT_MAX_BYTES      ((size_t)64 * 1024 * 1024)

/* A handler: a name, its connections, and the entries that are routed to it. */
struct handler {
	char *name;
	struct entry_list ready; /* entries in state READY that may share a connection */
	size_t ready_count;
	struct entry_list suspects; /* entries in state READY that must be delivered alone */
	size_t suspect_count;
	struct session_list sessions;
	size_t session_count;
	size_t entry_count; /* entries routed to it, in any state */
	size_t entry_bytes; /* the size of their messages */
	size_t in_flight;   /* entries delivered and not settled */
	bool routed; /* its subscriptions are in the routing as those of a connected handler */
	bool full;   /* it uses up its share of memory; ingest stores its new messages as parked */
	int64_t gone_ms; /* when its last connection ended */
	struct known_state known;
	struct metric *ended[END_RETURNED];
	struct metric *in_flight_gauge;
	struct metric *connected_gauge;
	struct metric *seconds;
	UT_hash_handle hh;
};

/* A deliver_batch request whose answer has not arrived. Freed when the last of its entries is closed. */
struct call {
	char id[24]; /* the id of the request, "b17" */
	struct session *session;
	TAILQ_HEAD(, entry) entries;
	UT_hash_handle hh;
};

/* One connection of a handler. */
struct session {
	struct dispatch *dispatch;
	struct bufferevent *bev;
	int error;   /* errno of a failed read; 0 = none */
	char id[24]; /* "s3", for the log and the handler */
	TAILQ_ENTRY(session) link;
	TAILQ_ENTRY(session) group_link; /* in handler->sessions */
	struct handler *handler;         /* NULL before the hello */
	struct entry_list open;          /* its deliveries without an answer, by deadline */
	size_t open_count;

	/* What its hello asked for. */
	size_t window; /* deliveries that may be open at a time */
	int64_t timeout_ms;
	size_t batch_max;
	int64_t batch_wait_ms;

	int64_t batch_since_ms; /* since when an incomplete batch waits for more; 0 = none waits */
	struct entry *suspect; /* the suspect that reserves this connection or is delivered on it */
	/* When a delivery timed out, if the connection has sent no line since; 0 = it is not silent. */
	int64_t silent_ms;
	int64_t extended_us; /* when it last extended a deadline */
	bool draining;       /* the handler asked for drain: no new delivery */
	struct buf
		drain_id; /* the id of that request, which is answered when no delivery is open */
	int broken_lines; /* lines that the protocol refused */
	int64_t connected_ms;
	size_t scanned;     /* bytes of the input buffer that are known to contain no LF */
	size_t input_bytes; /* its part of dispatch->input_bytes */
	size_t replied;     /* bytes of replies that the client may not have read yet */
	bool closing;       /* its last line is written; further input is discarded */
	int64_t closing_ms; /* since when */
};

/* Verdicts that are not in the table yet. See settler.c. */
struct settler {
	struct entry_list pending; /* wait for the next transaction */
	size_t pending_count;
	int64_t since_ms;          /* when the first of `pending` was added */
	struct entry_list locked;  /* a handler's transaction locks their rows; by retry_at_ms */
	struct entry_list retries; /* set aside: PostgreSQL refuses their rows; by retry_at_ms */
	size_t retries_count;
	struct entry_list raise; /* suspects whose crash counts must be raised before delivery */
	size_t raise_count;
	size_t under_way; /* entries in jobs that run */
	size_t jobs;      /* jobs that run */
};

/* When to ask the table for what. See claimer.c and maintenance_jobs.c. */
struct claimer {
	int64_t poll_at_ms; /* the next claim of due rows, whether a due row is known or not */
	int64_t due_at_ms;  /* when the first known retry is due; INT64_MAX = none is known */
	int64_t sweep_at_ms;
	int64_t gauges_at_ms;
	/* Until then the gauges are not counted, unless ingest has placed a message since. */
	int64_t gauges_unchanged_until_ms;
	int64_t gauges_placed; /* admission_placed() at the last count */
	int64_t gauges_sum;    /* rows that waited at the last count */
	int64_t slow_gauges_at_ms;

	size_t sweep_next;    /* index of the next partition to sweep */
	uint64_t sweep_after; /* the key hash where its next page starts, ... */
	bool sweep_page;  /* ... when this is set; else the partition starts from its first page */
	bool sweep_again; /* a partition had more rows to release than one sweep releases */

	size_t rotation; /* the partition that the next claim lists first, for fairness */
	bool rescue;     /* the outcome of a claim is unknown: claim nothing until it is resolved */
	size_t claims_under_way; /* JOB_DUE and JOB_LANES that run */
	/* The bytes that those may bring. A claim can exceed its part by its last row. */
	size_t bytes_asked;
	struct claim_cursor cursor;
	struct refused_rows refused; /* rows that claims leave out */
	struct open_claims open;     /* claims that may still hold rows; numbers the claims */
	unsigned halvings;   /* how often worker.claim_batch is halved, because claims were slow */
	unsigned in_time;    /* claims that brought rows in time since the last change of it */
	bool last_was_lanes; /* the last claim was for lanes: the next one is for due rows */
	bool last_was_claim; /* the last job was a claim: maintenance comes before the next one */
	bool more_due;       /* the last claim of due rows left some in the table */
	bool needs_worker;   /* no worker was idle: the settler leaves one to the claimer */
	bool under_way[JOB_KINDS]; /* a job of this kind runs */
};

/* The keys that this instance does not deliver yet. See key_holds.c. */
struct key_holds {
	struct held_row *items; /* rows of our partitions that other instances hold */
	size_t count;
	size_t room; /* allocated items */
	size_t next; /* the item at which the next check starts */
	int64_t check_at_ms;
};

/* PHASE_STOP: nothing new is delivered, open deliveries may finish. PHASE_OVER: the loop ends. */
enum phase { PHASE_RUN, PHASE_STOP, PHASE_OVER };

struct dispatch {
	struct dispatch_options options;
	struct retry_rules rules;
	struct event_base *base;
	struct event *tick;   /* every TICK_MS */
	struct event *woken;  /* ingest or a worker has something for us */
	struct event *linger; /* the verdicts have waited long enough for others */
	struct event
		*schedule; /* something changed: run the scheduler once, at the end of the round */
	struct evconnlistener *listener;
	struct thread thread;
	enum phase phase;

	/* Written by any thread, read by the dispatch thread. */
	atomic_bool stop;
	atomic_bool abandon;
	atomic_bool may_end; /* ingest has ended: no further batch arrives */
	_Atomic int64_t deadline_ms;
	const struct config *_Atomic next_config; /* a reloaded configuration; NULL = none */

	int64_t ticked_ms; /* the last tick. All input that had arrived by then has been read. */

	struct entry *entries;  /* all messages in memory, by seq */
	struct entry_list born; /* those that were born claimed, by seq */
	size_t entry_count;
	int64_t max_seq; /* the highest seq of a born-claimed row so far */
	/* The lowest born-claimed seq that was dropped for lack of memory; INT64_MAX = none. */
	int64_t refused_seq;
	struct lanes lanes;
	struct key_holds key_holds;
	STAILQ_HEAD(, arrival) arrivals; /* batches from ingest that wait for claims */
	uint64_t revocations;            /* how often a partition was revoked so far */
	struct job
		*delayed_claim; /* a finished claim that waits for a batch of ingest; NULL = none */
	/* A suspect could not be delivered because the lease had ended. */
	bool suspects_need_lease;

	struct routing *routing;
	struct handler *handlers; /* by name */
	pthread_mutex_t
		heartbeat_lock; /* protects the next three, which the heartbeat thread reads */
	struct bounds bounds;
	struct buf names; /* connected handlers, a JSON array */
	struct buf away;  /* known handlers without a connection here, a JSON array */
	struct handler_memory handler_memory;
	struct session_list sessions;
	size_t session_count;
	size_t sessions_most;
	uint64_t next_session;
	size_t input_bytes;      /* unfinished lines of all connections */
	size_t in_flight;        /* entries delivered and not settled */
	int64_t set_aside_total; /* entries whose verdicts are set aside */
	struct call *calls;      /* by id */
	uint64_t next_call;
	struct protocol_parser *parser;
	struct event_renderer *renderer;
	struct buf rendered; /* scratch: the event of one message */
	struct buf line;     /* scratch: the line to send */

	struct settler settler;
	struct claimer claimer;
	struct worker_pool *pool;
	struct replay_listener *replay_listener;
	struct wake *wake;
	int faults;               /* jobs in a row that failed because of the database */
	bool connection_was_lost; /* one of them lost its connection */
	int64_t hold_until_ms;    /* no job is started before, because the database failed */

	struct metric *unknown_answers;
	struct metric *protocol_errors;
	struct metric *claim_lost;
	struct metric *claimed_gauge;
	struct metric *claimed_bytes_gauge;
	struct metric *settle_seconds;
	struct metric *claim_seconds;
	struct metric *end_to_end;
	struct metric *set_aside_gauge;
};

/* --- dispatch.c --- */

/* Runs scheduler, settler and claimer once, at the end of this round of the loop. */
void dispatch_schedule(struct dispatch *dispatch);
/* Runs them after delay_ms at the latest. */
void dispatch_schedule_in(struct dispatch *dispatch, int64_t delay_ms);
/* The same for verdicts that wait for more of them. A timer that runs already is not moved. */
void dispatch_linger(struct dispatch *dispatch, int64_t delay_ms);
/* True from the moment of the stop on: nothing new is delivered. */
bool dispatch_is_stopping(const struct dispatch *dispatch);

/* --- entries.c --- */

/*
 * Where a message comes from, and whether its place in the order is known. ORDER_UNKNOWN: the table may hold an
 * older row of its key that memory does not know about. Such a message is parked if it is ordered; the table
 * then decides when it is its turn.
 */
enum entry_origin {
	ENTRY_BORN,               /* the INSERT claimed it: it counts for low_seq */
	ENTRY_BORN_ORDER_UNKNOWN, /* the same, and a claim was lost or a partition revoked meanwhile */
	ENTRY_CLAIMED,            /* a claim took it from the table */
	ENTRY_CLAIMED_ORDER_UNKNOWN /* the same, and a batch was lost or a partition revoked meanwhile */
};
/* Admits a claimed message and takes ownership of it. `number`: the claim that brought it; 0 for a born one.
 * Without memory for the entry the row stays claimed in the table, until a rescue finds it. */
void entry_admit(struct dispatch *dispatch, struct message *message, size_t partition,
	enum entry_origin origin, int64_t number);
/* The table has the verdict, or the claim is lost. Frees the entry and starts the next one of its lane. */
void entry_finish(struct dispatch *dispatch, struct entry *entry, enum settle_status status);
/* Puts a lane head into the queue of its handler. Parks it when no handler subscribes to it. */
void entry_ready(struct dispatch *dispatch, struct entry *entry);
/* Settles the entry as parked. In any state but SETTLING. */
void entry_park(struct dispatch *dispatch, struct entry *entry);
/* Parks a QUEUED or READY entry to free memory. It no longer counts for the share of its handler. */
void entry_evict(struct dispatch *dispatch, struct entry *entry);
/* Settles the entry as waiting, with nothing counted. In any state but SETTLING. */
void entry_return(struct dispatch *dispatch, struct entry *entry);
/* Passes an entry with a verdict to the settler. If the entry goes back to the table, the entries that are
 * queued behind it in its lane go back too. */
void entry_settle(struct dispatch *dispatch, struct entry *entry);
/* Returns what is not delivered, of one partition or, with SIZE_MAX, of all. */
void entries_return_undelivered(struct dispatch *dispatch, size_t partition);
/* The entry of this claim, or NULL. */
struct entry *entry_find(struct dispatch *dispatch, int64_t seq, int delivery_count);
/* Computes the bounds that the next heartbeat sends. */
void entries_publish_bounds(struct dispatch *dispatch);
/* Frees all entries without settling them. */
void entries_drop_all(struct dispatch *dispatch);

/* --- tracing.c: without an exporter each function returns at once --- */

/* Adds the span of a delivery. Called when an entry gets its verdict; does nothing if it was not delivered. */
void tracing_delivered(struct dispatch *dispatch, const struct entry *entry);
/* Adds the span of the settle of one row of a JOB_SETTLE. */
void tracing_settled(struct dispatch *dispatch, const struct job *job, size_t row);

/* --- key_holds.c --- */

/* Partitions were acquired: holds the keys of the rows that other instances still hold. */
void key_holds_add(struct dispatch *dispatch, const struct handover *handover);
/* The partition was revoked: forgets its holds. */
void key_holds_drop(struct dispatch *dispatch, size_t partition);
/* A job that reads the state of held rows. NULL: there are none, it is too early, or no memory. */
struct job *key_holds_job(struct dispatch *dispatch, int64_t now_ms);
/* That job has ended: releases the keys whose rows are free. */
void key_holds_finished(struct dispatch *dispatch, struct job *job);
void key_holds_fini(struct key_holds *holds);

/* --- handlers.c --- */

/* Adds a session to its handler and the subscriptions to the routing. ROUTING_OVERLAP or ROUTING_FULL with a
 * text for the client, or FAULT_MEMORY. */
int handlers_join(struct dispatch *dispatch, struct session *session, const struct hello *hello,
	struct err *err);
/* The session ends. Its open deliveries get the verdict of a lost connection. */
void handlers_leave(struct dispatch *dispatch, struct session *session);
/* Deadlines of deliveries, shares of memory, handlers that stay away. */
void handlers_tick(struct dispatch *dispatch, int64_t now_ms);
/* A delivery is over: it was answered, timed out, or its connection ended. Removes it from its session. */
void handlers_close_delivery(struct dispatch *dispatch, struct entry *entry);
/* Adds a READY entry to its handler's queue, or removes it. */
void handlers_enqueue(struct dispatch *dispatch, struct entry *entry);
void handlers_dequeue(struct entry *entry);
/* True when another handler is connected, which needs a share of what is limited. */
bool handlers_has_others(const struct dispatch *dispatch, const struct handler *handler);
/* The part of `most` that one handler may use while others are connected: nine tenths, but at least one. */
size_t handlers_share(int64_t most);
/* Counts a message to (`more`) or off the handler. Above its share its new messages are stored as parked. */
void handlers_count_entry(struct dispatch *dispatch, struct handler *handler,
	const struct message *message, bool more);
/* Finds or creates the handler of that name. NULL: no memory. */
struct handler *handlers_get(struct dispatch *dispatch, const char *name);
/* The routing changed: gives a copy to ingest and starts a sweep for parked rows. */
void handlers_publish(struct dispatch *dispatch);
void handlers_fini(struct dispatch *dispatch);

/* --- scheduler.c --- */

/* Delivers READY entries while connections have room for them. */
void scheduler_run(struct dispatch *dispatch, int64_t now_ms);
/* False when the last heartbeat is older than the lease: another instance may hold our messages then, so nothing
 * is delivered (rule R6). */
bool scheduler_has_lease(const struct dispatch *dispatch, int64_t now_ms);
/* The connection with the fewest open deliveries among those that `fits` accepts, or NULL. */
struct session *scheduler_least_busy(
	const struct handler *handler, bool (*fits)(const struct session *));
/* How many more deliveries of this handler inbox.max_in_flight allows. It leaves a tenth to other handlers. */
size_t scheduler_allowance(const struct dispatch *dispatch, const struct handler *handler);

/* --- suspects.c --- */

/* Reserves connections for the handler's suspects. */
void suspects_reserve(struct dispatch *dispatch, struct handler *handler);
/* Continues with the suspect that reserves this connection, if the connection is empty now: first its crash count
 * is raised in the table, then it is delivered. */
void suspects_serve(struct session *session);
/* The lease is valid again: serves the suspects that had to wait for it. */
void suspects_resume(struct dispatch *dispatch);
/* The crash count of this entry is raised. Not called if its claim was lost, which frees the entry. */
void suspects_raised(struct dispatch *dispatch, struct entry *entry);
/* The connection ends or cannot be used: its suspect becomes READY again. */
void suspects_unreserve(struct dispatch *dispatch, struct session *session);
/* An earlier message of the lane arrived: the suspect is QUEUED behind it. If its crash count is being raised,
 * that happens when the count is raised. */
void suspects_recall(struct entry *entry);
/* Releases suspects that wait for their connection to be empty: of one session, ... */
void suspects_release_of(struct dispatch *dispatch, struct session *session);
/* ... of one partition or, with SIZE_MAX, of all. */
void suspects_release(struct dispatch *dispatch, size_t partition);

/* --- session.c --- */

/* The callback of the listener: a client connects. */
void session_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int length, void *arg);
/* Sends one line. */
void session_send(struct session *session, const struct buf *line);
/* Sends the reply to a request. Closes a connection that sends requests and does not read the replies. */
void session_reply(struct session *session, const struct buf *line);
void session_reply_error(struct session *session, struct bytes id, int code, const char *text);
/* Bytes that the socket has not accepted yet. */
size_t session_unsent(const struct session *session);
/* Tells the client that the result of this delivery will not be used. */
void session_cancel(struct session *session, const struct entry *entry, const char *reason);
/* Answers a drain request if no delivery is open. */
void session_check_drained(struct session *session);
/* Ends the connection and frees the session. */
void session_close(struct session *session);
/* Sends what is written already, then ends the connection. */
void session_close_soon(struct session *session);
/* Ends a connection without a hello, or one that is closing, when its time is over. May free the session. */
void session_tick(struct session *session, int64_t now_ms);

/* --- hello.c --- */

/* Handles a hello: registers the connection and replies, or refuses it. */
void hello_check(struct session *session, const struct line *line);
/* Logs why a hello is refused and sends the same reason to the client. */
void hello_refuse(struct session *session, const struct line *line, int code, const char *why);

/* --- requests.c --- */

/* Executes one line of a client, given without its LF. May start the end of the session; does not free it. */
void requests_handle(struct session *session, struct bytes text);
/* Replies that input cannot be processed, for the reason `why`, and ends the connection. */
void requests_refuse(struct session *session, const char *why);

/* --- delivery.c --- */

/* Opens these entries on the session and writes one deliver or deliver_batch line. */
void delivery_send(struct session *session, struct entry **entries, size_t count);
/* The id of the delivery in the protocol: "d9001.2". */
#define ENTRY_ID_BYTES 48
void entry_id(const struct entry *entry, char out[ENTRY_ID_BYTES]);
/* Sets the deadline of an open delivery, or the entry's limit if that is earlier. */
void delivery_extend(struct entry *entry, int64_t deadline_ms);
/* The partition was revoked. Its open deliveries may finish within one more timeout of their handler, and no
 * extension goes beyond that (rule R12): the new owner waits for them. */
void delivery_bound(struct dispatch *dispatch, size_t partition);

/* --- settler.c --- */

void settler_init(struct settler *settler);
/* Adds an entry in state SETTLING, whose verdict must be written. */
void settler_add(struct dispatch *dispatch, struct entry *entry);
/* Adds a suspect whose crash count must be raised. */
void settler_add_raise(struct dispatch *dispatch, struct entry *entry);
/* Gives jobs to idle workers. Leaves one worker to the claimer if the claimer found none the last time. */
void settler_run(struct dispatch *dispatch, int64_t now_ms);
/* A JOB_SETTLE or JOB_RAISE has ended, with or without success. */
void settler_finished(struct dispatch *dispatch, struct job *job);
/* True when no verdict waits, except those that are set aside and not due. */
bool settler_is_empty(const struct settler *settler);
/* Gives one verdict to a worker as a job of its own. False: no memory. */
bool settler_give_alone(struct dispatch *dispatch, struct entry *entry);

/* --- claimer.c --- */

void claimer_init(struct claimer *claimer);
/* True when rows of the partition may be claimed. With `ordering: partition` that is only when memory holds
 * no message of the partition. */
bool claimer_may_claim(const struct dispatch *dispatch, size_t index);
/* True while rows of a lost claim may be claimed in the table and unknown in memory. */
bool claimer_in_doubt(const struct claimer *claimer);
/* Gives jobs to idle workers. */
void claimer_run(struct dispatch *dispatch, int64_t now_ms);
/* A row becomes due in delay_ms. */
void claimer_expect(struct dispatch *dispatch, int64_t delay_ms);
/* Makes a full scan for due rows now. */
void claimer_scan_soon(struct dispatch *dispatch);
/* Subscriptions changed or partitions were acquired: looks for parked rows now. */
void claimer_sweep_soon(struct dispatch *dispatch);

/* --- claim_results.c --- */

/* A job of the claimer has ended, with or without success. Takes the messages out of it. */
void claim_results_take(struct dispatch *dispatch, struct job *job);

/* --- arrivals.c --- */

/* Takes all batches from the queue and admits those that need not wait for a claim. */
void arrivals_take(struct dispatch *dispatch);
/* Takes all finished jobs. A claim that may have passed over rows of a batch waits for this batch. */
void arrivals_take_jobs(struct dispatch *dispatch);
/* A claim was lost or a partition revoked: the order of the arrivals that wait is unknown. */
void arrivals_mark_order_unknown(struct dispatch *dispatch);
/* Frees the arrivals and the delayed claim. */
void arrivals_drop(struct dispatch *dispatch);

/* --- stopping.c --- */

/* Takes the next step of a stop that was asked for. Ends the loop after the last step. */
void stopping_check(struct dispatch *dispatch, int64_t now_ms);

#endif
