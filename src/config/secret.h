/*
 * Settings whose value is in a file (`file:/path`). They are read again for each new connection, so that
 * a change of the file changes the password, without a restart.
 *
 * Blocks while reading a small regular file. Any thread; the text that was read belongs to the caller.
 */
#ifndef CONFIG_SECRET_H
#define CONFIG_SECRET_H

#include "base/buf.h"
#include "config/config.h"

/* The current content of the setting's file, read into `scratch`, or the value of a setting without a
 * file. Borrowed from either. NULL when the file cannot be read, and without memory. A pipe is not read:
 * its content was consumed when the configuration was loaded. */
const char *secret_fresh(const struct setting *setting, struct buf *scratch);

/* The same, but when the file cannot be read, the value from when the configuration was loaded. NULL only
 * without memory. */
const char *secret_now(const struct setting *setting, struct buf *scratch);

/* Appends the content of a file that belongs to a value, without one newline at its end. FAULT_CONFIG
 * when the file cannot be read, is too large or contains a NUL; FAULT_MEMORY. */
int secret_read(const char *path, struct buf *out, struct err *err);

/* The same for a file that may be replaced while threads wait for it: waits for no pipe (text_file_read_regular()). */
int secret_read_again(const char *path, struct buf *out, struct err *err);

#endif
