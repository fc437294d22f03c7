/*
 * Implements recorder.h.
 */
#include "ingest/relay/recorder.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "store/pg/halving.h"

#define LOG_EVERY_MS   60000
#define FIRST_PAUSE_MS 1000
#define LAST_PAUSE_MS  60000
#define REFUSALS_MOST  32 /* in one call; each costs some statements that fail */

void recorder_init(struct recorder *recorder, const struct recorder_options *options)
{
	*recorder = (struct recorder){
		.options = *options,
		.locked_limit = LIMIT_INIT(1, LOG_EVERY_MS),
		.refused_limit = LIMIT_INIT(1, LOG_EVERY_MS),
	};
}

void recorder_forget(struct recorder *recorder)
{
	unrecorded_fini(&recorder->unrecorded);
	recorder->retried_seq = 0;
	recorder->refused_tries = 0;
	recorder->refused_again_ms = 0;
}

static void log_locked(struct recorder *recorder, const char *next)
{
	int64_t held = 0;
	int64_t lowest = 0;
	int64_t count;

	if (!fault_log_limit_pass(&recorder->locked_limit, clock_now_ms(), &held))
		return;
	count = (int64_t)unrecorded_count(&recorder->unrecorded, false, &lowest);
	log_warn("outbox_rows_locked", LOG_INT("events", count), LOG_INT("seq", lowest),
		LOG_STR("next", next), LOG_INT("held_back", held));
}

static void log_refused(struct recorder *recorder, int64_t count, const char *next)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&recorder->refused_limit, clock_now_ms(), &held))
		log_warn("outbox_rows_refused", LOG_INT("events", count),
			LOG_INT("seq", recorder->refused_seq),
			LOG_STR("error", recorder->refused_why.text),
			LOG_STR("sqlstate", recorder->refused_why.state), LOG_STR("next", next),
			LOG_INT("held_back", held));
}

void recorder_log_left_out(struct recorder *recorder)
{
	const struct unrecorded *unrecorded = &recorder->unrecorded;
	bool full = unrecorded_is_full(unrecorded);
	size_t refused = unrecorded_count(unrecorded, true, NULL);

	if (unrecorded->count > refused)
		log_locked(
			recorder, full ? "no event is sent until that transaction ends"
				       : "other events are published; these are recorded when that "
					 "transaction ends");
	if (refused > 0)
		log_refused(recorder, (int64_t)refused,
			full ? "no event is sent until PostgreSQL accepts changes of these rows"
			     : "other events are published; these are recorded when PostgreSQL "
			       "accepts changes of their rows");
}

/* If the whole table is locked, for example by CREATE INDEX, it waits as long as this instance is elected: after a fault the
 * published events would be sent again. Each try waits for lock_timeout. */
static int settle_all(
	struct recorder *recorder, struct db *db, struct relay_settle *settle, struct err *err)
{
	const struct recorder_options *options = &recorder->options;
	int r = relay_settle(db, settle, err);

	while (r < 0 && db_error_is_lock(err) && !atomic_load(options->stop)) {
		log_locked(recorder, "the whole table is locked; events wait");
		r = options->renew(options->arg, err);
		if (r == 0)
			r = relay_settle(db, settle, err);
	}
	if (r == 0 && settle->transaction != 0)
		holes_bound(options->holes, settle->transaction);
	return r;
}

/* The list that is recorded. */
struct recording {
	struct recorder *recorder;
	struct db *db;
	struct relay_settle *settle;
};

static struct relay_settle part_of(const struct recording *recording, size_t first, size_t count)
{
	struct relay_settle part = *recording->settle;

	part.results += first;
	part.count = count;
	return part;
}

static int settle_part(void *arg, size_t first, size_t count, struct err *err)
{
	const struct recording *recording = arg;
	struct relay_settle part = part_of(recording, first, count);

	return settle_all(recording->recorder, recording->db, &part, err);
}

/* The search may take longer than an election lasts. */
static int leave_out(void *arg, size_t first, size_t count, struct err *err)
{
	const struct recording *recording = arg;
	struct recorder *recorder = recording->recorder;
	const struct relay_settle part = part_of(recording, first, count);

	relay_leave_out(&part);
	if (err == NULL)
		return 0;
	recorder->refused_seq = part.results[0].seq;
	recorder->refused_why = *err;
	*err = (struct err)ERR_INIT;
	return recorder->options.renew(recorder->options.arg, err);
}

/* If this function failed, the relay would publish the events again. So it also leaves out the rows that it does not try
 * any more, and succeeds. */
