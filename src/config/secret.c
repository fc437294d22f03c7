/*
 * A person or an orchestrator can be replacing the file at the moment of reading. A file that is empty or
 * missing therefore does not count as a change.
 */
#include "config/secret.h"

#include <string.h>

#include "config/sources/strings.h"

static int check(const char *path, struct buf *out, struct err *err)
{
	if (out->length > 0 && out->data[out->length - 1] == '\n')
		out->length--;
	if (out->length > 0 && memchr(out->data, '\0', out->length) != NULL)
		return err_set(err, FAULT_CONFIG, "%s contains a NUL byte; a value is text", path);
	return 0;
}

int secret_read(const char *path, struct buf *out, struct err *err)
{
	int r = text_file_read(path, out, err);

	return r < 0 ? r : check(path, out, err);
}

int secret_read_again(const char *path, struct buf *out, struct err *err)
{
	int r = text_file_read_regular(path, out, err);

	return r < 0 ? r : check(path, out, err);
}

const char *secret_fresh(const struct setting *setting, struct buf *scratch)
{
	struct err err = ERR_INIT;

	if (setting->file == NULL)
		return setting->value;
	buf_reset(scratch);
	/* A file that is being written can be empty; no secret is. */
	if (secret_read_again(setting->file, scratch, &err) < 0 || scratch->length == 0)
		return NULL;
	(void)buf_str(scratch); /* puts a NUL behind it */
	return buf_ok(scratch) ? scratch->data : NULL;
}

const char *secret_now(const struct setting *setting, struct buf *scratch)
{
	const char *fresh = secret_fresh(setting, scratch);

	return fresh != NULL || !buf_ok(scratch) ? fresh : setting->value;
}
