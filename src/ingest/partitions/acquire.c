/*
 * Acquires the partitions that Kafka assigned: makes this instance the owner of their rows in inbox_offsets, and finds
 * the rows that other instances still hold of them (rules R6, R12). A partition is delivered only after that search,
 * because a new owner must not overtake a message that the previous owner is still processing.
 *
 * An acquisition has two steps. First watermarks_take() or watermarks_adopt() writes
 * this instance as owner into inbox_offsets and raises the epoch; from then on no other instance
 * can claim rows of the partition. Then a search finds the rows that others claimed before. The
 * search may read a large range, so it runs in slices between polls: a consumer that does not poll
 * is removed from the group.
 *
 * If the partition is revoked or taken again during the search, `partition->acquisition` no longer
 * matches and the result is dropped.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/handover_queue.h"
#include "ingest/partitions/audience.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/ownership.h"
#include "ingest/partitions/steps.h"
#include "store/claims/other_claims.h"

#define ACQUIRE_RETRY_MS 100
#define A_THIRD          3
#define COMMIT_MS        1000 /* of the offsets, before partitions are taken again */
#define SLICE_MS         50   /* of each round */
#define LOG_AFTER_MS     1000 /* a longer search is logged */

/* The partitions whose rows were taken in one statement, and the search for claims of others on
 * them. */
struct acquisition {
	uint64_t id;
	struct watermarks rows;
	struct stream_ref *refs; /* their streams, ... */
	size_t *streams;         /* ... the indexes of these in the admission, ... */
	size_t *row_of;          /* ... and the row of each */
	size_t ref_count;
	enum partition_state state; /* entered when the search is complete */
	struct other_claims_search *search;
	int64_t since_ms;
	uint64_t connection; /* outage.connections when it began */
	STAILQ_ENTRY(acquisition) link;
};

/* The partition is complete: it belongs to this instance, and dispatch knows it. It is marked
 * dirty, because the table may contain waiting rows: new messages of an ordered partition then
 * check the table first, until a sweep finds that no row waits there. */
static void finish_partition(struct ingest *ingest, struct partition *partition,
	const struct watermark *row, enum partition_state state)
{
	partition_note_row(partition, row);
	partition->log = row->log;
	partition->acquisition = 0;
	partition->start.watermark_only = row->forced;
	partition->state = state;
	partition->retry_at_ms = 0;
	audience_dirty(ingest, partition);
}

static struct partition *partition_of(struct ingest *ingest, const struct watermark *row)
{
	return partitions_find(&ingest->partitions, row->topic, row->partition);
}

/* False when the partition was taken again, revoked, or assigned by Kafka while it was being
 * adopted. */
static bool is_still_taken(
	struct ingest *ingest, const struct acquisition *acquisition, const struct watermark *row)
{
	return partition_of(ingest, row)->acquisition == acquisition->id;
}

static size_t count_still_taken(struct ingest *ingest, const struct acquisition *acquisition)
{
	size_t count = 0;

	for (size_t i = 0; i < acquisition->rows.count; i++)
		count += is_still_taken(ingest, acquisition, &acquisition->rows.items[i]);
	return count;
}

static void fill_handover(
	struct ingest *ingest, const struct acquisition *acquisition, struct handover *handover)
{
	const struct other_claims *found = other_claims_found(acquisition->search);

	for (size_t i = 0; i < acquisition->ref_count; i++) {
		if (is_still_taken(
			    ingest, acquisition, &acquisition->rows.items[acquisition->row_of[i]]))
			handover->acquired[handover->acquired_count++] = acquisition->streams[i];
	}
	for (size_t i = 0; i < found->count; i++) {
		const struct other_claim *claim = &found->items[i];
		const struct watermark *row =
			&acquisition->rows.items[acquisition->row_of[claim->ref]];

		if (is_still_taken(ingest, acquisition, row))
			handover->held[handover->held_count++] = (struct held_row){
				.stream = acquisition->streams[claim->ref],
				.seq = claim->seq,
				.offset = claim->offset,
				.key_hash = claim->key_hash,
			};
	}
}

