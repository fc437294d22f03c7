/* See batch.h: filling a batch and dropping parts of it. batch_split.c divides one. */
#include "model/message/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define FIRST_ROOM 64

/* Makes room for one more element. NULL: no memory, and the old array stays valid. */
static void *grown(void *array, size_t count, size_t *room, size_t size)
{
	size_t wider = *room == 0 ? FIRST_ROOM : *room * 2;
	void *moved;

	if (count < *room)
		return array;
	moved = realloc(array, wider * size);
	if (moved != NULL)
		*room = wider;
	return moved;
}

void batch_clear(struct batch *batch)
{
	for (size_t i = 0; i < batch->row_count; i++)
		message_free(batch->rows[i].message);
	for (size_t i = 0; i < batch->reject_count; i++)
		message_free(batch->rejects[i].message);
	batch->row_count = 0;
	batch->reject_count = 0;
	batch->update_count = 0;
	batch->bytes = 0;
}

void batch_fini(struct batch *batch)
{
	batch_clear(batch);
	free(batch->rows);
	free(batch->rejects);
	free(batch->updates);
	*batch = (struct batch)BATCH_INIT;
}

int batch_add(struct batch *batch, struct message *message, size_t partition, struct err *err)
{
	struct batch_row *rows =
		grown(batch->rows, batch->row_count, &batch->row_room, sizeof(*rows));

	if (rows == NULL) {
		message_free(message);
		return err_memory(err);
	}
	batch->rows = rows;
	rows[batch->row_count++] = (struct batch_row){ .message = message, .partition = partition };
	batch->bytes += message->bytes;
	return 0;
}

int batch_reject(struct batch *batch, struct message *message, const char *reason, struct err *err)
{
	struct batch_reject *rejects =
		grown(batch->rejects, batch->reject_count, &batch->reject_room, sizeof(*rejects));
	struct batch_reject *reject;

	if (rejects == NULL) {
		message_free(message);
		return err_memory(err);
	}
	batch->rejects = rejects;
	reject = &rejects[batch->reject_count++];
	reject->message = message;
	reject->kept = false;
	reject->refused = false;
	(void)snprintf(reject->reason, sizeof(reject->reason), "%s", reason);
	utf8_repair(reject->reason);
	batch->bytes += message->bytes;
	return 0;
}

struct watermark_update *watermark_update(struct batch *batch, const char *topic, int32_t partition)
{
	struct watermark_update *updates;

	for (size_t i = 0; i < batch->update_count; i++) {
		if (batch->updates[i].partition == partition &&
			strcmp(batch->updates[i].topic, topic) == 0)
			return &batch->updates[i];
	}
	updates = grown(batch->updates, batch->update_count, &batch->update_room, sizeof(*updates));
	if (updates == NULL)
		return NULL;
	batch->updates = updates;
	updates += batch->update_count++;
	*updates = (struct watermark_update){ .topic = topic, .partition = partition };
	return updates;
}

static bool is_of(const struct message *message, const char *topic, int32_t partition)
{
	return message->partition == partition && strcmp(message->topic, topic) == 0;
}

static void drop(struct batch *batch, struct message *message)
{
	batch->bytes -= message->bytes;
	message_free(message);
}

/* The records of a partition below an offset. */
struct part {
	const char *topic;
	int32_t partition;
	int64_t below;
};

static bool is_in(const struct message *message, const struct part *part)
{
	return message->offset < part->below && is_of(message, part->topic, part->partition);
}

static void drop_rows(struct batch *batch, const struct part *part)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (is_in(batch->rows[i].message, part))
			drop(batch, batch->rows[i].message);
		else
			batch->rows[kept++] = batch->rows[i];
	}
	batch->row_count = kept;
}

static void drop_rejects(struct batch *batch, const struct part *part)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->reject_count; i++) {
		if (is_in(batch->rejects[i].message, part))
			drop(batch, batch->rejects[i].message);
		else
			batch->rejects[kept++] = batch->rejects[i];
	}
	batch->reject_count = kept;
}

void batch_drop_refused(struct batch *batch)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->reject_count; i++) {
		if (batch->rejects[i].refused)
			drop(batch, batch->rejects[i].message);
		else
			batch->rejects[kept++] = batch->rejects[i];
	}
	batch->reject_count = kept;
}

static void drop_update(struct batch *batch, const char *topic, int32_t partition)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->update_count; i++) {
		if (batch->updates[i].partition != partition ||
			strcmp(batch->updates[i].topic, topic) != 0)
			batch->updates[kept++] = batch->updates[i];
	}
	batch->update_count = kept;
}

void batch_drop_below(struct batch *batch, const char *topic, int32_t partition, int64_t offset)
{
	const struct part part = { topic, partition, offset };

	drop_rows(batch, &part);
	drop_rejects(batch, &part);
	drop_update(batch, topic, partition);
}

void batch_drop_partition(struct batch *batch, const char *topic, int32_t partition)
{
	batch_drop_below(batch, topic, partition, INT64_MAX);
}
