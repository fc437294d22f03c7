/*
 * `inboxd forward`: a handler that POSTs each message to a service, as a CloudEvent over HTTP, and takes the status of
 * the response as the verdict (status_table.h). Requests run at the same time, up to a limit, over connections that stay
 * open; with HTTP/2 over one connection.
 *
 * If the service cannot be reached, no message was handed to it: then the messages wait without spending an attempt, and
 * one message at a time tries the service again, after a growing delay.
 */
#ifndef BRIDGE_FORWARD_FORWARD_H
#define BRIDGE_FORWARD_FORWARD_H

#include "base/buf.h"
#include "bridge/forward/status_table.h"
#include "bridge/intake.h"

/* Everything is borrowed. NULL = not given. */
struct forward_options {
	struct intake_options intake;
	const char *url;            /* http:// or https://, or file:/path of a file with it */
	const char *const *headers; /* "Name: value", see added_headers.h */
	size_t header_count;
	bool structured; /* the whole event as JSON in the body; else the attributes in headers, and the data in the body */
	bool settles; /* done: the service has called inbox.complete() */
	bool h2c;     /* HTTP/2 without TLS, which cannot be negotiated */
	int64_t connect_timeout_ms;
	const char *ca;   /* a file of certificates to trust, instead of those of the system */
	const char *cert; /* a client certificate, and its key */
	const char *key;
	struct status_table statuses;
};

/* Runs until SIGTERM or SIGINT, and until the open messages are finished. 0, FAULT_USAGE (an option is wrong, or this
 * inboxd was built without libcurl), FAULT_SOCKET, FAULT_MEMORY, FAULT_INTERNAL. Blocks. */
int forward_run(const struct forward_options *options, struct err *err);

/* Appends the version of libcurl that is loaded; nothing without libcurl. */
void forward_add_library_version(struct buf *out);

#endif
