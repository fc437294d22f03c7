/*
 * Implements check_print.h.
 */
#include "ops/check_print.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "config/show.h"
#include "json/text.h"

static const struct {
	const char *line;
	const char *json;
} outcomes[] = {
	[CHECK_OK] = { "ok", "ok" },
	[CHECK_FAILED] = { "FAILED", "failed" },
	[CHECK_SKIPPED] = { "-", "skipped" },
};

/* --- Lines ------------------------------------------------------------------------------------- */

/* Each line of a check is indented under its first one; `first` begins the row. */
static void print_lines(const char *text, bool first)
{
	while (*text != '\0') {
		int length = (int)strcspn(text, "\n");

		(void)printf("%*s%.*s\n", first ? 0 : 19, "", length, text);
		text += length + (text[length] == '\n' ? 1 : 0);
		first = false;
	}
}

static void print_row(struct check_result *result)
{
	bool failed = result->outcome == CHECK_FAILED;

	(void)printf("%-6s %-11s ", outcomes[result->outcome].line, result->name);
	if (failed)
		(void)puts(result->fault.text);
	print_lines(buf_str(&result->found), !failed);
	(void)fflush(stdout);
}

/* --- JSON -------------------------------------------------------------------------------------- */

/* Replaces bytes that are not UTF-8 by '?', for example in a message of PostgreSQL in another
 * encoding. */
static void add_text(struct buf *out, struct bytes text)
{
	CLEANUP(buf_fini) struct buf clean = BUF_INIT;
	const char *at = text.data;
	const char *end = at + text.length;

	while (at < end) {
		size_t length = utf8_character(at, (size_t)(end - at));

		buf_add(&clean, length == 0 ? "?" : at, length == 0 ? 1 : length);
		at += length == 0 ? 1 : length;
	}
	json_add_string(out, bytes_of(buf_str(&clean)));
}

static void add_member(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, ",\"%s\":", name);
	add_text(out, bytes_of(text));
}

static void add_value(const struct config_line *line, void *arg)
{
	struct buf *out = arg;

	buf_add_str(out, out->data[out->length - 1] == '[' ? "{\"key\":" : ",{\"key\":");
	add_text(out, bytes_of(line->key));
	add_member(out, "value", line->text);
	add_member(out, "origin", line->origin);
	buf_add_char(out, '}');
}

/* The error comes first, then the findings. */
static void add_result(struct buf *out, struct check_result *result)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const char *found = buf_str(&result->found);
	size_t length = strlen(found);

	if (result->outcome == CHECK_FAILED)
		buf_add(&text, result->fault.text, err_words(&result->fault));
	if (result->outcome == CHECK_FAILED && length > 0)
		buf_add_char(&text, '\n');
	buf_add(&text, found, length > 0 && found[length - 1] == '\n' ? length - 1 : length);
	buf_addf(out, "{\"name\":\"%s\",\"result\":\"%s\"", result->name,
		outcomes[result->outcome].json);
	add_member(out, "text", buf_str(&text));
	if (result->outcome == CHECK_FAILED)
		add_member(out, "advice", err_advice(&result->fault));
	else
		buf_add_str(out, ",\"advice\":null");
	buf_add_char(out, '}');
}

/* --- Both -------------------------------------------------------------------------------------- */

int check_print_config(struct check_print *print, const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	int r;

	if (print->json) {
		buf_add_str(&print->out, "{\"configuration\":[");
		r = buf_ok(&print->out) ? config_each(config, add_value, &print->out, err)
					: err_memory(err);
		buf_add_str(&print->out, "],\"checks\":[");
		return r;
	}
	r = config_dump(config, &text, err);
	if (r == 0)
		(void)printf("%s\n", buf_str(&text));
	return r;
}

void check_print_result(struct check_print *print, struct check_result *result)
{
	if (!print->json) {
		print_row(result);
		return;
	}
	if (print->checks++ > 0)
		buf_add_char(&print->out, ',');
	add_result(&print->out, result);
}

int check_print_end(struct check_print *print, int fault, struct err *err)
{
	buf_addf(&print->out, "],\"exit_code\":%d}", err_exit_code(fault));
	if (!buf_ok(&print->out))
		fault = err_memory(err);
	else if (print->json && print->checks > 0)
		(void)puts(buf_str(&print->out));
	buf_fini(&print->out);
	return fault;
}
