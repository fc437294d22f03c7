/*
 * What the threads say about themselves for /livez and /readyz. Every field is written by one
 * thread and read by the HTTP thread; times are clock_now_ms().
 */
#ifndef MODEL_HEALTH_H
#define MODEL_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct health {
	_Atomic int64_t ingest_tick_ms;   /* the ingest loop went round */
	_Atomic int64_t dispatch_tick_ms; /* the dispatch loop went round */
	_Atomic int64_t heartbeat_ms; /* when the last one confirmed in time was sent; 0 = never */
	_Atomic int64_t stored_ms;    /* last batch committed, or nothing was there to store */
	atomic_bool database_ok;
	atomic_bool away;         /* to be out of the group, for want of a handler (rule R16) */
	atomic_bool group_joined; /* the Kafka group gave us an assignment, also an empty one */
	atomic_bool broker_ok;    /* at least one broker is up */
	atomic_bool stopping;     /* asked to stop: nothing new is delivered */
};

#endif
