/*
 * Log lines on stderr (log_output.h), logfmt or JSON. Any thread; never waits in a long-running command.
 *
 * A line has the name of an event (stable, snake_case, documented in docs/log-events.md) and fields. It says what
 * happened to what, and what happens next. It never contains payloads or secrets.
 *
 * Repeated lines above the level debug are held back (log_limit.h) and counted in a line `repeats_held_back`. A line
 * is a repeat if the event and its fields topic, partition, handler, key, code, sqlstate and what are equal.
 *
 *	log_warn("database_lost", LOG_STR("error", err.text), LOG_INT("retry_in_ms", 400));
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_field_kind { LOG_FIELD_END, LOG_FIELD_STR, LOG_FIELD_INT };

struct log_field {
	enum log_field_kind kind;
	const char *name;
	const char *text; /* NULL is written as null */
	int64_t number;
};

#define LOG_STR(name, text)                                                                        \
	(struct log_field)                                                                         \
	{                                                                                          \
		LOG_FIELD_STR, (name), (text), 0                                                   \
	}
#define LOG_INT(name, number)                                                                      \
	(struct log_field)                                                                         \
	{                                                                                          \
		LOG_FIELD_INT, (name), NULL, (int64_t)(number)                                     \
	}

#define log_at(level, event, ...)                                                                  \
	log_write((level), (event),                                                                \
		(const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ LOG_FIELD_END } })
#define log_debug(event, ...) log_at(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...)  log_at(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...)  log_at(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_ERROR, event, __VA_ARGS__)

/* Threshold and format may change at any time (SIGHUP). */
void log_configure(enum log_level level, bool json);
/* The threshold alone, until the next log_configure(). */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* "debug", "info", "warn" or "error". */
const char *log_level_name(enum log_level level);
/* True when a line of this level would be written. */
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *event, const struct log_field *fields);

/* Writes the counts of repeats that are due, and of lines that were dropped; with `all` of all repeats, because the program
 * ends. Call it about once a second. Other log calls write due counts as well. */
void log_repeats(bool all);

/* "debug", "info", "warn", "error" to a level: 0, or -1 when unknown. */
int log_level_parse(const char *text, enum log_level *out);

#endif
