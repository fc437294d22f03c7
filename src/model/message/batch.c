/*
 * See batch.h. First filling a batch, then dropping parts of it, then dividing it and joining it again.
 *
 * Rows and rejects keep the order of Kafka in each partition; every function here must keep it. While a batch is
 * divided, the watermark updates of the rest note the offset at which each of its partitions begins.
 */
#include "model/message/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

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

int batch_add(struct batch *batch, struct message *message, size_t stream, struct err *err)
{
	struct batch_row *rows =
		grown(batch->rows, batch->row_count, &batch->row_room, sizeof(*rows));

	if (rows == NULL) {
		message_free(message);
		return err_memory(err);
	}
	batch->rows = rows;
	rows[batch->row_count++] = (struct batch_row){ .message = message, .stream = stream };
	batch->bytes += message->bytes;
	return 0;
}

int batch_add_again(struct batch *batch, struct message *message, size_t stream, struct err *err)
{
	int r = batch_add(batch, message, stream, err);

	if (r == 0)
		batch->rows[batch->row_count - 1].again = true;
	return r;
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
	reject->holds = false;
	(void)snprintf(reject->reason, sizeof(reject->reason), "%s", reason);
	/* The cut can have split a character, and PostgreSQL would refuse the whole batch for it. */
	utf8_repair(reject->reason);
	batch->bytes += message->bytes;
	return 0;
}

/* A batch has few partitions, so a search from the start is fast enough. */
static struct watermark_update *find_update(
	const struct batch *batch, const char *topic, int32_t partition)
{
	for (size_t i = 0; i < batch->update_count; i++) {
		if (batch->updates[i].partition == partition &&
			strcmp(batch->updates[i].topic, topic) == 0)
			return &batch->updates[i];
	}
	return NULL;
}

struct watermark_update *watermark_update(struct batch *batch, const char *topic, int32_t partition)
{
	struct watermark_update *update = find_update(batch, topic, partition);
	struct watermark_update *updates;

	if (update != NULL)
		return update;
	updates = grown(batch->updates, batch->update_count, &batch->update_room, sizeof(*updates));
	if (updates == NULL)
		return NULL;
	batch->updates = updates;
	update = &updates[batch->update_count++];
	*update = (struct watermark_update){ .topic = topic, .partition = partition };
	return update;
}

/* --- Dropping --------------------------------------------------------------------------------------- */

static void drop(struct batch *batch, struct message *message)
{
	batch->bytes -= message->bytes;
	message_free(message);
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

static bool is_below(
	const struct message *message, const char *topic, int32_t partition, int64_t offset)
{
	return message->offset < offset && message->partition == partition &&
	       strcmp(message->topic, topic) == 0;
}

void batch_drop_below(struct batch *batch, const char *topic, int32_t partition, int64_t offset)
{
	struct watermark_update *update = find_update(batch, topic, partition);
	size_t kept = 0;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (is_below(batch->rows[i].message, topic, partition, offset))
			drop(batch, batch->rows[i].message);
		else
			batch->rows[kept++] = batch->rows[i];
	}
	batch->row_count = kept;
	kept = 0;
	for (size_t i = 0; i < batch->reject_count; i++) {
		if (is_below(batch->rejects[i].message, topic, partition, offset))
			drop(batch, batch->rejects[i].message);
		else
			batch->rejects[kept++] = batch->rejects[i];
	}
	batch->reject_count = kept;
	/* It described the dropped records, too. The next watermark_update() begins a new one. */
	if (update != NULL) {
		batch->update_count--;
		memmove(update, update + 1,
			(size_t)(&batch->updates[batch->update_count] - update) * sizeof(*update));
	}
}

int batch_rename(struct batch *batch, size_t row, const char *event_id, struct err *err)
{
	struct message **at = &batch->rows[row].message;
	struct message from = **at;
	struct message *renamed = NULL;
	int r;

	from.event_id = event_id;
	r = message_new(&renamed, &from, err);
	if (r < 0)
		return r;
	batch->bytes = batch->bytes - (*at)->bytes + renamed->bytes;
	message_free(*at);
	*at = renamed;
	return 0;
}

