/*
 * Implements flight.h.
 */
#include "ingest/relay/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "ingest/relay/decisions.h"
#include "ingest/relay/relay_record.h"
#include "report/meters.h"

#define ANSWER_MS      30000 /* without an answer for so long, a partition has no leader */
#define ANSWER_LAST_MS 2000  /* after a stop was requested */
#define STALL_MS       1000  /* without any answer for so long, others wait no longer */
#define STALL_HEAD_MS  100   /* the same if only heads of held topics are tried */
#define SLICE_MS       100
#define COMMIT_MS      20000 /* with a renewal before it, shorter than an election lasts */
#define LOG_EVERY_MS   10000
#define LOG_BURST      10
#define FIRST_ROOM     256

int flight_init(struct flight *flight, const struct flight_options *options, struct err *err)
{
	int r;

	*flight = (struct flight){
		.options = *options,
		.refused_limit = LIMIT_INIT(LOG_BURST, LOG_EVERY_MS),
		.topic_limit = LIMIT_INIT(LOG_BURST, LOG_EVERY_MS),
		.published = metrics_get(options->metrics, METER_OUTBOX_PUBLISHED, NULL, NULL),
		.refused = metrics_get(options->metrics, METER_OUTBOX_REFUSED, NULL, NULL),
		.publish_seconds =
			metrics_get(options->metrics, METER_OUTBOX_PUBLISH_SECONDS, NULL, NULL),
	};
	r = digester_new(&flight->digester, err);
	return r == 0 ? json_stream_new(&flight->json, err) : r;
}

void flight_drop_producers(struct flight *flight)
{
	producer_free(flight->producer);
	producer_free(flight->single);
	flight->producer = NULL;
	flight->single = NULL;
	for (size_t i = 0; i < flight->topics.count; i++)
		flight->topics.items[i]->checked_ms = 0;
}

void flight_fini(struct flight *flight)
{
	flight_drop_producers(flight);
	stalls_fini(&flight->stalls);
	relay_topics_fini(&flight->topics);
	digester_free(flight->digester);
	json_stream_free(flight->json);
	buf_fini(&flight->name);
	buf_fini(&flight->scratch);
	free(flight->events);
	free(flight->results);
}

/* --- Places ------------------------------------------------------------------------------------ */

static uint64_t hash_of(struct flight *flight, struct bytes bytes)
{
	unsigned char digest[32];

	(void)digester_sha256(flight->digester, bytes, digest);
	return digest_prefix(digest);
}

/* The topic's name ends with a NUL, which no name contains. */
static uint64_t hash_of_key(struct flight *flight, const char *topic, struct bytes key)
{
	buf_reset(&flight->scratch);
	buf_add(&flight->scratch, topic, strlen(topic) + 1);
	buf_add(&flight->scratch, key.data, key.length);
	return hash_of(flight, (struct bytes){ flight->scratch.data, flight->scratch.length });
}

bool flight_find_place(struct flight *flight, struct flight_place *place)
{
	if (!relay_topic_name(&flight->options.config->outbox, place->topic, place->aggregate,
		    place->type, &flight->name))
		return false;
	place->topic_hash =
		hash_of(flight, (struct bytes){ flight->name.data, flight->name.length });
	place->key_hash = hash_of_key(flight, buf_str(&flight->name), place->key);
	return true;
}

/* --- The events of a page ---------------------------------------------------------------------- */

static struct relay_record_source source_of(
	const struct flight *flight, const struct flight_event *event)
{
	return (struct relay_record_source){
		.config = flight->options.config,
		.rows = flight->rows,
		.row = event->row,
		.topic = event->topic == NULL ? NULL : event->topic->name,
		.json = flight->json,
	};
}

/* Neighbours often have the same topic. */
static struct relay_topic *find_topic(
	struct flight *flight, int row, struct relay_topic *last, struct err *err, int *result)
{
	const struct rows *rows = flight->rows;
	struct relay_topic *topic;

	*result = 0;
	if (!relay_topic_name(&flight->options.config->outbox, rows_text(rows, row, RELAY_TOPIC),
		    rows_text(rows, row, RELAY_AGGREGATE), rows_text(rows, row, RELAY_TYPE),
		    &flight->name))
		return NULL;
	if (last != NULL && strcmp(last->name, buf_str(&flight->name)) == 0)
		return last;
	topic = relay_topics_get(&flight->topics, buf_str(&flight->name),
		hash_of(flight, (struct bytes){ flight->name.data, flight->name.length }));
	if (topic == NULL)
		*result = err_memory(err);
	return topic;
}

