/* How many files and sockets this process may have open. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stddef.h>

/* Raises the limit as far as this user may. Once, at start. */
void descriptors_raise(void);
/* The limit. Any thread. */
size_t descriptors_limit(void);

#endif