/* Passes the partitions and the rows that others still hold to dispatch, before any message of them
 * is stored. A key with such a row is then held before its next message can be delivered (rule
 * R12). */
static int hand_to_dispatch(
	struct ingest *ingest, const struct acquisition *acquisition, struct err *err)
{
	const struct handover_room room = {
		.acquired = acquisition->ref_count,
		.held = other_claims_found(acquisition->search)->count,
	};
	struct handover *handover = NULL;
	int r = handover_new(&handover, &room, err);

	if (r < 0)
		return r;
	fill_handover(ingest, acquisition, handover);
	if (handover->held_count > 0)
		log_info("keys_held_back", LOG_INT("messages", (int64_t)handover->held_count),
			LOG_STR("next", "other instances still hold these messages; their keys are "
					"delivered when those are settled or the leases end"));
	handover_queue_add(ingest, handover);
	return 0;
}

/* --- One acquisition --------------------------------------------------------------------------- */

static void acquisition_free(struct acquisition *acquisition)
{
	if (acquisition == NULL)
		return;
	other_claims_search_free(acquisition->search);
	watermarks_free(&acquisition->rows);
	free(acquisition->refs);
	free(acquisition->streams);
	free(acquisition->row_of);
	free(acquisition);
}
DEFINE_CLEANUP(struct acquisition *, acquisition_free);

/* Frees the acquisition; its unfinished partitions are acquired again. */
static void drop_acquisition(struct ingest *ingest, struct acquisition *acquisition)
{
	for (size_t i = 0; i < acquisition->rows.count; i++) {
		if (is_still_taken(ingest, acquisition, &acquisition->rows.items[i]))
			partition_of(ingest, &acquisition->rows.items[i])->acquisition = 0;
	}
	acquisition_free(acquisition);
}

/* The streams of all partitions, also of consumers that do not want their topics any more. */
static int list_streams(struct ingest *ingest, struct acquisition *acquisition,
	const struct watermarks *rows, struct err *err)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++)
		count += partition_of(ingest, &rows->items[i])->audience.count;
	acquisition->refs = calloc(count + 1, sizeof(*acquisition->refs));
	acquisition->streams = calloc(count + 1, sizeof(*acquisition->streams));
	acquisition->row_of = calloc(count + 1, sizeof(*acquisition->row_of));
	if (acquisition->refs == NULL || acquisition->streams == NULL ||
		acquisition->row_of == NULL)
		return err_memory(err);
	for (size_t i = 0; i < rows->count; i++) {
		const struct audience *audience = &partition_of(ingest, &rows->items[i])->audience;

		for (size_t k = 0; k < audience->count; k++) {
			struct admission_stream stream = admission_get(
				ingest->options.admission, audience->members[k].stream);
			size_t at = acquisition->ref_count++;

			acquisition->refs[at] = (struct stream_ref){ stream.topic, stream.partition,
				stream.consumer, stream.ordering };
			acquisition->streams[at] = audience->members[k].stream;
			acquisition->row_of[at] = i;
		}
	}
	return 0;
}

int acquire_begin(
	struct ingest *ingest, struct watermarks *rows, enum partition_state state, struct err *err)
{
	CLEANUP(acquisition_freep)
	struct acquisition *acquisition = calloc(1, sizeof(*acquisition));
	struct other_claims_request request = {
		.instance = ingest->options.instance,
	};
	int r;

	if (acquisition == NULL)
		return err_memory(err);
	acquisition->id = ++ingest->acquisitions.begun;
	acquisition->state = state;
	acquisition->since_ms = clock_now_ms();
	acquisition->connection = ingest->outage.connections;
	r = list_streams(ingest, acquisition, rows, err);
	if (r < 0)
		return r;
	request.refs = acquisition->refs;
	request.count = acquisition->ref_count;
	FAULT_POINT("before_foreign");
	r = other_claims_begin(&acquisition->search, ingest->db, &request, err);
	if (r < 0)
		return r;
	acquisition->rows = *rows;
	*rows = (struct watermarks){ NULL, 0 };
	for (size_t i = 0; i < acquisition->rows.count; i++)
		partition_of(ingest, &acquisition->rows.items[i])->acquisition = acquisition->id;
	STAILQ_INSERT_TAIL(&ingest->acquisitions.list, acquisition, link);
	acquisition = NULL;
	return 0;
}

