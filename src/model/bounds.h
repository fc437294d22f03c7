/*
 * The bounds of the born-claimed rows that an instance may still hold (rule R3). The heartbeat writes them to
 * inbox_instances. After the death of the instance a rescue reads only rows within them.
 *
 * The oldest open messages are listed as stragglers. Otherwise one message that stays open for long would keep the
 * bound low, and the rescue would read all rows that were stored after it.
 *
 * Bounds that were true once stay true: an instance only settles rows below them, and new rows have higher seqs.
 */
#ifndef MODEL_BOUNDS_H
#define MODEL_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

#define BOUNDS_STRAGGLERS 32

struct bounds {
	int64_t low_seq;  /* no held row has a lower seq */
	int64_t low_rest; /* no held row except the stragglers has a lower seq */
	int64_t stragglers[BOUNDS_STRAGGLERS];
	size_t straggler_count;
};

#endif
