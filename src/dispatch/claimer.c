/*
 * What to ask the table for, and when. Due rows are claimed every poll, at the moment a known retry
 * is due, and at once while a partition overflows; keys that wait behind nothing any more are gone on
 * with as soon as memory has room. Claims and looks (maintenance_jobs.c) take turns: while much waits, claims may go on and on.
 *
 * One claim at a time where there is an order: of two at once the one could take the rows behind those of the
 * other, commit first, or arrive first. Without one, as many as there are workers for while much is due; each steps
 * over the rows of the others. A claim whose outcome is unknown stops all claims until rows that memory does not hold were
 * given back (rule R3). What the answers say is claim_results.c's business.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "dispatch/jobs.h"

#define LANES_A_CLAIM   200
#define IDLE_LANES_MOST 100000
#define BYTES_LEAST     1048576UL /* of a claim beside others, if there are as many */

void claimer_init(struct claimer *claimer)
{
	claimer->due_at_ms = INT64_MAX;
	open_claims_init(&claimer->open);
}

void claimer_expect(struct dispatch *dispatch, int64_t delay_ms)
{
	int64_t at = clock_now_ms() + delay_ms + 1;

	if (at < dispatch->claimer.due_at_ms)
		dispatch->claimer.due_at_ms = at;
}

void claimer_scan_soon(struct dispatch *dispatch)
{
	claim_cursor_force_full(&dispatch->claimer.cursor);
	dispatch->claimer.poll_at_ms = 0;
	dispatch_schedule(dispatch);
}

void claimer_sweep_soon(struct dispatch *dispatch)
{
	dispatch->claimer.sweep_at_ms = 0;
	claimer_scan_soon(dispatch);
}

static void add_refused(void *arg, int64_t seq)
{
	struct job *job = arg;

	(void)refused_seqs_add(&job->without, seq, NULL); /* no memory: it is found again */
}

static void exclude_refused(struct dispatch *dispatch, struct job *job, int64_t now_ms)
{
	struct refused_rows *refused = &dispatch->claimer.refused;

	job->isolate = refused_rows_should_probe(refused, now_ms);
	(void)refused_rows_each(refused, now_ms, add_refused, job);
	job->without_given = job->without.count;
	job->request.without = &job->without;
}

static void give_claim(struct dispatch *dispatch, struct job *job)
{
	struct claimer *claimer = &dispatch->claimer;

	exclude_refused(dispatch, job, clock_now_ms());
	job->lost = atomic_load(&dispatch->options.commit_handover->lost);
	job->revocations = dispatch->revocations;
	claimer->claims_under_way++;
	claimer->bytes_asked += job->request.max_bytes;
	claimer->last_was_lanes = job->kind == JOB_LANES;
	dispatch->lanes.claims_given = (uint64_t)job->request.number;
	jobs_give(dispatch, job);
}

/* Where the partition is the order, it is claimed in runs: the next one when the last is worked off. */
bool claimer_may_claim(const struct dispatch *dispatch, size_t index)
{
	return dispatch->lanes.ordering != ORDERING_PARTITION ||
	       lanes_is_free(&dispatch->lanes, index, 0);
}

/* Bytes that are free, but for those that claims under way may bring. */
static size_t bytes_left(const struct dispatch *dispatch)
{
	size_t count;
	size_t bytes;
	size_t bytes_free;

	admission_usage(dispatch->options.admission, &count, &bytes, &bytes_free);
	return bytes_free > dispatch->claimer.bytes_asked
		       ? bytes_free - dispatch->claimer.bytes_asked
		       : 0;
}

static bool may_run_beside_others(const struct dispatch *dispatch)
{
	return dispatch->lanes.ordering == ORDERING_NONE && dispatch->claimer.more_due;
}

/* What one claim may bring: where several go side by side, the same for each, if that is worth a claim. */
static size_t bytes_for_one(const struct dispatch *dispatch)
{
	size_t left = bytes_left(dispatch);
	size_t workers = worker_pool_size(dispatch->pool);
	size_t part = left;

	if (may_run_beside_others(dispatch) && workers > dispatch->claimer.claims_under_way)
		part = left / (workers - dispatch->claimer.claims_under_way);
	return part > BYTES_LEAST ? part : left < BYTES_LEAST ? left : BYTES_LEAST;
}

/* Budget for rows to be claimed. False: there is none. */
static bool reserve(struct dispatch *dispatch, struct job *job)
{
	job->reserved = admission_reserve(dispatch->options.admission, jobs_rows(dispatch));
	job->request.max_bytes = bytes_for_one(dispatch);
	job->request.max_rows = job->reserved;
	return job->reserved > 0 && job->request.max_bytes > 0;
}

/* From now on the claim counts as one that may hold rows. False: no memory. */
static bool assign_number(struct dispatch *dispatch, struct job *job)
{
	job->request.number = open_claims_give(&dispatch->claimer.open);
	return job->request.number != 0;
}

/* Half a claim's worth of room, or a twentieth of all: claims are not made row by row, and the tenth
 * that one handler leaves to the others is enough for them. */
static bool has_budget(const struct dispatch *dispatch)
{
	const struct config *config = dispatch->options.config;
	int64_t most = config->inbox.max_claimed;
	int64_t least = most / 20 + 1;
	int64_t wanted = config->worker.claim_batch / 2 + 1;
	size_t count;
	size_t bytes;
	size_t bytes_free;

	admission_usage(dispatch->options.admission, &count, &bytes, &bytes_free);
	return bytes_left(dispatch) > 0 &&
	       most - (int64_t)count >= (wanted < least ? wanted : least);
}

