/*
 * Decides which lines of the log an outage gets: one when it begins, one a minute while attempts fail, one when it
 * ends. `failures` counts the failed attempts since it began. A failure of another kind than before (at most 32 kinds)
 * gets its own line, once in an outage. Zeroed: there is no outage. One thread; the caller supplies the time.
 *
 * A failure may come back between successes: a statement is refused at each attempt while others succeed. If an outage
 * begins within OUTAGE_BEAT_MS after the last failure of the outage before, a kind of failure that had a line
 * gets the next one no earlier than a minute after the last line.
 */
#ifndef BASE_OUTAGE_LOG_H
#define BASE_OUTAGE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define OUTAGE_LINE_MS 60000
#define OUTAGE_BEAT_MS 15000 /* above the longest pause between two attempts */

struct outage_log {
	int64_t failures;  /* 0: there is no outage */
	int64_t since_ms;  /* the first failure */
	int64_t line_ms;   /* the last line */
	int64_t failed_ms; /* the last failure, also of the outage before */
	uint32_t kinds;    /* that had a line; 0: no line yet */
	uint32_t told; /* kinds that had a line in outages before, which came back within a beat */
};

/* Counts a failure. True: write a line. */
bool outage_log_failed(struct outage_log *log, unsigned kind, int64_t now_ms);
/* As outage_log_failed(), but there is no line in the first minute, since other lines tell of the same outage. */
bool outage_log_failed_quietly(struct outage_log *log, unsigned kind, int64_t now_ms);
/* The outage has ended; `ended` gets what it was. True: write a line, because its beginning had one. */
bool outage_log_ended(struct outage_log *log, struct outage_log *ended);

/* The fields of the lines. */
#define LOG_OUTAGE(log, now_ms)                                                                    \
	LOG_INT("failures", (log)->failures),                                                      \
		LOG_INT("since_s", ((now_ms) - (log)->since_ms) / 1000)
#define LOG_OUTAGE_ENDED(log, now_ms) LOG_INT("outage_ms", (now_ms) - (log)->since_ms)

#endif
