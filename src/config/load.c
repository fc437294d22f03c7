/*
 * The way of a value, from top to bottom of this file:
 *
 *   a reader       read_defaults(), read_file_setting(), read_variable(), read_argument(): one a layer
 *   put()          finds the key, whose option is in the table, and puts the text over a lower layer's
 *   build()        calls each option's setter with the text that remains; checks rules between keys
 *
 * Only the highest layer's text reaches a setter. A wrong value in the file can therefore be replaced on
 * the command line, but a wrong name is an error in any layer.
 *
 * A reload loads a second configuration, takes from it the entries that can change at run time and from
 * the running one all others, and builds a third from both.
 */
#include "config/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "config/options/value.h"
#include "config/sources/config_entries.h"
#include "config/sources/keys.h"
#include "config/sources/strings.h"
#include "config/sources/yaml_file.h"
#include "config/validate.h"

#define VARIABLE_PREFIX "INBOXD_"

enum { ORIGIN_BYTES = 1024 };

/* What the readers share. */
struct loading {
	const struct config_sources *sources;
	struct config_entries *entries;
	struct strings *warnings;
};

/* --- Layers ----------------------------------------------------------------------------------------- */

/* The one place where a layer sets a key. */
static int put(struct loading *loading, const struct written_key *written,
	struct config_entry_value *value, struct err *err)
{
	struct key key;
	int r = key_find(&key, written, loading->sources, loading->warnings, err);

	if (r < 0)
		return r;
	/* The file was checked as a whole; variables and arguments can be any bytes. */
	for (size_t i = 0; i < value->count; i++) {
		if (!utf8_is_valid(bytes_of(value->texts[i])))
			return err_set(err, FAULT_CONFIG,
				"%s: %s.%s: the value is not UTF-8; write it as UTF-8",
				written->origin, written->section, written->name);
	}
	value->origin = written->origin;
	return config_entries_put(loading->entries, &key, value, err);
}

/* A text of a layer that has no lists. */
static int put_text(struct loading *loading, const struct written_key *written, const char *text,
	struct err *err)
{
	struct config_entry_value value = { .texts = &text, .count = 1, .commas = true };

	return put(loading, written, &value, err);
}

/* Sets every key of the table, so that each has an entry: a default is shown, compared and replaced as
 * any other text. */
static int read_defaults(struct config_entries *entries, struct err *err)
{
	const char *text;
	struct config_entry_value value = { .texts = &text, .count = 1, .standard = true };
	struct key key = { .section = options_section("kafka"), .name = "auto.offset.reset" };
	char host[256] = "";
	int r = 0;

	(void)gethostname(host, sizeof(host) - 1);
	for (const struct option *option = option_table; option->section != NULL && r == 0;
		option++) {
		struct key own = { options_section(option->section), option, NULL, option->key };

		if (own.section->kind == SECTION_PER_CONSUMER ||
			own.section->kind == SECTION_PER_HANDLER)
			continue; /* there is none yet; see add_named() */
		if (own.section->kind == SECTION_PER_TOPIC)
			own.scope = "*";
		text = option->hostname ? host : option->text;
		value.commas = true;
		value.origin = option->hostname ? "default (the host's name)" : "default";
		r = config_entries_put(entries, &own, &value, err);
	}
	/* librdkafka's default is to begin at the end. A new group would then skip every message that is
	 * in the topics already. */
	text = "earliest";
	value.commas = false;
	value.origin = "default";
	return r < 0 ? r : config_entries_put(entries, &key, &value, err);
}

