/*
 * Waiting rows over which claims fail: a trigger of the user raises, or what is stored out of line is damaged. Claims
 * leave them out for growing pauses, so that the others are claimed; in between they are tried again, alone. Pure. The
 * dispatch thread.
 */
#ifndef DISPATCH_REFUSED_ROWS_H
#define DISPATCH_REFUSED_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFUSED_ROWS_MOST 1000 /* beyond it the one that was refused longest ago is forgotten */

struct refused_row {
	int64_t seq;
	int64_t at_ms;    /* refused last */
	int64_t until_ms; /* left out */
	int tries;
};

struct refused_rows {
	struct refused_row *items;
	size_t count;
	int failures; /* claims in a row that failed, maybe over a row */
	bool again;   /* a pause has ended: the next claim looks for rows first */
};

void refused_rows_fini(struct refused_rows *rows);
/* A claim has failed, maybe over a row; or not. */
void refused_rows_failed(struct refused_rows *rows, bool maybe_row);
/* The next claim is to look for the row over which it would fail. */
bool refused_rows_should_probe(struct refused_rows *rows, int64_t now_ms);
/* Such a claim has ended well. */
void refused_rows_probed(struct refused_rows *rows);
/* Notes a row that was refused; returns for how long it is left out. `first`: it was not known. No memory: 0, it is not
 * left out, and is found again. */
int64_t refused_rows_note(struct refused_rows *rows, int64_t seq, int64_t now_ms, bool *first);
/* Those that are left out now; `visit` may be NULL. */
size_t refused_rows_each(const struct refused_rows *rows, int64_t now_ms,
	void (*visit)(void *arg, int64_t seq), void *arg);

#endif