/* Dispatch receives the partitions before they enter their state. In the other order a batch could
 * be stored and delivered before dispatch knows which keys it must hold (rule R12). */
static int end_acquisition(struct ingest *ingest, struct acquisition *acquisition, struct err *err)
{
	size_t count = count_still_taken(ingest, acquisition);
	int r = count == 0 ? 0 : hand_to_dispatch(ingest, acquisition, err);

	for (size_t i = 0; r == 0 && i < acquisition->rows.count; i++) {
		if (is_still_taken(ingest, acquisition, &acquisition->rows.items[i]))
			finish_partition(ingest, partition_of(ingest, &acquisition->rows.items[i]),
				&acquisition->rows.items[i], acquisition->state);
	}
	if (r == 0 && count > 0 && acquisition->state == PARTITION_ADOPTED)
		log_info("partitions_adopted", LOG_INT("count", (int64_t)count),
			LOG_STR("topic", acquisition->rows.items[0].topic),
			LOG_STR("next", "no member is assigned to them: their waiting messages are "
					"processed here"));
	return r;
}

static void log_wait(struct ingest *ingest, const struct acquisition *acquisition, const char *next)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&ingest->start_log_limit, clock_now_ms(), &held))
		log_info("partitions_wait", LOG_INT("count", (int64_t)acquisition->rows.count),
			LOG_STR("next", next), LOG_INT("held_back", held));
}

/* Runs one slice of the search. True: the acquisition has ended, with or without success. */
static bool search_slice(
	struct ingest *ingest, struct acquisition *acquisition, int64_t until_ms, struct err *err)
{
	int r = count_still_taken(ingest, acquisition) == 0
			? 0
			: other_claims_continue(acquisition->search, until_ms, err);

	if (r == OTHER_CLAIMS_MORE && clock_now_ms() - acquisition->since_ms > LOG_AFTER_MS)
		log_wait(ingest, acquisition,
			"the search for messages that other instances still hold takes long; it "
			"continues");
	if (r == OTHER_CLAIMS_MANY)
		log_wait(ingest, acquisition,
			"other instances still hold too many of their messages; the search is "
			"repeated");
	if (r == 0)
		r = end_acquisition(ingest, acquisition, err);
	if (r < 0)
		db_outage_begin(ingest, err);
	return r == 0 || r == OTHER_CLAIMS_MANY;
}

bool acquire_is_under_way(const struct ingest *ingest)
{
	return !STAILQ_EMPTY(&ingest->acquisitions.list) && !ingest->outage.down &&
	       !flow_is_halted(ingest);
}

/* Runs the searches in turn until the slice ends, so that neither polling nor another partition
 * waits for a long search (rule R12). */
static void search_in_turn(struct ingest *ingest)
{
	int64_t until_ms = clock_now_ms() + SLICE_MS;
	struct acquisition *acquisition;
	struct err err = ERR_INIT;

	while (acquire_is_under_way(ingest)) {
		acquisition = STAILQ_FIRST(&ingest->acquisitions.list);
		STAILQ_REMOVE_HEAD(&ingest->acquisitions.list, link);
		if (search_slice(ingest, acquisition, until_ms, &err))
			drop_acquisition(ingest, acquisition);
		else
			STAILQ_INSERT_TAIL(&ingest->acquisitions.list, acquisition, link);
		if (clock_now_ms() >= until_ms)
			return;
	}
}

void acquire_drop_all(struct ingest *ingest)
{
	struct acquisition *acquisition;

	while ((acquisition = STAILQ_FIRST(&ingest->acquisitions.list)) != NULL) {
		STAILQ_REMOVE_HEAD(&ingest->acquisitions.list, link);
		drop_acquisition(ingest, acquisition);
	}
}

/* --- Consumers ---------------------------------------------------------------------------------- */

