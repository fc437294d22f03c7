/*
 * Implements watermarks.h.
 */
#include "store/batches/watermarks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queries.h"
#include "store/batches/writer_state.h"

void watermarks_free(struct watermarks *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].topic);
	free(list->items);
	*list = (struct watermarks){ NULL, 0 };
}

static int64_t int_or_none(const struct rows *rows, int row, int column)
{
	return rows_is_null(rows, row, column) ? -1 : rows_int(rows, row, column);
}

/* The stored digest contains its offset. It differs from last_offset when an operator, or a version
 * without digests, has updated the row; the digest is then unknown. */
static struct log_digest read_digest(const struct rows *rows, int row, int64_t last_offset)
{
	unsigned char bytes[STORED_DIGEST_BYTES];
	struct log_digest digest = { .known = false };
	struct bytes found = rows_bytes(rows, row, 8);

	if (last_offset < 0 || found.data == NULL || found.length != sizeof(bytes))
		return digest;
	memcpy(digest.bytes, (const char *)found.data + 8, sizeof(digest.bytes));
	stored_digest(bytes, last_offset, &digest);
	digest.known = memcmp(bytes, found.data, sizeof(bytes)) == 0;
	return digest;
}

static int read_watermark(
	const struct batch_writer *writer, const struct rows *rows, int row, struct watermark *out)
{
	*out = (struct watermark){
		.topic = strdup(rows_text(rows, row, 0)),
		.partition = (int32_t)rows_int(rows, row, 1),
		.next_offset = int_or_none(rows, row, 2),
		.epoch = rows_int(rows, row, 3),
		.last_offset = int_or_none(rows, row, 4),
		.last_timestamp = rows_timestamp_ms(rows, row, 5),
		.forced = rows_bool(rows, row, 6),
		.mine = rows_int(rows, row, 7) == writer->instance,
		.log = { (int32_t)rows_int(rows, row, 9), rows_int(rows, row, 10), "" },
		.at_begin = rows_bool(rows, row, 12),
	};
	if (!rows_is_null(rows, row, 11))
		(void)snprintf(out->log.ids, sizeof(out->log.ids), "%s", rows_text(rows, row, 11));
	out->last_digest = read_digest(rows, row, out->last_offset);
	return out->topic == NULL ? FAULT_MEMORY : 0;
}

static int read_watermarks(const struct batch_writer *writer, const struct rows *rows,
	struct watermarks *out, struct err *err)
{
	struct watermarks list = { NULL, 0 };
	size_t count = (size_t)rows_count(rows);

	list.items = calloc(count + 1, sizeof(*list.items));
	if (list.items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < count; i++) {
		if (read_watermark(writer, rows, (int)i, &list.items[i]) != 0) {
			watermarks_free(&list);
			return err_memory(err);
		}
		list.count++;
	}
	*out = list;
	return 0;
}