/* Called by yaml_file.c for each key of the file. */
static int read_file_setting(const struct yaml_setting *setting, void *arg, struct err *err)
{
	const struct section *section = options_section(setting->path[0]);
	char origin[ORIGIN_BYTES];
	struct written_key written = { .section = setting->path[0], .origin = origin };
	struct config_entry_value value = {
		.texts = (const char *const *)setting->texts.items,
		.count = setting->texts.count,
		.list = setting->list,
		.nothing = setting->nothing,
	};

	/* A section or a topic without keys sets nothing. */
	if (setting->nothing && section != NULL &&
		(setting->depth == 1 ||
			(setting->depth == 2 && section->kind == SECTION_PER_TOPIC)))
		return 0;
	if (setting->depth > 1)
		written.name = setting->path[setting->depth - 1];
	if (setting->depth > 2)
		written.scope = setting->path[1];
	(void)snprintf(origin, sizeof(origin), "%s:%zu", setting->file, setting->line);
	/* A consumer without keys wants everything. A handler without keys lacks `call`. */
	if (setting->nothing && setting->depth == 2 && section != NULL &&
		section->kind == SECTION_PER_CONSUMER) {
		written.scope = setting->path[1];
		written.name = "types";
		return put_text(arg, &written, "*", err);
	}
	return put(arg, &written, &value, err);
}

/* Why a variable is ignored, or NULL when it names a key, which it then fills in. A container platform
 * sets variables of its own, so such a name is not an error. */
static const char *find_variable(const struct loading *loading, const char *name, const char *value,
	struct written_key *written, struct buf *scratch)
{
	const char *rest = name + strlen(VARIABLE_PREFIX);
	const struct section *section = option_sections;
	size_t length = strlen(name);

	/* No section's name contains an underscore. */
	while (section->name != NULL &&
		(strncasecmp(rest, section->name, strlen(section->name)) != 0 ||
			rest[strlen(section->name)] != '_'))
		section++;
	if (section->name == NULL)
		return "it names no section";
	if (section_has_scopes(section))
		return "rules of topics, consumers and handlers are set in the file or with --set";
	written->section = section->name;
	written->name = key_of_variable(
		section, rest + strlen(section->name) + 1, loading->sources, scratch);
	if (written->name == NULL)
		return "it names no key";
	/* What Kubernetes sets for a service called inboxd-postgres is INBOXD_POSTGRES_PORT=tcp://… */
	if (section->kind == SECTION_OPEN && length > strlen("_PORT") &&
		strcmp(name + length - strlen("_PORT"), "_PORT") == 0 &&
		strstr(value, "://") != NULL)
		return "it looks like a Kubernetes service link";
	return NULL;
}

static int read_variable(
	struct loading *loading, const char *name, const char *value, struct err *err)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	char origin[ORIGIN_BYTES];
	struct written_key written = { .origin = origin };
	const char *ignored;

	if (!utf8_is_valid(bytes_of(name)))
		return strings_addf(loading->warnings, err,
			"env " VARIABLE_PREFIX "…: ignored: its name is not UTF-8");
	ignored = find_variable(loading, name, value, &written, &scratch);
	if (!buf_ok(&scratch))
		return err_memory(err);
	if (ignored != NULL)
		return strings_addf(loading->warnings, err, "env %s: ignored: %s", name, ignored);
	(void)snprintf(origin, sizeof(origin), "env %s", name);
	return put_text(loading, &written, value, err);
}

static int read_environment(struct loading *loading, struct err *err)
{
	int r = 0;

	for (char *const *at = loading->sources->environment; at != NULL && *at != NULL && r == 0;
		at++) {
		CLEANUP(freep) char *name = NULL;
		const char *equals = strchr(*at, '=');

		if (strncmp(*at, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) != 0 || equals == NULL)
			continue;
		r = string_copy(&name, *at, (size_t)(equals - *at), err);
		/* INBOXD_CONFIG is the path of the file; the command line reads it. */
		if (r == 0 && strcmp(name, "INBOXD_CONFIG") != 0)
			r = read_variable(loading, name, equals + 1, err);
	}
	return r;
}

/* --set section.key=value, or topics.TOPIC.key=value, where the topic can contain dots; the same for consumers and handlers. */
static int read_argument(struct loading *loading, const char *argument, struct err *err)
{
	CLEANUP(freep) char *text = NULL;
	struct written_key written = { .origin = "--set" };
	const struct section *section;
	char *equals;
	char *dot;
	char *last;
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
	written.section = text;
	dot = strchr(text, '.');
	last = strrchr(text, '.');
	if (dot != NULL) {
		*dot = '\0';
		written.name = dot + 1;
	}
	section = options_section(text);
	if (section != NULL && section_has_scopes(section) && last != dot) {
		*last = '\0';
		written.scope = dot + 1;
		written.name = last + 1;
	}
	return put_text(loading, &written, equals + 1, err);
}

