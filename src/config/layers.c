/* One reader a layer. A later one replaces what an earlier one said of the same key. */
#include "config/layers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "config/keys.h"
#include "config/nearest.h"
#include "config/passed.h"
#include "config/string_list.h"
#include "config/value.h"
#include "config/yaml_file.h"

#define VARIABLE_PREFIX "INBOXD_"

enum { ORIGIN_BYTES = 1024 };

struct layers {
	struct entries *entries;
	const struct config_sources *sources;
	struct strings *warnings;
};

static const char *const *known_names(const struct layers *layers, const struct section *section)
{
	return strcmp(section->name, "kafka") == 0 ? layers->sources->kafka_names
						   : layers->sources->postgres_names;
}

/* Where a library may take more than it lists it has the last word, but its word says nothing of the place or
 * the nearest name. */
static int check_unlisted(
	struct layers *layers, const struct entry_key *key, const char *origin, struct err *err)
{
	const char *const *known = known_names(layers, key->section);
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	if (key->section->kind != SECTION_OPEN || known == NULL ||
		options_find(key->section->name, key->name) != NULL)
		return 0;
	nearest_start(&nearest, key->name);
	for (; *known != NULL; known++) {
		if (strcmp(*known, key->name) == 0)
			return 0;
		nearest_offer(&nearest, *known);
	}
	nearest_hint(&nearest, hint);
	if (key->section->listed)
		return err_set(err, FAULT_CONFIG, "%s: section \"%s\" has no key \"%s\"%s", origin,
			key->section->name, key->name, hint);
	return strings_addf(layers->warnings, err, "%s: %s.%s: %s does not list this name%s",
		origin, key->section->name, key->name, key->section->library, hint);
}

/* A file is UTF-8 as a whole; variables and arguments are whatever somebody's shell made of them. */
static int check_texts(const struct entry_key *key, const char *origin, const struct strings *texts,
	struct err *err)
{
	for (size_t i = 0; i < texts->count; i++) {
		if (!utf8_is_valid(bytes_of(texts->items[i])))
			return err_set(err, FAULT_CONFIG,
				"%s: %s.%s: the value is not UTF-8; write it as UTF-8", origin,
				key->section->name, key->name);
	}
	return 0;
}

static int put(struct layers *layers, const struct key_place *place, struct entry_value *value,
	struct err *err)
{
	struct entry_key key;
	int r = key_find(&key, place, err);

	if (r < 0)
		return r;
	value->origin = place->origin;
	r = check_texts(&key, place->origin, &value->texts, err);
	if (r < 0)
		return r;
	r = check_unlisted(layers, &key, place->origin, err);
	return r < 0 ? r : entries_put(layers->entries, &key, value, err);
}

/* A text of one layer that knows no lists. */
static int put_text(
	struct layers *layers, const struct key_place *place, char *text, struct err *err)
{
	struct entry_value value = { .texts = { &text, 1 }, .commas = true };

	return put(layers, place, &value, err);
}

/* The one default of a library that is not ours: a new group must not skip what is there. */
static int read_library_default(struct entries *entries, struct err *err)
{
	char text[] = "earliest";
	char *texts = text;
	struct entry_key key = {
		.section = options_section("kafka"),
		.name = "auto.offset.reset",
	};
	struct entry_value value = {
		.texts = { &texts, 1 },
		.standard = true,
		.origin = "default",
	};

	return entries_put(entries, &key, &value, err);
}

static int read_defaults(struct entries *entries, struct err *err)
{
	char host[256] = "";
	int r = 0;

	(void)gethostname(host, sizeof(host) - 1);
	for (const struct option *option = option_table; option->section != NULL && r == 0;
		option++) {
		CLEANUP(freep) char *text = NULL;
		const char *standard = option->hostname ? host : option->text;
		struct entry_value value = {
			.texts = { &text, 1 },
			.commas = true,
			.standard = true,
			.origin = option->hostname ? "default (the host's name)" : "default",
		};
		struct entry_key key = {
			.section = options_section(option->section),
			.name = option->key,
		};

		key.topic = key.section->kind == SECTION_PER_TOPIC ? "*" : NULL;
		r = string_copy(&text, standard, strlen(standard), err);
		if (r == 0)
			r = entries_put(entries, &key, &value, err);
	}
	return r < 0 ? r : read_library_default(entries, err);
}

/* Nothing behind a colon is an empty list where a list is asked, else an empty text. */
static struct strings texts_of(const struct yaml_setting *setting, const struct key_place *place)
{
	const struct option *option =
		place->name == NULL ? NULL : options_find(place->section, place->name);

	if (setting->nothing && option != NULL && value_is_list(option))
		return (struct strings){ NULL, 0 };
	return setting->texts;
}

/* `topics: {orders: }` says nothing of orders, and `kafka: ` nothing of kafka. */
static bool is_empty_group(const struct yaml_setting *setting)
{
	const struct section *section = options_section(setting->path[0]);

	if (!setting->nothing || section == NULL)
		return false;
	return setting->depth == 1 || (setting->depth == 2 && section->kind == SECTION_PER_TOPIC);
}

static int visit_setting(const struct yaml_setting *setting, void *arg, struct err *err)
{
	char origin[ORIGIN_BYTES];
	struct key_place place = { .section = setting->path[0], .origin = origin };
	struct entry_value value = { .list = setting->list };

	if (is_empty_group(setting))
		return 0;
	if (setting->depth > 1)
		place.name = setting->path[setting->depth - 1];
	if (setting->depth > 2)
		place.topic = setting->path[1];
	(void)snprintf(origin, sizeof(origin), "%s:%zu", setting->file, setting->line);
	value.texts = texts_of(setting, &place);
	return put(arg, &place, &value, err);
}

