/*
 * Handles the results of the jobs that claimer.c and maintenance_jobs.c give to workers:
 * - Claimed rows enter memory in their order.
 * - Each lane learns where its run ends and whether more rows follow in the table.
 * - A partition without due rows is drained: new rows of it may be born claimed again.
 * - A job that failed is made again later. A claim whose outcome is unknown starts a rescue.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"

#define GAUGES_PACE   50 /* counting takes at most a fiftieth of the time */
#define HALVINGS_MOST 12
#define DOUBLE_AFTER  20 /* claims in time, after which the row limit doubles again */

/* True when a partition is in overflow and its rows may be claimed now. */
static bool any_overflow(const struct dispatch *dispatch)
{
	size_t count = admission_count(dispatch->options.admission);

	for (size_t i = 0; i < count; i++) {
		struct admission_partition partition =
			admission_get(dispatch->options.admission, i);

		if (partition.assigned && partition.overflow && claimer_may_claim(dispatch, i))
			return true;
	}
	return false;
}

static size_t index_of(struct dispatch *dispatch, const struct message *message)
{
	int index = admission_partition(
		dispatch->options.admission, message->topic, message->partition, NULL);

	return index < 0 ? 0 : (size_t)index; /* never negative: the claim named this partition */
}

/* Only the last row of a lane says where its run ends and whether more rows follow. The rows of a claim are in their
 * order, so the last call for a lane overwrites the earlier ones. */
static void note_runs(struct dispatch *dispatch, const struct claimed *claimed, int64_t number)
{
	for (size_t i = 0; i < claimed->count; i++) {
		const struct message *message = claimed->rows[i].message;

		if (dispatch->lanes.ordering == ORDERING_PARTITION || message_is_keyed(message))
			lanes_claimed(&dispatch->lanes, index_of(dispatch, message),
				message->key_hash,
				&(struct lane_run){ message->offset, claimed->rows[i].followed,
					(uint64_t)number });
	}
}

/*
 * True when the table may hold older rows of the same keys that neither the claim saw nor memory knows about:
 * - The answer to a COMMIT was lost while the claim ran. The rows of that batch were given back to the table.
 * - A partition was revoked while the claim ran, and its lanes were forgotten. It may be assigned again by now.
 */
static bool is_order_unknown(const struct dispatch *dispatch, const struct job *job)
{
	return job->revocations != dispatch->revocations ||
	       job->lost != atomic_load(&dispatch->options.commit_handover->lost);
}

static void admit_claimed(struct dispatch *dispatch, struct job *job)
{
	bool order_unknown = is_order_unknown(dispatch, job);
	struct claimed *claimed = &job->claimed;
	size_t bytes = 0;

	if (claimed->count > 0)
		dispatch->claimer.gauges_unchanged_until_ms = 0; /* fewer rows wait now */
	for (size_t i = 0; i < claimed->count; i++)
		bytes += claimed->rows[i].message->bytes;
	admission_charge(dispatch->options.admission, bytes);
	note_runs(dispatch, claimed, job->request.number);
	for (size_t i = 0; i < claimed->count; i++) {
		struct message *message = claimed->rows[i].message;

		claimed->rows[i].message = NULL;
		entry_admit(dispatch, message, index_of(dispatch, message),
			order_unknown ? ENTRY_CLAIMED_ORDER_UNKNOWN : ENTRY_CLAIMED,
			job->request.number);
	}
	if (job->reserved > claimed->count)
		admission_release(dispatch->options.admission, job->reserved - claimed->count, 0);
	job->reserved = 0;
	open_claims_answered(&dispatch->claimer.open, job->request.number);
}

/* A full scan took every due row, so new rows of these partitions may be born claimed again. Not while another claim
 * runs: this one passed over its rows, and they are due again if that claim fails. */
static void note_drained(struct dispatch *dispatch, const struct job *job)
{
	if (dispatch->claimer.claims_under_way > 0)
		return;
	for (size_t i = 0; i < job->count; i++)
		admission_drained(dispatch->options.admission, job->indexes[i], job->versions[i]);
}

/* Notes where the next scan begins. After a revocation the cursor was reset, so the result is not noted. */
static void note_starts(struct dispatch *dispatch, const struct job *job)
{
	struct claim_cursor *cursor = &dispatch->claimer.cursor;
	const struct due_scan scan = {
		.full = job->full,
		.more_due = dispatch->claimer.more_due,
		.took_ms = job->took_us / 1000,
		.now_ms = clock_now_ms(),
	};

	if (job->claimed.latest == NULL || job->revocations != dispatch->revocations)
		return;
	for (size_t i = 0; i < job->count; i++) {
		if (job->claimed.latest[i] >= 0)
			claim_cursor_note(
				cursor, job->indexes[i], job->claimed.latest[i], job->full);
	}
	claim_cursor_finish_scan(cursor, &scan);
}