static int make_room(struct flight *flight, size_t count, struct err *err)
{
	size_t room = count < FIRST_ROOM ? FIRST_ROOM : count;
	struct flight_event *events;
	struct relay_result *results;

	if (count <= flight->room)
		return 0;
	events = realloc(flight->events, room * sizeof(*events));
	if (events != NULL)
		flight->events = events;
	results = realloc(flight->results, room * sizeof(*results));
	if (results != NULL)
		flight->results = results;
	if (events == NULL || results == NULL)
		return err_memory(err);
	flight->room = room;
	return 0;
}

static int compare_seqs(const void *a, const void *b)
{
	const struct flight_event *first = a;
	const struct flight_event *second = b;

	return (first->seq > second->seq) - (first->seq < second->seq);
}

static int take_events(struct flight *flight, struct err *err)
{
	const struct rows *rows = flight->rows;
	struct relay_topic *topic = NULL;
	int r = make_room(flight, (size_t)rows_count(rows), err);

	flight->result_count = 0;
	for (int row = 0; r == 0 && row < rows_count(rows); row++) {
		struct flight_event *event = &flight->events[flight->count];

		/* an unrecorded event is sent only when a pass asks for it */
		if (!rows_bool(rows, row, RELAY_FRESH) ||
			(flight->kind != FLIGHT_PARKED && unrecorded_has(flight->options.unrecorded,
								  rows_int(rows, row, RELAY_SEQ))))
			continue;
		topic = find_topic(flight, row, topic, err, &r);
		*event = (struct flight_event){
			.row = row,
			.seq = rows_int(rows, row, RELAY_SEQ),
			.topic = topic,
			.created_ms = rows_timestamp_ms(rows, row, RELAY_CREATED),
			.retries = (int32_t)rows_int(rows, row, RELAY_RETRIES),
			.keyed = topic != NULL && !rows_is_null(rows, row, RELAY_KEY),
		};
		/* a refused one would end the producer of the others again */
		event->alone = event->retries > 0;
		if (event->keyed)
			event->key_hash =
				hash_of_key(flight, topic->name, rows_bytes(rows, row, RELAY_KEY));
		flight->count++;
	}
	if (r == 0 && flight->count > 0)
		qsort(flight->events, flight->count, sizeof(flight->events[0]), compare_seqs);
	return r;
}

/* --- A group ----------------------------------------------------------------------------------- */

static int make_producer(struct flight *flight, struct err *err)
{
	const struct config *config = flight->options.config;
	int r = 0;

	if (flight->producer == NULL)
		r = producer_new(&flight->producer, config,
			config->outbox.producer == OUTBOX_TRANSACTIONAL
				? PRODUCER_OUTBOX_TRANSACTIONS
				: PRODUCER_OUTBOX,
			flight->options.metrics, err);
	return r;
}

/* False: the group ends before this event. */
static bool fits(struct flight *flight, struct flight_event *event)
{
	struct relay_topic *topic = event->topic;
	const struct relay_record_source source = source_of(flight, event);
	int64_t size = (int64_t)relay_record_size(&source);

	if (topic->group != flight->group) {
		topic->group = flight->group;
		topic->group_count = 0;
		topic->group_bytes = 0;
		topic->group_full = false;
	}
	event->alone |= size > topic->rules.max_bytes;
	if (topic->group_full || (event->alone && topic->group_count > 0))
		return false;
	if (topic->rules.max_bytes < PRODUCER_BATCH_BYTES && topic->group_count > 0 &&
		topic->group_bytes + size > topic->rules.max_bytes)
		return false;
	topic->group_full = event->alone;
	topic->group_count++;
	topic->group_bytes += size;
	return true;
}

static int make_single(struct flight *flight, struct err *err)
{
	return flight->single != NULL
		       ? 0
		       : producer_new(&flight->single, flight->options.config,
				 PRODUCER_OUTBOX_SINGLE, flight->options.metrics, err);
}

/* Alone, because then nothing else has to be sent again. */
static struct producer *producer_for(
	struct flight *flight, const struct flight_event *event, struct err *err)
{
	if (!event->alone)
		return flight->producer;
	return make_single(flight, err) == 0 ? flight->single : NULL;
}

