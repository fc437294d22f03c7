/* open, read to the end, close; the only system calls of the configuration. */
#include "config/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
	for (;;) {
		char *at = buf_reserve(out, 4096);
		ssize_t got;

		if (at == NULL)
			return err_memory(err);
		got = read(fd, at, 4096);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return err_set(
				err, FAULT_CONFIG, "cannot read %s: %s", path, strerror(errno));
		out->length += got < 0 ? 0 : (size_t)got;
		if (out->length > TEXT_FILE_MAX_BYTES)
			return err_set(err, FAULT_CONFIG,
				"cannot read %s: it is larger than %d bytes", path,
				TEXT_FILE_MAX_BYTES);
	}
}

int text_file_read(const char *path, struct buf *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(err, FAULT_CONFIG, "cannot open %s: %s", path, strerror(errno));
	r = read_all(fd, path, out, err);
	(void)close(fd);
	return r;
}