/* Whether one more claim may be under way. */
static bool may_claim(const struct dispatch *dispatch)
{
	const struct claimer *claimer = &dispatch->claimer;

	if (claimer->rescue || !dispatch->handler_memory.loaded ||
		!routing_has_connected(dispatch->routing) || !has_budget(dispatch))
		return false;
	return claimer->claims_under_way == 0 || may_run_beside_others(dispatch);
}

static bool due_wanted(const struct dispatch *dispatch, int64_t now_ms)
{
	const struct claimer *claimer = &dispatch->claimer;

	return may_claim(dispatch) &&
	       (now_ms >= claimer->poll_at_ms || now_ms >= claimer->due_at_ms);
}

/* Runs are claimed with a limit for each partition: together they must stay within the budget. */
static void share_among_partitions(struct job *job)
{
	if (job->count > job->reserved)
		job->count = job->reserved;
	if (job->count > 0)
		job->request.max_rows = job->reserved / job->count;
}

/* Where its look begins in each partition. False: no memory. */
static bool set_starts(struct dispatch *dispatch, struct job *job, int64_t now_ms)
{
	const struct claim_cursor *cursor = &dispatch->claimer.cursor;

	job->full =
		job->request.ordering == ORDERING_PARTITION || claim_cursor_is_full(cursor, now_ms);
	job->since = calloc(job->count, sizeof(*job->since));
	for (size_t i = 0; job->since != NULL && i < job->count; i++)
		job->since[i] = job->full ? -1 : claim_cursor_get(cursor, job->indexes[i]);
	job->request.since = job->since;
	return job->since != NULL;
}

static void claim_due(struct dispatch *dispatch, int64_t now_ms)
{
	struct job *job;

	if (!due_wanted(dispatch, now_ms))
		return;
	job = jobs_new(dispatch, JOB_DUE);
	if (job == NULL || !reserve(dispatch, job) || !jobs_add_own(dispatch, job, false) ||
		!set_starts(dispatch, job, now_ms) || !assign_number(dispatch, job)) {
		jobs_drop(dispatch, job);
		dispatch->claimer.poll_at_ms = now_ms + TICK_MS;
		return;
	}
	if (job->request.ordering == ORDERING_PARTITION)
		share_among_partitions(job);
	dispatch->claimer.poll_at_ms = now_ms + dispatch->options.config->worker.poll;
	dispatch->claimer.due_at_ms = INT64_MAX;
	give_claim(dispatch, job);
	if (may_run_beside_others(dispatch)) {
		dispatch->claimer.poll_at_ms = 0; /* who is idle takes the next ones */
		dispatch_schedule(dispatch);
	}
}

/* Where the partition is the order, its lane is the partition itself and any claim goes on with it. */
static void claim_lanes(struct dispatch *dispatch)
{
	struct lane_key keys[LANES_A_CLAIM];
	struct job *job;
	size_t count;

	if (dispatch->lanes.claimable_count == 0 || !may_claim(dispatch))
		return;
	job = jobs_new(dispatch, JOB_LANES);
	if (job == NULL || !reserve(dispatch, job)) {
		jobs_drop(dispatch, job);
		return;
	}
	job->lanes = calloc(LANES_A_CLAIM, sizeof(*job->lanes));
	if (job->lanes == NULL || !jobs_room(job, LANES_A_CLAIM) || !assign_number(dispatch, job)) {
		jobs_drop(dispatch, job);
		return;
	}
	count = job->reserved < LANES_A_CLAIM ? job->reserved : LANES_A_CLAIM;
	count = lanes_take_claimable(&dispatch->lanes, keys, count);
	for (size_t i = 0; i < count; i++) {
		struct admission_partition partition =
			admission_look(dispatch->options.admission, keys[i].partition);

		job->lanes[i] =
			(struct claim_lane){ partition.topic, partition.partition, keys[i].hash };
		jobs_add_partition(job, &partition, keys[i].partition);
	}
	job->request.max_rows = job->reserved / job->count;
	give_claim(dispatch, job);
}

bool claimer_in_doubt(const struct claimer *claimer)
{
	return claimer->rescue || claimer->under_way[JOB_RESCUE];
}

/* Lanes and due rows take turns: neither may starve the other when there is room for one claim only. */
static void claim(struct dispatch *dispatch, int64_t now_ms)
{
	bool last_was_lanes = dispatch->claimer.last_was_lanes;

	if (last_was_lanes && jobs_may_give(dispatch))
		claim_due(dispatch, now_ms);
	if (jobs_may_give(dispatch))
		claim_lanes(dispatch);
	if (!last_was_lanes && jobs_may_give(dispatch))
		claim_due(dispatch, now_ms);
}

void claimer_run(struct dispatch *dispatch, int64_t now_ms)
{
	bool stopping = dispatch_is_stopping(dispatch);
	bool last_was_claim = dispatch->claimer.last_was_claim;

	if (now_ms < dispatch->hold_until_ms)
		return; /* whose turn it is stays */
	dispatch->claimer.needs_worker = !stopping && !jobs_may_give(dispatch);
	/* Also when stopping: what arrived waits for it, to be given back. */
	if (jobs_may_give(dispatch))
		maintenance_rescue(dispatch);
	if (stopping)
		return;
	if (jobs_may_give(dispatch))
		handler_memory_run(dispatch, now_ms);
	if (jobs_may_give(dispatch))
		maintenance_key_holds(dispatch, now_ms);
	if (last_was_claim)
		maintenance_run(dispatch, now_ms);
	claim(dispatch, now_ms);
	if (!last_was_claim)
		maintenance_run(dispatch, now_ms);
	lanes_forget(&dispatch->lanes, SIZE_MAX, IDLE_LANES_MOST, now_ms);
}
