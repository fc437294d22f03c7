/*
 * What is written to stderr: the log, and what commands of `inboxd exec` write. A reader of stderr that stops reading
 * must stop nothing else. So a long-running command starts one thread that alone writes, from a buffer of limited size.
 * What does not fit is dropped and counted. Any thread.
 *
 * Without log_output_start(), the caller itself writes and may wait: for commands at a terminal.
 */
#ifndef BASE_LOG_OUTPUT_H
#define BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LOG_OUTPUT_BYTES   (1U << 20)
#define LOG_OUTPUT_STALLED 1000 /* ms without progress: nobody reads */

/* Starts the thread. Does nothing if it runs. */
int log_output_start(struct err *err);
/* Adds whole lines, or drops all of them. Never waits once the thread runs. */
void log_output_add(const char *bytes, size_t length);
/* True if so many bytes fit, or waiting for room is in vain, because nobody reads. */
bool log_output_is_ready(size_t length);
/* Waits until everything is written, at most timeout_ms. Call it before _exit(2). */
void log_output_flush(int64_t timeout_ms);
/* The last call. Waits like log_output_flush(), and ends the thread unless it hangs. */
void log_output_end(int64_t timeout_ms);

/* Lines dropped since the start. */
int64_t log_output_dropped(void);
/* Lines dropped since the last call; 0 while the buffer is rather full, because the line about them would be dropped. */
int64_t log_output_take_dropped(void);

#endif
