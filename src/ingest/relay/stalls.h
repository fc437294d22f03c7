/*
 * Events that are sent and have no answer yet, while the brokers answer for other topics: for example, too few replicas
 * are in sync, or the leader does not respond. A stall takes their producer from the flight, so that the relay goes on
 * with another one. It waits for the answers for a limited time. Until then nothing else of its topics is sent.
 *
 * An event of a stall is deferred in the table: after a crash the next relay sends it again. One thread.
 */
#ifndef INGEST_RELAY_STALLS_H
#define INGEST_RELAY_STALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingest/kafka/producer.h"

#define STALLS_MOST  16 /* with producers */
#define STALLS_ROOM  32 /* with those that are over, until their events are given */
#define STALLS_TRIES 8  /* a head is tried again only if there are fewer stalls */

struct flight_event;

struct stall {
	struct producer *producer;   /* NULL = none */
	struct producer *single;     /* NULL = none */
	struct flight_event *events; /* `sent`: waits for its answer, or for those of its topic */
	size_t count;
	int64_t since_ms;
	int64_t until_ms;
};

struct stalls {
	struct stall items[STALLS_ROOM]; /* the oldest first */
	size_t count;
};

/* Drops the producers; no answer arrives any more. */
void stalls_fini(struct stalls *stalls);
/* How long the oldest one exists; INT64_MAX: there is none. */
int64_t stalls_age_ms(const struct stalls *stalls);
bool stalls_have_room(const struct stalls *stalls);
/* Takes everything; of the events, those that are sent and have no answer. There must be room. */
void stalls_add(struct stalls *stalls, const struct stall *stall);
/* Reads the answers, without waiting, and drops the producers of the stalls that are over. This makes room. */
void stalls_end_over(struct stalls *stalls);
/* Reads the answers, without waiting. Gives the events of a topic to `give` in the order of seq, when all of them have an
 * answer, or when the time is over. A result other than 0 ends the call. */
int stalls_poll(
	struct stalls *stalls, int (*give)(void *arg, const struct flight_event *event), void *arg);

#endif
