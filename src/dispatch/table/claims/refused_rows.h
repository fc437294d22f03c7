/*
 * Waiting rows that make a claim fail: a trigger of the user raises an error, or the stored payload is damaged. Such a
 * row would stop all claims of its partition. So after several failures a claim probes each row alone. A row that
 * fails alone is left out of claims for a pause that grows with each refusal, and then tried again.
 * Pure. The dispatch thread.
 */
#ifndef DISPATCH_TABLE_CLAIMS_REFUSED_ROWS_H
#define DISPATCH_TABLE_CLAIMS_REFUSED_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Above this limit the row that was refused longest ago is forgotten. */
#define REFUSED_ROWS_MOST 1000

struct refused_row {
	int64_t seq;
	int64_t at_ms;    /* when it was last refused */
	int64_t until_ms; /* claims leave it out until then */
	int tries;
};

struct refused_rows {
	struct refused_row *items;
	size_t count;
	int failures; /* claims in a row that failed with an error that a single row can cause */
	bool again;   /* a pause has ended: the next claim probes */
};

void refused_rows_fini(struct refused_rows *rows);
/* A claim has ended. `maybe_row`: it failed with an error that a single row can cause. */
void refused_rows_failed(struct refused_rows *rows, bool maybe_row);
/* True when the next claim must probe its rows. */
bool refused_rows_should_probe(struct refused_rows *rows, int64_t now_ms);
/* A claim that probed has succeeded. */
void refused_rows_probed(struct refused_rows *rows);
/* Notes a row that was refused and returns for how many milliseconds it is left out. `first`: it was not known before.
 * 0: no memory; the row is not left out, and the next probe finds it again. */
int64_t refused_rows_note(struct refused_rows *rows, int64_t seq, int64_t now_ms, bool *first);
/* Counts the rows that are left out now and calls `visit`, if it is not NULL, for each. */
size_t refused_rows_each(const struct refused_rows *rows, int64_t now_ms,
	void (*visit)(void *arg, int64_t seq), void *arg);

#endif
