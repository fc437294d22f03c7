/*
 * Inside dispatch: the one struct its files share. Everything here belongs to the dispatch thread but
 * for the fields marked otherwise. Files, by what they answer:
 *
 *	entries.c     what is in memory: arrival, routing, leaving, bounds
 *	key_holds.c    keys held back while another instance is at them
 *	handlers.c handler groups: who belongs to them, what waits for them
 *	scheduler.c     who gets what: windows, batches, the least busy connection
 *	suspects.c what is delivered alone
 *	session.c  one connection: bytes in, bytes out, its end
 *	requests.c    what each line of a handler does
 *	delivery.c  deliveries on their way to a handler
 *	settler.c  verdicts on their way to the table
 *	settle_retries.c    verdicts that wait alone
 *	settle_batching.c  when they have waited enough for more (pure)
 *	tracing.c  spans of deliveries and settles
 *	handler_memory.c   which handlers are known, connected or not
 *	claimer.c  what to ask the table for, and when
 *	claim_results.c  what the table answered
 *	arrivals.c what comes in: batches from ingest, finished jobs
 *	stopping.c how it comes to rest
 *	dispatch.c the loop: start, rounds, end
 */
#ifndef DISPATCH_CORE_H
#define DISPATCH_CORE_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/thread.h"
#include "dispatch/claim_cursor.h"
#include "dispatch/dispatch.h"
#include "dispatch/entry.h"
#include "dispatch/handler_memory.h"
#include "dispatch/lanes.h"
#include "dispatch/open_claims.h"
#include "dispatch/protocol.h"
#include "dispatch/refused_rows.h"
#include "dispatch/replay_listener.h"
#include "dispatch/retry_policy.h"
#include "dispatch/worker.h"
#include "model/event.h"
#include "model/handover.h"
#include "model/headers.h"
#include "model/meters.h"
#include "model/routing.h"

TAILQ_HEAD(session_list, session);
#define SESSIONS_MAX         1024  /* connections */
#define DESCRIPTORS_KEPT     128   /* for PostgreSQL, Kafka, HTTP and files, whatever connects */
#define TICK_MS              20    /* deadlines, polls and retries are looked at this often */
#define GAUGES_EVERY_MS      2000  /* the table is counted */
#define GAUGES_UNCHANGED_MS  10000 /* the same, when nothing has changed */
#define SLOW_GAUGES_EVERY_MS 10000 /* the dead are counted, and the server's sessions looked at */
#define OUTPUT_MAX_BYTES     ((size_t)1024 * 1024) /* unread by one connection: no more is sent to it */
#define INPUT_MAX_BYTES                                                                            \
	((size_t)64 * 1024 * 1024) /* unfinished lines of all connections together */

/* All connections of one handler name. */
struct handler {
	char *name;
	struct entry_list ready;
	size_t ready_count;
	struct entry_list suspects; /* to be delivered alone */
	size_t suspect_count;
	struct session_list sessions;
	size_t session_count;
	size_t entry_count; /* entries routed to it, in whatever state */
	size_t entry_bytes;
	size_t in_flight; /* delivered and unsettled */
	bool routed;      /* its subscriptions are in the routing */
	bool full;        /* holds its share of memory: routing is closed for it */
	int64_t gone_ms;  /* since when it has no connection */
	struct known_state known;
	struct metric *ended[END_RETURNED];
	struct metric *in_flight_gauge;
	struct metric *connected_gauge;
	struct metric *seconds;
	UT_hash_handle hh;
};

/* A deliver_batch that is not answered yet. */
struct call {
	char id[24];
	struct session *session;
	TAILQ_HEAD(, entry) entries;
	UT_hash_handle hh;
};

