/*
 * What becomes of an event of a flight: published, tried again, parked or dead, and which holds follow from it (rule O5).
 * One thread.
 */
#ifndef INGEST_RELAY_DECISIONS_H
#define INGEST_RELAY_DECISIONS_H

#include "ingest/relay/flight.h"

#define DECISIONS_NO_ANSWER "the leader has not confirmed the records in time"

/* The brokers have confirmed the event. */
void decisions_publish(struct flight *flight, struct flight_event *event, int64_t now_ms);
/* The topic is held with this event as its head. Another event of the topic finds the hold. */
int decisions_hold_topic(
	struct flight *flight, struct flight_event *event, const char *why, struct err *err);
/* The event itself is the cause. Its key waits behind it, until it is published or dead. */
int decisions_refuse(struct flight *flight, struct flight_event *event, const char *code,
	const char *why, struct err *err);
/* Decides about the event if its topic or its key is held. Otherwise it may be sent. */
void decisions_obey_holds(struct flight *flight, struct flight_event *event);
/* An event of a stall. All those of its topic are decided in the order of seq, in one flight_take_answers(). */
int decisions_late_answer(struct flight *flight, struct flight_event *event, struct err *err);

#endif
