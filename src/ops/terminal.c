/*
 * Output for a person, and the questions to one. See op.h. Texts of messages come from strangers:
 * whatever could control a terminal is printed as '?', and a line break within a line as a blank.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "ops/op.h"

#define BAR_WIDTH 40
#define WIDEST                                                                                     \
	80 /* a wider cell moves the rest of its line; otherwise it would fill up all lines */

#define BLANKS " \t\r\n"

/* C0, DEL, and C1 in UTF-8 (0xC2 0x80 to 0xC2 0x9F). */
static bool is_control(const unsigned char *at, size_t length)
{
	if (length == 2)
		return at[0] == 0xc2 && at[1] < 0xa0;
	return length == 1 && (at[0] < ' ' || at[0] == 0x7f);
}

/* Writes the text, unless `out` is NULL, and returns the number of characters. */
static size_t put_text(FILE *out, struct bytes text, bool lines)
{
	const unsigned char *at = text.data;
	const unsigned char *end = at + text.length;
	size_t count = 0;

	for (size_t length; at < end; at += length, count++) {
		bool blank = *at == '\n' || *at == '\t';
		bool good;

		length = utf8_character(at, (size_t)(end - at));
		good = length > 0 && (blank ? lines : !is_control(at, length));
		if (out != NULL && good)
			(void)fwrite(at, 1, length, out);
		else if (out != NULL)
			(void)fputc(blank ? ' ' : '?', out);
		if (length == 0)
			length = 1;
	}
	return count;
}

void op_print_text(FILE *out, struct bytes text, bool lines)
{
	if (text.data != NULL)
		(void)put_text(out, text, lines);
}

/* NULL is shown as "-", which an empty text is not. */
static struct bytes cell(const struct rows *rows, int row, int column)
{
	struct bytes text = rows_bytes(rows, row, column);

	return text.data == NULL ? bytes_of("-") : text;
}

/* In characters, not in bytes. */
static size_t width_of(const struct rows *rows, const char *title, int column)
{
	size_t width = strlen(title);

	for (int row = 0; row < rows_count(rows); row++) {
		size_t size = put_text(NULL, cell(rows, row, column), false);

		if (size > width)
			width = size;
	}
	return width > WIDEST ? WIDEST : width;
}

/* The last column of a line has no padding. */
static void pad(size_t used, size_t width, bool last)
{
	(void)printf(
		"%*s", last ? 0 : (int)(used < width ? width - used + 2 : 2), last ? "\n" : "");
}

/* An inbox without names of consumers shows nothing of them. */
static bool is_shown(const struct rows *rows, const char *title, int column)
{
	bool shown = title != NULL && strcmp(title, "CONSUMER") != 0;

	if (title == NULL)
		return false;
	for (int row = 0; !shown && row < rows_count(rows); row++)
		shown = rows_bytes(rows, row, column).length > 0;
	return shown;
}

/* The widths need all rows before the first line is printed; a page of rows is in memory anyway. A
 * reader that has ended (ferror) stops the output early. */
void op_print_table(const struct rows *rows, const char *const *titles, int columns)
{
	CLEANUP(freep) size_t *widths = calloc((size_t)columns, sizeof(*widths));

	if (widths == NULL)
		return;
	for (int column = 0; column < columns; column++) {
		if (!is_shown(rows, titles[column], column))
			continue; /* its width stays 0 */
		widths[column] = width_of(rows, titles[column], column);
		(void)fputs(titles[column], stdout);
		pad(strlen(titles[column]), widths[column], column == columns - 1);
	}
	for (int row = 0; row < rows_count(rows) && ferror(stdout) == 0; row++) {
		for (int column = 0; column < columns; column++) {
			if (widths[column] == 0)
				continue;
			pad(put_text(stdout, cell(rows, row, column), false), widths[column],
				column == columns - 1);
		}
	}
}

