/*
 * Implements settle_params.h.
 */
#include "store/claims/settle_params.h"

#include "store/pg/params.h"

/* A century: far beyond every configurable limit, and far before the end of timestamptz. */
#define MAX_DELAY_MS (100LL * 366 * 24 * 3600 * 1000)

static enum settle_part part_of(const struct settle_row *row)
{
	if (settle_emits(row))
		return PART_EMITTING;
	return row->plain ? PART_PLAIN : PART_OTHERS;
}

bool settle_is_part(const struct settle_row *row, enum settle_part part)
{
	return row->status == SETTLE_OPEN && (part == PART_ALL || part == part_of(row));
}

size_t settle_params_claims(struct params *params, struct settle_list list, enum settle_part part)
{
	size_t added = 0;
	int seq;
	int delivery_count;

	params_int(params, list.instance);
	seq = params_array(params, ARRAY_BIGINT);
	delivery_count = params_array(params, ARRAY_INT);
	for (size_t i = 0; i < list.count; i++) {
		if (!settle_is_part(list.rows[i], part))
			continue;
		array_bigint(params, seq, list.rows[i]->seq);
		array_int(params, delivery_count, list.rows[i]->delivery_count);
		added++;
	}
	return added;
}

void settle_params_handlers(struct params *params, struct settle_list list, enum settle_part part)
{
	int handler = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < list.count; i++) {
		if (settle_is_part(list.rows[i], part))
			array_text(params, handler, list.rows[i]->handler);
	}
}

size_t settle_params_verdicts(struct params *params, struct settle_list list)
{
	size_t added = settle_params_claims(params, list, PART_OTHERS);
	int outcome;
	int delay;
	int retries;
	int crashes;
	int suspect;
	int error;
	int code;
	int result;

	if (added == 0)
		return 0;
	outcome = params_array(params, ARRAY_SMALLINT);
	delay = params_array(params, ARRAY_BIGINT);
	retries = params_array(params, ARRAY_INT);
	crashes = params_array(params, ARRAY_INT);
	suspect = params_array(params, ARRAY_BOOL);
	error = params_array(params, ARRAY_TEXT);
	code = params_array(params, ARRAY_TEXT);
	result = params_array(params, ARRAY_JSONB);
	for (size_t i = 0; i < list.count; i++) {
		const struct settle_row *row = list.rows[i];
		int64_t delay_ms = row->delay_ms < 0 ? 0 : row->delay_ms;

		if (!settle_is_part(row, PART_OTHERS))
			continue;
		array_smallint(params, outcome, (int16_t)row->outcome);
		array_bigint(params, delay, delay_ms < MAX_DELAY_MS ? delay_ms : MAX_DELAY_MS);
		array_int(params, retries, row->retry_count);
		array_int(params, crashes, row->crash_count);
		array_bool(params, suspect, row->suspect);
		array_text(params, error, row->error);
		array_text(params, code, row->error_code);
		array_bytes(params, result, row->result);
	}
	settle_params_handlers(params, list, PART_OTHERS);
	return added;
}

size_t settle_params_emitting(struct params *params, struct settle_list list)
{
	size_t added = settle_params_claims(params, list, PART_EMITTING);
	int place;
	int crashes;
	int result;
	int emit;

	if (added == 0)
		return 0;
	place = params_array(params, ARRAY_INT);
	crashes = params_array(params, ARRAY_INT);
	result = params_array(params, ARRAY_JSONB);
	emit = params_array(params, ARRAY_JSONB);
	for (size_t i = 0; i < list.count; i++) {
		const struct settle_row *row = list.rows[i];

		if (!settle_is_part(row, PART_EMITTING))
			continue;
		array_int(params, place, row->place);
		array_int(params, crashes, row->crash_count);
		array_bytes(params, result, row->result);
		array_bytes(params, emit, row->emit);
	}
	settle_params_handlers(params, list, PART_EMITTING);
	return added;
}