int recorder_record(
	struct recorder *recorder, struct db *db, struct relay_settle *settle, struct err *err)
{
	struct recording recording = { recorder, db, settle };
	struct halving halving = { db, settle_part, leave_out, &recording, REFUSALS_MOST };
	int r;

	settle->instance = recorder->options.instance;
	settle->published = true;
	r = halving_run(&halving, 0, settle->count, err);
	settle->published = false;
	if (r == 0)
		r = halving_run(&halving, 0, settle->count, err);
	if (halving.refusals_left == 0)
		recorder->refused_again_ms = 0; /* some rows were left out without a try */
	return r;
}

/* An event whose delay is over is tried again: a deferred one is due. A fresh one is asked for, as if it were late. */
static int try_again(struct recorder *recorder, struct unrecorded_event *event, struct err *err)
{
	if (!event->result.left_out || event->result.outcome != RELAY_RETRY ||
		clock_now_ms() < event->again_ms)
		return 0;
	event->result.left_out = false;
	if (event->fresh &&
		holes_add(recorder->options.holes, event->result.seq, event->result.seq) < 0)
		return err_memory(err);
	return 0;
}

/* The next of the events in the order of this retry. It begins behind the row that the last one has refused, because a call
 * refuses a limited number of rows. */
static struct unrecorded_event *nth(struct recorder *recorder, size_t n)
{
	struct unrecorded *unrecorded = &recorder->unrecorded;
	size_t first = unrecorded_find(unrecorded, recorder->retried_seq + 1);

	return &unrecorded->items[(first + n) % unrecorded->count];
}

/* Refused rows are tried with growing pauses. */
static void plan_next(struct recorder *recorder, size_t before, size_t after)
{
	recorder->refused_tries = after == 0 || after < before ? 0 : recorder->refused_tries + 1;
	recorder->refused_again_ms =
		after == 0 ? 0
			   : clock_now_ms() + backoff_bound_ms(FIRST_PAUSE_MS, LAST_PAUSE_MS,
						      recorder->refused_tries);
	recorder->retried_seq = after == 0 ? 0 : recorder->refused_seq;
}

/* `results`: those of the events that are tried, in the order of nth(). */
static int take_results(
	struct recorder *recorder, const struct relay_result *results, bool due, struct err *err)
{
	struct unrecorded *unrecorded = &recorder->unrecorded;
	size_t before = 0;
	size_t after = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < unrecorded->count; i++) {
		struct unrecorded_event *event = nth(recorder, i);

		if (due || !event->result.refused) {
			before += event->result.refused;
			after += results->refused;
			event->result.left_out = results->left_out;
			event->result.refused = results->refused;
			results++;
		}
		r = try_again(recorder, event, err);
	}
	if (due)
		plan_next(recorder, before, after);
	return r;
}

int recorder_retry(struct recorder *recorder, struct db *db, bool keep, struct err *err)
{
	struct unrecorded *unrecorded = &recorder->unrecorded;
	bool due = clock_now_ms() >= recorder->refused_again_ms;
	CLEANUP(freep) struct relay_result *results = NULL;
	struct relay_settle settle = { .keep = keep };
	int r;

	if (unrecorded->count == 0)
		return 0;
	results = malloc(unrecorded->count * sizeof(*results));
	if (results == NULL)
		return err_memory(err);
	for (size_t i = 0; i < unrecorded->count; i++) {
		const struct relay_result *result = &nth(recorder, i)->result;

		if (due || !result->refused)
			results[settle.count++] = *result;
	}
	settle.results = results;
	r = recorder_record(recorder, db, &settle, err);
	if (r == 0)
		r = take_results(recorder, results, due, err);
	if (r == 0)
		unrecorded_drop_recorded(unrecorded);
	return r;
}

int recorder_collect_open(
	const struct recorder *recorder, int64_t tip, struct holes *open, struct err *err)
{
	const struct holes *holes = recorder->options.holes;
	const struct unrecorded *unrecorded = &recorder->unrecorded;
	int r = 0;

	for (size_t i = 0; r == 0 && i < holes->count; i++)
		r = holes_add(open, holes->items[i].first,
			holes->items[i].last < tip ? holes->items[i].last : tip);
	for (size_t i = 0; r == 0 && i < unrecorded->count; i++) {
		int64_t seq = unrecorded->items[i].result.seq;

		if (unrecorded->items[i].fresh && seq <= tip)
			r = holes_add(open, seq, seq);
	}
	return r == 0 ? 0 : err_memory(err);
}