struct session {
	struct dispatch *dispatch;
	struct bufferevent *bev;
	int error; /* errno of a read; 0 = none */
	char id[24];
	TAILQ_ENTRY(session) link;
	TAILQ_ENTRY(session) group_link;
	struct handler *handler; /* NULL before hello */
	struct entry_list open;  /* by deadline */
	size_t open_count;
	size_t window;
	int64_t timeout_ms;
	size_t batch_max;
	int64_t batch_wait_ms;
	int64_t batch_since_ms; /* a partial batch waits since; 0 = none */
	struct entry *suspect;  /* the suspect it is reserved for or busy with */
	int64_t silent_ms;   /* when a delivery timed out, if it has sent no line since; 0 = not */
	int64_t extended_us; /* when it last asked for more time */
	bool draining;
	struct buf drain_id; /* of the request to answer once nothing is open */
	int broken_lines;
	int64_t connected_ms;
	size_t scanned;     /* bytes of the input known to hold no LF */
	size_t input_bytes; /* bytes of input counted in dispatch->input_bytes */
	size_t replied;     /* bytes of replies it may not have read yet */
	bool closing;       /* its last line is written, what it sends is thrown away */
	int64_t closing_ms; /* since */
};

struct settler {
	struct entry_list pending; /* to be settled now */
	size_t pending_count;
	int64_t since_ms;          /* when the first of them came */
	struct entry_list locked;  /* their rows are locked, by retry_at_ms */
	struct entry_list retries; /* PostgreSQL refuses their rows, by retry_at_ms */
	size_t retries_count;      /* in that list */
	struct entry_list raise;   /* crash counts to raise */
	size_t raise_count;
	size_t under_way; /* entries in jobs */
	size_t jobs;      /* at the workers */
};

struct claimer {
	int64_t poll_at_ms; /* when the table is asked for due rows anyway */
	int64_t due_at_ms;  /* earliest retry known; INT64_MAX = none */
	int64_t sweep_at_ms;
	int64_t gauges_at_ms;
	int64_t gauges_unchanged_until_ms; /* unless ingest has placed something */
	int64_t gauges_placed;             /* by then */
	int64_t gauges_sum;                /* counted last */
	int64_t slow_gauges_at_ms;
	size_t sweep_next; /* partition to look at */
	uint64_t sweep_after;
	bool sweep_again;        /* a partition had more to release than one look may */
	bool sweep_page;         /* sweep_after is set: go on in the same partition */
	size_t rotation;         /* where the list of partitions cursor, for fairness */
	bool rescue;             /* a claim's outcome is unknown: none until it is resolved */
	size_t claims_under_way; /* JOB_DUE, JOB_LANES */
	size_t bytes_asked; /* by those: what they may bring at most, but for the last row of each */
	struct claim_cursor cursor;
	struct refused_rows refused; /* left out of claims: see refused_rows.h */
	struct open_claims open;     /* those that may still hold rows; counts those given */
	unsigned halvings;           /* of claim_batch, as long as claims take too long */
	unsigned in_time;            /* claims that brought something since the last change */
	bool last_was_lanes;         /* the last claim was one of lanes: due rows have their turn */
	bool last_was_claim; /* the last job was a claim: sweeps and gauges have their turn */
	bool more_due;       /* the last claim of due rows left some behind */
	bool needs_worker;   /* it found no worker to ask */
	bool under_way[JOB_KINDS];
};

/* Rows of our partitions that others still hold. */
struct key_holds {
	struct held_row *items;
	size_t count;
	size_t room;
	size_t next; /* where the next look starts */
	int64_t check_at_ms;
};

enum phase { PHASE_RUN, PHASE_STOP, PHASE_OVER };

struct dispatch {
	struct dispatch_options options;
	struct retry_rules rules;
	struct event_base *base;
	struct event *tick;
	struct event *woken;
	struct event *linger;   /* verdicts have waited long enough for others to settle with */
	struct event *schedule; /* activated by whoever changed something; runs once a round */
	struct evconnlistener *listener;
	struct thread thread;
	enum phase phase;
	atomic_bool stop;            /* any thread */
	atomic_bool abandon;         /* any thread */
	atomic_bool may_end;         /* any thread: ingest is over, nothing more comes */
	_Atomic int64_t deadline_ms; /* any thread */
	const struct config *_Atomic next_config; /* any thread: to be taken over */
	int64_t ticked_ms; /* the last tick: what had come by then has been read */

