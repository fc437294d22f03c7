/*
 * The part of YAML that a configuration needs, read from a file by libyaml: mappings, scalars and
 * lists of scalars. Anchors, aliases, tags, duplicate keys, deeper nesting, several documents,
 * `null` and bytes that are not UTF-8 are errors, each with file:line:column. What is found is told
 * to a visitor in the order of the file; what keys mean is the visitor's business.
 *
 * Blocks while reading; one thread a call. However the file looks, memory and time are bounded.
 */
#ifndef CONFIG_YAML_FILE_H
#define CONFIG_YAML_FILE_H

#include "base/bytes.h"
#include "base/err.h"
#include "config/config.h"

#define YAML_FILE_MAX_DEPTH 3
#define YAML_FILE_MAX_KEYS  10000

/* A key that has no keys of its own. Borrowed for the call. */
struct yaml_setting {
	const char *path[YAML_FILE_MAX_DEPTH]; /* its keys from the outermost in */
	size_t depth;
	struct strings texts; /* a scalar is one text */
	bool list;
	bool nothing; /* nothing stands behind the colon, or an empty mapping */
	const char *file;
	size_t line; /* of the innermost key, from 1, as the column */
	size_t column;
};

/* A negative result ends the reading and is passed on. */
typedef int yaml_file_visit(const struct yaml_setting *setting, void *arg, struct err *err);

/* FAULT_CONFIG, FAULT_MEMORY, or what the visitor said. */
int yaml_file_read(const char *file, yaml_file_visit *visit, void *arg, struct err *err);
/* The same for bytes in memory; `file` is only what errors call them. */
int yaml_file_parse(
	const char *file, struct bytes text, yaml_file_visit *visit, void *arg, struct err *err);

#endif
