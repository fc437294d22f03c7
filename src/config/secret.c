#include "config/secret.h"

#include <string.h>
#include <sys/stat.h>

#include "config/text.h"

int secret_read(const char *path, struct buf *out, struct err *err)
{
	int r = text_file_read(path, out, err);

	if (r < 0)
		return r;
	if (out->length > 0 && out->data[out->length - 1] == '\n')
		out->length--;
	if (out->length > 0 && memchr(out->data, '\0', out->length) != NULL)
		return err_set(err, FAULT_CONFIG, "%s holds a NUL byte; a value is text", path);
	return 0;
}

static bool is_regular(const char *path)
{
	struct stat found;

	return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

const char *secret_fresh(const struct setting *setting, struct buf *scratch)
{
	struct err err = ERR_INIT;

	if (setting->file == NULL)
		return setting->value;
	if (!is_regular(setting->file))
		return NULL;
	buf_reset(scratch);
	/* Cut off in the middle of being written is not told from empty: no secret is. */
	if (secret_read(setting->file, scratch, &err) < 0 || scratch->length == 0)
		return NULL;
	(void)buf_str(scratch); /* ends it with a NUL */
	return buf_ok(scratch) ? scratch->data : NULL;
}

const char *secret_now(const struct setting *setting, struct buf *scratch)
{
	const char *fresh = secret_fresh(setting, scratch);

	return fresh != NULL || !buf_ok(scratch) ? fresh : setting->value;
}
