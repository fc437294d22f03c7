/* `inboxd forward` of a build without libcurl: it says what is missing. */
#include "bridge/forward/forward.h"

int forward_run(const struct forward_options *options, struct err *err)
{
	(void)options;
	return err_set(err, FAULT_USAGE,
		"forward is not in this build of inboxd, which was made without libcurl: use a "
		"package or the image, or install libcurl's development files "
		"(libcurl4-openssl-dev) and build with `meson setup -Dforward=enabled`");
}

void forward_add_library_version(struct buf *out)
{
	(void)out;
}
