/*
 * Implements store_batch.h. A batch moves from `ingest->storing.batch` to `ingest->storing.sent`, and while its
 * COMMIT is not answered to `ingest->storing.committing`. After a failure its rows return to the front of
 * `ingest->storing.batch`.
 *
 * Each row is placed before the INSERT: born claimed, waiting or parked (ADR 2). Born-claimed rows
 * use memory budget from the placement on; every path that does not store the batch must release
 * it.
 */
#include "ingest/batch/store_batch.h"

#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/batch/insert_results.h"
#include "ingest/batch/watermark_updates.h"
#include "ingest/handover_queue.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/flow.h"
#include "model/identity/identity.h"
#include "report/meters.h"

#define ROOM_WAIT_MS    250
#define ROOM_WAITS_MOST 8
#define DRAINED_WAIT_MS 50

static bool is_touched(const struct partition *partition)
{
	return partition->update.touched;
}

bool store_batch_has_work(const struct ingest *ingest)
{
	return ingest->storing.since_us != 0;
}

/* --- Budget and placement ---------------------------------------------------------------------- */

static int room_for_placing(struct placing *placing, size_t count)
{
	struct message **messages;
	size_t *indexes;
	struct placement *placements;

	if (count <= placing->room)
		return 0;
	messages = realloc(placing->messages, count * sizeof(void *));
	if (messages != NULL)
		placing->messages = messages;
	indexes = realloc(placing->indexes, count * sizeof(*indexes));
	if (indexes != NULL)
		placing->indexes = indexes;
	placements = realloc(placing->placements, count * sizeof(*placements));
	if (placements != NULL)
		placing->placements = placements;
	if (messages == NULL || indexes == NULL || placements == NULL)
		return FAULT_MEMORY;
	placing->room = count;
	return 0;
}

/* An overflow that no claim can end, for want of a handler, is not waited for. */
static bool find_overflow(const struct ingest *ingest, const struct batch *batch, size_t *index)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].stream == last)
			continue;
		last = batch->rows[i].stream;
		if (admission_is_draining(ingest->options.admission, last)) {
			*index = last;
			return true;
		}
	}
	return false;
}

static size_t claimed_now(const struct ingest *ingest)
{
	size_t count = 0;
	size_t bytes;
	size_t bytes_free;

	admission_usage(ingest->options.admission, &count, &bytes, &bytes_free);
	return count;
}

/* A short wait for memory budget is much cheaper than storing the rows as waiting and claiming them
 * later (ADR 8). It goes on while an eighth of the batch gets room in each turn, and not during a
 * stop. */
static void wait_for_room(const struct ingest *ingest)
{
	const struct batch *batch = &ingest->storing.sent.batch;
	size_t index = 0;

	if (batch->row_count == 0)
		return;
	if (find_overflow(ingest, batch, &index)) {
		(void)admission_wait_drained(ingest->options.admission, index, DRAINED_WAIT_MS);
		return;
	}
	for (int turn = 0; turn < ROOM_WAITS_MOST; turn++) {
		size_t before = claimed_now(ingest);

		if (admission_wait(ingest->options.admission, batch->row_count, batch->bytes,
			    ROOM_WAIT_MS) ||
			thread_is_stopping(&ingest->thread) ||
			claimed_now(ingest) + batch->row_count / 8 + 1 > before)
			return;
	}
}

static int place_rows(struct ingest *ingest, struct err *err)
{
	struct batch *batch = &ingest->storing.sent.batch;
	struct placing *placing = &ingest->storing.placing;

	if (room_for_placing(placing, batch->row_count) < 0)
		return err_memory(err);
	for (size_t i = 0; i < batch->row_count; i++) {
		placing->messages[i] = batch->rows[i].message;
		placing->indexes[i] = batch->rows[i].stream;
	}
	admission_place(ingest->options.admission, placing->messages, placing->indexes,
		batch->row_count, placing->placements);
	for (size_t i = 0; i < batch->row_count; i++) {
		batch->rows[i].placement = placing->placements[i];
		batch->rows[i].result = ROW_UNKNOWN;
	}
	return 0;
}

static void release_budget(struct ingest *ingest, const struct batch *batch)
{
	size_t count = 0;
	size_t bytes = 0;

	for (size_t i = 0; i < batch->row_count; i++) {
		const struct batch_row *row = &batch->rows[i];

		if (row->placement.kind != PLACEMENT_CLAIMED)
			continue;
		count++;
		bytes += row->message->bytes;
	}
	admission_release(ingest->options.admission, count, bytes);
}

static bool may_wait(const struct batch_row *row)
{
	return row->placement.kind != PLACEMENT_CLAIMED || row->placement.asks != ASKS_NOTHING;
}

/* Must be called before the statement and after it. A sweep in between could otherwise find the
 * stream without waiting rows, and mark it clean, just before rows of this batch are stored as
 * waiting. */
