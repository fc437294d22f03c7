/*
 * The configuration file, parsed by libyaml. A configuration needs only a part of YAML: mappings,
 * scalars, and lists of scalars. Anchors, aliases, tags, duplicate keys, deeper nesting, a second
 * document, `null` and bytes that are not UTF-8 are errors, each with file:line:column.
 *
 * The reader passes each key with its value to a visitor, in the order of the file. It does not know
 * which keys exist; that is the visitor's task.
 *
 * Blocks while reading; one thread a call. Memory and time are bounded for any input: the file's size,
 * its depth and its number of keys have limits.
 */
#ifndef CONFIG_SOURCES_YAML_FILE_H
#define CONFIG_SOURCES_YAML_FILE_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "config/config.h"

#define YAML_FILE_MAX_DEPTH 3
#define YAML_FILE_MAX_KEYS  10000

/* A key without keys below it. Borrowed for the call. */
struct yaml_setting {
	const char *const *path; /* `depth` keys, the outermost first */
	size_t depth;
	struct strings texts; /* a scalar is one text */
	bool list;
	bool nothing; /* there is no value behind the colon, or an empty mapping */
	const char *file;
	size_t line; /* of the key, from 1; of an empty mapping, where that begins */
};

/* A negative result ends the reading and is returned by the reader. */
typedef int yaml_file_visit(const struct yaml_setting *setting, void *arg, struct err *err);

/* FAULT_CONFIG, FAULT_MEMORY, or the visitor's result. */
int yaml_file_read(const char *file, yaml_file_visit *visit, void *arg, struct err *err);
/* The same for bytes in memory; `file` is the name that errors begin with. */
int yaml_file_parse(
	const char *file, struct bytes text, yaml_file_visit *visit, void *arg, struct err *err);

/* Appends the version of libyaml that is loaded. */
void yaml_file_add_library_version(struct buf *out);

#endif
