/*
 * Implements stalls.h.
 */
#include "ingest/relay/stalls.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "ingest/relay/flight.h"

static bool is_open(const struct flight_event *event)
{
	return event->sent && event->answer.outcome == PRODUCE_OPEN;
}

static void drop_producers(struct stall *stall)
{
	producer_free(stall->producer);
	producer_free(stall->single);
	stall->producer = NULL;
	stall->single = NULL;
}

static void stall_fini(struct stall *stall)
{
	drop_producers(stall);
	free(stall->events);
}

void stalls_fini(struct stalls *stalls)
{
	for (size_t i = 0; i < stalls->count; i++) {
		struct stall *stall = &stalls->items[i];

		for (size_t at = 0; at < stall->count; at++) {
			if (stall->events[at].sent)
				stall->events[at].topic->stalled = 0;
		}
		stall_fini(stall);
	}
	stalls->count = 0;
}

/* A topic is in one stall at most, because nothing else of it is sent meanwhile. */
static void count_open(struct stall *stall, bool over)
{
	for (size_t i = 0; i < stall->count; i++) {
		if (stall->events[i].sent)
			stall->events[i].topic->stalled = 0;
	}
	for (size_t i = 0; i < stall->count && !over; i++) {
		if (is_open(&stall->events[i]))
			stall->events[i].topic->stalled++;
	}
}

int64_t stalls_age_ms(const struct stalls *stalls)
{
	return stalls->count == 0 ? INT64_MAX : clock_now_ms() - stalls->items[0].since_ms;
}

bool stalls_have_room(const struct stalls *stalls)
{
	size_t live = 0;

	for (size_t i = 0; i < stalls->count; i++)
		live += stalls->items[i].producer != NULL || stalls->items[i].single != NULL;
	return live < STALLS_MOST && stalls->count < STALLS_ROOM;
}

void stalls_add(struct stalls *stalls, const struct stall *stall)
{
	struct stall *added = &stalls->items[stalls->count++];

	*added = *stall;
	for (size_t i = 0; i < stall->count; i++)
		stall->events[i].sent = is_open(&stall->events[i]);
	count_open(added, false);
}

static bool has_answers(struct producer *producer)
{
	return producer == NULL || producer_wait(producer, 0);
}

static bool has_ended(const struct producer *producer)
{
	return producer != NULL && producer_has_ended(producer);
}

/* True when no further answer is awaited. */
static bool is_over(struct stall *stall)
{
	bool first = has_answers(stall->producer);
	bool second = has_answers(stall->single);

	return (first && second) || has_ended(stall->producer) || has_ended(stall->single) ||
	       clock_now_ms() >= stall->until_ms;
}

void stalls_end_over(struct stalls *stalls)
{
	for (size_t i = 0; i < stalls->count; i++) {
		if (is_over(&stalls->items[i]))
			drop_producers(&stalls->items[i]);
	}
}

static int give_answered(
	struct stall *stall, int (*give)(void *arg, const struct flight_event *event), void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < stall->count; i++) {
		struct flight_event *event = &stall->events[i];

		if (!event->sent || event->topic->stalled > 0)
			continue;
		r = give(arg, event);
		event->sent = false;
	}
	return r;
}

int stalls_poll(
	struct stalls *stalls, int (*give)(void *arg, const struct flight_event *event), void *arg)
{
	size_t left = 0;
	int r = 0;

	for (size_t i = 0; i < stalls->count; i++) {
		struct stall *stall = &stalls->items[i];
		bool over = is_over(stall);

		count_open(stall, over);
		if (r == 0)
			r = give_answered(stall, give, arg);
		if (over && r == 0)
			stall_fini(stall);
		else
			stalls->items[left++] = *stall;
	}
	stalls->count = left;
	return r;
}
