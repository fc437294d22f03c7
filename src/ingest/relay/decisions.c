/*
 * Implements decisions.h.
 */
#include "ingest/relay/decisions.h"

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"

#define TOPIC_AGAIN_MS 5000 /* until the head of a held topic is tried again */
#define SECOND_MS      1000.0

static void decide(struct flight_event *event, struct relay_result result)
{
	event->decided = true;
	event->has_result = true;
	event->result = result;
	event->result.seq = event->seq;
	if (result.outcome == RELAY_DEAD)
		return;
	event->result.retries += event->retries;
}

static void leave(struct flight_event *event)
{
	event->decided = true;
	event->has_result = false;
}

void decisions_publish(struct flight *flight, struct flight_event *event, int64_t now_ms)
{
	decide(event, (struct relay_result){
			      .outcome = RELAY_PUBLISHED,
			      .partition = event->answer.partition,
			      .offset = event->answer.offset,
		      });
	metric_add(flight->published, 1);
	metric_observe(flight->publish_seconds, (double)(now_ms - event->created_ms) / SECOND_MS);
}

/* The topic is held with this event as its head. Another event of the topic finds the hold. */
int decisions_hold_topic(
	struct flight *flight, struct flight_event *event, const char *why, struct err *err)
{
	int64_t held = 0;

	if (holds_set(flight->options.holds, event->topic->hash, event->seq, true) < 0)
		return err_memory(err);
	event->topic->checked_ms = 0;
	decide(event, (struct relay_result){
			      .outcome = RELAY_RETRY,
			      .delay_ms = TOPIC_AGAIN_MS,
			      .code = RELAY_CODE_TOPIC,
			      .error = why,
		      });
	if (fault_log_limit_pass(&flight->topic_limit, clock_now_ms(), &held))
		log_warn("outbox_topic_held", LOG_STR("topic", event->topic->name),
			LOG_INT("seq", event->seq), LOG_STR("error", why),
			LOG_INT("retry_in_ms", TOPIC_AGAIN_MS),
			LOG_STR("next", "events of this topic wait; others are published"),
			LOG_INT("held_back", held));
	return 0;
}

static void log_refused(struct flight *flight, const struct flight_event *event)
{
	const struct relay_result *result = &event->result;
	const char *event_id = rows_text(flight->rows, event->row, RELAY_EVENT_ID);
	const char *topic = event->topic == NULL ? "" : event->topic->name;
	int64_t held = 0;

	if (result->outcome == RELAY_DEAD)
		log_warn("outbox_event_dead", LOG_STR("event_id", event_id),
			LOG_INT("seq", event->seq), LOG_STR("topic", topic),
			LOG_STR("error", result->error), LOG_INT("attempts", result->retries),
			LOG_STR("next", "later events of its key are published; it stays in the "
					"table"));
	else if (fault_log_limit_pass(&flight->refused_limit, clock_now_ms(), &held))
		log_warn("outbox_event_refused", LOG_STR("event_id", event_id),
			LOG_INT("seq", event->seq), LOG_STR("topic", topic),
			LOG_STR("error", result->error), LOG_INT("attempts", result->retries),
			LOG_INT("retry_in_ms", result->delay_ms),
			LOG_STR("next", event->keyed ? "later events of its key wait"
						     : "others are published"),
			LOG_INT("held_back", held));
}

/* The event itself is the cause. Its key waits behind it, until it is published or dead. */
int decisions_refuse(struct flight *flight, struct flight_event *event, const char *code,
	const char *why, struct err *err)
{
	const struct config *config = flight->options.config;
	struct holds *holds = flight->options.holds;
	int32_t attempts = event->retries + 1;

	metric_add(flight->refused, 1);
	if (attempts >= config->outbox.max_attempts) {
		decide(event, (struct relay_result){
				      .outcome = RELAY_DEAD,
				      .retries = attempts,
				      .code = code,
				      .error = why,
			      });
	} else if (event->keyed && holds->count >= HOLDS_MOST) {
		return decisions_hold_topic(
			flight, event, "too many keys wait behind refused events", err);
	} else {
		decide(event,
			(struct relay_result){
				.outcome = RELAY_RETRY,
				.delay_ms = backoff_delay_ms(config->retry.backoff,
					config->retry.backoff_max, attempts - 1, random_u64()),
				.retries = 1,
				.code = code,
				.error = why,
			});
		if (event->keyed && holds_set(holds, event->key_hash, event->seq, false) < 0)
			return err_memory(err);
	}
	log_refused(flight, event);
	return 0;
}

