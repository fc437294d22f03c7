/*
 * Handles the results of claims:
 * - Claimed rows enter memory in their order.
 * - Each lane learns where its run ends and whether more rows follow in the table.
 * - A stream without due rows is drained: new rows of it may be born claimed again.
 * - A claim that failed is made again later. A claim whose outcome is unknown starts a rescue.
 */
#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"
#include "report/meters.h"

/* True when a stream is in overflow and its rows may be claimed now. */
static bool any_overflow(const struct table *table)
{
	size_t count = admission_count(table->context->options.admission);

	for (size_t i = 0; i < count; i++) {
		struct admission_stream stream =
			admission_get(table->context->options.admission, i);

		if (stream.assigned && stream.overflow && jobs_may_claim_of(table, &stream, i))
			return true;
	}
	return false;
}

/* Only the last row of a lane says where its run ends and whether more rows follow. The rows of a claim are in their
 * order, so the last call for a lane overwrites the earlier ones. */
static void note_runs(struct table *table, const struct job *job)
{
	const struct claimed *claimed = &job->claim.claimed;

	for (size_t i = 0; i < claimed->count; i++) {
		const struct claimed_row *row = &claimed->rows[i];
		const struct message *message = row->message;
		enum ordering ordering = job->streams.items[row->stream].ordering;
		struct lane_run run = { message->offset, row->followed,
			(uint64_t)job->request.number };

		if (ordering == ORDERING_PARTITION)
			lanes_claimed(
				&table->order->lanes, job->streams.indexes[row->stream], 0, &run);
		else if (ordering == ORDERING_KEY && message_is_keyed(message))
			lanes_claimed(&table->order->lanes, job->streams.indexes[row->stream],
				message->key_hash, &run);
	}
}

/*
 * True when the table may hold older rows of the same keys that neither the claim saw nor memory knows about:
 * - The answer to a COMMIT was lost while the claim ran. The rows of that batch were given back to the table.
 * - A partition was revoked while the claim ran, and its lanes were forgotten. It may be assigned again by now.
 */
static bool is_order_unknown(const struct table *table, const struct job *job)
{
	return job->claim.revocations != table->order->revocations ||
	       job->claim.lost != atomic_load(&table->context->options.commit_handover->lost);
}

static void admit_claimed(struct table *table, struct job *job)
{
	bool order_unknown = is_order_unknown(table, job);
	struct claimed *claimed = &job->claim.claimed;
	size_t bytes = 0;

	if (claimed->count > 0)
		table->gauges.unchanged_until_ms = 0; /* fewer rows wait now */
	for (size_t i = 0; i < claimed->count; i++)
		bytes += claimed->rows[i].message->bytes;
	admission_charge(table->context->options.admission, bytes);
	note_runs(table, job);
	for (size_t i = 0; i < claimed->count; i++) {
		struct message *message = claimed->rows[i].message;

		claimed->rows[i].message = NULL;
		entry_admit(table->order, message, job->streams.indexes[claimed->rows[i].stream],
			order_unknown ? ENTRY_CLAIMED_ORDER_UNKNOWN : ENTRY_CLAIMED,
			job->request.number);
	}
	if (job->claim.reserved > claimed->count)
		admission_release(
			table->context->options.admission, job->claim.reserved - claimed->count, 0);
	job->claim.reserved = 0;
	open_claims_answered(&table->order->open_claims, job->request.number);
}

/* A full scan took every due row, so new rows of these streams may be born claimed again. Not while another claim
 * runs: this one passed over its rows, and they are due again if that claim fails. */
static void note_drained(struct table *table, const struct job *job)
{
	if (table->claimer.claims_under_way > 0)
		return;
	for (size_t i = 0; i < job->streams.count; i++)
		admission_drained(table->context->options.admission, job->streams.indexes[i],
			job->streams.versions[i]);
}

/* Notes where the next scan begins. After a revocation the cursor was reset, so the result is not noted. */
static void note_starts(struct table *table, const struct job *job)
{
	struct claim_cursor *cursor = &table->claimer.cursor;
	const struct due_scan scan = {
		.full = job->claim.full,
		.more_due = table->claimer.more_due,
		.took_ms = job->took_us / 1000,
		.now_ms = clock_now_ms(),
	};

	if (job->claim.revocations != table->order->revocations)
		return;
	for (size_t i = 0; i < job->streams.count; i++) {
		if (job->claim.claimed.latest[i] >= 0)
			claim_cursor_note(cursor, job->streams.indexes[i],
				job->claim.claimed.latest[i], job->claim.full);
	}
	claim_cursor_finish_scan(cursor, &scan);
}

/* A claim along the offsets also takes rows that have no time, which a look does not see. */
static bool has_whole(const struct job_streams *streams)
{
	bool any = false;

	for (size_t i = 0; i < streams->count; i++)
		any = any || streams->items[i].ordering == ORDERING_PARTITION;
	return any;
}

