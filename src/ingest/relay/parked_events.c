/*
 * Implements parked_events.h.
 */
#include "ingest/relay/parked_events.h"

#include <stdlib.h>

static bool lets_go(const struct flight *flight, uint64_t hash)
{
	struct hold hold = holds_get(flight->options.holds, hash);

	return hold.state == HOLD_NONE || hold.state == HOLD_PASSES;
}

static bool row_may_go(struct flight *flight, const struct rows *rows, int row)
{
	struct flight_place place = {
		.topic = rows_text(rows, row, PLACE_TOPIC),
		.aggregate = rows_text(rows, row, PLACE_AGGREGATE),
		.type = rows_text(rows, row, PLACE_TYPE),
		.key = rows_bytes(rows, row, PLACE_KEY),
	};

	if (unrecorded_has(flight->options.unrecorded, rows_int(rows, row, PLACE_SEQ)))
		return false;
	return !flight_find_place(flight, &place) ||
	       (lets_go(flight, place.topic_hash) &&
		       (place.key.data == NULL || lets_go(flight, place.key_hash)));
}

static bool unrecorded_may_go(const struct flight *flight, const struct unrecorded_event *event)
{
	return event->result.outcome == RELAY_PARK && lets_go(flight, event->topic_hash) &&
	       (!event->keyed || lets_go(flight, event->key_hash));
}

int parked_events_list(struct flight *flight, const struct parked_page *page, int64_t **out,
	size_t *count, struct err *err)
{
	const struct unrecorded *unrecorded = flight->options.unrecorded;
	size_t at = unrecorded_find(unrecorded, page->after + 1);
	int rows = rows_count(page->rows);

	*count = 0;
	*out = malloc(((size_t)rows + unrecorded->count + 1) * sizeof(**out));
	if (*out == NULL)
		return err_memory(err);
	for (int row = 0; row < rows + page->last; row++) {
		int64_t seq = row < rows ? rows_int(page->rows, row, PLACE_SEQ) : INT64_MAX;

		for (; at < unrecorded->count && unrecorded->items[at].result.seq < seq; at++) {
			if (unrecorded_may_go(flight, &unrecorded->items[at]))
				(*out)[(*count)++] = unrecorded->items[at].result.seq;
		}
		if (row < rows && row_may_go(flight, page->rows, row))
			(*out)[(*count)++] = seq;
	}
	return 0;
}