static int commit_known(struct db *db, struct err *err)
{
	int r = db_commit(db, err);

	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

/* A fenced instance takes no partitions (rule R6). */
static int begin_with_lease(struct batch_writer *writer, struct err *err)
{
	CLEANUP(rows_freep) struct rows *lease = NULL;
	int r = db_begin(writer->db, err);

	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	if (r == 0)
		r = db_step(writer->db, QUERY_HOLD_LEASE, &writer->params, &lease, err);
	if (r != 0 || rows_count(lease) > 0)
		return r;
	db_rollback(writer->db);
	return WRITER_FENCED;
}

static void fill_take(struct batch_writer *writer, const struct partition_ref *refs, size_t count)
{
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	add_partitions(&writer->params, refs, count);
	params_text(&writer->params, ordering_name(writer->ordering));
}

/* The last statement of the transaction: makes this instance the owner. */
static int take_by(
	struct batch_writer *writer, enum query query, struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_queue(writer->db, query, &writer->params, &rows, err);

	dedup_cache_forget(writer->cache);
	if (r == 0)
		r = commit_known(writer->db, err);
	return r != 0 ? r : read_watermarks(writer, rows, out, err);
}

int watermarks_begin(struct batch_writer *writer, const struct begun_topics *begun, struct err *err)
{
	struct params *params = &writer->params;
	int entries, entry, topic, partitions;

	params_reset(params);
	entries = params_array(params, ARRAY_TEXT);
	entry = params_array(params, ARRAY_TEXT);
	topic = params_array(params, ARRAY_TEXT);
	partitions = params_array(params, ARRAY_INT);
	for (size_t i = 0; i < begun->entry_count; i++)
		array_text(params, entries, begun->entries[i]);
	for (size_t i = 0; i < begun->count; i++) {
		array_text(params, entry, begun->topics[i].entry);
		array_text(params, topic, begun->topics[i].topic);
		array_int(params, partitions, begun->topics[i].partitions);
	}
	params_text(params, ordering_name(writer->ordering));
	return db_run(writer->db, QUERY_BEGIN_TOPICS, params, NULL, err);
}

/* Creates missing rows first, in the same transaction, because only an existing row can be locked
 * and taken. */
int watermarks_take(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	int r = begin_with_lease(writer, err);

	params_reset(&writer->params);
	add_partitions(&writer->params, refs, count);
	params_text(&writer->params, ordering_name(writer->ordering));
	if (r == 0)
		r = db_queue(writer->db, QUERY_MAKE_PARTITIONS, &writer->params, NULL, err);
	fill_take(writer, refs, count);
	return r != 0 ? r : take_by(writer, QUERY_TAKE_PARTITIONS, out, err);
}

int watermarks_adopt(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	int r = begin_with_lease(writer, err);

	fill_take(writer, refs, count);
	return r != 0 ? r : take_by(writer, QUERY_ADOPT_PARTITIONS, out, err);
}

int watermarks_orphans(struct batch_writer *writer, int64_t age_ms, orphan_visit *visit, void *arg,
	struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	params_bigint(&writer->params, age_ms);
	r = db_run(writer->db, QUERY_LIST_ORPHANS, &writer->params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++)
		visit(rows_text(rows, i, 0), (int32_t)rows_int(rows, i, 1), rows_bool(rows, i, 2),
			arg);
	return r;
}

static int queue_rescue(struct batch_writer *writer, struct err *err)
{
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	params_bigint(&writer->params, writer->highest_seq);
	return db_queue(writer->db, QUERY_RESCUE_UNKNOWN, &writer->params, NULL, err);
}

/* Locks the own row in inbox_instances first, which waits for a transaction of this instance that may still run on the
 * server, for example the COMMIT whose answer was lost. This lock has a transaction of its own, because the heartbeat would
 * wait for it. */
int watermarks_resync(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	dedup_cache_forget(writer->cache);
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	r = db_run(writer->db, QUERY_LOCK_LEASE, &writer->params, NULL, err);
	if (r == 0)
		r = db_begin(writer->db, err);
	params_reset(&writer->params);
	add_partitions(&writer->params, refs, count);
	if (r == 0)
		r = db_queue(writer->db, QUERY_LOCK_PARTITIONS, &writer->params, &rows, err);
	if (r == 0)
		r = queue_rescue(writer, err);
	if (r == 0)
		r = commit_known(writer->db, err);
	return r != 0 ? r : read_watermarks(writer, rows, out, err);
}

int watermarks_peek(struct batch_writer *writer, struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	r = db_run(writer->db, QUERY_PEEK_PARTITIONS, &writer->params, &rows, err);
	return r != 0 ? r : read_watermarks(writer, rows, out, err);
}

int watermarks_release(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct err *err)
{
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	add_partitions(&writer->params, refs, count);
	return db_run(writer->db, QUERY_RELEASE_PARTITIONS, &writer->params, NULL, err);
}
