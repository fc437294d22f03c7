/*
 * The effective configuration for a person: every key, its text and its origin. Secrets are masked here, so
 * that no caller can print one. Pure; any thread.
 */
#ifndef CONFIG_SHOW_H
#define CONFIG_SHOW_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Borrowed for the call. */
struct config_line {
	const char *key;    /* "kafka.group.id" */
	const char *text;   /* one line; lists as [a, b]; a secret as *** */
	const char *origin; /* "default", "inboxd.yaml:3", "env INBOXD_LOG_LEVEL", "--set" */
	bool reloadable;
	const char
		*pending; /* the text that it has after a restart, since a reload; NULL: this one */
};

/* A key whose value a reload changed, or will change at a restart. Borrowed for the call. */
struct config_change {
	const char *key;
	const char *before; /* "not set" without a value */
	const char *now;
	bool restart; /* `before` is used until a restart */
};
typedef void config_change_visit(const struct config_change *change, void *arg);

typedef void config_visit(const struct config_line *line, void *arg);

/* True for a key that is passed on to a library and whose value is not shown: by the name, because inboxd does not know
 * all names that it passes on; or by the value, because a connection string can contain a password. */
bool config_is_secret(const char *name, const char *text);

/* Visits what config_reload() changed, with secrets masked: keys that count at once, then keys that wait for a
 * restart. FAULT_MEMORY only. */
int config_changes(const struct config *before, const struct config *now,
	config_change_visit *visit, void *arg, struct err *err);

/* Visits every key, by section in the order of the documentation. FAULT_MEMORY only. */
int config_each(const struct config *config, config_visit *visit, void *arg, struct err *err);

/* Appends one line a key, in columns: the text, the origin, with `changes` what a change needs, and what waits for a
 * restart. FAULT_MEMORY only. */
int config_dump(const struct config *config, bool changes, struct buf *out, struct err *err);

#endif
