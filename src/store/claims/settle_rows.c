/*
 * Implements settle_rows.h.
 */
#include "store/claims/settle_rows.h"

#include "json/text.h"

/* A century: far beyond every configurable limit, and far before the end of timestamptz. */
#define MAX_DELAY_MS (100LL * 366 * 24 * 3600 * 1000)

bool is_part(const struct settle_row *row, enum settle_part part)
{
	if (row->status == SETTLE_LOCKED)
		return false;
	return part == PART_ALL || row->plain == (part == PART_PLAIN);
}

size_t add_alike(struct params *params, int32_t instance, const struct settle_list *list, int group)
{
	const struct settle_row *alike = NULL;
	size_t added = 0;
	int seq;

	params_int(params, instance);
	seq = params_array(params, ARRAY_BIGINT);
	for (size_t i = 0; i < list->count; i++) {
		if (list->rows[i]->group != group || !is_part(list->rows[i], PART_PLAIN))
			continue;
		alike = list->rows[i];
		array_bigint(params, seq, alike->seq);
		added++;
	}
	params_int(params, alike == NULL ? 0 : alike->delivery_count);
	params_text(params, alike == NULL ? NULL : alike->handler);
	return added;
}

void add_handlers(
	struct params *params, struct settle_row *const *rows, size_t count, enum settle_part part)
{
	int handler = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < count; i++) {
		if (is_part(rows[i], part))
			array_text(params, handler, rows[i]->handler);
	}
}

size_t add_tokens(struct params *params, int32_t instance, struct settle_row *const *rows,
	size_t count, enum settle_part part)
{
	size_t added = 0;
	int seq;
	int delivery_count;

	params_int(params, instance);
	seq = params_array(params, ARRAY_BIGINT);
	delivery_count = params_array(params, ARRAY_INT);
	for (size_t i = 0; i < count; i++) {
		if (!is_part(rows[i], part))
			continue;
		array_bigint(params, seq, rows[i]->seq);
		array_int(params, delivery_count, rows[i]->delivery_count);
		added++;
	}
	return added;
}

static int64_t bounded_delay(int64_t delay_ms)
{
	if (delay_ms < 0)
		return 0;
	return delay_ms > MAX_DELAY_MS ? MAX_DELAY_MS : delay_ms;
}

void add_verdicts(struct params *params, struct settle_row *const *rows, size_t count)
{
	int outcome = params_array(params, ARRAY_SMALLINT);
	int delay = params_array(params, ARRAY_BIGINT);
	int retries = params_array(params, ARRAY_INT);
	int crashes = params_array(params, ARRAY_INT);
	int suspect = params_array(params, ARRAY_BOOL);
	int error = params_array(params, ARRAY_TEXT);
	int code = params_array(params, ARRAY_TEXT);
	int result = params_array(params, ARRAY_JSONB);

	for (size_t i = 0; i < count; i++) {
		const struct settle_row *row = rows[i];

		if (!is_part(row, PART_OTHERS))
			continue;
		array_smallint(params, outcome, (int16_t)row->outcome);
		array_bigint(params, delay, bounded_delay(row->delay_ms));
		array_int(params, retries, row->retry_count);
		array_int(params, crashes, row->crash_count);
		array_bool(params, suspect, row->suspect);
		array_text(params, error, row->error);
		array_text(params, code, row->error_code);
		array_bytes(params, result, row->result);
	}
	add_handlers(params, rows, count, PART_OTHERS);
}

void add_seqs(struct params *params, struct settle_row *const *rows, size_t count)
{
	int seq = params_array(params, ARRAY_BIGINT);

	for (size_t i = 0; i < count; i++)
		array_bigint(params, seq, rows[i]->seq);
}

/* Appends the server's text as plain ASCII, because the note itself must be storable. */
static void add_why(struct buf *out, const char *what, const struct err *why)
{
	buf_addf(out, "%s not stored: ", what);
	for (const char *c = why->text; *c != '\0'; c++)
		buf_add_char(out, *c >= ' ' && *c < 0x7f ? *c : '?');
}

static void note_result(struct settle_note *note, struct settle_row *row, const struct err *why)
{
	struct buf words = BUF_INIT;

	add_why(&words, "result", why);
	buf_add_str(&note->result, "{\"inboxd\": ");
	json_add_string(&note->result, (struct bytes){ words.data, words.length });
	buf_add_char(&note->result, '}');
	buf_fini(&words);
	row->result = (struct bytes){ note->result.data, note->result.length };
}

bool settle_note_why(struct settle_note *note, struct settle_row *row, const struct err *why)
{
	if (row->result.data != NULL && note->result.length == 0) {
		note_result(note, row, why);
		return buf_ok(&note->result);
	}
	if (note->error.length > 0 || (row->error == NULL && row->error_code == NULL))
		return false;
	add_why(&note->error, "error", why);
	row->error = buf_str(&note->error);
	row->error_code = row->error_code == NULL ? NULL : "UNSTORABLE";
	return buf_ok(&note->error);
}

void settle_note_fini(struct settle_note *note)
{
	buf_fini(&note->result);
	buf_fini(&note->error);
}
