/*
 * Durations as people write them, in the configuration and on the command line: a whole number and a unit. Pure; any
 * thread.
 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DURATION_UNITS      "ms, s, m, h, d, w or y" /* for errors */
#define DURATION_TEXT_BYTES 32

/* Reads "30s", or "0", which needs no unit. A week has 7 days, a year 365. False: that is none. What is too long for an
 * int64_t is INT64_MAX. */
bool duration_read(const char *text, int64_t *out_ms);
/* In the largest unit that leaves no rest, weeks aside: 14 days is what people write. */
void duration_text(int64_t ms, char out[DURATION_TEXT_BYTES]);

#endif
