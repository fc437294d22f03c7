/* Layers, then values, then rules; and the same again for a reload. */
#include "config/load.h"

#include <string.h>

#include "config/build.h"
#include "config/layers.h"
#include "config/passed.h"
#include "config/show.h"
#include "config/string_list.h"
#include "config/validate.h"

/* Takes `entries`, also when it fails. */
static int build_and_check(struct config **out, struct entries *entries,
	const struct config_sources *sources, struct err *err)
{
	CLEANUP(config_freep) struct config *config = NULL;
	int r = build_config(&config, entries, err);

	if (r == 0)
		r = config_fit_defaults(config, err);
	if (r == 0)
		r = config_validate(config, sources->without_kafka, err);
	if (r < 0)
		return r;
	*out = config;
	config = NULL;
	return 0;
}

static int load(struct config **out, const struct config_sources *sources, struct strings *warnings,
	struct err *err)
{
	CLEANUP(config_freep) struct config *config = NULL;
	CLEANUP(entries_freep) struct entries *entries = NULL;
	struct entries *given;
	int r = entries_new(&entries, err);

	if (r == 0)
		r = layers_read(entries, sources, warnings, err);
	if (r == 0)
		r = entries_resolve(entries, err);
	if (r < 0)
		return r;
	given = entries;
	entries = NULL;
	r = build_and_check(&config, given, sources, err);
	if (r == 0)
		r = strings_add_all(&config->warnings, warnings, err);
	if (r < 0)
		return r;
	*out = config;
	config = NULL;
	return 0;
}

int config_load(struct config **out, const struct config_sources *sources, struct err *err)
{
	struct strings warnings = { NULL, 0 };
	int r = load(out, sources, &warnings, err);

	if (r < 0 && sources->passed_over != NULL) {
		strings_fini(sources->passed_over);
		*sources->passed_over = warnings;
		return r;
	}
	strings_fini(&warnings);
	return r;
}

/* Both are what is in the same file, and that is read again by itself. */
static bool is_read_again(const struct entry *a, const struct entry *b)
{
	return a->file != NULL && b->file != NULL && strcmp(a->file, b->file) == 0 &&
	       passed_is_read_again(a->section->name, a->name);
}

static bool is_changed(const struct entries *from, const struct entry *entry)
{
	const struct entry *other = entries_like(from, entry);

	if (other != NULL && is_read_again(entry, other))
		return false;
	return other == NULL || !strings_equal(&other->texts, &entry->texts);
}

static int add_name(struct strings *names, const struct entry *entry, struct err *err)
{
	return strings_add(names, entry->path, strlen(entry->path), err);
}

/* Of the running ones what cannot be taken over; and the names of those that changed or went. */
static int keep_running(struct entries *merged, const struct entries *running,
	const struct entries *fresh, struct strings *restart, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < running->count && r == 0; i++) {
		const struct entry *entry = &running->items[i];

		if (show_is_reloadable(entry))
			continue;
		r = entries_put_entry(merged, entry, err);
		if (r == 0 && is_changed(fresh, entry))
			r = add_name(restart, entry, err);
	}
	return r;
}

/* Of the fresh ones what can be taken over; and the names of those that came. */
static int take_fresh(struct entries *merged, const struct entries *running,
	const struct entries *fresh, struct strings *restart, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < fresh->count && r == 0; i++) {
		const struct entry *entry = &fresh->items[i];

		if (show_is_reloadable(entry))
			r = entries_put_entry(merged, entry, err);
		else if (entries_like(running, entry) == NULL)
			r = add_name(restart, entry, err);
	}
	return r;
}

static int merge(struct entries **out, const struct config *running, const struct config *fresh,
	struct strings *restart, struct err *err)
{
	CLEANUP(entries_freep) struct entries *merged = NULL;
	int r = entries_new(&merged, err);

	if (r == 0)
		r = keep_running(merged, running->entries, fresh->entries, restart, err);
	if (r == 0)
		r = take_fresh(merged, running->entries, fresh->entries, restart, err);
	if (r < 0)
		return r;
	*out = merged;
	merged = NULL;
	return 0;
}

static int reload(struct config **out, const struct config *running,
	const struct config_sources *sources, struct strings *restart, struct err *err)
{
	CLEANUP(config_freep) struct config *fresh = NULL;
	CLEANUP(config_freep) struct config *config = NULL;
	struct entries *merged = NULL;
	struct strings warnings;
	int r = config_load(&fresh, sources, err);

	if (r == 0)
		r = merge(&merged, running, fresh, restart, err);
	if (r < 0)
		return r;
	r = build_and_check(&config, merged, sources, err);
	/* Wrong only together with values that need a restart. */
	if (r == FAULT_CONFIG)
		(void)err_prefix(err, "not reloaded, restart instead");
	if (r < 0)
		return r;
	warnings = config->warnings;
	config->warnings = fresh->warnings;
	fresh->warnings = warnings;
	*out = config;
	config = NULL;
	return 0;
}

int config_reload(struct config **out, const struct config *running,
	const struct config_sources *sources, struct strings *restart, struct err *err)
{
	int r = reload(out, running, sources, restart, err);

	if (r < 0)
		config_names_free(restart);
	return r;
}

void config_names_free(struct strings *names)
{
	strings_fini(names);
}