static int read_layers(struct loading *loading, struct err *err)
{
	const struct config_sources *sources = loading->sources;
	int r = read_defaults(loading->entries, err);

	if (r == 0 && sources->file != NULL)
		r = yaml_file_read(sources->file, read_file_setting, loading, err);
	/* Also after an error in the file, because a warning can be the reason for it. */
	if (r == 0)
		r = read_environment(loading, err);
	else
		(void)read_environment(loading, NULL);
	for (size_t i = 0; i < sources->set_count && r == 0; i++)
		r = read_argument(loading, sources->set[i], err);
	return r;
}

/* --- Values ----------------------------------------------------------------------------------------- */

/* Calls the option's setter. */
static int store(
	void *base, const struct option *option, const struct config_entry *entry, struct err *err)
{
	int r = value_store(base, option, &entry->texts, err);

	if (r == FAULT_CONFIG)
		(void)err_prefix(err, "%s: %s", entry->origin, entry->path);
	return r;
}

/* Adds a key that is passed on to a library. Keys keep the order in which they were written: in libpq a
 * later keyword replaces what a connection string in `dbname` says. */
static int add_setting(struct settings *settings, const struct config_entry *entry, struct err *err)
{
	const char *value = entry->texts.count == 0 ? "" : entry->texts.items[0];
	struct setting *items =
		realloc(settings->items, (settings->count + 1) * sizeof(*settings->items));
	struct setting *setting;
	int r;

	if (items == NULL)
		return err_memory(err);
	settings->items = items;
	setting = &items[settings->count++];
	*setting = (struct setting){ NULL, NULL, NULL };
	r = string_copy(&setting->name, entry->name, strlen(entry->name), err);
	if (r == 0)
		r = string_copy(&setting->value, value, strlen(value), err);
	if (r == 0 && entry->file != NULL)
		r = string_copy(&setting->file, entry->file, strlen(entry->file), err);
	return r;
}

/* Adds the rules of a topic: of each option what is written for the topic, else what is written for "*",
 * where the defaults are, too. Does nothing when the topic has its rules already. */
static int add_rules(struct config *config, const char *topic, struct err *err)
{
	struct topic_rules *items;
	struct topic_rules *rules;
	int r;

	for (size_t i = 0; i < config->topic_count; i++) {
		if (strcmp(config->topics[i].topic, topic) == 0)
			return 0;
	}
	items = realloc(config->topics, (config->topic_count + 1) * sizeof(*config->topics));
	if (items == NULL)
		return err_memory(err);
	config->topics = items;
	rules = &items[config->topic_count++];
	*rules = (struct topic_rules){ .topic = NULL };
	r = string_copy(&rules->topic, topic, strlen(topic), err);
	for (const struct option *option = option_table; option->section != NULL && r == 0;
		option++) {
		const struct config_entry *entry;

		if (options_section(option->section)->kind != SECTION_PER_TOPIC)
			continue;
		entry = config_entries_find(config->entries, option->section, topic, option->key);
		if (entry == NULL)
			entry = config_entries_find(
				config->entries, option->section, "*", option->key);
		if (entry != NULL)
			r = store(rules, option, entry, err);
	}
	return r;
}

/* Stores the value of one key of a consumer or a handler: what is written for it, else the general value, else the default.
 * Nothing is stored for a list that is not written: it stays empty. */
static int store_named(const struct config *config, void *rules, const char *name,
	const struct option *option, struct err *err)
{
	const struct config_entry *entry =
		config_entries_find(config->entries, option->section, name, option->key);
	char *text = NULL;
	struct strings standard = { &text, 1 };
	int r;

	if (entry == NULL && option->general != NULL)
		entry = config_entries_find(config->entries, option->general, NULL, option->key);
	if (entry != NULL)
		return store(rules, option, entry, err);
	if (option_is_list(option))
		return 0;
	r = string_copy(&text, option->text, strlen(option->text), err);
	if (r == 0)
		r = value_store(rules, option, &standard, err);
	free(text);
	return r;
}

