/*
 * Implements watermark_updates.h.
 */
#include "ingest/partitions/watermark_updates.h"

#include <string.h>

/* The position of a partition after a batch is stored. */
struct end {
	int64_t next;
	int64_t last_offset;
	int64_t last_timestamp;
	struct log_digest last_digest;
	const struct message *last; /* the record at last_offset, if the batch contains it */
};

static void note_record(
	struct end *end, const struct partition *partition, const struct message *message)
{
	if (message->partition != partition->partition || message->offset < end->last_offset ||
		strcmp(message->topic, partition->topic) != 0)
		return;
	end->last_offset = message->offset;
	end->last_timestamp = message->timestamp_ms;
	end->last = message;
}

static bool is_last(
	const struct end *end, const struct partition *partition, const struct message *message)
{
	return message->offset == end->last_offset && message->partition == partition->partition &&
	       message->timestamp_ms == end->last_timestamp &&
	       strcmp(message->topic, partition->topic) == 0;
}

/* Searches from the end, because after a topic recreation the later record counts. It is usually
 * found at once. */
static const struct message *find_last(
	const struct end *end, const struct batch *batch, const struct partition *partition)
{
	if (end->last_offset < 0 || end->last_digest.known)
		return NULL;
	for (size_t i = batch->row_count; i-- > 0;) {
		if (is_last(end, partition, batch->rows[i].message))
			return batch->rows[i].message;
	}
	for (size_t i = batch->reject_count; i-- > 0;) {
		if (is_last(end, partition, batch->rejects[i].message))
			return batch->rejects[i].message;
	}
	return NULL;
}

/* False: all rows that the batch has of the partition are left in `rest`. */
static bool find_end(
	const struct ingest *ingest, const struct partition *partition, struct end *end)
{
	const struct batch *batch = &ingest->sent.batch;
	int64_t cut = batch_cut(&ingest->rest, partition->topic, partition->partition);

	*end = (struct end){ partition->next, partition->last_offset, partition->last_timestamp,
		partition->last_digest, NULL };
	if (cut < 0) {
		end->last = find_last(end, batch, partition);
		return true;
	}
	*end = (struct end){ .next = cut, .last_offset = -1, .last_timestamp = -1 };
	for (size_t i = 0; i < batch->row_count; i++)
		note_record(end, partition, batch->rows[i].message);
	for (size_t i = 0; i < batch->reject_count; i++)
		note_record(end, partition, batch->rejects[i].message);
	return end->last_offset >= 0;
}

/* The watermark that this batch will find in the table. */
static struct end find_start(const struct ingest *ingest, const struct partition *partition)
{
	const struct batch *landed = &ingest->committing.batch;

	for (size_t i = 0; i < landed->update_count; i++) {
		const struct watermark_update *move = &landed->updates[i];

		if (move->partition == partition->partition &&
			strcmp(move->topic, partition->topic) == 0)
			return (struct end){ move->next, move->last_offset, move->last_timestamp,
				move->last_digest, NULL };
	}
	return (struct end){ partition->table_next, partition->table_last_offset,
		partition->table_last_timestamp, partition->table_last_digest, NULL };
}

/* One digest per partition and batch. If the record is not in the batch because an earlier attempt
 * stored it, its digest is in the table. */
static void digest(struct ingest *ingest, struct end *end, const struct end *start)
{
	struct collector *collector = &ingest->collector;

	if (end->last != NULL)
		end->last_digest =
			log_digest_of(collector->digester, &collector->digested, end->last);
	else if (!end->last_digest.known && end->last_offset == start->last_offset &&
		 end->last_timestamp == start->last_timestamp)
		end->last_digest = start->last_digest;
}

/* The watermark moves down only after a topic recreation (`rewound`) or a seek (`forced`). A start
 * below the watermark reads stored records again and must leave the watermark where it is. */
static void fill_move(struct watermark_update *move, const struct partition *partition,
	const struct end *start, const struct end *end)
{
	bool down = partition->rewound || partition->forced;
	const struct end *then = down || end->next >= start->next ? end : start;

	move->epoch = partition->epoch;
	move->expected = start->next;
	move->next = then->next;
	move->last_offset = then->last_offset;
	move->last_timestamp = move->last_offset < 0 ? -1 : then->last_timestamp;
	move->last_digest = then->last_digest;
	move->last_digest.known = move->last_offset >= 0 && then->last_digest.known;
	move->read_to = end->next;
}

int watermark_updates_build(struct ingest *ingest, struct err *err)
{
	struct batch *batch = &ingest->sent.batch;

	batch->update_count = 0;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];
		struct watermark_update *move;
		struct end start;
		struct end end;

		if (!partition->touched || !find_end(ingest, partition, &end))
			continue;
		move = watermark_update(batch, partition->topic, partition->partition);
		if (move == NULL)
			return err_memory(err);
		start = find_start(ingest, partition);
		digest(ingest, &end, &start);
		fill_move(move, partition, &start, &end);
	}
	return 0;
}

void watermark_updates_note(struct ingest *ingest, const struct batch *batch)
{
	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *move = &batch->updates[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, move->topic, move->partition);

		if (partition == NULL)
			continue;
		partition->table_next = move->next;
		partition->table_last_offset = move->last_offset;
		partition->table_last_timestamp = move->last_timestamp;
		partition->table_last_digest = move->last_digest;
		partition->forced = false;
		partition->rewound = false;
		partition->stored = move->read_to;
		partition->touched = partition->next != move->read_to;
	}
}

void watermark_updates_in_doubt(struct ingest *ingest, const struct batch *batch)
{
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->tried_next = ingest->partitions.items[i]->table_next;
	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *move = &batch->updates[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, move->topic, move->partition);

		if (partition != NULL)
			partition->tried_next = move->next;
	}
}
