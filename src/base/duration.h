/*
 * Durations in the configuration and on the command line: an integer and a unit. Pure; any thread.
 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DURATION_UNITS      "ms, s, m, h, d, w or y" /* for errors */
#define DURATION_TEXT_BYTES 32

/* Reads "30s" or "0", which needs no unit. A week has 7 days, a year 365. False: the text is not a duration. A
 * duration that is too long for int64_t becomes INT64_MAX. */
bool duration_read(const char *text, int64_t *out_ms);
/* Writes the duration in the largest unit without a remainder. Weeks are not used: people write 14 days. */
void duration_text(int64_t ms, char out[DURATION_TEXT_BYTES]);

#endif
