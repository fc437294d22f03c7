#include "ingest/taking.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/outage.h"
#include "ingest/outbox.h"
#include "store/foreign.h"

#define TAKE_RETRY_MS 100
#define SLICE_MS      50   /* of each round */
#define LONG_MS       1000 /* then it is said */

/* Partitions whose rows have been made ours, and the search for what others hold of them. */
struct taking {
	uint64_t id;
	struct watermarks rows;
	struct partition_ref *refs;
	enum partition_state state; /* they enter when it is over */
	struct foreign_search *search;
	int64_t since_ms;
	STAILQ_ENTRY(taking) link;
};

static void mark_new(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = partition_is_new(partition) && now_ms >= partition->retry_at_ms;
		if (partition->due)
			partition->retry_at_ms = now_ms + TAKE_RETRY_MS;
	}
}

/* Its row is ours. Rows of it may wait: the ordered ones that come ask the table, until a sweep finds that
 * nothing waits there. */
static void taken(struct ingest *ingest, struct partition *partition, const struct watermark *row,
	enum partition_state state)
{
	partition_note_row(partition, row);
	partition->taking = 0;
	partition->alone = row->forced;
	partition->state = state;
	partition->retry_at_ms = 0;
	gate_dirty(ingest->options.gate, partition->index);
}

static struct partition *partition_of(struct ingest *ingest, const struct watermark *row)
{
	return partitions_find(&ingest->partitions, row->topic, row->partition);
}

/* Not since, if it was taken anew, revoked, or assigned to us while it was to be adopted. */
static bool is_still_taken(
	struct ingest *ingest, const struct taking *taking, const struct watermark *row)
{
	return partition_of(ingest, row)->taking == taking->id;
}

static size_t count_still_taken(struct ingest *ingest, const struct taking *taking)
{
	size_t count = 0;

	for (size_t i = 0; i < taking->rows.count; i++)
		count += is_still_taken(ingest, taking, &taking->rows.items[i]);
	return count;
}

static void fill_handover(
	struct ingest *ingest, const struct taking *taking, struct handover *handover)
{
	const struct foreign_claims *found = foreign_found(taking->search);

	for (size_t i = 0; i < taking->rows.count; i++) {
		if (is_still_taken(ingest, taking, &taking->rows.items[i]))
			handover->taken[handover->taken_count++] =
				partition_of(ingest, &taking->rows.items[i])->index;
	}
	for (size_t i = 0; i < found->count; i++) {
		const struct foreign_claim *claim = &found->items[i];
		const struct watermark *row = &taking->rows.items[claim->ref];

		if (is_still_taken(ingest, taking, row))
			handover->held[handover->held_count++] = (struct held_row){
				.partition = partition_of(ingest, row)->index,
				.seq = claim->seq,
				.offset = claim->offset,
				.key_hash = claim->key_hash,
			};
	}
}

/* Dispatch hears of the partitions together with the rows others still hold of them, and before anything
 * is stored of them: so whatever is delivered of a key comes after those (rule R12). */
static int tell_dispatch(struct ingest *ingest, const struct taking *taking, struct err *err)
{
	const struct handover_room room = {
		.taken = taking->rows.count,
		.held = foreign_found(taking->search)->count,
	};
	struct handover *handover = NULL;
	int r = handover_new(&handover, &room, err);

	if (r < 0)
		return r;
	fill_handover(ingest, taking, handover);
	if (handover->held_count > 0)
		log_info("keys_held_back", LOG_INT("messages", (int64_t)handover->held_count),
			LOG_STR("next",
				"another sidecar is still at them; their keys go on when it "
				"is done, or its lease is over"));
	outbox_add(ingest, handover);
	return 0;
}

/* --- One taking ---------------------------------------------------------------------------------- */

static void taking_free(struct taking *taking)
{
	if (taking == NULL)
		return;
	foreign_search_free(taking->search);
	watermarks_free(&taking->rows);
	free(taking->refs);
	free(taking);
}
DEFINE_CLEANUP(struct taking *, taking_free);

/* Its partitions are to be taken again. */
static void drop(struct ingest *ingest, struct taking *taking)
{
	for (size_t i = 0; i < taking->rows.count; i++) {
		if (is_still_taken(ingest, taking, &taking->rows.items[i]))
			partition_of(ingest, &taking->rows.items[i])->taking = 0;
	}
	taking_free(taking);
}

int taking_begin(
	struct ingest *ingest, struct watermarks *rows, enum partition_state state, struct err *err)
{
	CLEANUP(taking_freep) struct taking *taking = calloc(1, sizeof(*taking));
	struct foreign_request request = {
		.instance = ingest->options.instance,
		.ordering = ingest->options.config->inbox.ordering,
		.count = rows->count,
	};
	int r;

