/*
 * Implements recorder.h.
 */
#include "ingest/relay/recorder.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"

#define LOG_EVERY_MS 60000

void recorder_init(struct recorder *recorder, const struct recorder_options *options)
{
	*recorder = (struct recorder){
		.options = *options,
		.locked_limit = LIMIT_INIT(1, LOG_EVERY_MS),
	};
}

static void log_locked(struct recorder *recorder, const char *next)
{
	const struct unrecorded *unrecorded = &recorder->unrecorded;
	int64_t held = 0;

	if (fault_log_limit_pass(&recorder->locked_limit, clock_now_ms(), &held))
		log_warn("outbox_rows_locked", LOG_INT("events", (int64_t)unrecorded->count),
			LOG_INT("seq",
				unrecorded->count == 0 ? 0 : unrecorded->items[0].result.seq),
			LOG_STR("next", next), LOG_INT("held_back", held));
}

void recorder_log_locked(struct recorder *recorder)
{
	if (unrecorded_is_full(&recorder->unrecorded))
		log_locked(recorder, "no event is sent until that transaction ends");
	else if (recorder->unrecorded.count > 0)
		log_locked(recorder, "other events are published; these are recorded when that "
				     "transaction ends");
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

int recorder_record(
	struct recorder *recorder, struct db *db, struct relay_settle *settle, struct err *err)
{
	int r;

	settle->instance = recorder->options.instance;
	settle->published = true;
	r = settle_all(recorder, db, settle, err);
	settle->published = false;
	return r != 0 ? r : settle_all(recorder, db, settle, err);
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

int recorder_retry(struct recorder *recorder, struct db *db, bool keep, struct err *err)
{
	struct unrecorded *unrecorded = &recorder->unrecorded;
	CLEANUP(freep) struct relay_result *results = NULL;
	struct relay_settle settle = { .keep = keep, .count = unrecorded->count };
	int r = 0;

	if (unrecorded->count == 0)
		return 0;
	results = malloc(unrecorded->count * sizeof(*results));
	if (results == NULL)
		return err_memory(err);
	for (size_t i = 0; i < unrecorded->count; i++)
		results[i] = unrecorded->items[i].result;
	settle.results = results;
	r = recorder_record(recorder, db, &settle, err);
	for (size_t i = 0; r == 0 && i < unrecorded->count; i++) {
		unrecorded->items[i].result.left_out = results[i].left_out;
		r = try_again(recorder, &unrecorded->items[i], err);
	}
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
