/*
 * The effective configuration for a person: every key, its text and its origin. Secrets are masked here, so
 * that no caller can print one. Pure; any thread.
 */
#ifndef CONFIG_SHOW_H
#define CONFIG_SHOW_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Borrowed for the call. */
struct config_line {
	const char *key;    /* "kafka.group.id" */
	const char *text;   /* one line; lists as [a, b]; a secret as *** */
	const char *origin; /* "default", "inboxd.yaml:3", "env INBOXD_LOG_LEVEL", "--set" */
	bool reloadable;
};

typedef void config_visit(const struct config_line *line, void *arg);

/* Visits every key, by section in the order of the documentation. FAULT_MEMORY only. */
int config_each(const struct config *config, config_visit *visit, void *arg, struct err *err);

/* Appends one line a key, in columns. FAULT_MEMORY only. */
int config_dump(const struct config *config, struct buf *out, struct err *err);

#endif
