#include "ingest/moves.h"

#include <string.h>

/* Where a partition is once the batch that is about to leave is stored. */
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
	const struct batch *batch = &ingest->flight;
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
	partition->flight_end = end->next;
}

int moves_build(struct ingest *ingest, struct err *err)
{
	ingest->flight.move_count = 0;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];
		struct batch_move *move;
		struct end end;

		partition->tried_next = partition->table_next;
		if (!partition->touched || !find_end(ingest, partition, &end))
			continue;
		move = batch_move(&ingest->flight, partition->topic, partition->partition);
		if (move == NULL)
			return err_memory(err);
		fill_move(move, partition, &end);
	}
	return 0;
}

void moves_note(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->flight.move_count; i++) {
		const struct batch_move *move = &ingest->flight.moves[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, move->topic, move->partition);

		if (partition == NULL)
			continue;
		partition->table_next = move->next;
		partition->table_last_offset = move->last_offset;
		partition->table_last_timestamp = move->last_timestamp;
		partition->forced = false;
		partition->rewound = false;
		partition->stored = partition->flight_end;
		partition->touched = partition->next != partition->flight_end;
	}
}
