/*
 * Writes integers as decimal text. Faster than printf(3), for lines that are written many thousand times a second.
 * Any thread.
 */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H

#include <stdint.h>

#define DIGITS_MAX 20 /* the length of any int64_t, including the sign */

/* Writes `number` to `at` without a NUL; returns the end. */
char *digits_put(char *at, int64_t number);
/* Writes the last `width` digits of `number`, with leading zeros. */
char *digits_put_wide(char *at, uint64_t number, int width);

#endif