static int send_event(struct flight *flight, struct flight_event *event, struct err *err)
{
	const struct relay_record_source source = source_of(flight, event);
	struct producer *producer = producer_for(flight, event, err);
	struct outgoing record;
	int r;

	if (producer == NULL)
		return err->fault;
	r = relay_record_write(&source, &flight->scratch, &record, err);
	if (r != 0)
		return r;
	event->sent = true;
	producer_send(producer, &record, &event->answer);
	return 0;
}

/* Adds the event to the group, or decides what becomes of it without sending it. FLIGHT_FULL: the group ends here. */
enum { FLIGHT_FULL = 1 };
static int add_event(struct flight *flight, struct flight_event *event, struct err *err)
{
	int r;

	decisions_obey_holds(flight, event);
	if (event->decided)
		return 0;
	if (event->topic == NULL)
		return decisions_refuse(flight, event, "TOPIC_NAME",
			"outbox.topic and the aggregate or type of the event make no name of a "
			"topic",
			err);
	r = relay_topic_check(event->topic, flight->producer, err);
	if (r == RELAY_TOPIC_HELD)
		return decisions_hold_topic(flight, event, event->topic->why, err);
	if (r != 0)
		return r;
	if (event->topic->rules.compacted && !event->keyed) {
		relay_topic_check_soon(event->topic);
		return decisions_refuse(flight, event, "REFUSED",
			"the topic is compacted (cleanup.policy), so it takes no event without a "
			"key: emit it with a key, or change the policy",
			err);
	}
	return fits(flight, event) ? send_event(flight, event, err) : FLIGHT_FULL;
}

static bool all_answered(struct flight *flight, int timeout_ms)
{
	return producer_wait(flight->producer, timeout_ms) &&
	       (flight->single == NULL || producer_wait(flight->single, timeout_ms));
}

static int renew(struct flight *flight, struct err *err)
{
	return flight->options.renew(flight->options.arg, err);
}

static bool has_transactions(const struct flight *flight)
{
	return flight->options.config->outbox.producer == OUTBOX_TRANSACTIONAL;
}

static bool is_open(const struct flight_event *event)
{
	return event->sent && event->answer.outcome == PRODUCE_OPEN;
}

static size_t count_open(const struct flight *flight)
{
	size_t count = 0;

	for (size_t i = 0; i < flight->count; i++)
		count += is_open(&flight->events[i]);
	return count;
}

/* The first event without an answer, or NULL. */
static const struct flight_event *find_open(const struct flight *flight)
{
	for (size_t i = 0; i < flight->count; i++) {
		if (is_open(&flight->events[i]))
			return &flight->events[i];
	}
	return NULL;
}

/* A transaction ends as a whole. And an event without an answer must not wait in a stall when an earlier one is sent
 * again. */
static bool can_stall(const struct flight *flight)
{
	if (!stalls_have_room(&flight->stalls))
		return false;
	for (size_t i = 0; i < flight->count; i++) {
		const struct flight_event *event = &flight->events[i];

		if (event->sent && (event->answer.outcome == PRODUCE_REFUSED ||
					   event->answer.outcome == PRODUCE_DROPPED))
			return false;
		if (is_open(event) && !event->alone && has_transactions(flight))
			return false;
	}
	return true;
}

static int64_t patience_ms(const struct flight *flight)
{
	for (size_t i = 0; i < flight->count; i++) {
		const struct flight_event *event = &flight->events[i];

		if (event->sent &&
			holds_get(flight->options.holds, event->topic->hash).state != HOLD_WAITS)
			return STALL_MS;
	}
	return STALL_HEAD_MS;
}

static int ask_brokers(struct flight *flight, const struct flight_event *open, struct err *err)
{
	int r = producer_look(flight->producer, open->topic->name, err);

	if (FAULT_ERROR("error_no_broker_answers"))
		r = err_set(err, FAULT_KAFKA, "no broker answered: fault point");
	return r == FAULT_KAFKA ? r : 0;
}

static bool some_broker_answers(struct flight *flight)
{
	const struct flight_event *open = find_open(flight);
	struct err err = ERR_INIT;

	return open != NULL && ask_brokers(flight, open, &err) == 0;
}