static void due_finished(struct dispatch *dispatch, struct job *job)
{
	struct claimer *claimer = &dispatch->claimer;

	claimer->more_due = job->claimed.cut || job->claimed.seen >= job->request.max_rows;
	note_starts(dispatch, job);
	if (!claimer->more_due && job->full)
		note_drained(dispatch, job);
	for (size_t i = 0; job->claimed.parked > 0 && i < job->count; i++)
		admission_dirty(dispatch->options.admission, job->indexes[i]);
	if (job->claimed.seen == 0 && !job->full) {
		if (claimer->cursor.full_at_ms < claimer->poll_at_ms)
			claimer->poll_at_ms = claimer->cursor.full_at_ms;
	} else if (job->claimed.seen > 0 || any_overflow(dispatch)) {
		claimer->poll_at_ms = 0; /* more rows may be due */
	} else { /* known retries and replays wake the claimer themselves, so the next poll is later */
		claimer->poll_at_ms += dispatch->options.config->worker.poll;
	}
	admit_claimed(dispatch, job);
	metric_observe(dispatch->claim_seconds, (double)job->took_us / 1000000.0);
}

static bool was_claimed(const struct job *job, const struct claim_lane *lane)
{
	for (size_t i = 0; i < job->claimed.count; i++) {
		const struct message *message = job->claimed.rows[i].message;

		if (message->partition == lane->partition && message->key_hash == lane->key_hash &&
			strcmp(message->topic, lane->topic) == 0)
			return true;
	}
	return false;
}

static void claim_lane_again(struct dispatch *dispatch, const struct job *job, size_t lane)
{
	(void)lanes_parked(
		&dispatch->lanes, job->indexes[lane], job->lanes[lane].key_hash, -1, NULL);
}

static void lanes_finished(struct dispatch *dispatch, struct job *job)
{
	/* Rows did not fit into the byte budget, or a row died in the claim. The result does not say of which lane,
	 * so all lanes that brought nothing are claimed again. */
	bool again = job->claimed.cut || job->claimed.parked > 0;

	for (size_t i = 0; i < job->count; i++) {
		if (was_claimed(job, &job->lanes[i]))
			continue;
		if (again)
			claim_lane_again(dispatch, job, i);
		else
			lanes_block(&dispatch->lanes, job->indexes[i], job->lanes[i].key_hash);
	}
	admit_claimed(dispatch, job);
	metric_observe(dispatch->claim_seconds, (double)job->took_us / 1000000.0);
}

static void sweep_finished(struct dispatch *dispatch, struct job *job)
{
	struct claimer *claimer = &dispatch->claimer;

	if (!job->waiting)
		admission_clean(dispatch->options.admission, job->indexes[0], job->versions[0]);
	for (size_t i = 0; i < job->page.count; i++)
		(void)lanes_parked(
			&dispatch->lanes, job->indexes[0], job->page.hashes[i], -1, NULL);
	if (job->released > 0)
		claimer->poll_at_ms = 0;
	if (job->released >= (int64_t)job->request.max_rows)
		claimer->sweep_again = true;
	claimer->sweep_page = job->page.more;
	claimer->sweep_after = job->page.last;
	if (!job->page.more)
		claimer->sweep_next++;
}

static void rescue_finished(struct dispatch *dispatch, struct job *job)
{
	dispatch->claimer.rescue = false;
	dispatch->claimer.poll_at_ms = 0;
	open_claims_resolved(&dispatch->claimer.open);
	log_info("claims_rescued", LOG_INT("rows", job->rescued),
		LOG_STR("why", "the answer of the database to a claim was lost"));
	metric_add(metrics_get(dispatch->options.metrics, METER_RESCUED, NULL, NULL), job->rescued);
}

/* If ingest placed nothing and the same number of rows waits, the next count is made later. */
static void note_unchanged(struct claimer *claimer, const struct job *job, int64_t sum)
{
	bool unchanged = sum == claimer->gauges_sum && job->placed == claimer->gauges_placed;

	claimer->gauges_sum = sum;
	claimer->gauges_placed = job->placed;
	claimer->gauges_unchanged_until_ms = unchanged ? clock_now_ms() + GAUGES_UNCHANGED_MS : 0;
}

static void gauges_finished(struct dispatch *dispatch, struct job *job)
{
	struct metrics *metrics = dispatch->options.metrics;
	const struct gauges *gauges = &job->gauges;
	int64_t pause = job->took_us * GAUGES_PACE / 1000;

	metric_set(metrics_get(metrics, METER_WAITING, NULL, NULL), (double)gauges->waiting);
	metric_set(metrics_get(metrics, METER_UNROUTED, NULL, NULL), (double)gauges->unrouted);
	metric_set(metrics_get(metrics, METER_OLDEST_WAITING, NULL, NULL),
		(double)gauges->oldest_due_ms / 1000.0);
	if (job->expensive) {
		metric_set(metrics_get(metrics, METER_DEAD, NULL, NULL), (double)gauges->dead);
		metric_set(metrics_get(metrics, METER_OLDEST_XMIN, NULL, NULL),
			(double)gauges->snapshot_ms / 1000.0);
	}
	admission_set_waiting(
		dispatch->options.admission, gauges->waiting + gauges->unrouted, job->placed);
	note_unchanged(&dispatch->claimer, job, gauges->waiting + gauges->unrouted);
	if (pause > GAUGES_EVERY_MS)
		dispatch->claimer.gauges_at_ms = clock_now_ms() + pause;
}

