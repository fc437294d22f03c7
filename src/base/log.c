/*
 * Log lines. See log.h. The threshold, the format and the counts of repeats are global, unlike nearly everything else:
 * every layer may log, and none should have to carry a log through its calls.
 */
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log_limit.h"
#include "base/log_output.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"

static const char *const level_names[] = { "debug", "info", "warn", "error" };

static atomic_int threshold = LOG_INFO;
static atomic_bool as_json;
static struct log_limit limit = LOG_LIMIT_INIT;

void log_configure(enum log_level level, bool json)
{
	atomic_store(&threshold, (int)level);
	atomic_store(&as_json, json);
}

void log_set_level(enum log_level level)
{
	atomic_store(&threshold, (int)level);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load(&threshold);
}

const char *log_level_name(enum log_level level)
{
	return level_names[level];
}

bool log_enabled(enum log_level level)
{
	return (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *out)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return -1;
}

/* A line is always valid UTF-8: a byte that is not becomes U+FFFD. */
static void add_quoted(struct buf *line, const char *text)
{
	size_t left = strlen(text);

	buf_add_char(line, '"');
	while (left > 0) {
		size_t length = utf8_character(text, left);

		if (length == 0)
			buf_add_str(line, "\xef\xbf\xbd");
		else if (*text == '"' || *text == '\\')
			buf_addf(line, "\\%c", *text);
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			buf_addf(line, "\\u%04x", (unsigned)*text);
		else
			buf_add(line, text, length);
		length += length == 0;
		text += length;
		left -= length;
	}
	buf_add_char(line, '"');
}

/* True when logfmt needs no quotes around the text. */
static bool is_bare(const char *text)
{
	if (*text == '\0' || !utf8_is_valid(bytes_of(text)))
		return false;
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c <= ' ' || *c == '"' || *c == '=' || *c == '\\' || *c == 0x7f)
			return false;
	}
	return true;
}

static void add_field(struct buf *line, const struct log_field *field, bool json)
{
	if (json)
		buf_addf(line, ",\"%s\":", field->name);
	else
		buf_addf(line, " %s=", field->name);
	if (field->kind == LOG_FIELD_INT)
		buf_addf(line, "%lld", (long long)field->number);
	else if (field->text == NULL)
		buf_add_str(line, "null");
	else if (!json && is_bare(field->text))
		buf_add_str(line, field->text);
	else
		add_quoted(line, field->text);
}

static void write_line(enum log_level level, const char *event, const struct log_field *fields)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT;
	bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
	char when[32];

	clock_format_ms(clock_wall_ms(), when);
	buf_addf(&line,
		json ? "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\""
		     : "time=%s level=%s event=%s",
		when, level_names[level], event);
	for (; fields->kind != LOG_FIELD_END; fields++)
		add_field(&line, fields, json);
	buf_add_str(&line, json ? "}\n" : "\n");
	if (buf_ok(&line))
		log_output_add(line.data, line.length);
}

/* --- Repeats ---------------------------------------------------------------------------------- */

/* The fields that identify the subject of an event. Other fields differ from line to line. */
static const char *const key_fields[] = { "topic", "partition", "consumer", "handler", "key",
	"code", "sqlstate", "what", "migration", "thread" };

static bool is_key_field(const char *name)
{
	for (size_t i = 0; i < sizeof(key_fields) / sizeof(key_fields[0]); i++) {
		if (strcmp(key_fields[i], name) == 0)
			return true;
	}
	return false;
}

/* "orders/3": the values of the key fields, cut at the end. */
static void write_key(char *out, size_t size, const struct log_field *fields)
{
	size_t length = 0;

	out[0] = '\0';
	for (; fields->kind != LOG_FIELD_END && length + 1 < size; fields++) {
		const char *slash = length == 0 ? "" : "/";
		int added = 0;

		if (!is_key_field(fields->name))
			continue;
		if (fields->kind == LOG_FIELD_INT)
			added = snprintf(out + length, size - length, "%s%lld", slash,
				(long long)fields->number);
		else if (fields->text != NULL)
			added = snprintf(out + length, size - length, "%s%s", slash, fields->text);
		length += added > 0 ? (size_t)added : 0;
	}
}

static void report_dropped(void)
{
	const int64_t count = log_output_take_dropped();

	if (count > 0)
		log_warn("log_lines_dropped", LOG_INT("count", count),
			LOG_STR("what", "stderr could not be written to, or not fast enough"));
}

void log_repeats(bool all)
{
	struct log_seen held;

	report_dropped();
	while (log_limit_take(&limit, clock_now_ms(), all, &held)) {
		const struct log_field fields[] = { LOG_STR("of", held.event),
			LOG_STR("about", held.key), LOG_INT("count", held.held),
			{ LOG_FIELD_END } };

		if (log_enabled((enum log_level)held.level))
			write_line((enum log_level)held.level, "repeats_held_back", fields);
	}
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
	char key[LOG_LIMIT_KEY_BYTES];

	if (!log_enabled(level))
		return;
	if (level > LOG_DEBUG) {
		log_repeats(false);
		write_key(key, sizeof(key), fields);
		if (!log_limit_pass(&limit, event, key, (int)level, clock_now_ms()))
			return;
	}
	write_line(level, event, fields);
}
