/*
 * Database jobs that claim nothing:
 * - The sweep finds parked rows that can be claimed now and that memory does not know about (rule R13). Memory
 *   is only a copy, so the sweep is what guarantees that no parked row is forgotten.
 * - The gauges count what waits in the table.
 * - The rescue gives back the rows of a claim whose answer was lost (rule R3).
 * - The check of held rows is key_holds.c's.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "dispatch/table/jobs.h"

#define SWEEP_EVERY_MS   3000
#define SWEEP_AGAIN_MS   100  /* while there are more rows to release than one sweep releases */
#define SWEEP_SPILL_MOST 2000 /* with this many claimable lanes, no sweep looks for more */
#define GAUGES_CAP       1000000

/* Finds the next dirty partition to sweep. False: the round is complete. */
static bool next_dirty(struct dispatch *dispatch, struct admission_partition *out, size_t *index)
{
	struct claimer *claimer = &dispatch->claimer;
	size_t count = admission_count(dispatch->options.admission);

	for (; claimer->sweep_next < count; claimer->sweep_next++) {
		*index = claimer->sweep_next;
		*out = admission_get(dispatch->options.admission, *index);
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

	/* Before the known handlers are read, the routing is not complete. A sweep could release a row that waits for a
	 * handler that is away. */
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
	/* A row that was born claimed has delivery count 1 and is not among the rows that this rescue reads. */
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
	job->expensive = now_ms >= dispatch->claimer.slow_gauges_at_ms;
	if (job->expensive)
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