	struct entry *entries;  /* by seq */
	struct entry_list born; /* in seq order */
	size_t entry_count;
	int64_t max_seq;
	int64_t refused_seq;  /* lowest that no memory was found for; INT64_MAX = none */
	struct bounds bounds; /* under heartbeat_lock */
	struct lanes lanes;
	struct key_holds key_holds;
	STAILQ_HEAD(, arrival) arrivals;
	uint64_t revocations;      /* how often a partition has gone */
	struct job *delayed_claim; /* a claim that waits for a batch on its way; NULL: none does */
	bool suspects_need_lease; /* for a lease: a connection is empty, and its suspect was not served */

	struct routing *routing;
	struct handler *handlers;
	pthread_mutex_t heartbeat_lock; /* of what the heartbeat thread reads */
	struct buf names;               /* connected handlers as JSON; under heartbeat_lock */
	struct buf away;                /* known ones that are not; under heartbeat_lock */
	struct handler_memory handler_memory;
	struct session_list sessions;
	size_t session_count;
	size_t sessions_most;
	uint64_t next_session;
	size_t input_bytes;
	size_t in_flight;
	int64_t set_aside_total; /* entries whose verdict waits alone */
	struct call *calls;
	uint64_t next_call;
	struct protocol_parser *parser;
	struct event_renderer *renderer;
	struct buf rendered;
	struct buf line;

