/*
 * Values of the command line that can be in a file: "file:/path" means the content of the file, so that a secret is not in
 * the list of processes. Blocks while it reads a small file. One thread.
 */
#ifndef BRIDGE_FORWARD_FILE_VALUE_H
#define BRIDGE_FORWARD_FILE_VALUE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define FILE_VALUE_BYTES_MAX 65536

/* The path in "file:/path"; NULL: the value itself is the text. */
const char *file_value_path(const char *text);
/* Appends the value without white space at its end. FAULT_USAGE: the file cannot be read, is empty or longer than
 * FILE_VALUE_BYTES_MAX, or the value has a control character. The text names the path and nothing of the value.
 * FAULT_MEMORY. */
int file_value_read(const char *text, struct buf *out, struct err *err);

#endif
