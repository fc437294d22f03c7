/*
 * Questions that claim nothing. A sweep every few seconds finds what was parked and forgotten (rule R13: parked is
 * derived, not remembered); gauges count what waits; the rows of a claim nobody heard of go back (rule R3).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "dispatch/jobs.h"

#define SWEEP_EVERY_MS   3000
#define SWEEP_AGAIN_MS   100  /* while there is more to release than one look may */
#define SWEEP_SPILL_MOST 2000 /* lanes to go on with: enough, no need to find more */
#define GAUGES_CAP       1000000

/* The next dirty partition to look into; false when a whole round is done. */
static bool next_dirty(struct dispatch *dispatch, struct admission_partition *out, size_t *index)
{
	struct claimer *claimer = &dispatch->claimer;
	size_t count = admission_count(dispatch->options.admission);

	for (; claimer->sweep_next < count; claimer->sweep_next++) {
		*index = claimer->sweep_next;
		*out = admission_look(dispatch->options.admission, *index);
		if (out->assigned && out->dirty)
			return true;
		claimer->sweep_page = false;
	}
	return false;
}

static void sweep(struct dispatch *dispatch, int64_t now_ms)
{
	struct claimer *claimer = &dispatch->claimer;
	struct admission_partition partition;
	struct job *job;
	size_t index = 0;

	/* Before it is known for whom a message is, a row may be parked because of a handler that is away. */
	if (!dispatch->handler_memory.loaded || claimer->under_way[JOB_SWEEP] ||
		now_ms < claimer->sweep_at_ms || dispatch->lanes.claimable_count > SWEEP_SPILL_MOST)
		return;
	if (!next_dirty(dispatch, &partition, &index)) {
		claimer->sweep_next = 0;
		claimer->sweep_at_ms =
			now_ms + (claimer->sweep_again ? SWEEP_AGAIN_MS : SWEEP_EVERY_MS);
		claimer->sweep_again = false;
		return;
	}
	job = jobs_new(dispatch, JOB_SWEEP);
	if (job == NULL || !jobs_room(job, 1)) {
		jobs_drop(dispatch, job);
		return;
	}
	jobs_add_partition(job, &partition, index);
	job->first_page = !claimer->sweep_page;
	job->after = claimer->sweep_after;
	job->request.max_rows = jobs_rows(dispatch);
	jobs_give(dispatch, job);
}

void maintenance_rescue(struct dispatch *dispatch)
{
	struct claimer *claimer = &dispatch->claimer;
	struct entry *entry;
	struct job *job;

	if (!claimer->rescue || claimer->claims_under_way > 0 || claimer->under_way[JOB_RESCUE])
		return;
	job = jobs_new(dispatch, JOB_RESCUE);
	if (job == NULL)
		return;
	job->seqs = calloc(dispatch->entry_count + 1, sizeof(*job->seqs));
	if (job->seqs == NULL) {
		jobs_drop(dispatch, job);
		return;
	}
	for (entry = dispatch->entries; entry != NULL; entry = entry->hh.next) {
		if (entry->message->delivery_count > 1)
			job->seqs[job->count++] = entry->message->seq;
	}
	job->request.number = open_claims_low(&claimer->open);
	jobs_give(dispatch, job);
}

static bool is_unchanged(const struct dispatch *dispatch, int64_t now_ms)
{
	return now_ms < dispatch->claimer.gauges_unchanged_until_ms &&
	       admission_placed(dispatch->options.admission) == dispatch->claimer.gauges_placed;
}

static void gauge(struct dispatch *dispatch, int64_t now_ms)
{
	struct job *job;

	if (dispatch->claimer.under_way[JOB_GAUGES] || now_ms < dispatch->claimer.gauges_at_ms ||
		is_unchanged(dispatch, now_ms))
		return;
	job = jobs_new(dispatch, JOB_GAUGES);
	dispatch->claimer.gauges_at_ms = now_ms + GAUGES_EVERY_MS;
	if (job == NULL || !jobs_add_own(dispatch, job, true)) {
		jobs_drop(dispatch, job);
		return;
	}
	job->cap = dispatch->options.config->ingest.max_pending + 1;
	if (job->cap > GAUGES_CAP)
		job->cap = GAUGES_CAP;
	job->placed = admission_placed(dispatch->options.admission);
	job->seldom = now_ms >= dispatch->claimer.slow_gauges_at_ms;
	if (job->seldom)
		dispatch->claimer.slow_gauges_at_ms = now_ms + SLOW_GAUGES_EVERY_MS;
	jobs_give(dispatch, job);
}

void maintenance_key_holds(struct dispatch *dispatch, int64_t now_ms)
{
	struct job *job =
		dispatch->claimer.under_way[JOB_HOLDS] ? NULL : key_holds_job(dispatch, now_ms);

	if (job != NULL)
		jobs_give(dispatch, job);
}

void maintenance_run(struct dispatch *dispatch, int64_t now_ms)
{
	if (jobs_may_give(dispatch))
		sweep(dispatch, now_ms);
	if (jobs_may_give(dispatch))
		gauge(dispatch, now_ms);
}
