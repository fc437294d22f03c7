/*
 * Decides when to claim rows from the table. There are two kinds of claims:
 *
 *	JOB_DUE    rows that are due. Made every worker.poll and when a known retry becomes due, but not while a look that is
 *	           younger than worker.poll says that nothing is due (maintenance_jobs.c). After a claim that has
 *	           found rows, the next one is made at once; also after a full claim if a stream overflows by then.
 *	JOB_LANES  the next rows of lanes that have no entries, or of hot lanes that have lost half of them. Made when
 *	           memory has room.
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
#include "dispatch/table/claims/claimer.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "dispatch/table/table.h"

#define LANES_A_CLAIM   200
#define IDLE_LANES_MOST 100000
/* The bytes of memory that are free are divided among claims that run beside each other. A part below this is not
 * worth a statement. */
#define BYTES_LEAST     1048576UL

void claimer_scan_soon(struct table *table)
{
	claim_cursor_force_full(&table->claimer.cursor);
	table->claimer.poll_at_ms = 0;
	context_request_round(table->context);
}

void claimer_sweep_soon(struct table *table)
{
	table->sweeps.at_ms = 0;
	claimer_scan_soon(table);
}

static void add_refused(void *arg, int64_t seq)
{
	struct job *job = arg;

	(void)refused_seqs_add(
		&job->claim.without, seq, NULL); /* without memory the claim finds the row again */
}

/* Gives the claim to a worker, with the rows that it leaves out, and what tells later that its result is too old. */
static void give_claim(struct table *table, struct job *job)
{
	struct claimer *claimer = &table->claimer;
	struct refused_rows *refused = &claimer->refused;
	int64_t now_ms = clock_now_ms();

	job->claim.isolate = refused_rows_should_probe(refused, now_ms);
	(void)refused_rows_each(refused, now_ms, add_refused, job);
	job->claim.without_given = job->claim.without.count;
	job->request.without = &job->claim.without;
	job->claim.lost = atomic_load(&table->context->options.commit_handover->lost);
	job->claim.revocations = table->order->revocations;
	claimer->claims_under_way++;
	claimer->bytes_asked += job->request.max_bytes;
	claimer->last_was_lanes = job->kind == JOB_LANES;
	table->order->lanes.claims_given = (uint64_t)job->request.number;
	jobs_give(table, job);
}

/* Bytes that are free when all claims under way have brought what they may bring. */
static size_t bytes_left(const struct table *table)
{
	size_t count;
	size_t bytes;
	size_t bytes_free;

	admission_usage(table->context->options.admission, &count, &bytes, &bytes_free);
	return bytes_free > table->claimer.bytes_asked ? bytes_free - table->claimer.bytes_asked
						       : 0;
}

static bool may_run_beside_others(const struct table *table)
{
	return table->claimer.more_due && !admission_is_ordered(table->context->options.admission);
}

/* The bytes that one claim may bring. Claims that run beside each other get equal parts. */
static size_t bytes_for_one(const struct table *table)
{
	size_t left = bytes_left(table);
	size_t workers = worker_pool_size(table->pool);
	size_t part = left;

	if (may_run_beside_others(table) && workers > table->claimer.claims_under_way)
		part = left / (workers - table->claimer.claims_under_way);
	return part > BYTES_LEAST ? part : left < BYTES_LEAST ? left : BYTES_LEAST;
}

/* Reserves budget for the rows of the claim. False: there is none. */
static bool reserve(struct table *table, struct job *job)
{
	job->claim.reserved =
		admission_reserve(table->context->options.admission, jobs_rows(table));
	job->request.max_bytes = bytes_for_one(table);
	job->request.max_rows = job->claim.reserved;
	return job->claim.reserved > 0 && job->request.max_bytes > 0;
}

/* Gives the claim its number. From now on low_claim stays at or below it, so that a rescue finds its rows. False: no
 * memory. */
static bool assign_number(struct table *table, struct job *job)
{
	job->request.number = open_claims_give(&table->order->open_claims);
	return job->request.number != 0;
}

/* True when half a claim fits, or a twentieth of the whole budget, or half of a handler's share. Less room would mean many
 * statements for few rows. That much becomes free even if all other handlers answer nothing (handler_queue_limit). */
