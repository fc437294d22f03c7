/*
 * Implements held_heads.h.
 */
#include "ingest/relay/held_heads.h"

#include <string.h>

#define PAGE 10000

static int load_head(struct flight *flight, const struct rows *rows, int row, struct err *err)
{
	const char *code = rows_text(rows, row, PLACE_CODE);
	bool topic = code != NULL && strcmp(code, RELAY_CODE_TOPIC) == 0;
	struct flight_place place = {
		.topic = rows_text(rows, row, PLACE_TOPIC),
		.aggregate = rows_text(rows, row, PLACE_AGGREGATE),
		.type = rows_text(rows, row, PLACE_TYPE),
		.key = rows_bytes(rows, row, PLACE_KEY),
	};

	if (!flight_find_place(flight, &place) || (!topic && place.key.data == NULL))
		return 0;
	if (holds_set(flight->options.holds, topic ? place.topic_hash : place.key_hash,
		    rows_int(rows, row, PLACE_SEQ), topic) < 0)
		return err_memory(err);
	return 0;
}

int held_heads_load(struct flight *flight, struct db *db, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct relay_head last = { 0, 0 };
	int r;

	do {
		r = relay_heads(db, PAGE, last, &rows, err);
		for (int row = 0; r == 0 && row < rows_count(rows); row++) {
			r = load_head(flight, rows, row, err);
			last.due_us = rows_int(rows, row, PLACE_DUE_US);
			last.seq = rows_int(rows, row, PLACE_SEQ);
		}
	} while (r == 0 && rows_count(rows) == PAGE);
	return r;
}

int held_heads_release_gone(struct flight *flight, struct db *db, size_t *position, struct err *err)
{
	struct holds *holds = flight->options.holds;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t seqs[PAGE];
	uint64_t hashes[PAGE];
	const struct hold *hold = NULL;
	size_t count = 0;
	int r;

	while (count < PAGE && (hold = holds_next_waiting(holds, position)) != NULL) {
		/* the table does not have it as deferred yet */
		if (unrecorded_has(flight->options.unrecorded, hold->head))
			continue;
		seqs[count] = hold->head;
		hashes[count++] = hold->hash;
	}
	if (hold == NULL)
		*position = 0;
	r = relay_gone(db, (struct relay_seqs){ seqs, count }, &rows, err);
	for (int row = 0; r == 0 && row < rows_count(rows); row++) {
		int64_t at = rows_int(rows, row, 0);

		holds_release(holds, hashes[at], seqs[at]);
	}
	return r;
}