static bool mark_dirty(const struct ingest *ingest, const struct batch *batch)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (!may_wait(&batch->rows[i]))
			continue;
		if (batch->rows[i].stream != last)
			admission_dirty(ingest->options.admission, batch->rows[i].stream);
		last = batch->rows[i].stream;
	}
	return last != SIZE_MAX;
}

/* --- The transaction --------------------------------------------------------------------------- */

/* After a failure the next batch has half as many rows, down to one. A statement that was too slow
 * or too large then succeeds, and a row that crashes the server is sent alone. */
static void shrink_parts(struct ingest *ingest, const struct batch *batch)
{
	size_t tried =
		batch->row_count > batch->reject_count ? batch->row_count : batch->reject_count;

	ingest->storing.max_part_rows = tried > 1 ? tried / 2 : 1;
}

static void grow_parts(struct ingest *ingest)
{
	size_t most = (size_t)ingest->options.config->ingest.batch_messages;

	if (ingest->storing.max_part_rows == 0)
		return;
	ingest->storing.max_part_rows += ingest->storing.max_part_rows / 8 + 1;
	if (ingest->storing.max_part_rows >= most)
		ingest->storing.max_part_rows = 0;
}

/* After a failure the joined rows may exceed the size of a batch: splits off the rest. */
static int take_part(struct ingest *ingest, struct err *err)
{
	struct batch *sent = &ingest->storing.sent.batch;
	size_t most = (size_t)ingest->options.config->ingest.batch_messages;
	int64_t bytes = ingest->options.config->ingest.batch_bytes;
	size_t within = 0; /* the rows until `bytes` is reached, like in a full batch */
	int r;

	while (within < sent->row_count && bytes > 0)
		bytes -= (int64_t)sent->rows[within++].message->bytes;
	/* one more poll after the limit adds a few records; they must not cause a split */
	most += most / 8;
	within += within / 8;
	if (ingest->storing.max_part_rows != 0 && ingest->storing.max_part_rows < most &&
		!refused_batches_are_enough(&ingest->storing.refused))
		most = ingest->storing.max_part_rows;
	if (within > 0 && within < most)
		most = within;
	r = batch_split(sent, most, &ingest->storing.rest, err);
	/* never an empty batch: for an old log and its successor, offsets alone may put every row
	 * behind the cut */
	if (r == 0 && sent->row_count + sent->reject_count == 0)
		r = batch_join(sent, &ingest->storing.rest, err);
	return r;
}

static void swap(struct batch *one, struct batch *other)
{
	struct batch kept = *one;

	*one = *other;
	*other = kept;
}

/* Puts `part` in front of the current batch, which takes over its age. */
static void put_back(struct ingest *ingest, struct batch *part, int64_t since_us)
{
	struct err err = ERR_INIT;

	if (part->row_count + part->reject_count == 0)
		return;
	if (batch_join(part, &ingest->storing.batch, &err) != 0) {
		ingest_fault(ingest, &err);
		return;
	}
	swap(part, &ingest->storing.batch);
	ingest->storing.batch.update_count = 0;
	ingest->storing.since_us = since_us;
}

static void was_stored(struct ingest *ingest, struct sent_batch *sent)
{
	watermark_updates_note(ingest, &sent->batch);
	insert_results_apply(ingest, sent);
	sent->handover->stored_us = clock_now_us();
	handover_queue_add(ingest, sent->handover);
	sent->handover = NULL;
	batch_clear(&sent->batch);
	if (refused_batches_are_enough(&ingest->storing.refused))
		ingest->storing.max_part_rows = 0; /* the refused row was the cause */
	refused_batches_forget(&ingest->storing.refused);
	grow_parts(ingest);
	atomic_store(&ingest->options.health->stored_ms, clock_now_ms());
	db_outage_over(ingest);
}

/* A batch was not stored: its rows return to the current batch. */
static void return_to_batch(struct ingest *ingest, struct sent_batch *sent)
{
	handover_free(sent->handover);
	sent->handover = NULL;
	put_back(ingest, &ingest->storing.rest, sent->since_us);
	put_back(ingest, &sent->batch, sent->since_us);
	batch_clear(&sent->batch);
	if (ingest->storing.since_us == 0) /* the batch contained only a watermark update */
		ingest->storing.since_us = sent->since_us;
}

/* --- Another log under the same coordinates ------------------------------------------------------ */

/* A record of another log has the coordinates of a stored one, although the topic was not recognised as created again. From
 * this record on the next generation begins. Records below it keep their ids, under which they may be stored. */
