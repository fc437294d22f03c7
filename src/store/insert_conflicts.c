/*
 * Stores the records of a batch that are not new messages: records that repeat an id with another
 * payload, and records that are no messages. They are stored completely, in the transaction of the
 * batch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "queries.h"
#include "store/inbox_private.h"

static bool has_coordinates(const struct message *message, const struct rows *rows, int row)
{
	return message->offset == rows_int(rows, row, 2) &&
	       message->partition == rows_int(rows, row, 1) &&
	       strcmp(message->topic, rows_text(rows, row, 0)) == 0;
}

/* Matches by id as well. Coordinates can occur twice in a batch, after a topic recreation. */
static bool has_both(const struct message *message, const struct rows *rows, int row)
{
	return has_coordinates(message, rows, row) &&
	       strcmp(message->event_id, rows_text(rows, row, 3)) == 0;
}

int inbox_keep_as_reject(
	const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_row *row = &w->batch->rows[item];
	struct message *copy = NULL;
	char reason[sizeof(w->batch->rejects->reason)];
	int r = message_new(&copy, row->message, err);

	if (r != 0)
		return r;
	(void)snprintf(reason, sizeof(reason), "storage: %s %.400s", why->state, why->text);
	if (row->result != ROW_DUPLICATE)
		row->result = ROW_REJECTED;
	if (!db_error_is_data(why))
		w->inbox->odd = *why;
	r = batch_reject(w->batch, copy, reason, err);
	if (r == 0)
		w->batch->rejects[w->batch->reject_count - 1].refused = true;
	return r;
}

static int write_conflicts(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct answer answer = { NULL, items, count, has_both };
	size_t at = 0;
	int r;

	fill_conflicts(w->inbox, w->batch, items, count);
	r = db_step(w->inbox->db, QUERY_INSERT_CONFLICTS, &w->inbox->params, &rows, err);
	answer.rows = rows;
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		at = writing_match(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rows[items[at++]].result = ROW_CONFLICT;
	}
	return r;
}

static int write_rejects_as(
	const struct writing *w, const size_t *items, size_t count, bool bare, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct answer answer = { NULL, items, count, has_coordinates };
	size_t at = 0;
	int r;

	fill_rejects(w->inbox, w->batch, items, count, bare);
	r = db_step(w->inbox->db, QUERY_INSERT_REJECTS, &w->inbox->params, &rows, err);
	answer.rows = rows;
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		at = writing_match(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rejects[items[at++]].kept = true;
	}
	return r;
}

static int write_rejects(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	return write_rejects_as(w, items, count, false, err);
}

/* Even the reject cannot be stored completely: stores only its coordinates and the reason. */
static int keep_bare(const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_reject *reject = &w->batch->rejects[item];
	size_t used = strlen(reject->reason);

	(void)snprintf(reject->reason + used, sizeof(reject->reason) - used, "; not kept whole: %s",
		why->text);
	utf8_repair(reject->reason);
	return write_rejects_as(w, &item, 1, true, err);
}

/* Removes the items that repeat a recently stored message, according to the cache. Returns the new
 * count. */
static size_t drop_known(
	const struct inbox *inbox, const struct batch *batch, size_t *items, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (!dedup_cache_has(inbox->cache, batch->rows[items[i]].message))
			items[kept++] = items[i];
	}
	return kept;
}

/* Keeps the items whose payload differs from the stored one, and adds the others to the cache. */
static size_t take_differing(struct inbox *inbox, const struct batch *batch, size_t *items,
	size_t count, const struct rows *rows)
{
	int kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept < rows_count(rows) && rows_int(rows, kept, 0) == (int64_t)i)
			items[kept++] = items[i];
		else
			dedup_cache_add(inbox->cache, batch->rows[items[i]].message);
	}
	return (size_t)kept;
}

/* Keeps the duplicates in `items` whose payload differs from the stored one. */
static int keep_conflicts(struct inbox *inbox, const struct batch *batch, size_t *items,
	size_t *count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	*count = drop_known(inbox, batch, items, *count);
	if (*count == 0)
		return 0;
	fill_duplicates(inbox, batch, items, *count);
	r = db_step(inbox->db, QUERY_FIND_CONFLICTS, &inbox->params, &rows, err);
	if (r == 0)
		*count = take_differing(inbox, batch, items, *count, rows);
	return r;
}

int inbox_store_conflicts(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, false, write_conflicts, inbox_keep_as_reject };
	CLEANUP(freep) size_t *items = NULL;
	size_t count = 0;
	int r = inbox_select_rows(batch, ROW_DUPLICATE, &items, &count, err);

	if (r == 0 && count > 0)
		r = keep_conflicts(inbox, batch, items, &count, err);
	return r != 0 ? r : writing_bisect(&w, items, count, err);
}

int inbox_store_rejects(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, true, write_rejects, keep_bare };
	CLEANUP(freep) size_t *items = calloc(batch->reject_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < batch->reject_count; i++)
		items[i] = i;
	return writing_bisect(&w, items, batch->reject_count, err);
}