/* The structs of consumers or of handlers. Each begins with its name. */
struct named_list {
	void **items;
	size_t *count;
	size_t size; /* of one */
};

/* Adds a consumer or a handler. Does nothing when it is there already. */
static int add_named(const struct config *config, struct named_list list, enum section_kind kind,
	const char *name, struct err *err)
{
	char *items = *list.items;
	char *own;
	int r;

	for (size_t i = 0; i < *list.count; i++) {
		if (strcmp(*(char **)(void *)(items + i * list.size), name) == 0)
			return 0;
	}
	items = realloc(items, (*list.count + 1) * list.size);
	if (items == NULL)
		return err_memory(err);
	*list.items = items;
	own = items + (*list.count)++ * list.size;
	memset(own, 0, list.size);
	r = string_copy((char **)(void *)own, name, strlen(name), err);
	for (const struct option *option = option_table; option->section != NULL && r == 0;
		option++) {
		if (options_section(option->section)->kind == kind)
			r = store_named(config, own, name, option, err);
	}
	return r;
}

static int add_consumer(struct config *config, const char *name, struct err *err)
{
	const struct named_list list = { (void **)&config->consumers, &config->consumer_count,
		sizeof(*config->consumers) };

	return add_named(config, list, SECTION_PER_CONSUMER, name, err);
}

static int add_handler(struct config *config, const char *name, struct err *err)
{
	const struct named_list list = { (void **)&config->handlers, &config->handler_count,
		sizeof(*config->handlers) };

	return add_named(config, list, SECTION_PER_HANDLER, name, err);
}

/* Makes the configuration of complete entries: sets each value, then checks the rules between keys. The
 * rules of a topic are set when its first entry is met, those of "*" last, where config_topic_rules()
 * expects them. Takes `entries`, also on failure. */
static int build(struct config **out, struct config_entries *entries,
	const struct config_sources *sources, struct err *err)
{
	CLEANUP(config_freep) struct config *config = calloc(1, sizeof(*config));
	int r = 0;

	if (config == NULL) {
		config_entries_free(entries);
		return err_memory(err);
	}
	config->entries = entries;
	for (size_t i = 0; i < entries->count && r == 0; i++) {
		const struct config_entry *entry = &entries->items[i];

		if (entry->option == NULL && strcmp(entry->section->name, "kafka") == 0)
			r = add_setting(&config->kafka, entry, err);
		else if (entry->option == NULL)
			r = add_setting(&config->postgres, entry, err);
		else if (entry->scope == NULL)
			r = store(config, entry->option, entry, err);
		else if (entry->section->kind == SECTION_PER_CONSUMER)
			r = add_consumer(config, entry->scope, err);
		else if (entry->section->kind == SECTION_PER_HANDLER)
			r = add_handler(config, entry->scope, err);
		else if (strcmp(entry->scope, "*") != 0)
			r = add_rules(config, entry->scope, err);
	}
	if (r == 0)
		r = add_rules(config, "*", err);
	if (r == 0)
		r = config_validate(config, sources->without_kafka, err);
	if (r < 0)
		return r;
	*out = config;
	config = NULL;
	return 0;
}

const struct topic_rules *config_topic_rules(const struct config *config, const char *topic)
{
	for (size_t i = 0; i + 1 < config->topic_count; i++) {
		if (strcmp(config->topics[i].topic, topic) == 0)
			return &config->topics[i];
	}
	return &config->topics[config->topic_count - 1];
}

const struct consumer_rules *config_consumer_rules(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->consumer_count; i++) {
		if (strcmp(config->consumers[i].name, name) == 0)
			return &config->consumers[i];
	}
	return NULL;
}

/* `base` is a struct config, or the rules of a topic, a consumer or a handler. */
static void release_values(void *base, enum section_kind kind)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		const struct section *section = options_section(option->section);

		if (section->kind == kind)
			value_release(base, option);
	}
}