/* Acquires all partitions of this instance again, with the streams of new consumers. The group's offsets are committed
 * first, so that nothing is read twice. */
static void take_again(struct ingest *ingest)
{
	acquire_drop_all(ingest);
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->due = partition_is_ours(ingest->partitions.items[i]);
	if (partitions_number(&ingest->partitions, partition_is_due) == 0)
		return;
	log_info("partitions_taken_again",
		LOG_STR("why",
			"there is a new consumer, and other sidecars may hold messages of it"));
	commit_offsets_due(ingest, COMMIT_MS);
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->due)
			ownership_take_again(ingest, ingest->partitions.items[i]);
	}
}

/* After the lock of the rows: the consumers for which earlier owners have stored messages are known now. Rows that were
 * taken with a less strict ordering are taken once more. */
int acquire_read_audience(struct ingest *ingest, enum ordering taken_with, struct err *err)
{
	int r = audience_read(ingest, err);

	if (r == AUDIENCE_GROWN)
		take_again(ingest);
	if (r < 0)
		return r;
	return admission_strictest(ingest->options.admission) == taken_with ? 0 : TAKE_AGAIN;
}

/* True when the known consumers have been read in this instance run. */
static bool keep_audience(struct ingest *ingest)
{
	struct audiences *audiences = &ingest->audiences;
	int64_t now_ms = clock_now_ms();
	struct err err = ERR_INIT;
	int64_t version;
	int r;

	if (now_ms < audiences->at_ms ||
		(audiences->defined &&
			admission_is_unchanged(ingest->options.admission, audiences->version)))
		return audiences->known.count > 0;
	audiences->at_ms = now_ms + ingest->options.config->worker.lease / A_THIRD;
	version = admission_look(ingest->options.admission).version;
	r = audience_keep(ingest, &err);
	if (r == 0)
		r = audience_read(ingest, &err);
	if (r == AUDIENCE_GROWN)
		take_again(ingest);
	if (r < 0)
		db_outage_begin(ingest, &err);
	else
		audiences->version = version;
	return r >= 0;
}

/* --- Acquiring --------------------------------------------------------------------------------- */

/* Takes the rows of all due partitions in one statement. If its answer is lost, the table names
 * this instance with a new epoch; the next attempt raises the epoch again. Nothing is read before
 * an answer arrives. */
static void acquire_due(struct ingest *ingest)
{
	enum ordering ordering = admission_strictest(ingest->options.admission);
	struct watermarks rows = { .items = NULL };
	struct err err = ERR_INIT;
	size_t count = 0;
	const struct partition_ref *refs;
	int64_t now_ms = clock_now_ms();
	int r;

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = partition_is_new(partition) && now_ms >= partition->retry_at_ms;
		if (partition->due)
			partition->retry_at_ms = now_ms + ACQUIRE_RETRY_MS;
	}
	refs = partitions_refs(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	batch_writer_set_ordering(ingest->writer, ordering);
	FAULT_POINT("before_take");
	r = watermarks_take(ingest->writer, refs, count, &rows, &err);
	FAULT_POINT("after_take");
	if (r == 0 && rows.count > 0)
		r = acquire_read_audience(ingest, ordering, &err);
	if (r == 0 && rows.count > 0)
		r = acquire_begin(ingest, &rows, PARTITION_TAKEN, &err);
	watermarks_free(&rows);
	if (r < 0)
		db_outage_begin(ingest, &err);
	else if (r == WRITER_FENCED)
		ingest_fenced(ingest);
	else
		db_outage_over(ingest);
}

void acquire_step(struct ingest *ingest)
{
	const struct acquisition *first;

	if (!keep_audience(ingest))
		return;
	first = STAILQ_FIRST(&ingest->acquisitions.list);
	/* A new connection may lead to another server, so the partitions of earlier searches must be acquired again. All
	 * searches in progress began on the same connection. */
	if (first != NULL && first->connection != ingest->outage.connections)
		acquire_drop_all(ingest);
	acquire_due(ingest);
	if (acquire_is_under_way(ingest))
		search_in_turn(ingest);
}
