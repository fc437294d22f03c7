/*
 * Strings and lists are plain malloc(3), not a pool, so that a test can make each allocation fail.
 * text_file_read() and text_file_read_regular() are the only functions of the configuration that read files.
 */
#include "config/sources/strings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int string_copy(char **out, const char *text, size_t length, struct err *err)
{
	char *copy = malloc(length + 1);

	if (copy == NULL)
		return err_memory(err);
	memcpy(copy, text, length);
	copy[length] = '\0';
	*out = copy;
	return 0;
}

static __attribute__((format(printf, 1, 0))) char *format_text(const char *format, va_list args)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = length < 0 ? NULL : malloc((size_t)length + 1);
	if (text != NULL)
		(void)vsnprintf(text, (size_t)length + 1, format, args);
	return text;
}

int string_format(char **out, struct err *err, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_text(format, args);
	va_end(args);
	if (text == NULL)
		return err_memory(err);
	*out = text;
	return 0;
}

/* Takes `text`, also on failure. */
static int append(struct strings *list, char *text, struct err *err)
{
	char **items = realloc(list->items, (list->count + 1) * sizeof(*items));

	if (items == NULL) {
		free(text);
		return err_memory(err);
	}
	items[list->count] = text;
	list->items = items;
	list->count++;
	return 0;
}

int strings_add(struct strings *list, const char *text, size_t length, struct err *err)
{
	char *copy = NULL;
	int r = string_copy(&copy, text, length, err);

	return r < 0 ? r : append(list, copy, err);
}

int strings_addf(struct strings *list, struct err *err, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_text(format, args);
	va_end(args);
	return text == NULL ? err_memory(err) : append(list, text, err);
}

int strings_add_all(struct strings *list, const struct strings *from, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < from->count && r == 0; i++)
		r = strings_add(list, from->items[i], strlen(from->items[i]), err);
	return r;
}

/* Commas cannot be escaped: an item that contains one is written in the file, where lists have a syntax. */
int strings_add_parts(struct strings *list, const char *text, struct err *err)
{
	static const char blanks[] = " \t\r\n";
	int r = 0;

	if (text[strspn(text, blanks)] == '\0')
		return 0;
	for (const char *rest = text; rest != NULL && r == 0;) {
		const char *comma = strchr(rest, ',');
		size_t length;

		rest += strspn(rest, blanks);
		length = comma == NULL ? strlen(rest) : (size_t)(comma - rest);
		while (length > 0 && strchr(blanks, rest[length - 1]) != NULL)
			length--;
		r = strings_add(list, rest, length, err);
		rest = comma == NULL ? NULL : comma + 1;
	}
	return r;
}

bool strings_have(const struct strings *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i], text) == 0)
			return true;
	}
	return false;
}

bool strings_equal(const struct strings *a, const struct strings *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	}
	return true;
}

void strings_fini(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct strings){ NULL, 0 };
}

/* Closes the file. The limit is checked while reading, not with fstat(2): a pipe and /dev/zero have no size. */
static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
	size_t before = out->length;
	ssize_t got = -1;
	int r = 0;

	while (got != 0 && r == 0) {
		char *at = buf_reserve(out, 4096);

		if (at == NULL) {
			r = err_memory(err);
			break;
		}
		got = read(fd, at, 4096);
		out->length += got < 0 ? 0 : (size_t)got;
		if (got < 0 && errno != EINTR)
			r = err_set(err, FAULT_CONFIG, "cannot read %s: %s", path, strerror(errno));
		else if (out->length - before > TEXT_FILE_MAX_BYTES)
			r = err_set(err, FAULT_CONFIG, "cannot read %s: it is larger than %d bytes",
				path, TEXT_FILE_MAX_BYTES);
	}
	(void)close(fd);
	return r;
}

static int cannot_open(const char *path, struct err *err)
{
	return err_set(err, FAULT_CONFIG, "cannot open %s: %s", path, strerror(errno));
}

int text_file_read(const char *path, struct buf *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? cannot_open(path, err) : read_all(fd, path, out, err);
}

/* The first check does not open a pipe, whose writer would see a reader come and go. Another file can take the place of the path
 * behind it, so the second check is of the file that was opened. */
int text_file_read_regular(const char *path, struct buf *out, struct err *err)
{
	struct stat found = { 0 };
	int fd = -1;

	if (stat(path, &found) == 0 && !S_ISREG(found.st_mode))
		return err_set(err, FAULT_CONFIG, "%s is no regular file", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return cannot_open(path, err);
	if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
		return read_all(fd, path, out, err);
	(void)close(fd);
	return err_set(err, FAULT_CONFIG, "%s is no regular file", path);
}
