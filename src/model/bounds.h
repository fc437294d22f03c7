/*
 * Which of the rows an instance was born holding may still be held (rule R3). The oldest open ones are named, so that
 * one message that stays open for long does not keep the bound of all the others below the rows that came after it.
 *
 * Once true, bounds stay true: rows that are held only become less, and newer ones have higher seqs.
 */
#ifndef MODEL_BOUNDS_H
#define MODEL_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

#define BOUNDS_STRAGGLERS 32

struct bounds {
	int64_t low_seq;  /* of every row */
	int64_t low_rest; /* of every row but the stragglers, which are below it */
	int64_t stragglers[BOUNDS_STRAGGLERS];
	size_t straggler_count;
};

#endif