void batch_drop_partition(struct batch *batch, const char *topic, int32_t partition)
{
	batch_drop_below(batch, topic, partition, INT64_MAX);
}

/* --- Dividing --------------------------------------------------------------------------------------- */

int64_t batch_cut(const struct batch *rest, const char *topic, int32_t partition)
{
	const struct watermark_update *update = find_update(rest, topic, partition);

	return update == NULL ? -1 : update->next;
}

/* Rows and rejects of a partition are in two arrays, so the first of either need not have the lowest offset. */
static int note_cut(struct batch *rest, const struct message *message, struct err *err)
{
	bool known = find_update(rest, message->topic, message->partition) != NULL;
	struct watermark_update *update =
		watermark_update(rest, message->topic, message->partition);

	if (update == NULL)
		return err_memory(err);
	if (!known || message->offset < update->next)
		update->next = message->offset;
	return 0;
}

static bool is_behind_cut(const struct batch *rest, const struct message *message)
{
	int64_t cut = batch_cut(rest, message->topic, message->partition);

	return cut >= 0 && message->offset >= cut;
}

/* Makes room for that many more rows and rejects, so that what follows cannot fail. */
static int reserve(struct batch *batch, size_t rows, size_t rejects, struct err *err)
{
	size_t row_room = batch->row_count + rows;
	size_t reject_room = batch->reject_count + rejects;
	struct batch_row *more_rows;
	struct batch_reject *more_rejects;

	if (row_room > batch->row_room) {
		more_rows = realloc(batch->rows, row_room * sizeof(*more_rows));
		if (more_rows == NULL)
			return err_memory(err);
		batch->rows = more_rows;
		batch->row_room = row_room;
	}
	if (reject_room > batch->reject_room) {
		more_rejects = realloc(batch->rejects, reject_room * sizeof(*more_rejects));
		if (more_rejects == NULL)
			return err_memory(err);
		batch->rejects = more_rejects;
		batch->reject_room = reject_room;
	}
	return 0;
}

/* Moves all records behind the cuts to the rest, which has room for them. */
static void move_behind_cuts(struct batch *batch, struct batch *rest)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (is_behind_cut(rest, batch->rows[i].message)) {
			rest->rows[rest->row_count++] = batch->rows[i];
			rest->bytes += batch->rows[i].message->bytes;
		} else {
			batch->rows[kept++] = batch->rows[i];
		}
	}
	batch->row_count = kept;
	kept = 0;
	for (size_t i = 0; i < batch->reject_count; i++) {
		if (is_behind_cut(rest, batch->rejects[i].message)) {
			rest->rejects[rest->reject_count++] = batch->rejects[i];
			rest->bytes += batch->rejects[i].message->bytes;
		} else {
			batch->rejects[kept++] = batch->rejects[i];
		}
	}
	batch->reject_count = kept;
	batch->bytes -= rest->bytes;
}

int batch_split(struct batch *batch, size_t most, struct batch *rest, struct err *err)
{
	size_t rows = most;
	int r;

	while (rows < batch->row_count && batch->rows[rows].again)
		rows++;
	if (batch->row_count <= rows && batch->reject_count <= most)
		return 0;
	r = reserve(rest, batch->row_count, batch->reject_count, err);
	for (size_t i = rows; r == 0 && i < batch->row_count; i++)
		r = note_cut(rest, batch->rows[i].message, err);
	for (size_t i = most; r == 0 && i < batch->reject_count; i++)
		r = note_cut(rest, batch->rejects[i].message, err);
	if (r != 0) {
		rest->update_count = 0;
		return r;
	}
	move_behind_cuts(batch, rest);
	return 0;
}

int batch_join(struct batch *batch, struct batch *rest, struct err *err)
{
	int r = reserve(batch, rest->row_count, rest->reject_count, err);

	if (r != 0)
		return r;
	for (size_t i = 0; i < rest->row_count; i++)
		batch->rows[batch->row_count++] = rest->rows[i];
	for (size_t i = 0; i < rest->reject_count; i++)
		batch->rejects[batch->reject_count++] = rest->rejects[i];
	batch->bytes += rest->bytes;
	rest->row_count = 0;
	rest->reject_count = 0;
	rest->update_count = 0;
	rest->bytes = 0;
	return 0;
}
