/*
 * The only file that includes libsystemd, which is optional.
 */
#include "daemon/notify.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

bool notify_is_built_in(void)
{
#ifdef HAVE_SYSTEMD
	return true;
#else
	return false;
#endif
}

static void notify(const char *name, const char *value)
{
#ifdef HAVE_SYSTEMD
	(void)sd_notifyf(0, "%s=%s", name, value);
#else
	(void)name;
	(void)value;
#endif
}

void notify_ready(void)
{
	notify("READY", "1");
}

void notify_stopping(void)
{
	notify("STOPPING", "1");
}
