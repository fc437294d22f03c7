/*
 * Settings that are in a file of their own (`file:/path`), read again when they are needed: a password is changed
 * by changing its file, without a restart. Blocks while reading a small regular file. Any thread; what is
 * read belongs to the caller.
 */
#ifndef CONFIG_SECRET_H
#define CONFIG_SECRET_H

#include "base/buf.h"
#include "config/config.h"

/* What is in the setting's file now, read into `scratch`, or its value when it has no file. Borrowed from either. NULL
 * when it cannot be read now (a pipe is never read twice), and without memory. */
const char *secret_fresh(const struct setting *setting, struct buf *scratch);

/* The value as it is now: what is in the setting's file, read into `scratch`, or, without a file or when it cannot
 * be read (a pipe is never read twice), as it was when the configuration was loaded. Borrowed from either. NULL
 * without memory. */
const char *secret_now(const struct setting *setting, struct buf *scratch);

/* What is in a file that belongs to a value: appended to `out`, one newline at its end cut. FAULT_CONFIG when it cannot
 * be read, is too large or holds a NUL. */
int secret_read(const char *path, struct buf *out, struct err *err);

#endif
