/*
 * The part of inbox.h about partitions: acquiring, releasing and reading watermarks, and binding
 * the schema.
 */
#include <stdlib.h>
#include <string.h>

#include "queries.h"
#include "store/inbox_private.h"

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
	const struct inbox *inbox, const struct rows *rows, int row, struct watermark *out)
{
	*out = (struct watermark){
		.topic = strdup(rows_text(rows, row, 0)),
		.partition = (int32_t)rows_int(rows, row, 1),
		.next_offset = int_or_none(rows, row, 2),
		.epoch = rows_int(rows, row, 3),
		.last_offset = int_or_none(rows, row, 4),
		.last_timestamp = rows_timestamp_ms(rows, row, 5),
		.forced = rows_bool(rows, row, 6),
		.mine = rows_int(rows, row, 7) == inbox->instance,
	};
	out->last_digest = read_digest(rows, row, out->last_offset);
	return out->topic == NULL ? FAULT_MEMORY : 0;
}

static int read_watermarks(
	const struct inbox *inbox, const struct rows *rows, struct watermarks *out, struct err *err)
{
	struct watermarks list = { NULL, 0 };
	size_t count = (size_t)rows_count(rows);

	list.items = calloc(count + 1, sizeof(*list.items));
	if (list.items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < count; i++) {
		if (read_watermark(inbox, rows, (int)i, &list.items[i]) != 0) {
			watermarks_free(&list);
			return err_memory(err);
		}
		list.count++;
	}
	*out = list;
	return 0;
}

static void add_refs(struct params *params, const struct partition_ref *refs, size_t count)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);

	for (size_t i = 0; i < count; i++) {
		array_text(params, topic, refs[i].topic);
		array_int(params, partition, refs[i].partition);
	}
}

static const char *ordering_name(enum ordering ordering)
{
	static const char *const names[] = {
		[ORDERING_NONE] = "none",
		[ORDERING_KEY] = "key",
		[ORDERING_PARTITION] = "partition",
	};

	return names[ordering];
}