/* A claim with `isolate` tried each row alone. The rows that failed are left out of claims for a while. */
static void note_refused(struct dispatch *dispatch, const struct job *job)
{
	struct refused_rows *refused = &dispatch->claimer.refused;
	int64_t now_ms = clock_now_ms();

	if (job->isolate)
		refused_rows_probed(refused);
	refused_rows_failed(refused, false);
	if (!job->isolate && refused->count == 0 && job->without.count == 0)
		return;
	for (size_t i = job->without_given; i < job->without.count; i++) {
		bool first;
		int64_t pause = refused_rows_note(refused, job->without.items[i], now_ms, &first);

		if (first)
			log_warn("row_set_aside", LOG_INT("seq", job->without.items[i]),
				LOG_STR("error", job->err.text),
				LOG_STR("sqlstate", job->err.state), LOG_INT("retry_in_ms", pause),
				LOG_STR("next",
					"it stays waiting, and so do later messages of its key; "
					"others are claimed"));
	}
	metric_set(metrics_get(dispatch->options.metrics, METER_SET_ASIDE, "claim", NULL),
		(double)refused_rows_each(refused, now_ms, NULL, NULL));
}

/* A job failed. What it was to do is done again later. If the outcome of a claim is unknown, the batches that wait for
 * it may belong behind its rows, so their order is unknown. */
static void failed(struct dispatch *dispatch, struct job *job)
{
	for (size_t i = 0; job->kind == JOB_LANES && i < job->count; i++)
		claim_lane_again(dispatch, job, i);
	if (job->result == CLAIM_UNKNOWN) {
		dispatch->claimer.rescue = true;
		arrivals_mark_order_unknown(dispatch);
	} else if (job->kind == JOB_DUE || job->kind == JOB_LANES) {
		open_claims_answered(&dispatch->claimer.open, job->request.number);
	}
	if (job->kind == JOB_DUE || job->kind == JOB_LANES)
		refused_rows_failed(&dispatch->claimer.refused,
			job->result < 0 && db_error_may_be_row(&job->err));
	if (job->kind == JOB_SWEEP && db_error_may_be_row(&job->err)) {
		dispatch->claimer.sweep_page =
			false; /* a bad row of one partition does not stop the others */
		dispatch->claimer.sweep_next++;
	}
	if (job->kind == JOB_DUE) {
		claimer_scan_soon(dispatch);
		dispatch->claimer.more_due = false;
	}
	if (job->kind == JOB_HANDLERS)
		handler_memory_failed(dispatch);
	admission_release(dispatch->options.admission, job->reserved, 0);
	job->reserved = 0;
}

static void (*const finishers[JOB_KINDS])(struct dispatch *dispatch, struct job *job) = {
	[JOB_DUE] = due_finished,
	[JOB_LANES] = lanes_finished,
	[JOB_SWEEP] = sweep_finished,
	[JOB_RESCUE] = rescue_finished,
	[JOB_GAUGES] = gauges_finished,
	[JOB_HOLDS] = key_holds_finished,
	[JOB_HANDLERS] = handler_memory_answered,
};

/* A claim or a sweep that ran into statement_timeout halves the row limit of the next one. After many claims in time
 * the limit doubles again. */
static void adapt(struct claimer *claimer, const struct job *job)
{
	if (job->result != 0 && db_error_kind(&job->err) == PG_ERROR_SLOW) {
		claimer->halvings += claimer->halvings < HALVINGS_MOST ? 1 : 0;
		claimer->in_time = 0;
	} else if (job->result == 0 && job->claimed.count > 0 && claimer->halvings > 0 &&
		   ++claimer->in_time == DOUBLE_AFTER) {
		claimer->halvings--;
		claimer->in_time = 0;
	}
}

void claim_results_take(struct dispatch *dispatch, struct job *job)
{
	dispatch->claimer.under_way[job->kind] = false;
	if (job->kind == JOB_DUE || job->kind == JOB_LANES || job->kind == JOB_SWEEP)
		adapt(&dispatch->claimer, job);
	if (job->kind == JOB_DUE || job->kind == JOB_LANES) {
		dispatch->claimer.claims_under_way--;
		dispatch->claimer.bytes_asked -= job->request.max_bytes;
		open_claims_arrived(&dispatch->claimer.open, job->request.number);
		if (job->result == 0)
			note_refused(dispatch, job);
	}
	if (job->result != 0)
		failed(dispatch, job);
	else
		finishers[job->kind](dispatch, job);
	dispatch_schedule(dispatch);
}
