/* `inboxd forward` of a build without libcurl: it says what is missing. */
#include "bridge/forward/forward.h"

int forward_run(const struct forward_options *options, struct err *err)
{
	(void)options;
	return err_set(err, FAULT_USAGE,
		"this inboxd was built without libcurl, which forward needs: install libcurl's "
		"development files "
		"(libcurl4-openssl-dev) and build with `meson setup -Dforward=enabled`");
}
