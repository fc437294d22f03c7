/*
 * Implements watermark_updates.h.
 */
#include "ingest/batch/watermark_updates.h"

#include <string.h>

/* The position of a partition after a batch is stored. */
struct end {
	struct read_position at;
	const struct message *last; /* the record at at.last.offset, if the batch contains it */
};

static bool is_of(const struct message *message, const struct partition *partition)
{
	return message->partition == partition->partition &&
	       strcmp(message->topic, partition->topic) == 0;
}

static bool is_last(const struct last_record *last, const struct partition *partition,
	const struct message *message)
{
	return message->offset == last->offset && message->timestamp_ms == last->timestamp &&
	       is_of(message, partition);
}

/* Searches from the end, because after a topic recreation the later record counts. It is usually
 * found at once. */
static const struct message *find_last(const struct batch *batch, const struct partition *partition)
{
	const struct last_record *last = &partition->read.last;

	if (last->offset < 0 || last->digest.known)
		return NULL;
	for (size_t i = batch->row_count; i-- > 0;) {
		if (is_last(last, partition, batch->rows[i].message))
			return batch->rows[i].message;
	}
	for (size_t i = batch->reject_count; i-- > 0;) {
		if (is_last(last, partition, batch->rejects[i].message))
			return batch->rejects[i].message;
	}
	return NULL;
}

static void note_record(
	struct end *end, const struct partition *partition, const struct message *message)
{
	if (message->offset < end->at.last.offset || !is_of(message, partition))
		return;
	end->at.last.offset = message->offset;
	end->at.last.timestamp = message->timestamp_ms;
	end->last = message;
}

/* False: all rows that the batch has of the partition are left in `rest`. */
static bool find_end(
	const struct ingest *ingest, const struct partition *partition, struct end *end)
{
	const struct batch *batch = &ingest->storing.sent.batch;
	int64_t cut = batch_cut(&ingest->storing.rest, partition->topic, partition->partition);

	if (cut < 0) {
		*end = (struct end){ partition->read, find_last(batch, partition) };
		return true;
	}
	*end = (struct end){ .at = { cut, { .offset = -1, .timestamp = -1 } } };
	for (size_t i = 0; i < batch->row_count; i++)
		note_record(end, partition, batch->rows[i].message);
	for (size_t i = 0; i < batch->reject_count; i++)
		note_record(end, partition, batch->rejects[i].message);
	return end->at.last.offset >= 0;
}

/* The watermark that this batch will find in the table: that of the batch whose COMMIT is not answered yet, if it
 * moves the partition. */
static struct read_position find_start(
	const struct ingest *ingest, const struct partition *partition)
{
	const struct batch *committing = &ingest->storing.committing.batch;

	for (size_t i = 0; i < committing->update_count; i++) {
		const struct watermark_update *update = &committing->updates[i];

		if (update->partition == partition->partition &&
			strcmp(update->topic, partition->topic) == 0)
			return (struct read_position){ update->next,
				{ update->last_offset, update->last_timestamp,
					update->last_digest } };
	}
	return (struct read_position){ partition->table.next, partition->table.last };
}

/* One digest per partition and batch. If the record is not in the batch because an earlier attempt
 * stored it, its digest is in the table. */
static void add_digest(
	struct collector *collector, struct end *end, const struct read_position *start)
{
	struct last_record *last = &end->at.last;

	if (end->last != NULL)
		last->digest = log_digest_of(collector->digester, &collector->digested, end->last);
	else if (!last->digest.known && last->offset == start->last.offset &&
		 last->timestamp == start->last.timestamp)
		last->digest = start->last.digest;
}

/* The watermark moves down only after a topic recreation (`rewound`) or a seek (`forced`). A start
 * below the watermark reads stored records again and must leave the watermark where it is. */
static void fill_update(struct watermark_update *update, const struct partition *partition,
	const struct read_position *start, const struct read_position *end)
{
	bool down = partition->start.rewound || partition->table.forced;
	const struct read_position *then = down || end->next >= start->next ? end : start;
	bool has_last = then->last.offset >= 0;

	update->epoch = partition->table.epoch;
	update->expected = start->next;
	update->next = then->next;
	update->last_offset = then->last.offset;
	update->last_timestamp = has_last ? then->last.timestamp : -1;
	update->last_digest = then->last.digest;
	update->last_digest.known = has_last && then->last.digest.known;
	update->log = partition->log;
	update->other_log_from = -1;
	update->may_hold = partition->update.may_hold;
	update->read_to = end->next;
}

int watermark_updates_build(struct ingest *ingest, struct err *err)
{
	struct batch *batch = &ingest->storing.sent.batch;

	batch->update_count = 0;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];
		struct watermark_update *update;
		struct read_position start;
		struct end end;

		if (!partition->update.touched || !find_end(ingest, partition, &end))
			continue;
		update = watermark_update(batch, partition->topic, partition->partition);
		if (update == NULL)
			return err_memory(err);
		start = find_start(ingest, partition);
		add_digest(&ingest->collector, &end, &start);
		fill_update(update, partition, &start, &end.at);
	}
	return 0;
}

void watermark_updates_note(struct ingest *ingest, const struct batch *batch)
{
	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *update = &batch->updates[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, update->topic, update->partition);

		if (partition == NULL)
			continue;
		partition->table.next = update->next;
		partition->table.last = (struct last_record){ update->last_offset,
			update->last_timestamp, update->last_digest };
		partition->table.forced = false;
		partition->start.rewound = false;
		partition->offsets.stored = update->read_to;
		partition->update.touched = partition->read.next != update->read_to;
		partition->update.may_hold = update->may_hold;
	}
}

void watermark_updates_in_doubt(struct ingest *ingest, const struct batch *batch)
{
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->update.tried_next =
			ingest->partitions.items[i]->table.next;
	for (size_t i = 0; i < batch->update_count; i++) {
		const struct watermark_update *update = &batch->updates[i];
		struct partition *partition =
			partitions_find(&ingest->partitions, update->topic, update->partition);

		if (partition == NULL)
			continue;
		partition->update.tried_next = update->next;
		partition->update.may_hold |= update->may_hold; /* perhaps it was committed */
	}
}
