/*
 * The headers that the user adds to each request: `--header "Name: value"`. A value "file:/path" is read again for each
 * message, so that a token that is renewed is used at once. One thread.
 */
#ifndef BRIDGE_FORWARD_ADDED_HEADERS_H
#define BRIDGE_FORWARD_ADDED_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct added_header {
	const char *value; /* as it is in the command line; borrowed */
	size_t name_length;
	struct buf line; /* "Name: value" with the value that was read last */
	bool failed;     /* its file could not be read the last time */
};

struct added_headers {
	struct added_header *items;
	size_t count;
};

/* The texts are borrowed until added_headers_fini(), which is allowed after a fault, too. FAULT_USAGE: a text is not
 * "Name: value", the header is one that inboxd sends itself, or its file cannot be read. FAULT_MEMORY. */
int added_headers_init(
	struct added_headers *headers, const char *const *texts, size_t count, struct err *err);
void added_headers_fini(struct added_headers *headers);
/* True when the value of a header is read from a file. */
bool added_headers_have_files(const struct added_headers *headers);
/* Reads the files again. If one cannot be read, its last value stays, and the log says so once. FAULT_MEMORY. */
int added_headers_refresh(struct added_headers *headers, struct err *err);

#endif
