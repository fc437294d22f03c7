/*
 * A whole small text file in memory. Blocks as long as open(2) and read(2) do: the path may be a
 * pipe. One thread a call.
 */
#ifndef CONFIG_TEXT_FILE_H
#define CONFIG_TEXT_FILE_H

#include "base/buf.h"
#include "base/err.h"

#define TEXT_FILE_MAX_BYTES 1048576

/* Appends the file to `out`. FAULT_CONFIG naming the path when it cannot be read or is larger than
 * TEXT_FILE_MAX_BYTES; FAULT_MEMORY. */
int text_file_read(const char *path, struct buf *out, struct err *err);

#endif