	if (taking == NULL)
		return err_memory(err);
	taking->id = ++ingest->takings_begun;
	taking->state = state;
	taking->since_ms = clock_now_ms();
	taking->refs = calloc(rows->count + 1, sizeof(*taking->refs));
	if (taking->refs == NULL)
		return err_memory(err);
	for (size_t i = 0; i < rows->count; i++)
		taking->refs[i] =
			(struct partition_ref){ rows->items[i].topic, rows->items[i].partition };
	request.refs = taking->refs;
	FAULT_POINT("before_foreign");
	r = foreign_begin(&taking->search, ingest->db, &request, err);
	if (r < 0)
		return r;
	taking->rows = *rows;
	*rows = (struct watermarks){ NULL, 0 };
	for (size_t i = 0; i < taking->rows.count; i++)
		partition_of(ingest, &taking->rows.items[i])->taking = taking->id;
	STAILQ_INSERT_TAIL(&ingest->takings, taking, link);
	taking = NULL;
	return 0;
}

static int end(struct ingest *ingest, struct taking *taking, struct err *err)
{
	size_t count = count_still_taken(ingest, taking);
	int r = count == 0 ? 0 : tell_dispatch(ingest, taking, err);

	for (size_t i = 0; r == 0 && i < taking->rows.count; i++) {
		if (is_still_taken(ingest, taking, &taking->rows.items[i]))
			taken(ingest, partition_of(ingest, &taking->rows.items[i]),
				&taking->rows.items[i], taking->state);
	}
	if (r == 0 && count > 0 && taking->state == PARTITION_ADOPTED)
		log_info("partitions_adopted", LOG_INT("count", (int64_t)count),
			LOG_STR("topic", taking->rows.items[0].topic),
			LOG_STR("next", "nobody is assigned them: their waiting messages are "
					"handled here"));
	return r;
}

static void say_wait(struct ingest *ingest, const struct taking *taking, const char *next)
{
	int64_t held = 0;

	if (limit_pass(&ingest->place_limit, clock_now_ms(), &held))
		log_info("partitions_wait", LOG_INT("count", (int64_t)taking->rows.count),
			LOG_STR("next", next), LOG_INT("held_back", held));
}

/* A slice of its search; true: it is over, whatever became of it. */
static bool go_on(struct ingest *ingest, struct taking *taking, int64_t until_ms, struct err *err)
{
	int r = count_still_taken(ingest, taking) == 0
			? 0
			: foreign_go_on(taking->search, until_ms, err);

	if (r == FOREIGN_MORE && clock_now_ms() - taking->since_ms > LONG_MS)
		say_wait(ingest, taking,
			"looking at what other sidecars still hold of them, on and on");
	if (r == FOREIGN_MANY)
		say_wait(ingest, taking,
			"another sidecar still holds too many of their messages; asking again");
	if (r == 0)
		r = end(ingest, taking, err);
	if (r < 0)
		outage_begin(ingest, err);
	return r == 0 || r == FOREIGN_MANY;
}

bool taking_goes_on(const struct ingest *ingest)
{
	return !STAILQ_EMPTY(&ingest->takings) && !ingest->outage.down &&
	       (ingest->holds & HOLD_HALTED) == 0;
}

/* Each in turn, as long as the slice lasts: whoever waits for Kafka, and for the other partitions, does so for no
 * longer (rule R12). */
static void go_on_with_some(struct ingest *ingest)
{
	int64_t until_ms = clock_now_ms() + SLICE_MS;
	struct taking *taking;
	struct err err = ERR_INIT;

	while (taking_goes_on(ingest)) {
		taking = STAILQ_FIRST(&ingest->takings);
		STAILQ_REMOVE_HEAD(&ingest->takings, link);
		if (go_on(ingest, taking, until_ms, &err))
			drop(ingest, taking);
		else
			STAILQ_INSERT_TAIL(&ingest->takings, taking, link);
		if (clock_now_ms() >= until_ms)
			return;
	}
}

void taking_drop_all(struct ingest *ingest)
{
	struct taking *taking;

	while ((taking = STAILQ_FIRST(&ingest->takings)) != NULL) {
		STAILQ_REMOVE_HEAD(&ingest->takings, link);
		drop(ingest, taking);
	}
}

/* --- Taking -------------------------------------------------------------------------------------- */

static void take_due(struct ingest *ingest)
{
	struct watermarks rows = { .items = NULL };
	struct err err = ERR_INIT;
	size_t count = 0;
	CLEANUP(freep) struct partition_ref *refs = NULL;
	int r;

	mark_new(ingest);
	refs = partitions_refs(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	FAULT_POINT("before_take");
	r = inbox_take(ingest->inbox, refs, count, &rows, &err);
	FAULT_POINT("after_take");
	if (r == 0 && rows.count > 0)
		r = taking_begin(ingest, &rows, PARTITION_TAKEN, &err);
	watermarks_free(&rows);
	if (r < 0)
		outage_begin(ingest, &err);
	else if (r == INBOX_FENCED)
		ingest_fenced(ingest);
	else
		outage_over(ingest);
}

void taking_step(struct ingest *ingest)
{
	take_due(ingest);
	if (taking_goes_on(ingest))
		go_on_with_some(ingest);
}
