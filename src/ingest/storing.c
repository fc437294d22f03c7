#include "ingest/storing.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/fates.h"
#include "ingest/outage.h"
#include "ingest/outbox.h"

#define ROOM_WAIT_MS    250
#define DRAINED_WAIT_MS 50

static bool is_touched(const struct partition *partition)
{
	return partition->touched;
}

bool storing_has_work(const struct ingest *ingest)
{
	return ingest->batch_since_us != 0;
}

/* --- Room and places ---------------------------------------------------------------------------- */

static int room_for_places(struct places *places, size_t count)
{
	struct message **messages;
	size_t *indexes;
	struct placement *placements;

	if (count <= places->room)
		return 0;
	messages = realloc(places->messages, count * sizeof(void *));
	if (messages != NULL)
		places->messages = messages;
	indexes = realloc(places->indexes, count * sizeof(*indexes));
	if (indexes != NULL)
		places->indexes = indexes;
	placements = realloc(places->placements, count * sizeof(*placements));
	if (placements != NULL)
		places->placements = placements;
	if (messages == NULL || indexes == NULL || placements == NULL)
		return FAULT_MEMORY;
	places->room = count;
	return 0;
}

static bool find_overflow(const struct ingest *ingest, size_t *index)
{
	const struct batch *batch = &ingest->batch;
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].partition == last)
			continue;
		last = batch->rows[i].partition;
		if (gate_look(ingest->options.gate, last).overflow) {
			*index = last;
			return true;
		}
	}
	return false;
}

/* A short wait here is far cheaper than a detour through the table. */
static void wait_for_room(const struct ingest *ingest)
{
	const struct batch *batch = &ingest->batch;
	size_t index = 0;

	if (batch->row_count == 0)
		return;
	if (find_overflow(ingest, &index))
		(void)gate_wait_drained(ingest->options.gate, index, DRAINED_WAIT_MS);
	else
		(void)gate_wait(ingest->options.gate, batch->row_count, batch->bytes, ROOM_WAIT_MS);
}

static int place_rows(struct ingest *ingest, struct err *err)
{
	struct batch *batch = &ingest->batch;
	struct places *places = &ingest->places;

	if (room_for_places(places, batch->row_count) < 0)
		return err_memory(err);
	for (size_t i = 0; i < batch->row_count; i++) {
		places->messages[i] = batch->rows[i].message;
		places->indexes[i] = batch->rows[i].partition;
	}
	gate_place(ingest->options.gate, places->messages, places->indexes, batch->row_count,
		places->placements);
	for (size_t i = 0; i < batch->row_count; i++) {
		batch->rows[i].placement = places->placements[i];
		batch->rows[i].fate = ROW_UNKNOWN;
	}
	return 0;
}

static void give_budget_back(struct ingest *ingest)
{
	size_t count = 0;
	size_t bytes = 0;

	for (size_t i = 0; i < ingest->batch.row_count; i++) {
		const struct batch_row *row = &ingest->batch.rows[i];

		if (row->placement.place != PLACE_CLAIM)
			continue;
		count++;
		bytes += row->message->bytes;
	}
	gate_release(ingest->options.gate, count, bytes);
}

/* Both before the statement and after it: a look at the table in between must not find a partition
 * clean whose rows are about to wait. */
static bool mark_dirty(const struct ingest *ingest)
{
	const struct batch *batch = &ingest->batch;
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < batch->row_count; i++) {
		const struct placement *placement = &batch->rows[i].placement;

		if (placement->place == PLACE_CLAIM && !placement->asks)
			continue;
		if (batch->rows[i].partition != last)
			gate_dirty(ingest->options.gate, batch->rows[i].partition);
		last = batch->rows[i].partition;
	}
	return last != SIZE_MAX;
}

/* --- The watermarks ------------------------------------------------------------------------------ */

/* Where a partition is once the batch at hand is stored. */
struct end {
	int64_t next;
	int64_t last_offset;
	int64_t last_timestamp;
};

static void look_at(
	struct end *end, const struct partition *partition, const struct message *message)
{
	if (message->partition != partition->partition || message->offset < end->last_offset ||
		strcmp(message->topic, partition->topic) != 0)
		return;
	end->last_offset = message->offset;
	end->last_timestamp = message->timestamp_ms;
}

/* False: all that the batch has of it waits for the next part. */
static bool find_end(
	const struct ingest *ingest, const struct partition *partition, struct end *end)
{
	const struct batch *batch = &ingest->batch;
	int64_t cut = batch_cut(&ingest->rest, partition->topic, partition->partition);

	*end = (struct end){ partition->next, partition->last_offset, partition->last_timestamp };
	if (cut < 0)
		return true;
	*end = (struct end){ cut, -1, -1 };
	for (size_t i = 0; i < batch->row_count; i++)
		look_at(end, partition, batch->rows[i].message);
	for (size_t i = 0; i < batch->reject_count; i++)
		look_at(end, partition, batch->rejects[i].message);
	return end->last_offset >= 0;
}

static void fill_move(struct batch_move *move, struct partition *partition, const struct end *end)
{
	bool down = partition->rewound || partition->forced;
	bool passed = down || end->next >= partition->table_next;

	move->epoch = partition->epoch;
	move->expected = partition->table_next;
	move->next = passed ? end->next : partition->table_next;
	move->last_offset = passed ? end->last_offset : partition->table_last_offset;
	move->last_timestamp = passed ? end->last_timestamp : partition->table_last_timestamp;
	if (move->last_offset < 0)
		move->last_timestamp = -1;
	partition->tried_next = move->next;
}

