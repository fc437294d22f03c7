/* A listening TCP socket for "host:port" or "[IPv6]:port". Any thread; resolving a name may block,
 * so it is for the start of the program. */
#ifndef ADMIN_HTTP_LISTEN_H
#define ADMIN_HTTP_LISTEN_H

#include "base/err.h"

/* Gives a non-blocking, close-on-exec socket; port 0 takes a free one. FAULT_CONFIG when the text is
 * no address, FAULT_SOCKET when it cannot be listened on. */
int http_listen(const char *listen, int *fd, struct err *err);
/* Whether that could be done: binds, and leaves nothing behind. HTTP_LISTEN_TAKEN: somebody listens there. Faults as
 * above. */
enum { HTTP_LISTEN_TAKEN = 1 };
int http_listen_try(const char *listen, struct err *err);
/* A blocking socket connected to who listens there, each call on which ends in time; -1: to nobody. */
int http_connect(const char *listen, int timeout_ms);
/* The port a listening socket has, 0 when unknown. */
int http_listen_port(int fd);

#endif
