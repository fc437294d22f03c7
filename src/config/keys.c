/* One function a kind of section. */
#include "config/keys.h"

#include <string.h>

#include "config/checks.h"
#include "config/nearest.h"
#include "config/passed.h"

static int unknown_section(const struct key_place *place, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	if (strchr(place->section, '.') != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: there is no section \"%s\"; write the key under its section, without "
			"the dot",
			place->origin, place->section);
	nearest_start(&nearest, place->section);
	for (const struct section *section = option_sections; section->name != NULL; section++)
		nearest_offer(&nearest, section->name);
	nearest_hint(&nearest, hint);
	return err_set(err, FAULT_CONFIG, "%s: there is no section \"%s\"%s", place->origin,
		place->section, hint);
}

static const char *section_with(const char *name)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->key, name) == 0)
			return option->section;
	}
	return NULL;
}

static int unknown_key(const struct key_place *place, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;
	const char *other = section_with(place->name);

	nearest_start(&nearest, place->name);
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, place->section) == 0)
			nearest_offer(&nearest, option->key);
	}
	nearest_hint(&nearest, hint);
	if (nearest.best == NULL && other != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: section \"%s\" has no key \"%s\"; it belongs under \"%s\"",
			place->origin, place->section, place->name, other);
	return err_set(err, FAULT_CONFIG, "%s: section \"%s\" has no key \"%s\"%s", place->origin,
		place->section, place->name, hint);
}

static int find_fixed(const struct key_place *place, struct err *err)
{
	if (place->topic != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: %s.%s: a value is expected here, not keys; write it behind the key, "
			"dots "
			"in a name as they are",
			place->origin, place->section, place->topic);
	return options_find(place->section, place->name) == NULL ? unknown_key(place, err) : 0;
}

static int find_open(const struct key_place *place, struct err *err)
{
	const char *why;

	if (place->topic != NULL)
		return find_fixed(place, err);
	why = passed_refusal(place->section, place->name);
	return why == NULL ? 0
			   : err_set(err, FAULT_CONFIG, "%s: %s.%s %s", place->origin,
				     place->section, place->name, why);
}

static int find_per_topic(const struct key_place *place, struct err *err)
{
	const char *wrong;

	if (place->topic == NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: topics.%s: rules stand under a topic's name, or \"*\" for all others; "
			"write topics, then the name, then the key",
			place->origin, place->name);
	wrong = check_topic_rules(place->topic);
	if (wrong != NULL)
		return err_set(err, FAULT_CONFIG, "%s: topics: \"%s\" %s", place->origin,
			place->topic, wrong);
	return options_find(place->section, place->name) == NULL ? unknown_key(place, err) : 0;
}

int key_find(struct entry_key *out, const struct key_place *place, struct err *err)
{
	static int (*const finders[])(const struct key_place *, struct err *) = {
		[SECTION_FIXED] = find_fixed,
		[SECTION_OPEN] = find_open,
		[SECTION_PER_TOPIC] = find_per_topic,
	};
	const struct section *section = options_section(place->section);

	if (section == NULL)
		return unknown_section(place, err);
	if (place->name == NULL || place->name[0] == '\0')
		return err_set(err, FAULT_CONFIG,
			"%s: \"%s\" is a section; write its keys under it", place->origin,
			place->section);
	*out = (struct entry_key){ section, place->topic, place->name };
	return finders[section->kind](place, err);
}
