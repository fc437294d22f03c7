/*
 * Creates a listening TCP socket for "host:port" or "[IPv6]:port". Any thread. The resolution of a
 * name may block, so call it only while the program starts.
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/err.h"

/* Gives a non-blocking, close-on-exec socket; port 0 takes a free port. FAULT_CONFIG: the text is
 * not an address. FAULT_SOCKET: listening failed. */
int http_listen(const char *listen, int *fd, struct err *err);
/* Checks whether http_listen() would succeed: binds a socket and closes it. HTTP_LISTEN_TAKEN:
 * another process listens there. Faults as above. */
enum { HTTP_LISTEN_TAKEN = 1 };
int http_listen_try(const char *listen, struct err *err);
/* A blocking socket connected to this address, with a time limit for each call; -1: nobody listens. */
int http_connect(const char *listen, int timeout_ms);
/* The port of a listening socket, 0 when unknown. */
int http_listen_port(int fd);

#endif
