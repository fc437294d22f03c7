/*
 * The state of the threads, for /livez, /readyz and /status. One thread writes each field, and the HTTP thread reads it
 * without a lock, so that it can report a thread that hangs. Times are clock_now_ms().
 */
#ifndef REPORT_HEALTH_H
#define REPORT_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct health {
	_Atomic int64_t ingest_tick_ms;   /* the last round of the ingest loop */
	_Atomic int64_t dispatch_tick_ms; /* the last round of the dispatch loop */
	_Atomic int64_t
		heartbeat_ms; /* when the last heartbeat that was confirmed in time was sent; 0 = never */
	_Atomic int64_t
		stored_ms; /* the last COMMIT of a batch, or the last time nothing was to be stored */
	_Atomic int64_t
		join_after_ms; /* the client of the previous instance run was refused; 0 = it was not */
	_Atomic int64_t
		retained_elsewhere_ms; /* until then another instance runs retention, as a look has found */
	atomic_bool database_ok;    /* the last heartbeat was answered */
	atomic_bool storing_fails;  /* PostgreSQL accepts no batch of ingest at present */
	atomic_bool sends_only;     /* there is no ingest: config_sends_only() */
	atomic_bool away;           /* outside the group, because it lacks a handler (rule R16) */
	atomic_bool group_joined;   /* the Kafka group has sent an assignment; it may be empty */
	atomic_bool broker_ok;      /* at least one broker can be reached */
	atomic_bool stopping;       /* a stop was requested: nothing new is delivered */
	_Atomic int64_t for_nobody; /* messages that wait for consumers that are not known */
	_Atomic int64_t unlisted;   /* known consumers that no running sidecar lists */
	_Atomic int64_t unrouted;   /* messages that no connected handler has subscribed to */
	_Atomic int64_t lapsed;     /* connected handlers of consumers that are not known */
	_Atomic int64_t stalled;    /* partitions that stand still although the log has records */
	_Atomic int64_t paused;     /* topics, consumers and handlers that are paused */
};

#endif
