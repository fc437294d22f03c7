/*
 * Key holds (rule R12). When this instance acquires a partition, other instances can still hold rows of it: a handler
 * is at work, or the instance died and its lease still runs. A delivery of a later row of the same key would
 * break the order. So nothing of such a key is delivered here, and arriving messages of it are parked.
 *
 * A job reads the state of these rows a few times a second. If a row is processed or dead, its hold ends. If it waits
 * again, its lane notes that it is in the table, and claims continue the lane from there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"

#define CHECK_EVERY_MS 200
#define CHECK_MOST     1000 /* rows in one check */

void key_holds_fini(struct key_holds *holds)
{
	free(holds->items);
	*holds = (struct key_holds){ NULL };
}

static int make_room(struct key_holds *holds, size_t more)
{
	size_t room = holds->count + more;
	struct held_row *items;

	if (room <= holds->room)
		return 0;
	items = realloc(holds->items, room * sizeof(*items));
	if (items == NULL)
		return FAULT_MEMORY;
	holds->items = items;
	holds->room = room;
	return 0;
}

/* A hold that is not recorded would break the order of its key. The process ends instead and its rows are rescued. */
static void report_no_memory(struct dispatch *dispatch)
{
	struct err err = ERR_INIT;

	(void)err_memory(&err);
	supervision_report_fault(dispatch->options.supervision, &err);
}

void key_holds_add(struct dispatch *dispatch, const struct handover *handover)
{
	struct key_holds *holds = &dispatch->key_holds;

	if (handover->held_count > 0 && make_room(holds, handover->held_count) < 0) {
		report_no_memory(dispatch);
		return;
	}
	for (size_t i = 0; i < handover->held_count; i++) {
		const struct held_row *row = &handover->held[i];

		if (lanes_hold(&dispatch->lanes, row->partition, row->key_hash) < 0)
			report_no_memory(dispatch);
		else
			holds->items[holds->count++] = *row;
	}
}

void key_holds_drop(struct dispatch *dispatch, size_t partition)
{
	struct key_holds *holds = &dispatch->key_holds;
	size_t kept = 0;

	for (size_t i = 0; i < holds->count; i++) {
		const struct held_row *row = &holds->items[i];

		if (row->partition == partition)
			lanes_unhold(&dispatch->lanes, row->partition, row->key_hash, -1);
		else
			holds->items[kept++] = *row;
	}
	holds->count = kept;
}

static int by_value(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a;
	int64_t second = *(const int64_t *)b;

	return (first > second) - (first < second);
}

struct job *key_holds_job(struct dispatch *dispatch, int64_t now_ms)
{
	struct key_holds *holds = &dispatch->key_holds;
	size_t count = holds->count < CHECK_MOST ? holds->count : CHECK_MOST;
	struct job *job;

	if (count == 0 || now_ms < holds->check_at_ms)
		return NULL;
	holds->check_at_ms = now_ms + CHECK_EVERY_MS;
	job = job_new(JOB_HOLDS);
	if (job == NULL)
		return NULL;
	job->request.instance = dispatch->options.instance;
	job->revocations = dispatch->revocations;
	job->seqs = calloc(count, sizeof(*job->seqs));
	job->states = calloc(count, sizeof(*job->states));
	if (job->seqs == NULL || job->states == NULL) {
		job_free(job);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		job->seqs[i] = holds->items[(holds->next + i) % holds->count].seq;
	holds->next = (holds->next + count) % holds->count;
	job->count = count;
	qsort(job->seqs, count, sizeof(*job->seqs), by_value);
	return job;
}

static enum other_claims_state state_of(const struct job *job, int64_t seq)
{
	const int64_t *at = bsearch(&seq, job->seqs, job->count, sizeof(*job->seqs), by_value);

	return at == NULL ? OTHER_CLAIMS_HELD : job->states[at - job->seqs];
}

/* If the row waits again, the partition is dirty: the INSERT of later rows of the key must check the table for
 * older rows. */
static void release_hold(
	struct dispatch *dispatch, const struct held_row *row, enum other_claims_state state)
{
	bool waits = state == OTHER_CLAIMS_WAITING;

	if (waits) {
		admission_dirty(dispatch->options.admission, row->partition);
		dispatch->claimer.poll_at_ms = 0;
	}
	lanes_unhold(&dispatch->lanes, row->partition, row->key_hash, waits ? row->offset : -1);
}

void key_holds_finished(struct dispatch *dispatch, struct job *job)
{
	struct key_holds *holds = &dispatch->key_holds;
	size_t kept = 0;

	/* A partition was revoked while the job ran. It may be assigned again by now, and another instance may have
	 * claimed the rows in between. This result is too old; the next check reads them again. */
	if (job->revocations != dispatch->revocations)
		return;
	for (size_t i = 0; i < holds->count; i++) {
		const struct held_row row = holds->items[i];
		enum other_claims_state state = state_of(job, row.seq);

		if (state == OTHER_CLAIMS_HELD)
			holds->items[kept++] = row;
		else
			release_hold(dispatch, &row, state);
	}
	if (kept == 0 && holds->count > 0)
		log_info("keys_released", LOG_STR("next", "no other sidecar holds messages of the "
							  "partitions of this one any more"));
	holds->count = kept;
}