static void begin_generations(struct ingest *ingest, const struct batch *batch)
{
	partitions_mark_none(&ingest->partitions);
	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *update = &batch->updates[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, update->topic, update->partition);

		if (partition == NULL || update->other_log_from < 0)
			continue;
		partition->due = true;
		topic_log_begin(&partition->log, update->other_log_from, NULL);
		log_warn("topic_recreated", LOG_STR("topic", partition->topic),
			LOG_INT("partition", partition->partition),
			LOG_INT("old_offset", update->expected),
			LOG_INT("new_offset", update->other_log_from),
			LOG_INT("generation", partition->log.generation),
			LOG_STR("why", "a record without an id has the coordinates of a stored "
				       "record, and another payload"),
			LOG_STR("next", "the records from this offset on are stored as new ones"));
		metric_add(metrics_get(ingest->options.metrics, METER_TOPIC_RECREATED,
				   partition->topic, NULL),
			1);
	}
}

/* True: the record belongs to the generation that has just begun. Its message is changed. */
static bool is_of_new_generation(struct ingest *ingest, struct message *message)
{
	const struct partition *partition =
		partitions_find(&ingest->partitions, message->topic, message->partition);

	if (partition == NULL || !partition->due || message->offset < partition->log.from)
		return false;
	message->generation = partition->log.generation;
	return true;
}

/* The current batch has all the records that are not stored. */
static int rename_rows(struct ingest *ingest, struct err *err)
{
	struct batch *batch = &ingest->storing.batch;
	struct buf *id = &ingest->collector.encoded;
	int r = 0;

	for (size_t i = 0; i < batch->reject_count; i++)
		(void)is_of_new_generation(ingest, batch->rejects[i].message);
	for (size_t i = 0; r == 0 && i < batch->row_count; i++) {
		struct message *message = batch->rows[i].message;
		bool derived = identity_is_of_coordinates(message);

		if (!is_of_new_generation(ingest, message) || !derived)
			continue;
		buf_reset(id);
		identity_add_coordinates(id, message);
		r = buf_ok(id) ? batch_rename(batch, i, buf_str(id), err) : err_memory(err);
	}
	return r;
}

/* --- The outcome ------------------------------------------------------------------------------- */

/* The budget is released before the rows return to the batch, because their next placement requests
 * it again. */
static void was_not_stored(
	struct ingest *ingest, struct sent_batch *sent, int r, const struct err *err)
{
	struct err own = ERR_INIT;

	release_budget(ingest, &sent->batch);
	ingest->storing.commit_unknown = r == WRITER_UNKNOWN;
	if (r < 0 || r == WRITER_UNKNOWN)
		shrink_parts(ingest, &sent->batch);
	if (r < 0)
		refused_batches_note(&ingest->storing.refused, err, sent->batch.row_count);
	if (r == WRITER_OTHER_LOG)
		begin_generations(ingest, &sent->batch);
	watermark_updates_in_doubt(ingest, &sent->batch);
	return_to_batch(ingest, sent);
	if (r == WRITER_OTHER_LOG) {
		if (rename_rows(ingest, &own) < 0)
			ingest_fault(ingest, &own);
		return;
	}
	if (r == WRITER_FENCED) {
		ingest_fenced(ingest);
		return;
	}
	if (r == WRITER_DAMAGED) {
		ingest_fault(ingest, err);
		return;
	}
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct pending_update *update = &ingest->partitions.items[i]->update;

		update->in_doubt |= update->touched;
	}
	if (r == WRITER_MOVED)
		db_outage_doubt(ingest);
	else if (r != WRITER_UNKNOWN || !ingest->outage.down)
		/* otherwise the second batch has already started the outage */
		db_outage_begin(ingest, err);
}

static void note_end(struct ingest *ingest, struct sent_batch *sent, int r, struct err *err)
{
	if (mark_dirty(ingest, &sent->batch))
		wake_poke(ingest->options.dispatch_wake);
	metric_observe(
		ingest->storing.batch_seconds, (double)(clock_now_us() - sent->began_us) / 1e6);
	if (r == WRITER_UNKNOWN)
		err->fault = FAULT_DATABASE; /* perhaps stored; the resync finds out */
	if (r == 0)
		was_stored(ingest, sent);
	else
		was_not_stored(ingest, sent, r, err);
}

/* An operator may have made messages of rejects that held records back. Admission does not know the rows of these messages.
 * So the INSERT checks the table for earlier rows of each key, and a new row waits behind them. */
static void doubt_lanes(struct ingest *ingest)
{
	const struct batch *batch = &ingest->storing.sent.batch;

	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *update = &batch->updates[i];
		const struct partition *partition =
			partitions_find(&ingest->partitions, update->topic, update->partition);

		for (size_t m = 0;
			partition != NULL && update->may_hold && m < partition->audience.count; m++)
			admission_dirty(
				ingest->options.admission, partition->audience.members[m].stream);
	}
}

/* Everything that can fail happens before the batch is sent: the handover, the watermark updates
 * and the placement. A failure after the COMMIT would keep claimed rows from dispatch until the
 * lease ends. */
