/*
 * Decides when to claim rows from the table. There are two kinds of claims:
 *
 *	JOB_DUE    rows that are due. Made every worker.poll, when a known retry becomes due, and at once while rows
 *	           are stored waiting because of overflow.
 *	JOB_LANES  the next rows of lanes whose messages in memory are settled. Made when memory has room.
 *
 * Rules:
 * - With an order, one claim runs at a time. Of two claims, one could take the rows behind those of the other
 *   and be committed, or arrive, first. Then memory would deliver the later rows first.
 * - Without an order, several claims run beside each other while many rows are due. SKIP LOCKED lets each of them
 *   pass over the rows of the others.
 * - While the outcome of a claim is unknown, no further claim is made. Its rows may be claimed in the table and
 *   unknown here. A rescue gives them back first (rule R3).
 * - Claims take turns with the jobs of maintenance_jobs.c, so that a large backlog does not stop those.
 *
 * claim_results.c handles the results.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "dispatch/table/jobs.h"

#define LANES_A_CLAIM   200
#define IDLE_LANES_MOST 100000
/* The bytes of memory that are free are divided among claims that run beside each other. A part below this is not
 * worth a statement. */
#define BYTES_LEAST     1048576UL

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

	(void)refused_seqs_add(
		&job->without, seq, NULL); /* without memory the claim finds the row again */
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

/* With `ordering: partition` the whole partition is one lane. Its next run is claimed when memory holds none of it. */
bool claimer_may_claim(const struct dispatch *dispatch, size_t index)
{
	return dispatch->lanes.ordering != ORDERING_PARTITION ||
	       lanes_is_free(&dispatch->lanes, index, 0);
}

/* Bytes that are free when all claims under way have brought what they may bring. */
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

/* The bytes that one claim may bring. Claims that run beside each other get equal parts. */
static size_t bytes_for_one(const struct dispatch *dispatch)
{
	size_t left = bytes_left(dispatch);
	size_t workers = worker_pool_size(dispatch->pool);
	size_t part = left;

	if (may_run_beside_others(dispatch) && workers > dispatch->claimer.claims_under_way)
		part = left / (workers - dispatch->claimer.claims_under_way);
	return part > BYTES_LEAST ? part : left < BYTES_LEAST ? left : BYTES_LEAST;
}

/* Reserves budget for the rows of the claim. False: there is none. */
static bool reserve(struct dispatch *dispatch, struct job *job)
{
	job->reserved = admission_reserve(dispatch->options.admission, jobs_rows(dispatch));
	job->request.max_bytes = bytes_for_one(dispatch);
	job->request.max_rows = job->reserved;
	return job->reserved > 0 && job->request.max_bytes > 0;
}

/* Gives the claim its number. From now on low_claim stays at or below it, so that a rescue finds its rows. False: no
 * memory. */
static bool assign_number(struct dispatch *dispatch, struct job *job)
{
	job->request.number = open_claims_give(&dispatch->claimer.open);
	return job->request.number != 0;
}

/* True when half a claim fits, or a twentieth of the whole budget. Less room would mean many statements for few rows.
 * A twentieth is available even when one slow handler uses its nine tenths. */
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

/* True when one more claim may run. Before the known handlers are read, a claim could park rows that only wait for a
 * handler that is away. */
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

/* With `ordering: partition` the statement has a row limit for each partition. Together the partitions must stay within
 * the reserved budget. */
static void share_among_partitions(struct job *job)
{
	if (job->count > job->reserved)
		job->count = job->reserved;
	if (job->count > 0)
		job->request.max_rows = job->reserved / job->count;
}

/* Sets the time from which the claim scans each partition (claim_cursor.h). False: no memory. */
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
		dispatch->claimer.poll_at_ms =
			0; /* the next idle worker gets another claim at once */
		dispatch_schedule(dispatch);
	}
}

/* Claims the next rows of lanes that have none in memory. With `ordering: partition` the lane is the partition. */
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
			admission_get(dispatch->options.admission, keys[i].partition);

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

/* Lanes and due rows take turns. If there is room for one claim only, neither kind is made all the time. */
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
		return; /* the database failed a moment ago; the turns stay as they are */
	dispatch->claimer.needs_worker = !stopping && !jobs_may_give(dispatch);
	/* The rescue runs during a stop as well: arrivals wait for it before they are returned to the table. */
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