static bool has_budget(const struct table *table)
{
	const struct config *config = table->context->options.config;
	int64_t most = config->inbox.max_claimed;
	int64_t share = most / (int64_t)(table->order->queues.sharing + 1);
	int64_t least = (share / 2 < most / 20 ? share / 2 : most / 20) + 1;
	int64_t wanted = config->worker.claim_batch / 2 + 1;
	size_t count;
	size_t bytes;
	size_t bytes_free;

	admission_usage(table->context->options.admission, &count, &bytes, &bytes_free);
	return bytes_left(table) > 0 && most - (int64_t)count >= (wanted < least ? wanted : least);
}

/* True when one more claim may run. Before the known handlers are read, a claim could park rows that only wait for a
 * handler that is away. */
static bool may_claim(const struct table *table)
{
	const struct claimer *claimer = &table->claimer;

	if (claimer->rescue || !table->order->routing_complete ||
		!routing_has_connected(table->order->routing) || !has_budget(table))
		return false;
	return claimer->claims_under_way == 0 || may_run_beside_others(table);
}

static size_t count_whole(const struct job_streams *streams)
{
	size_t count = 0;

	for (size_t i = 0; i < streams->count; i++)
		count += streams->items[i].ordering == ORDERING_PARTITION;
	return count;
}

/* A stream with `ordering: partition` brings one row at least. Those that are too many for the reserved budget, or for
 * its half if there are other streams (claims_due), are left out. They are claimed when the rotation puts them first. */
static bool fit_into_reserve(struct job *job)
{
	struct job_streams *streams = &job->streams;
	bool mixed = count_whole(streams) < streams->count;
	size_t most = mixed ? job->claim.reserved / 2 : job->claim.reserved;
	size_t kept = 0;

	if (job->claim.reserved == 1)
		streams->count = most = 1;
	for (size_t i = 0; i < streams->count; i++) {
		if (streams->items[i].ordering == ORDERING_PARTITION && most-- == 0)
			break;
		streams->items[kept] = streams->items[i];
		streams->indexes[kept] = streams->indexes[i];
		streams->versions[kept++] = streams->versions[i];
	}
	streams->count = kept;
	return kept > 0;
}

/* Sets the time from which the claim scans each stream (claim_cursor.h). A claim along the offsets has no such time: it
 * is always a full scan. False: no memory. */
static bool set_starts(struct table *table, struct job *job, int64_t now_ms)
{
	const struct claim_cursor *cursor = &table->claimer.cursor;

	job->claim.full = count_whole(&job->streams) == job->streams.count ||
			  claim_cursor_is_full(cursor, now_ms);
	job->claim.since = calloc(job->streams.count, sizeof(*job->claim.since));
	for (size_t i = 0; job->claim.since != NULL && i < job->streams.count; i++)
		job->claim.since[i] =
			job->claim.full ? -1 : claim_cursor_get(cursor, job->streams.indexes[i]);
	job->request.since = job->claim.since;
	return job->claim.since != NULL;
}

/* The last claim found nothing, nobody has asked for another one since, and a look says that nothing is due either. The next look
 * is under way a moment after worker.poll if both have the same interval, so a look counts for a quarter longer. */
static bool is_quiet(struct table *table, int64_t now_ms)
{
	struct claimer *claimer = &table->claimer;
	int64_t poll_ms = table->context->options.config->worker.poll;
	int64_t until_ms = table->looks.given_ms + poll_ms + poll_ms / 4;

	if (claimer->poll_at_ms == 0 || claimer->poll_at_ms != claimer->quiet_poll_at_ms ||
		now_ms >= until_ms || now_ms >= table->looks.due_ms ||
		now_ms >= table->order->retry_due_at_ms)
		return false;
	claimer->poll_at_ms = claimer->quiet_poll_at_ms =
		table->looks.due_ms < until_ms ? table->looks.due_ms : until_ms;
	return true;
}

