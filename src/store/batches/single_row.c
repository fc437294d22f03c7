/*
 * A batch of a single row, which one statement stores in one round trip (ADR 48). The statement does everything or nothing.
 */
#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"
#include "store/batches/writer_state.h"

#define PAUSE_MS 60000

bool single_row_applies(const struct batch_writer *writer, const struct batch *batch)
{
	const struct batch_row *row = batch->rows;

	return batch->row_count == 1 && writer->item_count == 1 && batch->update_count == 1 &&
	       batch->reject_count == 0 && !writer->moving && !writer->committing &&
	       row->placement.kind == PLACEMENT_CLAIMED && row->placement.asks == ASKS_NOTHING &&
	       clock_now_ms() >= writer->single_from_ms &&
	       !dedup_cache_has(writer->cache, row->message) &&
	       !FAULT_IS_SET("after_insert_before_commit");
}

int single_row_send(struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	int r = db_begin(writer->db, err);

	if (r == 0)
		r = fill_single(writer, batch, writer->items[0], err);
	if (r == 0)
		r = db_queue(writer->db, QUERY_INSERT_SINGLE, &writer->params,
			&writer->opening.inserted, err);
	if (r != 0)
		return r;
	announce_commit(writer);
	return db_commit_send(writer->db, err);
}

/* Notes the row that the statement has stored. */
static void note_stored(struct batch_writer *writer, struct batch *batch, int64_t seq)
{
	struct batch_row *row = &batch->rows[writer->items[0]];

	row->result = ROW_CLAIMED;
	row->message->seq = seq;
	row->message->delivery_count = 1;
	writer->batch_highest = seq;
	dedup_cache_add(writer->cache, row->message);
}

int single_row_receive(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	int r = db_commit_receive(writer->db, err);

	writer->answered = r == 0 && rows_count(writer->opening.inserted) == 1;
	if (writer->answered)
		note_stored(writer, batch, rows_int(writer->opening.inserted, 0, 0));
	/* a trigger of the user may be the cause: not for each row of the next minute, and not a line each in the server's log */
	if (r < 0)
		writer->single_from_ms = clock_now_ms() + PAUSE_MS;
	return r;
}