static int build_moves(struct ingest *ingest, struct err *err)
{
	ingest->batch.move_count = 0;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];
		struct batch_move *move;
		struct end end;

		partition->tried_next = partition->table_next;
		if (!partition->touched || !find_end(ingest, partition, &end))
			continue;
		move = batch_move(&ingest->batch, partition->topic, partition->partition);
		if (move == NULL)
			return err_memory(err);
		fill_move(move, partition, &end);
	}
	return 0;
}

static void note_end(const struct ingest *ingest, struct partition *partition)
{
	int64_t cut = batch_cut(&ingest->rest, partition->topic, partition->partition);

	partition->touched = cut >= 0;
	partition->stored = cut >= 0 ? cut : partition->next;
}

static void note_moves(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->batch.move_count; i++) {
		const struct batch_move *move = &ingest->batch.moves[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, move->topic, move->partition);

		if (partition == NULL)
			continue;
		partition->table_next = move->next;
		partition->table_last_offset = move->last_offset;
		partition->table_last_timestamp = move->last_timestamp;
		partition->forced = false;
		partition->rewound = false;
		note_end(ingest, partition);
	}
}

static void mark_doubt(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->touched)
			ingest->partitions.items[i]->in_doubt = true;
	}
}

/* --- The transaction ------------------------------------------------------------------------------ */

static void end_batch(struct ingest *ingest)
{
	batch_clear(&ingest->batch);
	ingest->batch_since_us = 0;
}

/* What a failure leaves undone is tried again half as much at a time, down to one row: a statement that
 * was too slow or too large gets through, and a row that brings the server down stands alone. */
static void grow_smaller(struct ingest *ingest)
{
	const struct batch *batch = &ingest->batch;
	size_t tried =
		batch->row_count > batch->reject_count ? batch->row_count : batch->reject_count;

	ingest->part_most = tried > 1 ? tried / 2 : 1;
}

static void grow_larger(struct ingest *ingest)
{
	if (ingest->part_most == 0)
		return;
	ingest->part_most += ingest->part_most / 8 + 1;
	if ((int64_t)ingest->part_most >= ingest->options.config->ingest.batch_messages)
		ingest->part_most = 0;
}

static int take_part(struct ingest *ingest, struct err *err)
{
	if (ingest->part_most == 0)
		return 0;
	return batch_split(&ingest->batch, ingest->part_most, &ingest->rest, err);
}

/* The rest becomes the batch, with its age: it is due at once. */
static void go_on_with_rest(struct ingest *ingest)
{
	struct batch done;

	if (ingest->rest.row_count + ingest->rest.reject_count == 0) {
		end_batch(ingest);
		return;
	}
	batch_clear(&ingest->batch);
	done = ingest->batch;
	ingest->batch = ingest->rest;
	ingest->rest = done;
	ingest->batch.move_count = 0;
}

static void put_rest_back(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (batch_join(&ingest->batch, &ingest->rest, &err) != 0)
		ingest_fault(ingest, &err);
}

static void was_stored(struct ingest *ingest, struct handover *handover)
{
	note_moves(ingest);
	fates_note(ingest, handover);
	handover->stored_us = clock_now_us();
	outbox_add(ingest, handover);
	go_on_with_rest(ingest);
	grow_larger(ingest);
	atomic_store(&ingest->options.health->stored_ms, clock_now_ms());
	outage_over(ingest);
}

static void was_not_stored(struct ingest *ingest, int r, const struct err *err)
{
	give_budget_back(ingest);
	ingest->store_unheard = r == INBOX_UNKNOWN;
	if (r < 0 || r == INBOX_UNKNOWN)
		grow_smaller(ingest);
	put_rest_back(ingest);
	if (r == INBOX_FENCED) {
		ingest_fenced(ingest);
		return;
	}
	mark_doubt(ingest);
	if (r == INBOX_MOVED)
		outage_doubt(ingest);
	else
		outage_begin(ingest, err);
}

static int try_store(struct ingest *ingest, struct err *err)
{
	int64_t began_us = clock_now_us();
	int r;

	(void)mark_dirty(ingest);
	FAULT_POINT("before_insert");
	r = inbox_store(ingest->inbox, &ingest->batch, err);
	if (mark_dirty(ingest))
		wake_poke(ingest->options.dispatch_wake);
	metric_observe(ingest->batch_seconds, (double)(clock_now_us() - began_us) / 1e6);
	if (r == INBOX_UNKNOWN)
		err->fault = FAULT_DATABASE; /* not stored, as far as we know: resync tells */
	return r;
}

/* The handover is made first: after COMMIT nothing may stop its way to dispatch. */
static int prepare(struct ingest *ingest, struct handover **handover, struct err *err)
{
	size_t rows = ingest->batch.row_count;
	const struct handover_room room = { .items = rows, .parked = rows };
	int r = handover_new(handover, &room, err);

	if (r == 0)
		r = build_moves(ingest, err);
	if (r == 0)
		r = place_rows(ingest, err);
	return r;
}

void storing_step(struct ingest *ingest)
{
	struct handover *handover = NULL;
	struct err err = ERR_INIT;
	int r;

	if (partitions_number(&ingest->partitions, is_touched) == 0) {
		end_batch(ingest); /* all that was in it has been revoked */
		return;
	}
	if (take_part(ingest, &err) == 0)
		wait_for_room(ingest);
	if (err.fault != 0 || prepare(ingest, &handover, &err) < 0) {
		handover_free(handover);
		ingest_fault(ingest, &err);
		return;
	}
	r = try_store(ingest, &err);
	if (r == 0) {
		was_stored(ingest, handover);
		return;
	}
	handover_free(handover);
	was_not_stored(ingest, r, &err);
}