	struct settler settler;
	struct claimer claimer;
	struct worker_pool *pool;
	struct replay_listener *replay_listener;
	struct wake *wake;
	int faults;               /* in a row, of the database */
	bool connection_was_lost; /* one of them ended a connection */
	int64_t hold_until_ms;    /* no jobs before: the database failed */

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

/* dispatch.c */
/* Runs the scheduler in this round of the loop. */
void dispatch_schedule(struct dispatch *dispatch);
/* Lets it run again then at the latest. */
void dispatch_schedule_in(struct dispatch *dispatch, int64_t delay_ms);
/* The same, for verdicts that wait for more; not later than asked for before. */
void dispatch_linger(struct dispatch *dispatch, int64_t delay_ms);
/* True while the fast end of stopping is reached: nothing new is delivered. */
bool dispatch_is_stopping(const struct dispatch *dispatch);

/* entries.c */
enum entry_origin {
	ENTRY_BORN, /* by INSERT: counts for the bounds */
	ENTRY_BORN_ORDER_UNKNOWN, /* born, but something older of its key may be claimed unheard: parked if ordered */
	ENTRY_CLAIMED,               /* from the table */
	ENTRY_CLAIMED_ORDER_UNKNOWN, /* from the table, but something older of its key may be on its way back */
};
/* A claimed message arrives; takes it. `number`: of the claim that brought it, 0 when it was born. */
void entry_admit(struct dispatch *dispatch, struct message *message, size_t partition,
	enum entry_origin origin, int64_t number);
/* Its verdict is known to the table, or its claim is lost. Frees the entry. */
void entry_finish(struct dispatch *dispatch, struct entry *entry, enum settle_status status);
/* The entry goes to its handler's queue, or is parked when nobody wants it. */
void entry_ready(struct dispatch *dispatch, struct entry *entry);
/* Parks, gives back. From any state but SETTLING. */
void entry_park(struct dispatch *dispatch, struct entry *entry);
/* Parks one that is ready or queued; from now on it counts for nobody's share. */
void entry_evict(struct dispatch *dispatch, struct entry *entry);
void entry_return(struct dispatch *dispatch, struct entry *entry);
/* The entry has its verdict: to the settler; what is queued behind one that goes outside is parked. */
void entry_settle(struct dispatch *dispatch, struct entry *entry);
/* Gives back what is not delivered: of one partition, or with SIZE_MAX of all. */
void entries_return_undelivered(struct dispatch *dispatch, size_t partition);
struct entry *entry_find(struct dispatch *dispatch, int64_t seq, int delivery_count);
void entries_publish_bounds(struct dispatch *dispatch);
/* Frees everything without settling. */
void entries_drop_all(struct dispatch *dispatch);

/* tracing.c; each one branch when tracing is off */
/* The entry has its verdict: when it was delivered, that delivery is over. */
void tracing_delivered(struct dispatch *dispatch, const struct entry *entry);
/* The table has answered for one row of a JOB_SETTLE. */
void tracing_settled(struct dispatch *dispatch, const struct job *job, size_t row);

/* key_holds.c */
/* Partitions became ours: holds back the keys of the rows others still hold. */
void key_holds_add(struct dispatch *dispatch, const struct handover *handover);
/* The partition is not ours any more. */
void key_holds_drop(struct dispatch *dispatch, size_t partition);
/* A look at what became of them, when it is time; else NULL. */
struct job *key_holds_job(struct dispatch *dispatch, int64_t now_ms);
void key_holds_finished(struct dispatch *dispatch, struct job *job);
void key_holds_fini(struct key_holds *holds);

/* handlers.c */
/* Registers a session under its handler's name. ROUTING_OVERLAP with words, or FAULT_MEMORY. */
int handlers_join(struct dispatch *dispatch, struct session *session, const struct hello *hello,
	struct err *err);
/* The session is gone: its open deliveries are lost, or returned when it left in order. */
void handlers_leave(struct dispatch *dispatch, struct session *session);
/* Deadlines, handlers that stayed away. */
void handlers_tick(struct dispatch *dispatch, int64_t now_ms);
/* The delivery is over (answered, timed out, lost): off its session. */
void handlers_close_delivery(struct dispatch *dispatch, struct entry *entry);
void handlers_enqueue(struct dispatch *dispatch, struct entry *entry);
void handlers_dequeue(struct entry *entry);
/* Is another handler connected that must get its share? */
bool handlers_has_others(const struct dispatch *dispatch, const struct handler *handler);
/* What one handler may have of `most` when there are others: all but a tenth, rounded up; one at least. */
size_t handlers_share(int64_t most);
/* A message more or less is routed to it. How much of memory it holds decides whether ingest may claim
 * for it. */
void handlers_count_entry(struct dispatch *dispatch, struct handler *handler,
	const struct message *message, bool more);
/* The handler of that name, made when there is none. NULL: no memory. */
struct handler *handlers_get(struct dispatch *dispatch, const char *name);
/* Tells admission and the sweep that the routing changed. */
void handlers_publish(struct dispatch *dispatch);
void handlers_fini(struct dispatch *dispatch);

/* scheduler.c */
/* Hands out whatever may be handed out. */
void scheduler_run(struct dispatch *dispatch, int64_t now_ms);
/* Without a heartbeat for a lease, another instance may hold everything by now (rule R6): nothing is delivered. */
bool scheduler_has_lease(const struct dispatch *dispatch, int64_t now_ms);
/* The connection with the fewest open deliveries among those that fit, or NULL. */
struct session *scheduler_least_busy(
	const struct handler *handler, bool (*fits)(const struct session *));
/* How many more this handler may have in flight: a tenth is left to the others. */
size_t scheduler_allowance(const struct dispatch *dispatch, const struct handler *handler);

/* suspects.c */
/* Reserves connections for the handler's suspects as far as its allowance goes. */
void suspects_reserve(struct dispatch *dispatch, struct handler *handler);
/* The connection may be empty now: then the suspect that waits for that can have its crash count
 * raised, or is delivered. */
void suspects_serve(struct session *session);
/* There is a lease: those that could not be served without one are. */
void suspects_resume(struct dispatch *dispatch);
/* A suspect's crash count is raised (or its claim was lost, then the entry is gone already). */
void suspects_raised(struct dispatch *dispatch, struct entry *entry);
/* The connection is gone, or the suspect cannot be delivered there any more: it is ready again. */
void suspects_unreserve(struct dispatch *dispatch, struct session *session);
/* An earlier one of its lane came in: it is queued behind that, once its crash count is raised if that is
 * under way. */
void suspects_recall(struct entry *entry);
/* Draining, stopping: suspects that wait for this connection to be empty are not delivered there. */
void suspects_release_of(struct dispatch *dispatch, struct session *session);
void suspects_release(struct dispatch *dispatch, size_t partition);

/* session.c */
void session_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int length, void *arg);
/* Writes one line made in dispatch->line. */
void session_send(struct session *session, const struct buf *line);
/* The same for what answers a line of the client. One that asks on and reads nothing is closed. */
void session_reply(struct session *session, const struct buf *line);
size_t session_unsent(const struct session *session);
void session_cancel(struct session *session, const struct entry *entry, const char *reason);
void session_check_drained(struct session *session);
void session_close(struct session *session);
/* What is written still goes out, then the connection ends. */
void session_close_soon(struct session *session);
void session_reply_error(struct session *session, struct bytes id, int code, const char *text);
/* Ends what never said hello, or was to be closed and is written. May free the session. */
void session_tick(struct session *session, int64_t now_ms);

