/*
 * A fixture for tests of the configuration: files in a private directory, variables and arguments
 * as lists, and assertions on the result.
 */
#ifndef TESTS_UNIT_CONFIG_WORLD_H
#define TESTS_UNIT_CONFIG_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/load.h"
#include "config/show.h"
#include "config/sources/strings.h"

#define WORLD_MAX 16

struct world {
	char directory[64];
	char file[128]; /* the configuration, once world_file() wrote it */
	char variables[WORLD_MAX][192];
	char *environment[WORLD_MAX];
	const char *set[WORLD_MAX];
	struct config_sources sources;
	struct config *config;
	struct strings restart;
	struct err err;
};

/* The required keys of a configuration. */
#define ENOUGH                                                                                     \
	"kafka:\n"                                                                                 \
	"  topics: [orders]\n"                                                                     \
	"  bootstrap.servers: localhost:9092\n"                                                    \
	"  group.id: billing\n"

static inline int world_setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	if (world == NULL)
		return -1;
	(void)snprintf(world->directory, sizeof(world->directory), "/tmp/test_config.XXXXXX");
	if (mkdtemp(world->directory) == NULL)
		return -1;
	world->sources.environment = world->environment;
	world->sources.set = world->set;
	*state = world;
	return 0;
}

/* Writes a file of the world and gives its path, until the next call for the same name. */
static inline const char *world_write(struct world *world, const char *name, const char *text)
{
	static char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", world->directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	(void)fputs(text, file);
	assert_int_equal(fclose(file), 0);
	return path;
}

static inline void world_file(struct world *world, const char *text)
{
	(void)snprintf(
		world->file, sizeof(world->file), "%s", world_write(world, "inboxd.yaml", text));
	world->sources.file = world->file;
}

static inline void world_variable(struct world *world, const char *assignment)
{
	size_t i = 0;

	while (world->environment[i] != NULL)
		i++;
	assert_true(i + 1 < WORLD_MAX);
	(void)snprintf(world->variables[i], sizeof(world->variables[i]), "%s", assignment);
	world->environment[i] = world->variables[i];
}

static inline void world_set(struct world *world, const char *assignment)
{
	world->set[world->sources.set_count++] = assignment;
}

static inline int world_load(struct world *world)
{
	config_free(world->config);
	world->config = NULL;
	world->err = (struct err)ERR_INIT;
	return config_load(&world->config, &world->sources, &world->err);
}

static inline void assert_loads(struct world *world)
{
	if (world_load(world) < 0 || world->config == NULL)
		fail_msg("%s", world->err.text);
}

/* The words may name the world's directory as @. */
static inline void assert_words(const struct world *world, const char *words)
{
	char wanted[1100];
	const char *at = strchr(words, '@');

	if (at == NULL)
		(void)snprintf(wanted, sizeof(wanted), "%s", words);
	else
		(void)snprintf(wanted, sizeof(wanted), "%.*s%s%s", (int)(at - words), words,
			world->directory, at + 1);
	if (strstr(world->err.text, wanted) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", wanted, world->err.text);
}

static inline void assert_refused(struct world *world, const char *words)
{
	assert_int_equal(world_load(world), FAULT_CONFIG);
	assert_words(world, words);
}

struct wanted_line {
	const char *key;
	char text[256];
	char origin[256];
	char pending[256]; /* empty: nothing waits */
	bool reloadable;
	bool found;
};

static inline void find_line(const struct config_line *line, void *arg)
{
	struct wanted_line *wanted = arg;

	if (strcmp(line->key, wanted->key) != 0)
		return;
	(void)snprintf(wanted->text, sizeof(wanted->text), "%s", line->text);
	(void)snprintf(wanted->origin, sizeof(wanted->origin), "%s", line->origin);
	(void)snprintf(wanted->pending, sizeof(wanted->pending), "%s",
		line->pending == NULL ? "" : line->pending);
	wanted->reloadable = line->reloadable;
	wanted->found = true;
}

static inline struct wanted_line line_of(const struct world *world, const char *key)
{
	struct wanted_line line = { .key = key };

	assert_int_equal(config_each(world->config, find_line, &line, NULL), 0);
	assert_true(line.found);
	return line;
}

/* The origin may name the world's directory as @. */
static inline void assert_line(
	const struct world *world, const char *key, const char *text, const char *origin)
{
	struct wanted_line line = line_of(world, key);
	char wanted[512];

	assert_string_equal(line.text, text);
	(void)snprintf(wanted, sizeof(wanted), "%s%s", origin[0] == '@' ? world->directory : "",
		origin[0] == '@' ? origin + 1 : origin);
	assert_string_equal(line.origin, wanted);
}

static inline int world_teardown(void **state)
{
	static const char *const names[] = { "inboxd.yaml", "secret", "other" };
	struct world *world = *state;
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", world->directory, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(world->directory);
	config_free(world->config);
	strings_fini(&world->restart);
	free(world);
	return 0;
}

#endif
