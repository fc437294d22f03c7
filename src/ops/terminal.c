/*
 * Output for a person, and the questions to one. See op.h. Texts of messages come from strangers:
 * whatever could control a terminal is printed as '?', and a line break within a line of a table as a blank.
 */
#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/text/utf8.h"
#include "ops/op.h"

#define BAR_WIDTH 40
#define WIDEST                                                                                     \
	80 /* a wider cell moves the rest of its line; otherwise it would fill up all lines */

#define LEAST  20 /* columns of the last cell */

#define BLANKS " \t\r\n"

/* The code of a character that utf8_character() has accepted. */
static uint32_t code_of(const unsigned char *at, size_t length)
{
	uint32_t code = length == 1 ? at[0] : at[0] & (0xffU >> (length + 1));

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (at[i] & 0x3fU);
	return code;
}

/* Control characters, and those that a terminal does not show but that change the order or the lines of the others: marks
 * and overrides of the direction, line separators, the byte order mark. */
static bool is_control(uint32_t code)
{
	return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/* How many columns of a terminal a character takes: 2 for many of East Asia, 0 for one that joins the one before it. The
 * program has the locale C, which knows ASCII only. */
static size_t columns_of(uint32_t code)
{
	static locale_t unicode;
	locale_t before;
	int columns;

	if (code < 0x7f)
		return 1;
	if (unicode == (locale_t)0)
		unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (unicode == (locale_t)0)
		return 1;
	before = uselocale(unicode);
	columns = wcwidth((wchar_t)code);
	(void)uselocale(before);
	return columns < 0 ? 1 : (size_t)columns;
}

/* Writes at most so many columns of the text, unless `out` is NULL, and returns how many it takes. */
static size_t put_text(FILE *out, struct bytes text, bool lines, size_t most)
{
	const unsigned char *at = text.data;
	const unsigned char *end = at + text.length;
	size_t used = 0;

	for (size_t length; at < end; at += length) {
		bool blank = *at == '\n' || *at == '\t';
		size_t columns = 1;
		bool good = false;

		length = utf8_character(at, (size_t)(end - at));
		if (blank) {
			good = lines;
		} else if (length > 0 && !is_control(code_of(at, length))) {
			good = true;
			columns = columns_of(code_of(at, length));
		}
		if (used + columns > most)
			break;
		used += columns;
		if (out != NULL && good)
			(void)fwrite(at, 1, length, out);
		else if (out != NULL)
			(void)fputc(blank ? ' ' : '?', out);
		if (length == 0)
			length = 1;
	}
	return used;
}

void op_print_text(FILE *out, struct bytes text, bool lines)
{
	if (text.data != NULL)
		(void)put_text(out, text, lines, SIZE_MAX);
}

/* NULL is shown as "-", which an empty text is not. */
static struct bytes cell(const struct rows *rows, int row, int column)
{
	struct bytes text = rows_bytes(rows, row, column);

	return text.data == NULL ? bytes_of("-") : text;
}

/* In columns of a terminal. */
static size_t width_of(const struct rows *rows, const char *title, int column)
{
	size_t width = strlen(title);

	for (int row = 0; row < rows_count(rows); row++) {
		size_t size = put_text(NULL, cell(rows, row, column), false, SIZE_MAX);

		if (size > width)
			width = size;
	}
	return width > WIDEST ? WIDEST : width;
}

/* Blanks up to the next column of the table. Returns where it begins. */
static size_t pad(size_t used, size_t width)
{
	size_t blanks = used < width ? width - used + 2 : 2;

	(void)printf("%*s", (int)blanks, "");
	return used + blanks;
}

/* The columns of the terminal; 0 = stdout is not a terminal, so nothing is cut. */
static size_t terminal_width(void)
{
	struct winsize size;

	if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		return 0;
	return size.ws_col;
}

/* Prints the last cell of a row. On a terminal, the cell is cut at the end of its line. If fewer than LEAST columns of the
 * line are left, the cell continues to the end of the next line. */
static void put_last(struct bytes text, size_t used, size_t width)
{
	size_t room = width == 0 ? SIZE_MAX : width - used % width;

	if (room < LEAST)
		room += width;
	if (put_text(NULL, text, false, SIZE_MAX) <= room) {
		(void)put_text(stdout, text, false, SIZE_MAX);
	} else {
		(void)put_text(stdout, text, false, room - 1);
		(void)fputs("…", stdout);
	}
	(void)putchar('\n');
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

struct text_table {
	const struct rows *rows;
	const char *const *titles;
	int columns;
	size_t *widths; /* 0 = the column is not printed */
	size_t width;   /* at which a line ends; 0 = nowhere */
};

/* Row -1 = the titles. */
static void print_cells(const struct text_table *table, int row)
{
	size_t used = 0;

	for (int column = 0; column < table->columns; column++) {
		struct bytes text;

		if (table->widths[column] == 0)
			continue;
		text = row < 0 ? bytes_of(table->titles[column]) : cell(table->rows, row, column);
		if (column == table->columns - 1)
			put_last(text, used, table->width);
		else
			used += pad(put_text(stdout, text, false, SIZE_MAX), table->widths[column]);
	}
}

/* The widths need all rows before the first line is printed; a page of rows is in memory anyway. A
 * reader that has ended (ferror) stops the output early. */
void op_print_table(const struct rows *rows, const char *const *titles, int columns, bool whole)
{
	CLEANUP(freep) size_t *widths = calloc((size_t)columns, sizeof(*widths));
	const struct text_table table = { rows, titles, columns, widths,
		whole ? 0 : terminal_width() };

	if (widths == NULL)
		return;
	for (int column = 0; column < columns; column++) {
		if (is_shown(rows, titles[column], column))
			widths[column] = width_of(rows, titles[column], column);
	}
	for (int row = -1; row < rows_count(rows) && ferror(stdout) == 0; row++)
		print_cells(&table, row);
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

/* The second line and those behind it are indented, so that none of them can be taken for the name of a value. */
static void print_value(struct bytes value)
{
	const char *at = value.data;
	size_t left = value.length;

	while (left > 0 && at[left - 1] == '\n')
		left--;
	while (left > 0) {
		const char *end = memchr(at, '\n', left);
		size_t length = end == NULL ? left : (size_t)(end - at);

		op_print_text(stdout,
			(struct bytes){ at, length - (length > 0 && at[length - 1] == '\r') },
			false);
		(void)fputs(end == NULL ? "" : "\n      ", stdout);
		at += length + (end != NULL);
		left -= length + (end != NULL);
	}
	(void)putchar('\n');
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
		print_value(rows_bytes(rows, i, 2));
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
