/*
 * Divides a batch and joins it again; see batch.h. While a batch is divided, the watermark updates of the rest are used
 * to note the offset at which each of its partitions begins.
 */
#include <stdlib.h>
#include <string.h>

#include "model/message/batch.h"

static const struct watermark_update *find_update(
	const struct batch *batch, const char *topic, int32_t partition)
{
	for (size_t i = 0; i < batch->update_count; i++) {
		if (batch->updates[i].partition == partition &&
			strcmp(batch->updates[i].topic, topic) == 0)
			return &batch->updates[i];
	}
	return NULL;
}

int64_t batch_cut(const struct batch *rest, const char *topic, int32_t partition)
{
	const struct watermark_update *update = find_update(rest, topic, partition);

	return update == NULL ? -1 : update->next;
}

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

static int note_cuts(const struct batch *batch, size_t most, struct batch *rest, struct err *err)
{
	int r = 0;

	for (size_t i = most; r == 0 && i < batch->row_count; i++)
		r = note_cut(rest, batch->rows[i].message, err);
	for (size_t i = most; r == 0 && i < batch->reject_count; i++)
		r = note_cut(rest, batch->rejects[i].message, err);
	return r;
}

static bool is_behind(const struct batch *rest, const struct message *message)
{
	int64_t cut = batch_cut(rest, message->topic, message->partition);

	return cut >= 0 && message->offset >= cut;
}

/* Makes room for that many more rows and rejects. */
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

static void move_rows(struct batch *batch, struct batch *rest)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->row_count; i++) {
		if (is_behind(rest, batch->rows[i].message)) {
			rest->rows[rest->row_count++] = batch->rows[i];
			rest->bytes += batch->rows[i].message->bytes;
		} else {
			batch->rows[kept++] = batch->rows[i];
		}
	}
	batch->row_count = kept;
}

static void move_rejects(struct batch *batch, struct batch *rest)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->reject_count; i++) {
		if (is_behind(rest, batch->rejects[i].message)) {
			rest->rejects[rest->reject_count++] = batch->rejects[i];
			rest->bytes += batch->rejects[i].message->bytes;
		} else {
			batch->rejects[kept++] = batch->rejects[i];
		}
	}
	batch->reject_count = kept;
}

int batch_split(struct batch *batch, size_t most, struct batch *rest, struct err *err)
{
	int r;

	if (batch->row_count <= most && batch->reject_count <= most)
		return 0;
	r = reserve(rest, batch->row_count, batch->reject_count, err);
	if (r == 0)
		r = note_cuts(batch, most, rest, err);
	if (r != 0) {
		rest->update_count = 0;
		return r;
	}
	move_rows(batch, rest);
	move_rejects(batch, rest);
	batch->bytes -= rest->bytes;
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
