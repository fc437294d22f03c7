/* Every option by the table; then what goes to the libraries; then the rules of each topic. */
#include "config/build.h"

#include <string.h>

#include "config/load.h"
#include "config/string_list.h"
#include "config/value.h"

static int store(
	void *base, const struct option *option, const struct entry *entry, struct err *err)
{
	int r = value_store(base, option, &entry->texts, err);

	if (r == FAULT_CONFIG)
		(void)err_prefix(err, "%s: %s", entry->origin, entry->path);
	return r;
}

static int build_fixed(struct config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < config->entries->count && r == 0; i++) {
		const struct entry *entry = &config->entries->items[i];

		if (entry->option != NULL && entry->section->kind != SECTION_PER_TOPIC)
			r = store(config, entry->option, entry, err);
	}
	return r;
}

static int add_setting(struct settings *settings, const struct entry *entry, struct err *err)
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

static int build_passed(struct config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < config->entries->count && r == 0; i++) {
		const struct entry *entry = &config->entries->items[i];
		bool kafka = strcmp(entry->section->name, "kafka") == 0;

		if (entry->option == NULL)
			r = add_setting(kafka ? &config->kafka : &config->postgres, entry, err);
	}
	return r;
}

/* What is written for the topic, else for "*", where the defaults are too. */
static const struct entry *rule_for(
	const struct config *config, const char *topic, const struct option *option)
{
	struct entry_key key = { options_section(option->section), topic, option->key };
	const struct entry *entry = entries_find(config->entries, &key);

	if (entry != NULL)
		return entry;
	key.topic = "*";
	return entries_find(config->entries, &key);
}

static int build_rules(struct config *config, const char *topic, struct err *err)
{
	struct topic_rules *items =
		realloc(config->topics, (config->topic_count + 1) * sizeof(*config->topics));
	struct topic_rules *rules;
	int r;

	if (items == NULL)
		return err_memory(err);
	config->topics = items;
	rules = &items[config->topic_count++];
	*rules = (struct topic_rules){ .topic = NULL };
	r = string_copy(&rules->topic, topic, strlen(topic), err);
	for (const struct option *option = option_table; option->section != NULL && r == 0;
		option++) {
		const struct entry *entry;

		if (options_section(option->section)->kind != SECTION_PER_TOPIC)
			continue;
		entry = rule_for(config, topic, option);
		if (entry != NULL)
			r = store(rules, option, entry, err);
	}
	return r;
}

static bool has_rules(const struct config *config, const char *topic)
{
	for (size_t i = 0; i < config->topic_count; i++) {
		if (strcmp(config->topics[i].topic, topic) == 0)
			return true;
	}
	return false;
}

static int build_topics(struct config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < config->entries->count && r == 0; i++) {
		const char *topic = config->entries->items[i].topic;

		if (topic != NULL && strcmp(topic, "*") != 0 && !has_rules(config, topic))
			r = build_rules(config, topic, err);
	}
	return r < 0 ? r : build_rules(config, "*", err);
}

int build_config(struct config **out, struct entries *entries, struct err *err)
{
	CLEANUP(config_freep) struct config *config = calloc(1, sizeof(*config));
	int r;

	if (config == NULL) {
		entries_free(entries);
		return err_memory(err);
	}
	config->entries = entries;
	r = build_fixed(config, err);
	if (r == 0)
		r = build_passed(config, err);
	if (r == 0)
		r = build_topics(config, err);
	if (r < 0)
		return r;
	*out = config;
	config = NULL;
	return 0;
}

static void release_options(void *base, bool per_topic)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		const struct section *section = options_section(option->section);

		if ((section->kind == SECTION_PER_TOPIC) == per_topic)
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
	release_options(config, false);
	for (size_t i = 0; i < config->topic_count; i++) {
		free(config->topics[i].topic);
		release_options(&config->topics[i], true);
	}
	free(config->topics);
	release_settings(&config->kafka);
	release_settings(&config->postgres);
	strings_fini(&config->warnings);
	entries_free(config->entries);
	free(config);
}

const struct topic_rules *config_topic_rules(const struct config *config, const char *topic)
{
	for (size_t i = 0; i + 1 < config->topic_count; i++) {
		if (strcmp(config->topics[i].topic, topic) == 0)
			return &config->topics[i];
	}
	return &config->topics[config->topic_count - 1];
}