static int prepare(struct ingest *ingest, struct err *err)
{
	struct sent_batch *sent = &ingest->storing.sent;
	int r = take_part(ingest, err);
	struct handover_room room;

	if (r < 0)
		return r;
	wait_for_room(ingest);
	room = (struct handover_room){ .items = sent->batch.row_count,
		.parked = sent->batch.row_count };
	r = handover_new(&sent->handover, &room, err);
	if (r == 0)
		r = watermark_updates_build(ingest, err);
	if (r != 0)
		return r;
	doubt_lanes(ingest);
	return place_rows(ingest, err);
}

bool store_batch_start(struct ingest *ingest)
{
	struct storing *storing = &ingest->storing;
	struct err err = ERR_INIT;
	int r;

	if (partitions_number(&ingest->partitions, is_touched) == 0) {
		batch_clear(&storing->batch); /* all its rows were revoked */
		storing->since_us = 0;
		return false;
	}
	swap(&storing->sent.batch, &storing->batch);
	storing->sent.since_us = storing->since_us;
	storing->since_us = 0;
	if (prepare(ingest, &err) < 0) {
		return_to_batch(ingest, &storing->sent);
		ingest_fault(ingest, &err);
		return false;
	}
	storing->sent.began_us = clock_now_us();
	(void)mark_dirty(ingest, &storing->sent.batch);
	FAULT_POINT("before_insert");
	if (refused_batches_are_enough(&storing->refused))
		batch_writer_isolate(ingest->writer);
	r = batch_writer_start(ingest->writer, &storing->sent.batch, &err);
	storing->is_sent = r == 0;
	if (r != 0)
		note_end(ingest, &storing->sent, r, &err);
	return storing->is_sent;
}

bool store_batch_may_collect_ahead(const struct ingest *ingest)
{
	return ingest->storing.rest.row_count + ingest->storing.rest.reject_count == 0 &&
	       ingest->storing.max_part_rows == 0;
}

bool store_batch_is_waiting(struct ingest *ingest)
{
	return ingest->storing.is_sent && !batch_writer_poll(ingest->writer);
}

/* The rest that a failure left is the start of the next batch. */
static void end_sent(struct ingest *ingest, int r, struct err *err)
{
	const int64_t since_us = ingest->storing.sent.since_us;

	ingest->storing.is_sent = false;
	note_end(ingest, &ingest->storing.sent, r, err);
	put_back(ingest, &ingest->storing.rest, since_us);
}

void store_batch_finish(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (ingest->storing.is_sent)
		end_sent(ingest,
			batch_writer_finish(ingest->writer, &ingest->storing.sent.batch, &err),
			&err);
}

/* --- A batch behind the COMMIT of another ------------------------------------------------------ */

/* True when no row of the batch is stored as waiting. Otherwise the placement of the next batch
 * would depend on its results. */
static bool is_all_claimed(const struct batch *batch)
{
	for (size_t i = 0; i < batch->row_count; i++) {
		if (may_wait(&batch->rows[i]))
			return false;
	}
	return true;
}

/* Only a full batch that fits into the budget, behind a batch that is complete and had no failure. */
bool store_batch_may_follow(const struct ingest *ingest)
{
	const struct batch *next = &ingest->storing.batch;
	size_t index = 0;

	return store_batch_may_collect_ahead(ingest) && handover_queue_is_empty(ingest) &&
	       is_all_claimed(&ingest->storing.sent.batch) &&
	       !find_overflow(ingest, next, &index) &&
	       admission_wait(ingest->options.admission, next->row_count, next->bytes, 0);
}

/* Crash window: the second batch is sent right behind the COMMIT of the first one. If the process
 * or the connection ends here, the server has committed the first batch and rolls back the second
 * one, or it rolls back both. In either case the watermark shows which records are stored. */
bool store_batch_follow(struct ingest *ingest)
{
	struct storing *storing = &ingest->storing;
	struct sent_batch empty = storing->committing;
	struct err err = ERR_INIT;
	int r = batch_writer_receive(ingest->writer, &storing->sent.batch, &err);

	if (r != 0) {
		end_sent(ingest, r, &err);
		return false;
	}
	storing->committing = storing->sent;
	storing->sent = empty;
	storing->is_sent = false;
	(void)store_batch_start(ingest);
	FAULT_POINT("behind_commit");
	r = batch_writer_committed(ingest->writer, &storing->committing.batch, &err);
	if (r != 0 && storing->is_sent) {
		/* the connection is closed, so that the batch behind it is not stored either */
		storing->is_sent = false;
		release_budget(ingest, &storing->sent.batch);
		return_to_batch(ingest, &storing->sent);
	}
	note_end(ingest, &storing->committing, r, &err);
	return storing->is_sent;
}