static int ignore_variable(
	struct layers *layers, const char *name, const char *why, struct err *err)
{
	return strings_addf(layers->warnings, err, "env %s: ignored: %s", name, why);
}

/* What Kubernetes sets for a service called inboxd-postgres is INBOXD_POSTGRES_PORT=tcp://… */
static bool is_service_link(const char *name, const char *value)
{
	size_t length = strlen(name);

	return length > 5 && strcmp(name + length - 5, "_PORT") == 0 &&
	       strstr(value, "://") != NULL;
}

/* The key `suffix` stands for in a section, or NULL. */
static const char *name_in_section(const struct layers *layers, const struct section *section,
	const char *suffix, struct buf *scratch)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section->name) == 0 &&
			options_same_variable(option->key, suffix))
			return option->key;
	}
	if (section->kind != SECTION_OPEN || suffix[0] == '\0')
		return NULL;
	return passed_from_variable(section, known_names(layers, section), suffix, scratch);
}

/* The section whose name `rest` begins with; no section's name holds an underscore. */
static const struct section *section_of_variable(const char *rest)
{
	for (const struct section *section = option_sections; section->name != NULL; section++) {
		size_t length = strlen(section->name);

		if (strncasecmp(rest, section->name, length) == 0 && rest[length] == '_')
			return section;
	}
	return NULL;
}

static int read_variable(struct layers *layers, const char *name, char *value, struct err *err)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	char origin[ORIGIN_BYTES];
	struct key_place place = { .origin = origin };
	const char *rest = name + strlen(VARIABLE_PREFIX);
	const struct section *section = section_of_variable(rest);

	if (!utf8_is_valid(bytes_of(name)))
		return ignore_variable(layers, VARIABLE_PREFIX "…", "its name is not UTF-8", err);
	if (section == NULL)
		return ignore_variable(layers, name, "it names no section", err);
	if (section->kind == SECTION_PER_TOPIC)
		return ignore_variable(
			layers, name, "rules of topics are set in the file or with --set", err);
	place.section = section->name;
	place.name = name_in_section(layers, section, rest + strlen(section->name) + 1, &scratch);
	if (!buf_ok(&scratch))
		return err_memory(err);
	if (place.name == NULL)
		return ignore_variable(layers, name, "it names no key", err);
	if (section->kind == SECTION_OPEN && is_service_link(name, value))
		return ignore_variable(
			layers, name, "it looks like a Kubernetes service link", err);
	(void)snprintf(origin, sizeof(origin), "env %s", name);
	return put_text(layers, &place, value, err);
}

static int read_environment(struct layers *layers, struct err *err)
{
	int r = 0;

	for (char *const *at = layers->sources->environment; at != NULL && *at != NULL && r == 0;
		at++) {
		CLEANUP(freep) char *name = NULL;
		char *equals;

		if (strncmp(*at, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) != 0)
			continue;
		r = string_copy(&name, *at, strlen(*at), err);
		if (r < 0)
			return r;
		equals = strchr(name, '=');
		if (equals == NULL)
			continue;
		*equals = '\0';
		/* Read by the command line: the file itself. */
		if (strcmp(name, "INBOXD_CONFIG") != 0)
			r = read_variable(layers, name, equals + 1, err);
	}
	return r;
}

/* Cuts "topics.TOPIC.key" or "section.key" in place. */
static void cut_key(char *text, struct key_place *place)
{
	char *first = strchr(text, '.');
	const struct section *section;
	char *last;

	place->section = text;
	if (first == NULL)
		return;
	*first = '\0';
	place->name = first + 1;
	section = options_section(text);
	last = strrchr(first + 1, '.');
	if (section == NULL || section->kind != SECTION_PER_TOPIC || last == NULL)
		return;
	*last = '\0';
	place->topic = first + 1;
	place->name = last + 1;
}

static int read_argument(struct layers *layers, const char *argument, struct err *err)
{
	CLEANUP(freep) char *text = NULL;
	struct key_place place = { .origin = "--set" };
	char *equals;
	int r;

	if (!utf8_is_valid(bytes_of(argument)))
		return err_set(
			err, FAULT_CONFIG, "--set: an argument is not UTF-8; write it as UTF-8");
	r = string_copy(&text, argument, strlen(argument), err);
	if (r < 0)
		return r;
	equals = strchr(text, '=');
	if (equals == NULL)
		return err_set(err, FAULT_USAGE,
			"--set %s: there is no \"=\"; write --set section.key=value", argument);
	*equals = '\0';
	cut_key(text, &place);
	return put_text(layers, &place, equals + 1, err);
}

int layers_read(struct entries *entries, const struct config_sources *sources,
	struct strings *warnings, struct err *err)
{
	struct layers layers = { entries, sources, warnings };
	int r = read_defaults(entries, err);

	if (r == 0 && sources->file != NULL)
		r = yaml_file_read(sources->file, visit_setting, &layers, err);
	/* Also behind a mistake in the file, for what it warns of. */
	if (r == 0)
		r = read_environment(&layers, err);
	else
		(void)read_environment(&layers, NULL);
	for (size_t i = 0; i < sources->set_count && r == 0; i++)
		r = read_argument(&layers, sources->set[i], err);
	return r;
}
