/*
 * Creates a listening TCP socket for "host:port" or "[IPv6]:port". Any thread. The resolution of a
 * name may block, so call it only while the program starts.
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Gives a non-blocking, close-on-exec socket; port 0 takes a free port. FAULT_CONFIG: the text is
 * not an address. FAULT_SOCKET: listening failed. */
int http_listen(const char *listen, int *fd, struct err *err);
/* The port of a listening socket, 0 when unknown. */
int http_listen_port(int fd);

/* The check of http.listen for `inboxd check`; blocks for at most a few seconds. Appends the result:
 * the address is free, or the inboxd with this socket.path listens there. Otherwise the fault names
 * the program that listens there. The function never listens itself, so that an inboxd that starts at
 * the same time gets the address. */
int http_check(const struct config *config, struct buf *found, struct err *err);

/* The header Server of every answer of an inboxd. */
#define HTTP_SERVER        "inboxd"
#define HTTP_ADDRESS_BYTES 64

struct http_answer {
	bool connected; /* false: nobody listens there */
	int status;     /* 0: no answer came, or it is not HTTP */
	bool by_inboxd;
	bool complete; /* false: a part came in time */
	const char *body;
	struct buf text;
};

/* Sends GET `path` to the program that listens there. Blocks for at most a few seconds. End `answer` with buf_fini() of its
 * text. */
void http_ask(const char *listen, const char *path, const char *accept, struct http_answer *answer);
/* The address of a connected socket on this host as text; empty when unknown. */
void http_own_address(int fd, char *out, size_t size);

#endif