/* requests.c */
/* Does what one line says, without its LF. May begin the end of the session, does not free it. */
void requests_handle(struct session *session, struct bytes text);
/* The line is too long: says so and ends the connection. */
void requests_refuse(struct session *session, const char *why);

/* delivery.c */
/* Opens these entries on the session and writes one deliver or deliver_batch line. */
void delivery_send(struct session *session, struct entry **entries, size_t count);
/* The delivery's id on the wire: "d9001.2". */
#define ENTRY_ID_BYTES 48
void entry_id(const struct entry *entry, char out[ENTRY_ID_BYTES]);
/* A new deadline for an open delivery, as far as its bound allows. */
void delivery_extend(struct entry *entry, int64_t deadline_ms);
/* The partition is another's now: what is delivered of it may finish, within one more timeout of its
 * handler, however often that extends it (rule R12). */
void delivery_bound(struct dispatch *dispatch, size_t partition);

/* settler.c */
void settler_init(struct settler *settler);
void settler_add(struct dispatch *dispatch, struct entry *entry);
void settler_add_raise(struct dispatch *dispatch, struct entry *entry);
/* Gives jobs to idle workers; one is left to the claimer when that got none the last time. */
void settler_run(struct dispatch *dispatch, int64_t now_ms);
void settler_finished(struct dispatch *dispatch, struct job *job);
bool settler_is_empty(const struct settler *settler);

/* Gives one of these as a job of its own. */
bool settler_give_alone(struct dispatch *dispatch, struct entry *entry);

/* claimer.c */
void claimer_init(struct claimer *claimer);
/* True when rows of the partition may be claimed now: where the partition is the order, only when the last
 * run is worked off. */
bool claimer_may_claim(const struct dispatch *dispatch, size_t index);
/* A claim was lost and its rows are not back in the table yet. */
bool claimer_in_doubt(const struct claimer *claimer);
void claimer_run(struct dispatch *dispatch, int64_t now_ms);
/* A row will be due in delay_ms. */
void claimer_expect(struct dispatch *dispatch, int64_t delay_ms);
/* Due rows are looked for now, from the first one. */
void claimer_scan_soon(struct dispatch *dispatch);
/* Subscriptions changed or partitions came: look for parked rows soon. */
void claimer_sweep_soon(struct dispatch *dispatch);

/* claim_results.c */
/* One of the claimer's jobs came back, done or failed. Takes the messages out of it. */
void claim_results_take(struct dispatch *dispatch, struct job *job);

/* arrivals.c */
/* Batches from ingest, a bounded number; what must wait for claims is kept. */
void arrivals_take(struct dispatch *dispatch);
/* Finished jobs, all of them; a claim that may have stepped over a batch on its way waits for that. */
void arrivals_take_jobs(struct dispatch *dispatch);
/* A claim was lost: what waits for it may be behind rows that nobody holds. */
void arrivals_mark_order_unknown(struct dispatch *dispatch);
/* Frees the batches and the claim that still wait. */
void arrivals_drop(struct dispatch *dispatch);

/* stopping.c */
/* Takes the next step of stopping, when there is one; ends the loop after the last. */
void stopping_check(struct dispatch *dispatch, int64_t now_ms);

#endif