static void release_settings(struct settings *settings)
{
	for (size_t i = 0; i < settings->count; i++) {
		free(settings->items[i].name);
		free(settings->items[i].value);
		free(settings->items[i].file);
	}
	free(settings->items);
}

void config_free(struct config *config)
{
	if (config == NULL)
		return;
	release_values(config, SECTION_FIXED);
	release_values(config, SECTION_OPEN);
	for (size_t i = 0; i < config->topic_count; i++) {
		free(config->topics[i].topic);
		release_values(&config->topics[i], SECTION_PER_TOPIC);
	}
	free(config->topics);
	for (size_t i = 0; i < config->consumer_count; i++) {
		free(config->consumers[i].name);
		release_values(&config->consumers[i], SECTION_PER_CONSUMER);
	}
	free(config->consumers);
	for (size_t i = 0; i < config->handler_count; i++) {
		free(config->handlers[i].name);
		release_values(&config->handlers[i], SECTION_PER_HANDLER);
	}
	free(config->handlers);
	release_settings(&config->kafka);
	release_settings(&config->postgres);
	strings_fini(&config->warnings);
	config_entries_free(config->entries);
	config_entries_free(config->pending);
	free(config);
}

/* --- Loading and reloading -------------------------------------------------------------------------- */

/* `running` has the values of pipes that were read; NULL: at the start. */
static int load(struct config **out, const struct config_entries *running,
	const struct config_sources *sources, struct err *err)
{
	CLEANUP(config_freep) struct config *config = NULL;
	CLEANUP(config_entries_freep) struct config_entries *entries = NULL;
	CLEANUP(strings_fini) struct strings warnings = { NULL, 0 };
	struct loading loading = { .sources = sources, .warnings = &warnings };
	struct config_entries *given;
	int r = config_entries_new(&entries, err);

	if (r == 0) {
		loading.entries = entries;
		r = read_layers(&loading, err);
	}
	if (r == 0)
		r = config_entries_complete(entries, running, sources->without_kafka, err);
	if (r == 0) {
		given = entries;
		entries = NULL;
		r = build(&config, given, sources, err);
	}
	if (r == 0)
		r = strings_add_all(&config->warnings, &warnings, err);
	if (r != 0) {
		if (sources->warnings_on_failure != NULL) {
			strings_fini(sources->warnings_on_failure);
			*sources->warnings_on_failure = warnings;
			warnings = (struct strings){ NULL, 0 };
		}
		return r;
	}
	*out = config;
	config = NULL;
	return 0;
}

int config_load(struct config **out, const struct config_sources *sources, struct err *err)
{
	return load(out, NULL, sources, err);
}

/* As read_file_setting(), but an error in a key does not end the reading. */
static int read_file_listen(const struct yaml_setting *setting, void *arg, struct err *err)
{
	(void)err;
	if (setting->depth == 2 && strcmp(setting->path[0], "http") == 0)
		(void)read_file_setting(setting, arg, NULL);
	return 0;
}

int config_find_listen(char **out, const struct config_sources *sources, struct err *err)
{
	CLEANUP(config_entries_freep) struct config_entries *entries = NULL;
	CLEANUP(strings_fini) struct strings warnings = { NULL, 0 };
	struct loading loading = { .sources = sources, .warnings = &warnings };
	const struct config_entry *entry;
	const char *text;
	int r = config_entries_new(&entries, err);

	if (r == 0)
		r = read_defaults(entries, err);
	if (r != 0)
		return r;
	loading.entries = entries;
	if (sources->file != NULL)
		(void)yaml_file_read(sources->file, read_file_listen, &loading, NULL);
	(void)read_environment(&loading, NULL);
	for (size_t i = 0; i < sources->set_count; i++)
		(void)read_argument(&loading, sources->set[i], NULL);
	entry = config_entries_find(entries, "http", NULL, "listen");
	text = entry == NULL || entry->texts.count == 0 ? "" : entry->texts.items[0];
	return string_copy(out, text, strlen(text), err);
}