void op_print_lines(const struct rows *rows, int column)
{
	for (int row = 0; row < rows_count(rows) && ferror(stdout) == 0; row++) {
		struct bytes text = rows_bytes(rows, row, column);

		(void)fwrite(text.data, 1, text.length, stdout);
		(void)putchar('\n');
	}
}

void op_print_change(const struct op *op, const char *action, int64_t count)
{
	if (op->cli->json)
		(void)printf("{\"action\":\"%s\",\"count\":%" PRId64 ",\"dry_run\":%s%s}\n", action,
			count, op->cli->dry_run ? "true" : "false",
			op->details == NULL ? "" : op->details);
}

void op_print_facts(const struct rows *rows)
{
	const char *section = "";

	for (int i = 0; i < rows_count(rows); i++) {
		if (strcmp(section, rows_text(rows, i, 0)) != 0) {
			(void)printf("%s%s\n", i == 0 ? "" : "\n", rows_text(rows, i, 0));
			section = rows_text(rows, i, 0);
		}
		(void)fputs("  ", stdout);
		op_print_text(stdout, rows_bytes(rows, i, 1), false);
		(void)fputs(": ", stdout);
		op_print_text(stdout, rows_bytes(rows, i, 2), false);
		(void)putchar('\n');
	}
}

void op_print_hex(struct bytes bytes)
{
	const unsigned char *data = bytes.data;

	for (size_t at = 0; at < bytes.length && ferror(stdout) == 0; at += 16) {
		size_t count = bytes.length - at < 16 ? bytes.length - at : 16;

		(void)printf("%08zx ", at);
		for (size_t i = 0; i < 16; i++) {
			if (i < count)
				(void)printf(" %02x", data[at + i]);
			else
				(void)fputs("   ", stdout);
		}
		(void)fputs("  ", stdout);
		for (size_t i = 0; i < count; i++)
			(void)putchar(isprint(data[at + i]) ? data[at + i] : '.');
		(void)putchar('\n');
	}
}

/* --- Questions and progress -------------------------------------------------------------------- */

static bool is_yes(char *answer)
{
	char *from = answer + strspn(answer, BLANKS);
	size_t length = strlen(from);

	while (length > 0 && strchr(BLANKS, from[length - 1]) != NULL)
		from[--length] = '\0';
	return strcasecmp(from, "y") == 0 || strcasecmp(from, "yes") == 0;
}

/* It may have words of others, such as an event id or the error of a handler. */
static void print_question(FILE *out, const char *before, const char *question, const char *after)
{
	(void)fputs(before, out);
	op_print_text(out, bytes_of(question), false);
	(void)fputs(after, out);
}

/* A dry run never asks, and --yes never waits for a terminal: both are for scripts. */
int op_confirm(const struct op *op, const char *action, int64_t wanted, const char *question,
	struct err *err)
{
	char answer[64] = "";

	if (op->cli->dry_run) {
		if (!op->cli->json)
			print_question(stdout, "dry run: ", question, "\n");
		op_print_change(op, action, wanted);
		return OP_NO;
	}
	if (op->cli->yes)
		return 0;
	if (isatty(STDIN_FILENO) == 0)
		return err_set(err, FAULT_USAGE,
			"%s? stdin is not a terminal: use --yes, or --dry-run to change nothing",
			question);
	print_question(stderr, "", question, "? [y/N] ");
	if (fgets(answer, sizeof(answer), stdin) != NULL && is_yes(answer))
		return 0;
	(void)fputs("nothing was changed\n", stderr);
	op_print_change(op, action, 0);
	return OP_NO;
}

/* Only on a terminal: in a log file each update would be a line. */
void op_progress(int64_t done, int64_t total)
{
	int filled;

	if (isatty(STDERR_FILENO) == 0)
		return;
	if (total == 0) {
		(void)fputs("\r\033[K", stderr);
		return;
	}
	filled = done >= total ? BAR_WIDTH : (int)(done * BAR_WIDTH / total);
	(void)fprintf(stderr, "\r[%.*s%*s] %lld of %lld", filled,
		"########################################", BAR_WIDTH - filled, "", (long long)done,
		(long long)total);
}
