/* The limit of open files and sockets of this process (RLIMIT_NOFILE). */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stddef.h>

/* Raises the soft limit to the hard limit. Once, at start. */
void descriptors_raise(void);
/* The limit. Any thread. */
size_t descriptors_limit(void);

#endif