/* True when each new connection reads the key's file again (secret.h), so that its change needs no
 * restart. */
static bool is_read_again(const struct config_entry *entry)
{
	return entry->file != NULL && (strcmp(entry->section->name, "postgres") == 0 ||
					      strcmp(entry->name, "sasl.username") == 0 ||
					      strcmp(entry->name, "sasl.password") == 0);
}

static bool is_changed(const struct config_entry *before, const struct config_entry *now)
{
	if (before == NULL || now == NULL)
		return true;
	if (is_read_again(before) && is_read_again(now) && strcmp(before->file, now->file) == 0)
		return false;
	return !strings_equal(&before->texts, &now->texts);
}

/* What a reload makes of the running and the fresh entries. */
struct merging {
	struct config_entries *merged;
	struct config_entries *pending; /* what keys have after a restart */
	struct strings *restart;        /* their names */
};

/* `entry` is the fresh one, or, of a key that is not written any more, the running one. */
static int put_pending(
	struct merging *merging, const struct config_entry *entry, bool written, struct err *err)
{
	const struct key key = { entry->section, entry->option, entry->scope, entry->name };
	const struct config_entry_value removed = { .removed = true, .origin = "not written" };
	int r = strings_add(merging->restart, entry->path, strlen(entry->path), err);

	if (r != 0)
		return r;
	return written ? config_entries_put_entry(merging->pending, entry, err)
		       : config_entries_put(merging->pending, &key, &removed, err);
}

/* Keys that need a restart keep the entry of the running configuration, the others get the fresh one. Adds
 * to `restart` the keys of the first kind that were changed, removed or added. The order is that of the
 * running configuration, because libpq reads its keywords in order. */
static int merge(struct merging *merging, const struct config_entries *running,
	const struct config_entries *fresh, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < running->count && r == 0; i++) {
		const struct config_entry *entry = &running->items[i];
		const struct config_entry *now = config_entries_same(fresh, entry);

		if (config_entry_is_reloadable(entry))
			continue;
		r = config_entries_put_entry(merging->merged, entry, err);
		if (r == 0 && is_changed(entry, now))
			r = put_pending(merging, now != NULL ? now : entry, now != NULL, err);
	}
	for (size_t i = 0; i < fresh->count && r == 0; i++) {
		const struct config_entry *entry = &fresh->items[i];

		if (config_entry_is_reloadable(entry))
			r = config_entries_put_entry(merging->merged, entry, err);
		else if (config_entries_same(running, entry) == NULL)
			r = put_pending(merging, entry, true, err);
	}
	return r;
}

int config_reload(struct config **out, const struct config *running,
	const struct config_sources *sources, struct strings *restart, struct err *err)
{
	CLEANUP(config_freep) struct config *fresh = NULL;
	CLEANUP(config_entries_freep) struct config_entries *merged = NULL;
	CLEANUP(config_entries_freep) struct config_entries *pending = NULL;
	struct config_entries *given;
	int r = load(&fresh, running->entries, sources, err);

	if (r == 0)
		r = config_entries_new(&merged, err);
	if (r == 0)
		r = config_entries_new(&pending, err);
	if (r == 0)
		r = merge(&(struct merging){ merged, pending, restart }, running->entries,
			fresh->entries, err);
	if (r == 0) {
		given = merged;
		merged = NULL;
		r = build(out, given, sources, err);
		/* Each of the two configurations is right, but not the mixture. */
		if (r == FAULT_CONFIG)
			(void)err_prefix(err, "not reloaded, restart instead");
	}
	if (r != 0) {
		strings_fini(restart);
		return r;
	}
	/* Warnings are about the configuration that was read, not about the mixture. */
	strings_fini(&(*out)->warnings);
	(*out)->warnings = fresh->warnings;
	fresh->warnings = (struct strings){ NULL, 0 };
	(*out)->pending = pending;
	pending = NULL;
	return 0;
}

bool config_is_equal(const struct config *a, const struct config *b)
{
	return config_entries_are_equal(a->entries, b->entries) &&
	       config_entries_are_equal(a->pending, b->pending);
}