/* FLIGHT_QUIET: some events have no answer, and a broker has just answered a metadata request. */
enum { FLIGHT_QUIET = 2 };
static int await_answers(struct flight *flight, struct err *err)
{
	int64_t until_ms = clock_now_ms() + ANSWER_MS;
	int64_t patience = patience_ms(flight);
	int64_t quiet_ms = clock_now_ms();
	size_t open = count_open(flight);
	int r = 0;

	while (r == 0 && !all_answered(flight, SLICE_MS) && clock_now_ms() < until_ms) {
		size_t before = open;

		if (atomic_load(flight->options.stop) && clock_now_ms() + ANSWER_LAST_MS < until_ms)
			until_ms = clock_now_ms() + ANSWER_LAST_MS;
		r = renew(flight, err);
		stalls_end_over(&flight->stalls);
		open = count_open(flight);
		if (open < before)
			quiet_ms = clock_now_ms();
		if (r != 0 || clock_now_ms() - quiet_ms < patience || !can_stall(flight))
			continue;
		if (some_broker_answers(flight))
			return FLIGHT_QUIET;
		quiet_ms = clock_now_ms();
	}
	return r;
}

/* The answers arrive in the events of the stall; the flight goes on with a copy. */
static int begin_stall(struct flight *flight, struct err *err)
{
	int64_t now_ms = clock_now_ms();
	struct stall stall = {
		.count = flight->count,
		.since_ms = now_ms,
		.until_ms = now_ms + ANSWER_MS,
	};
	struct flight_event *copy = malloc(flight->room * sizeof(*copy));

	if (copy == NULL)
		return err_memory(err);
	memcpy(copy, flight->events, flight->count * sizeof(*copy));
	stall.events = flight->events;
	flight->events = copy;
	for (size_t i = 0; i < flight->count; i++) {
		if (is_open(&copy[i]) && copy[i].alone)
			stall.single = flight->single;
		else if (is_open(&copy[i]))
			stall.producer = flight->producer;
	}
	if (stall.single != NULL)
		flight->single = NULL;
	if (stall.producer != NULL)
		flight->producer = NULL;
	stalls_add(&flight->stalls, &stall);
	return 0;
}

/* A transaction with a record that is not confirmed is not committed. Its confirmed records are sent again, because no
 * reader of committed records sees them. The next producer of this name aborts it. FLIGHT_ABORTED: the producer must
 * be freed. */
enum { FLIGHT_ABORTED = 1 };
static int end_transaction(struct flight *flight, struct err *err)
{
	bool confirmed = true;
	int r = FLIGHT_ABORTED;

	if (!has_transactions(flight))
		return 0;
	for (size_t i = 0; i < flight->count; i++) {
		const struct flight_event *event = &flight->events[i];

		confirmed &=
			!event->sent || event->alone || event->answer.outcome == PRODUCE_CONFIRMED;
	}
	if (confirmed)
		r = producer_commit(flight->producer, COMMIT_MS, err);
	if (confirmed && r == 0)
		return 0;
	for (size_t i = 0; i < flight->count; i++) {
		struct flight_event *event = &flight->events[i];

		if (event->sent && !event->alone && event->answer.outcome == PRODUCE_CONFIRMED)
			event->answer.outcome = PRODUCE_DROPPED;
	}
	return r;
}

/* Decides by the answer of the brokers. Without a decision the event is sent again. */
static int classify(struct flight *flight, struct flight_event *event, struct err *err)
{
	const struct produce_result *answer = &event->answer;

	switch (answer->outcome) {
	case PRODUCE_CONFIRMED:
		decisions_publish(flight, event, clock_wall_us() / 1000);
		return 0;
	case PRODUCE_REFUSED:
		event->topic->checked_ms = 0;
		if (event->alone || event->topic->group_count == 1)
			return decisions_refuse(flight, event, "REFUSED", answer->error, err);
		event->alone = true;
		return 0;
	case PRODUCE_FAILED:
		return decisions_hold_topic(flight, event,
			answer->is_time ? relay_topic_explain_time(event->topic) : answer->error,
			err);
	case PRODUCE_OPEN:
		return decisions_hold_topic(flight, event, DECISIONS_NO_ANSWER, err);
	case PRODUCE_DROPPED:
		return 0;
	}
	return 0;
}

