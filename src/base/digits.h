/*
 * Whole numbers as decimal text, for lines of which there are many thousands a second. Any thread.
 */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H

#include <stdint.h>

#define DIGITS_MAX 20 /* of any int64_t, its sign included */

/* Writes `number` to `at` without a NUL; returns the end. */
char *digits_put(char *at, int64_t number);
/* The same with `width` digits, from the last ones of `number`, zeros in front. */
char *digits_put_wide(char *at, uint64_t number, int width);

#endif
