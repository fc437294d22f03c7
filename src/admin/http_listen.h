/* A listening TCP socket for "host:port" or "[IPv6]:port". Any thread; resolving a name may block,
 * so it is for the start of the program. */
#ifndef ADMIN_HTTP_LISTEN_H
#define ADMIN_HTTP_LISTEN_H

#include "base/err.h"

/* Gives a non-blocking, close-on-exec socket; port 0 takes a free one. FAULT_CONFIG when the text is
 * no address, FAULT_SOCKET when it cannot be listened on. */
int http_listen(const char *listen, int *fd, struct err *err);
/* The port a listening socket has, 0 when unknown. */
int http_listen_port(int fd);

#endif