static void due_finished(struct table *table, struct job *job)
{
	struct claimer *claimer = &table->claimer;

	claimer->more_due = job->claim.claimed.cut || job->claim.claimed.limited;
	note_starts(table, job);
	if (!claimer->more_due && job->claim.full)
		note_drained(table, job);
	for (size_t i = 0; job->claim.claimed.parked > 0 && i < job->streams.count; i++)
		admission_dirty(table->context->options.admission, job->streams.indexes[i]);
	if (job->claim.claimed.seen == 0 && !job->claim.full) {
		if (claimer->cursor.full_at_ms < claimer->poll_at_ms)
			claimer->poll_at_ms = claimer->cursor.full_at_ms;
	} else if (job->claim.claimed.seen > 0 || any_overflow(table)) {
		claimer->poll_at_ms = 0; /* more rows may be due */
	} else if (claimer->poll_at_ms == job->claim.poll_at_ms) {
		/* Known retries and replays wake the claimer themselves, so the next poll is later. If one has done so while this
		 * claim ran, the claim may not have seen its row. */
		claimer->poll_at_ms += table->context->options.config->worker.poll;
		if (!has_whole(&job->streams))
			claimer->quiet_poll_at_ms = claimer->poll_at_ms;
	}
	admit_claimed(table, job);
	metric_observe(table->claim_seconds, (double)job->took_us / 1000000.0);
}

static bool was_claimed(const struct job *job, size_t lane)
{
	for (size_t i = 0; i < job->claim.claimed.count; i++) {
		if (job->claim.claimed.rows[i].stream == lane)
			return true;
	}
	return false;
}

static void claim_lane_again(struct table *table, const struct job *job, size_t lane)
{
	(void)lanes_parked(&table->order->lanes, job->streams.indexes[lane],
		job->claim.hashes[lane], -1, NULL);
}

static void lanes_finished(struct table *table, struct job *job)
{
	/* Rows did not fit into the byte budget, or a row died in the claim. The result does not say of which lane,
	 * so all lanes that brought nothing are claimed again. */
	bool again = job->claim.claimed.cut || job->claim.claimed.parked > 0;

	for (size_t i = 0; i < job->streams.count; i++) {
		if (was_claimed(job, i))
			continue;
		if (again)
			claim_lane_again(table, job, i);
		else
			lanes_block(&table->order->lanes, job->streams.indexes[i],
				job->claim.hashes[i]);
	}
	admit_claimed(table, job);
	metric_observe(table->claim_seconds, (double)job->took_us / 1000000.0);
}

/* A claim with `isolate` tried each row alone. The rows that failed are left out of claims for a while. */
static void note_refused(struct table *table, const struct job *job)
{
	struct refused_rows *refused = &table->claimer.refused;
	int64_t now_ms = clock_now_ms();

	if (job->claim.isolate)
		refused_rows_probed(refused);
	refused_rows_failed(refused, false);
	if (!job->claim.isolate && refused->count == 0 && job->claim.without.count == 0)
		return;
	for (size_t i = job->claim.without_given; i < job->claim.without.count; i++) {
		bool first;
		int64_t pause =
			refused_rows_note(refused, job->claim.without.items[i], now_ms, &first);

		if (first)
			log_warn("row_set_aside", LOG_INT("seq", job->claim.without.items[i]),
				LOG_STR("error", job->err.text),
				LOG_STR("sqlstate", job->err.state), LOG_INT("retry_in_ms", pause),
				LOG_STR("next",
					"it stays waiting, and so do later messages of its key; "
					"others are claimed"));
	}
	metric_set(metrics_get(table->context->options.metrics, METER_SET_ASIDE, "claim", NULL),
		(double)refused_rows_each(refused, now_ms, NULL, NULL));
}

/* The claim is made again later. If its outcome is unknown, its rows may be claimed in the table: a rescue gives them
 * back first. */
static void failed(struct table *table, struct job *job)
{
	for (size_t i = 0; job->kind == JOB_LANES && i < job->streams.count; i++)
		claim_lane_again(table, job, i);
	if (job->result == CLAIM_UNKNOWN)
		table->claimer.rescue = true;
	else
		open_claims_answered(&table->order->open_claims, job->request.number);
	refused_rows_failed(
		&table->claimer.refused, job->result < 0 && db_error_may_be_row(&job->err));
	if (job->kind == JOB_DUE) {
		claimer_scan_soon(table);
		table->claimer.more_due = false;
	}
	admission_release(table->context->options.admission, job->claim.reserved, 0);
	job->claim.reserved = 0;
}

void claim_results_take(struct table *table, struct job *job)
{
	table->claimer.claims_under_way--;
	table->claimer.bytes_asked -= job->request.max_bytes;
	open_claims_arrived(&table->order->open_claims, job->request.number);
	if (job->result == 0)
		note_refused(table, job);
	if (job->result != 0)
		failed(table, job);
	else if (job->kind == JOB_DUE)
		due_finished(table, job);
	else
		lanes_finished(table, job);
	context_request_round(table->context);
}