/* Claims due rows of the streams that may be claimed now. */
static void claim_due(struct table *table, int64_t now_ms)
{
	struct claimer *claimer = &table->claimer;
	struct order *order = table->order;
	struct job *job;

	if (!may_claim(table) ||
		(now_ms < claimer->poll_at_ms && now_ms < order->retry_due_at_ms) ||
		is_quiet(table, now_ms))
		return;
	job = jobs_new(table, JOB_DUE);
	if (job == NULL || !reserve(table, job) || !jobs_add_own(table, job, false) ||
		!fit_into_reserve(job) || !set_starts(table, job, now_ms) ||
		!assign_number(table, job)) {
		jobs_drop(table, job);
		claimer->poll_at_ms = now_ms + TICK_MS;
		return;
	}
	claimer->poll_at_ms = now_ms + table->context->options.config->worker.poll;
	job->claim.poll_at_ms = claimer->poll_at_ms;
	order->retry_due_at_ms = INT64_MAX;
	give_claim(table, job);
	if (may_run_beside_others(table)) {
		claimer->poll_at_ms = 0; /* the next idle worker gets another claim at once */
		context_request_round(table->context);
	}
}

/* Claims the next rows of claimable lanes (lanes.c). With `ordering: partition` the lane is the stream. */
static void claim_lanes(struct table *table)
{
	struct lane_key keys[LANES_A_CLAIM];
	struct job *job;
	size_t count;

	if (table->order->lanes.claimable_count == 0 || !may_claim(table))
		return;
	job = jobs_new(table, JOB_LANES);
	if (job == NULL || !reserve(table, job)) {
		jobs_drop(table, job);
		return;
	}
	job->claim.hashes = calloc(LANES_A_CLAIM, sizeof(*job->claim.hashes));
	if (job->claim.hashes == NULL || !jobs_room(job, LANES_A_CLAIM) ||
		!assign_number(table, job)) {
		jobs_drop(table, job);
		return;
	}
	count = job->claim.reserved < LANES_A_CLAIM ? job->claim.reserved : LANES_A_CLAIM;
	count = lanes_take_claimable(&table->order->lanes, keys, count);
	for (size_t i = 0; i < count; i++) {
		struct admission_stream stream =
			admission_get(table->context->options.admission, keys[i].stream);

		if (stream.paused) { /* a sweep finds the lane again when the pause is over */
			lanes_block(&table->order->lanes, keys[i].stream, keys[i].hash);
			continue;
		}
		job->claim.hashes[job->streams.count] = keys[i].hash;
		jobs_add_stream(job, &stream, keys[i].stream);
	}
	if (job->streams.count == 0) {
		open_claims_arrived(&table->order->open_claims, job->request.number);
		open_claims_answered(&table->order->open_claims, job->request.number);
		jobs_drop(table, job);
		return;
	}
	job->request.max_rows = job->claim.reserved / job->streams.count;
	give_claim(table, job);
}

bool claimer_in_doubt(const struct table *table)
{
	return table->claimer.rescue || table->database.under_way[JOB_RESCUE];
}

/* Lanes and due rows take turns. If there is room for one claim only, neither kind is made all the time. */
static void claim(struct table *table, int64_t now_ms)
{
	bool last_was_lanes = table->claimer.last_was_lanes;

	if (last_was_lanes && jobs_may_give(table))
		claim_due(table, now_ms);
	if (jobs_may_give(table))
		claim_lanes(table);
	if (!last_was_lanes && jobs_may_give(table))
		claim_due(table, now_ms);
}

void claimer_run_rescue(struct table *table, int64_t now_ms)
{
	if (jobs_are_on_hold(table, now_ms))
		return; /* the turns stay as they are */
	table->claimer.needs_worker = !context_is_stopping(table->context) && !jobs_may_give(table);
	if (jobs_may_give(table))
		maintenance_rescue(table);
}

void claimer_run(struct table *table, int64_t now_ms)
{
	bool last_was_claim = table->claimer.last_was_claim;

	if (jobs_are_on_hold(table, now_ms) || context_is_stopping(table->context))
		return;
	if (jobs_may_give(table))
		maintenance_check_key_holds(table, now_ms);
	if (last_was_claim)
		maintenance_run(table, now_ms);
	claim(table, now_ms);
	if (!last_was_claim)
		maintenance_run(table, now_ms);
	lanes_forget_idle(&table->order->lanes, IDLE_LANES_MOST, now_ms);
}