static size_t count_progress(const struct flight *flight)
{
	size_t progress = 0;

	for (size_t i = 0; i < flight->count; i++)
		progress += (size_t)flight->events[i].decided + flight->events[i].alone;
	return progress;
}

/* An earlier event of the topic is sent again. */
static bool is_behind(const struct flight *flight, const struct flight_event *event)
{
	for (const struct flight_event *at = flight->events; at < event; at++) {
		if (!at->decided && at->topic == event->topic)
			return true;
	}
	return false;
}

/* The first event of a held topic becomes its head, and decisions_obey_holds() decides about the others. An event without an
 * answer cannot become the head while an earlier one is sent again: it is sent again behind that one. */
static int classify_all(struct flight *flight, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < flight->count; i++) {
		struct flight_event *event = &flight->events[i];

		if (!event->sent)
			continue;
		event->sent = false;
		if (event->answer.outcome == PRODUCE_FAILED ||
			event->answer.outcome == PRODUCE_OPEN) {
			decisions_obey_holds(flight, event);
			if (is_behind(flight, event))
				continue;
		}
		if (!event->decided)
			r = classify(flight, event, err);
	}
	return r;
}

static int fill_group(struct flight *flight, struct err *err)
{
	int r = make_producer(flight, err);

	flight->group++;
	if (r == 0 && has_transactions(flight))
		r = producer_begin(flight->producer, err);
	for (size_t i = 0; r == 0 && i < flight->count; i++) {
		if (flight->events[i].decided)
			continue;
		r = renew(flight, err); /* to ask about many topics takes long */
		if (r != 0)
			return r;
		r = add_event(flight, &flight->events[i], err);
	}
	return r == FLIGHT_FULL ? 0 : r;
}

/* An event without an answer says nothing about its topic when no broker answers at all, or when the time was short.
 * `quiet` is true when a broker has just answered: another request could go to a broker that does not. */
static int read_answers(struct flight *flight, bool quiet, struct err *err)
{
	const struct flight_event *open;
	int r = end_transaction(flight, err);
	bool aborted = r == FLIGHT_ABORTED;

	r = aborted ? 0 : r;
	open = find_open(flight);
	if (r == 0 && open != NULL && atomic_load(flight->options.stop))
		r = err_set(err, FAULT_KAFKA, "stopped before the brokers had answered");
	if (r == 0 && open != NULL && !quiet)
		r = ask_brokers(flight, open, err);
	for (size_t i = 0; r < 0 && i < flight->count; i++) {
		if (flight->events[i].answer.outcome == PRODUCE_OPEN)
			flight->events[i].answer.outcome = PRODUCE_DROPPED;
	}
	if (r == 0 && !aborted && open != NULL && can_stall(flight))
		return begin_stall(flight, err);
	/* from here on no answer may arrive, because what is without one may be sent again */
	if (open != NULL || r < 0 || aborted || producer_has_ended(flight->producer))
		flight_drop_producers(flight);
	return r;
}

static int send_group(struct flight *flight, struct err *err)
{
	size_t before = count_progress(flight);
	struct err later = ERR_INIT;
	char words[256];
	bool quiet;
	int r = fill_group(flight, err);

	if (r == 0) {
		FAULT_POINT("outbox_sent");
		flight->options.sent(flight->options.arg);
		r = renew(flight, err);
	}
	if (r == 0)
		r = await_answers(flight, err);
	quiet = r == FLIGHT_QUIET;
	if (r != 0 && !quiet) {
		for (size_t i = 0; i < flight->count; i++)
			flight->events[i].sent = false;
		flight_drop_producers(flight);
		return r;
	}
	FAULT_POINT("outbox_answered");
	(void)snprintf(words, sizeof(words), "%s", producer_last_words(flight->producer));
	r = read_answers(flight, quiet, err);
	if (classify_all(flight, r == 0 ? err : &later) < 0 && r == 0)
		r = err->fault;
	if (r == 0 && count_progress(flight) == before)
		r = err_set(err, FAULT_KAFKA, "the producer has ended: %s", words);
	return r;
}

/* --- A flight ---------------------------------------------------------------------------------- */

bool flight_is_complete(const struct flight *flight)
{
	for (size_t i = 0; i < flight->count; i++) {
		if (!flight->events[i].decided)
			return false;
	}
	return true;
}

