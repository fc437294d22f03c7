/*
 * The rows of a batch that a reject holds back. PostgreSQL refused an earlier record of their lane for a reason outside of
 * that record, for example a trigger of the user. The earlier record can become a message when the cause is removed. Until
 * then, no later record of its key may overtake it (rule R10). So the later records become rejects, too. `inboxd replay
 * --rejects` makes messages of all of them, in their order.
 *
 * The held lanes are known from the table, so a restart or a new owner of the partition loses none of them. The store reads
 * the table only for partitions that may have such rejects. A partition that was just taken may have some.
 */
#include <string.h>

#include "queries.h"
#include "store/batches/writer_state.h"

bool held_rows_possible(const struct batch_writer *writer, struct batch *batch)
{
	bool any = false;

	for (size_t i = 0; i < batch->update_count; i++) {
		batch->updates[i].may_hold &= writer->ordering != ORDERING_NONE;
		any |= batch->updates[i].may_hold;
	}
	return any;
}

int held_rows_find(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	if (!held_rows_possible(writer, batch))
		return 0;
	fill_held(writer, batch);
	r = db_step(writer->db, QUERY_FIND_HELD, &writer->params, &rows, err);
	if (r != 0)
		return r;
	for (size_t i = 0; i < batch->update_count; i++)
		batch->updates[i].may_hold = false;
	for (int i = 0; i < rows_count(rows); i++) {
		int64_t place = rows_int(rows, i, 0);

		if (place < 0)
			batch->updates[-1 - place].may_hold = true;
		else
			batch->rows[place].held = true;
	}
	return 0;
}

bool held_rows_any(const struct batch *batch, const size_t *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (batch->rows[items[i]].held)
			return true;
	}
	return false;
}

static bool is_of_partition(const struct message *message, const struct message *other)
{
	return message->partition == other->partition && strcmp(message->topic, other->topic) == 0;
}

/* Records of a partition are in the batch in their order. The rows of the same record, for other consumers, are not held. */
bool held_rows_mark(const struct batch_writer *writer, struct batch *batch, size_t item)
{
	const struct message *head = batch->rows[item].message;
	bool whole = writer->ordering == ORDERING_PARTITION;

	if (!whole && (writer->ordering != ORDERING_KEY || !message_is_keyed(head)))
		return false;
	for (size_t i = 0; i < batch->update_count; i++) {
		batch->updates[i].may_hold |= batch->updates[i].partition == head->partition &&
					      strcmp(batch->updates[i].topic, head->topic) == 0;
	}
	for (size_t i = item + 1; i < batch->row_count; i++) {
		const struct message *message = batch->rows[i].message;

		batch->rows[i].held |= message->offset > head->offset &&
				       is_of_partition(message, head) &&
				       (whole || bytes_equal(message->key, head->key));
	}
	return true;
}
