/*
 * The holes of the outbox: seqs that the relay has passed and not seen, because their transactions had not committed,
 * or never will. The relay asks for them again until it can give them up.
 *
 * A transaction gets its id before its seq. So a hole is decided when every transaction whose id was assigned before
 * the hole was seen has ended, and the seq is still missing. The id of a transaction that began after the hole was
 * seen is the bound; a snapshot whose xmin has reached the bound decides. The xmax of the snapshot that saw the hole
 * is no bound: it is one more than the latest completed id, and running transactions may have a greater one.
 *
 * Holes are ranges in ascending order. When there are too many, neighbours are joined. A joined range contains
 * seqs that are no holes; to ask for these finds nothing that waits. Pure. One thread.
 */
#ifndef MODEL_OUTBOX_HOLES_H
#define MODEL_OUTBOX_HOLES_H

#include <stddef.h>
#include <stdint.h>

#define HOLES_MOST 65536

struct hole {
	int64_t first;
	int64_t last;
	int64_t bound; /* a transaction id; 0 = not known yet */
};

struct holes {
	struct hole *items;
	size_t count;
	size_t room;
	size_t most; /* HOLES_MOST, or less in a test */
};

#define HOLES_INIT                                                                                 \
	{                                                                                          \
		.items = NULL, .most = HOLES_MOST                                                  \
	}

void holes_fini(struct holes *holes);
/* Forgets all holes. */
void holes_clear(struct holes *holes);

/* The seqs from `first` to `last` are missing. A seq that is a hole already keeps its bound. FAULT_MEMORY: nothing
 * has changed. */
int holes_add(struct holes *holes, int64_t first, int64_t last);
/* Sets the bound of all holes that have none: the id of a transaction that began after they were added. */
void holes_bound(struct holes *holes, int64_t transaction);
/* The row of `seq` has been seen. */
void holes_fill(struct holes *holes, int64_t seq);
/* A snapshot with this xmin has shown all rows of the holes from seq `first` to `last`, and they were filled. What is
 * still missing there is given up if its bound allows it. */
void holes_give_up(struct holes *holes, int64_t xmin, int64_t first, int64_t last);

/* The lowest missing seq, or `none`. */
int64_t holes_lowest(const struct holes *holes, int64_t none);

#endif