/* --- Holds ------------------------------------------------------------------------------------- */

static const struct relay_result parked = { .outcome = RELAY_PARK };
static const struct relay_result later = { .outcome = RELAY_RETRY, .delay_ms = TOPIC_AGAIN_MS };

/* An event of a page that has just been read. It is the head of a hold if it could not be recorded as deferred. */
static void wait_as_new(struct flight *flight, struct flight_event *event, const struct hold *hold)
{
	(void)flight;
	if (hold->state != HOLD_NONE && hold->head == event->seq)
		event->alone |= hold->topic;
	else if (hold->state != HOLD_NONE)
		decide(event, parked);
}

/* The head of a hold, or an event that an operator has released. A key's head whose topic is held stays the head. The
 * head of a topic is sent alone: a try that fails then leaves the producer of the others as it is. */
static void wait_as_due(struct flight *flight, struct flight_event *event, const struct hold *hold)
{
	bool is_head = hold->head == event->seq;

	if (hold->state == HOLD_NONE)
		return;
	if (is_head && (!hold->topic || flight->stalls.count < STALLS_TRIES))
		event->alone |= hold->topic;
	else if (hold->topic && hold->state == HOLD_WAITS)
		decide(event, later);
	else if (!is_head && (hold->state != HOLD_WAITS || hold->head < event->seq))
		decide(event, parked);
}

/* An event may be sent when all parked ones before it were: not if its hold became free behind the beginning of
 * the pass. */
static void wait_as_parked(
	struct flight *flight, struct flight_event *event, const struct hold *hold)
{
	(void)flight;
	if (hold->state == HOLD_WAITS || hold->state == HOLD_FREE)
		leave(event);
}

/* A topic with events in a stall is held also if an operator discards its head. The group whose events have just become
 * a stall still decides which one is the head. */
static struct hold hold_of_topic(const struct flight *flight, const struct relay_topic *topic)
{
	if (topic->stalled > 0 && topic->group != flight->group)
		return (struct hold){ .hash = topic->hash, .state = HOLD_WAITS, .topic = true };
	return holds_get(flight->options.holds, topic->hash);
}

void decisions_obey_holds(struct flight *flight, struct flight_event *event)
{
	static void (*const wait[])(struct flight *, struct flight_event *, const struct hold *) = {
		[FLIGHT_NEW] = wait_as_new,
		[FLIGHT_DUE] = wait_as_due,
		[FLIGHT_PARKED] = wait_as_parked,
	};
	const struct holds *holds = flight->options.holds;
	struct hold hold;

	if (event->topic == NULL || (holds->count == 0 && flight->stalls.count == 0))
		return;
	hold = hold_of_topic(flight, event->topic);
	wait[flight->kind](flight, event, &hold);
	if (event->decided || !event->keyed)
		return;
	hold = holds_get(holds, event->key_hash);
	wait[flight->kind](flight, event, &hold);
}

/* --- Late answers ------------------------------------------------------------------------------ */

/* The head of a held key must be tried again: nothing releases what waits behind it otherwise. */
static void wait_behind_topic(struct flight *flight, struct flight_event *event)
{
	struct hold key = { .state = HOLD_NONE };

	if (event->keyed)
		key = holds_get(flight->options.holds, event->key_hash);
	if (key.state == HOLD_WAITS && key.head == event->seq)
		decide(event, later);
	else
		decide(event, parked);
}

/* The first event that is not confirmed becomes the head, and later ones wait behind it. If all are confirmed, the
 * hold is free when the last one is recorded. */
int decisions_late_answer(struct flight *flight, struct flight_event *event, struct err *err)
{
	struct relay_topic *topic = event->topic;
	const char *error =
		event->answer.outcome == PRODUCE_OPEN ? DECISIONS_NO_ANSWER : event->answer.error;

	if (topic->group != flight->group) {
		topic->group = flight->group;
		topic->group_full = false;
	}
	if (event->answer.outcome == PRODUCE_CONFIRMED) {
		decisions_publish(flight, event, clock_wall_us() / 1000);
		if (!topic->group_full &&
			holds_set(flight->options.holds, topic->hash, event->seq, true) < 0)
			return err_memory(err);
		return 0;
	}
	if (topic->group_full) {
		wait_behind_topic(flight, event);
		return 0;
	}
	topic->group_full = true;
	return decisions_hold_topic(flight, event, error, err);
}
