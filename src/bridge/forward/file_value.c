/* See file_value.h. */
#include "bridge/forward/file_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Opens no pipe: without a writer that would wait for ever. */
static FILE *open_file(const char *path, struct err *err)
{
	struct stat found;
	FILE *file;

	if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
		(void)err_set(err, FAULT_USAGE,
			"%s is not a regular file, which can be read again for each message", path);
		return NULL;
	}
	file = fopen(path, "re");
	if (file == NULL)
		(void)err_set(err, FAULT_USAGE, "cannot read %s: %s", path, strerror(errno));
	return file;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
	char bytes[4096];
	FILE *file = open_file(path, err);
	size_t left = FILE_VALUE_BYTES_MAX + 1;
	size_t n;
	int error;

	if (file == NULL)
		return err->fault;
	while (left > 0 &&
		(n = fread(bytes, 1, left < sizeof(bytes) ? left : sizeof(bytes), file)) > 0) {
		buf_add(out, bytes, n);
		left -= n;
	}
	error = ferror(file) != 0 ? errno : 0;
	(void)fclose(file);
	if (error != 0)
		return err_set(err, FAULT_USAGE, "cannot read %s: %s", path, strerror(error));
	if (left == 0)
		return err_set(
			err, FAULT_USAGE, "%s is longer than %d bytes", path, FILE_VALUE_BYTES_MAX);
	return 0;
}

static bool has_control(const struct buf *out, size_t start)
{
	for (size_t i = start; i < out->length; i++) {
		const unsigned char c = (unsigned char)out->data[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

const char *file_value_path(const char *text)
{
	return strncmp(text, "file:", 5) == 0 ? text + 5 : NULL;
}

int file_value_read(const char *text, struct buf *out, struct err *err)
{
	const char *path = file_value_path(text);
	const size_t start = out->length;
	int r = 0;

	if (path == NULL)
		buf_add_str(out, text);
	else
		r = read_file(path, out, err);
	if (r != 0)
		return r;
	if (!buf_ok(out))
		return err_memory(err);
	while (out->length > start && strchr(" \t\r\n", out->data[out->length - 1]) != NULL &&
		out->data[out->length - 1] != '\0')
		buf_cut(out, out->length - 1);
	if (path != NULL && out->length == start)
		return err_set(err, FAULT_USAGE, "%s is empty", path);
	if (has_control(out, start))
		return err_set(err, FAULT_USAGE,
			"%s has a control character, which a header or URL cannot have",
			path == NULL ? "the value" : path);
	return 0;
}