bool flight_was_stalled(const struct flight *flight)
{
	for (size_t i = 0; i < flight->count; i++) {
		const struct relay_topic *topic = flight->events[i].topic;

		if (topic == NULL || topic->stalled == 0)
			return false;
	}
	return flight->count > 0;
}

static bool has_result(const struct flight_event *event)
{
	return event->decided && event->has_result;
}

static void collect_results(struct flight *flight)
{
	for (size_t i = 0; i < flight->count; i++) {
		if (has_result(&flight->events[i]))
			flight->results[flight->result_count++] = flight->events[i].result;
	}
}

int flight_run(
	struct flight *flight, const struct rows *rows, enum flight_kind kind, struct err *err)
{
	int r;

	flight->rows = rows;
	flight->kind = kind;
	flight->count = 0;
	/* librdkafka remembers each topic as long as the producer exists */
	if (flight->stalls.count == 0 && relay_topics_tidy(&flight->topics))
		flight_drop_producers(flight);
	r = take_events(flight, err);
	while (r == 0 && !flight_is_complete(flight)) {
		if (atomic_load(flight->options.stop))
			r = err_set(err, FAULT_KAFKA, "stopped before all events were sent");
		else
			r = send_group(flight, err);
	}
	collect_results(flight);
	return r;
}

/* --- Stalls ------------------------------------------------------------------------------------ */

static int take_answered(void *arg, const struct flight_event *event)
{
	struct flight *flight = arg;
	struct err err = ERR_INIT;

	if (flight->count == flight->room && make_room(flight, 2 * flight->count + 1, &err) < 0)
		return FAULT_MEMORY;
	flight->events[flight->count] = *event;
	flight->events[flight->count].decided = false;
	flight->count++;
	return 0;
}

int flight_take_answers(struct flight *flight, struct err *err)
{
	int r;

	flight->kind = FLIGHT_DUE; /* the table has the events of stalls as deferred */
	flight->count = 0;
	flight->result_count = 0;
	flight->group++;
	r = stalls_poll(&flight->stalls, take_answered, flight);
	if (r != 0)
		return err_memory(err);
	for (size_t i = 0; r == 0 && i < flight->count; i++)
		r = decisions_late_answer(flight, &flight->events[i], err);
	collect_results(flight);
	return r;
}

/* --- Recorded ---------------------------------------------------------------------------------- */

/* Keeps the event if its row was locked. It was fresh if this flight has found it as a new one, or if it was fresh already when
 * an earlier flight could not record it. */
static int keep_unrecorded(struct flight *flight, const struct flight_event *event,
	const struct relay_result *result, struct err *err)
{
	struct unrecorded *unrecorded = flight->options.unrecorded;
	size_t at = unrecorded_find(unrecorded, event->seq);
	bool before = unrecorded_has(unrecorded, event->seq);
	const struct unrecorded_event kept = {
		.result = *result,
		.topic_hash = event->topic == NULL ? 0 : event->topic->hash,
		.key_hash = event->key_hash,
		.keyed = event->keyed,
		.fresh = before ? unrecorded->items[at].fresh : flight->kind == FLIGHT_NEW,
		.again_ms = clock_now_ms() + result->delay_ms,
	};

	if (result->left_out)
		return unrecorded_put(unrecorded, &kept, err);
	if (before)
		unrecorded_drop(unrecorded, event->seq);
	return 0;
}

/* An event that is not recorded as dead keeps its hold: the next relay would try it again, behind later events of its key. The
 * search for heads that are gone finds it when it is recorded. */
static void release_holds(struct flight *flight, const struct flight_event *event, bool left_out)
{
	struct holds *holds = flight->options.holds;

	if (event->topic == NULL || (event->result.outcome != RELAY_PUBLISHED &&
					    (event->result.outcome != RELAY_DEAD || left_out)))
		return;
	holds_release(holds, event->topic->hash, event->seq);
	if (event->keyed)
		holds_release(holds, event->key_hash, event->seq);
}

int flight_recorded(struct flight *flight, struct err *err)
{
	const struct relay_result *result = flight->results;
	int r = 0;

	for (size_t i = 0; i < flight->count; i++) {
		const struct flight_event *event = &flight->events[i];

		if (!has_result(event))
			continue;
		release_holds(flight, event, result->left_out);
		if (r == 0)
			r = keep_unrecorded(flight, event, result, err);
		result++;
	}
	return r;
}
