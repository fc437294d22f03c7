/* See descriptors.h. The default soft limit of 1024 exists for programs that use select(2). inboxd does not. */
#include "base/descriptors.h"

#include <sys/resource.h>

void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

size_t descriptors_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur : 1024;
}