static int commit_known(struct db *db, struct err *err)
{
	int r = db_commit(db, err);

	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

/* A fenced instance takes no partitions (rule R6). */
static int begin_with_lease(struct inbox *inbox, struct err *err)
{
	CLEANUP(rows_freep) struct rows *lease = NULL;
	int r = db_begin(inbox->db, err);

	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	if (r == 0)
		r = db_step(inbox->db, QUERY_HOLD_LEASE, &inbox->params, &lease, err);
	if (r != 0 || rows_count(lease) > 0)
		return r;
	db_rollback(inbox->db);
	return INBOX_FENCED;
}

static void fill_take(struct inbox *inbox, const struct partition_ref *refs, size_t count)
{
	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	add_refs(&inbox->params, refs, count);
	params_text(&inbox->params, ordering_name(inbox->ordering));
}

/* The last statement of the transaction: makes this instance the owner. */
static int take_by(struct inbox *inbox, enum query query, struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_queue(inbox->db, query, &inbox->params, &rows, err);

	dedup_cache_forget(inbox->cache);
	if (r == 0)
		r = commit_known(inbox->db, err);
	return r != 0 ? r : read_watermarks(inbox, rows, out, err);
}

/* Creates missing rows first, in the same transaction, because only an existing row can be locked
 * and taken. */
int inbox_take(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	int r = begin_with_lease(inbox, err);

	params_reset(&inbox->params);
	add_refs(&inbox->params, refs, count);
	params_text(&inbox->params, ordering_name(inbox->ordering));
	if (r == 0)
		r = db_queue(inbox->db, QUERY_MAKE_PARTITIONS, &inbox->params, NULL, err);
	fill_take(inbox, refs, count);
	return r != 0 ? r : take_by(inbox, QUERY_TAKE_PARTITIONS, out, err);
}

int inbox_adopt(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	int r = begin_with_lease(inbox, err);

	fill_take(inbox, refs, count);
	return r != 0 ? r : take_by(inbox, QUERY_ADOPT_PARTITIONS, out, err);
}

int inbox_orphans(
	struct inbox *inbox, int64_t age_ms, orphan_visit *visit, void *arg, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	params_bigint(&inbox->params, age_ms);
	r = db_run(inbox->db, QUERY_LIST_ORPHANS, &inbox->params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++)
		visit(rows_text(rows, i, 0), (int32_t)rows_int(rows, i, 1), rows_bool(rows, i, 2),
			arg);
	return r;
}

static int queue_rescue(struct inbox *inbox, struct err *err)
{
	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	params_bigint(&inbox->params, inbox->highest_seq);
	return db_queue(inbox->db, QUERY_RESCUE_UNKNOWN, &inbox->params, NULL, err);
}

/* Locks the own row in inbox_instances first and the watermarks afterwards. The first lock waits
 * for a transaction of this instance that may still run on the server, for example the COMMIT whose
 * answer was lost. */
int inbox_resync(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_begin(inbox->db, err);

	dedup_cache_forget(inbox->cache);
	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	if (r == 0)
		r = db_queue(inbox->db, QUERY_LOCK_LEASE, &inbox->params, NULL, err);
	params_reset(&inbox->params);
	add_refs(&inbox->params, refs, count);
	if (r == 0)
		r = db_queue(inbox->db, QUERY_LOCK_PARTITIONS, &inbox->params, &rows, err);
	if (r == 0)
		r = queue_rescue(inbox, err);
	if (r == 0)
		r = commit_known(inbox->db, err);
	return r != 0 ? r : read_watermarks(inbox, rows, out, err);
}

int inbox_peek(struct inbox *inbox, struct watermarks *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	r = db_run(inbox->db, QUERY_PEEK_PARTITIONS, &inbox->params, &rows, err);
	return r != 0 ? r : read_watermarks(inbox, rows, out, err);
}

int inbox_release(
	struct inbox *inbox, const struct partition_ref *refs, size_t count, struct err *err)
{
	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	add_refs(&inbox->params, refs, count);
	return db_run(inbox->db, QUERY_RELEASE_PARTITIONS, &inbox->params, NULL, err);
}

static int check_binding(struct db *db, const struct rows *rows, const char *cluster_id,
	const char *group_id, struct err *err)
{
	const char *their_cluster = rows_text(rows, 0, 0);
	const char *their_group = rows_text(rows, 0, 1);

	if (strcmp(their_cluster, cluster_id) == 0 && strcmp(their_group, group_id) == 0)
		return 0;
	(void)err_set(err, FAULT_CONFIG,
		"schema \"%s\" belongs to Kafka cluster \"%s\" and group.id \"%s\", but this is "
		"cluster \"%s\" and group.id \"%s\"",
		db_schema(db), their_cluster, their_group, cluster_id, group_id);
	return err_advise(err,
		"set another schema in inbox.schema, or, if this is intended, run `inboxd adopt`");
}

int inbox_bind(struct db *db, const char *cluster_id, const char *group_id, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	params_text(&params, cluster_id);
	params_text(&params, group_id);
	/* no row means that another instance bound the schema while the statement was running; the
	 * next try sees that */
	for (int i = 0; r == 0 && rows_count(rows) == 0 && i < 3; i++)
		r = db_run(db, QUERY_BIND_SCHEMA, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return err_set(err, FAULT_DATABASE,
			"cannot read which cluster and group the schema \"%s\" belongs to",
			db_schema(db));
	return check_binding(db, rows, cluster_id, group_id, err);
}

int inbox_check_binding(
	struct db *db, const char *cluster_id, const char *group_id, bool *bound, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(db, QUERY_READ_BINDING, NULL, &rows, err);

	*bound = r == 0 && rows_count(rows) > 0;
	return *bound ? check_binding(db, rows, cluster_id, group_id, err) : r;
}
