/*
 * A plain array, searched from its start: a configuration has some sixty keys, and a file may
 * hold ten thousand at most.
 */
#include "config/entries.h"

#include <string.h>

#include "config/secret.h"
#include "config/string_list.h"
#include "config/value.h"

static void entry_fini(struct entry *entry)
{
	free(entry->topic);
	free(entry->path);
	free(entry->origin);
	free(entry->file);
	strings_fini(&entry->texts);
}

int entries_new(struct entries **out, struct err *err)
{
	*out = calloc(1, sizeof(**out));
	return *out == NULL ? err_memory(err) : 0;
}

void entries_free(struct entries *entries)
{
	if (entries == NULL)
		return;
	for (size_t i = 0; i < entries->count; i++)
		entry_fini(&entries->items[i]);
	free(entries->items);
	free(entries);
}

static bool same_topic(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

struct entry *entries_find(const struct entries *entries, const struct entry_key *key)
{
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->items[i];

		if (entry->section == key->section && strcmp(entry->name, key->name) == 0 &&
			same_topic(entry->topic, key->topic))
			return entry;
	}
	return NULL;
}

static struct entry_key key_of(const struct entry *entry)
{
	return (struct entry_key){ entry->section, entry->topic, entry->name };
}

struct entry *entries_like(const struct entries *entries, const struct entry *entry)
{
	struct entry_key key = key_of(entry);

	return entries_find(entries, &key);
}

static int set_path(struct entry *entry, const struct entry_key *key, struct err *err)
{
	int r;

	if (key->topic == NULL)
		r = string_format(&entry->path, err, "%s.%s", key->section->name, key->name);
	else
		r = string_format(
			&entry->path, err, "%s.%s.%s", key->section->name, key->topic, key->name);
	if (r == 0)
		entry->name = entry->path + strlen(entry->path) - strlen(key->name);
	return r;
}

/* On failure the caller still calls entry_fini(). */
static int entry_init(struct entry *entry, const struct entry_key *key,
	const struct entry_value *value, struct err *err)
{
	int r = set_path(entry, key, err);

	entry->section = key->section;
	entry->option = options_find(key->section->name, key->name);
	entry->list = value->list;
	entry->commas = value->commas;
	entry->standard = value->standard;
	if (r == 0 && key->topic != NULL)
		r = string_copy(&entry->topic, key->topic, strlen(key->topic), err);
	if (r == 0)
		r = string_copy(&entry->origin, value->origin, strlen(value->origin), err);
	if (r == 0 && value->file != NULL)
		r = string_copy(&entry->file, value->file, strlen(value->file), err);
	return r < 0 ? r : strings_add_all(&entry->texts, &value->texts, err);
}

static int make_room(struct entries *entries, struct err *err)
{
	size_t capacity = entries->capacity == 0 ? 64 : entries->capacity * 2;
	struct entry *items;

	if (entries->count < entries->capacity)
		return 0;
	items = realloc(entries->items, capacity * sizeof(*items));
	if (items == NULL)
		return err_memory(err);
	entries->items = items;
	entries->capacity = capacity;
	return 0;
}

int entries_put(struct entries *entries, const struct entry_key *key,
	const struct entry_value *value, struct err *err)
{
	struct entry fresh = { .section = NULL };
	struct entry *old;
	int r = make_room(entries, err);

	if (r == 0)
		r = entry_init(&fresh, key, value, err);
	if (r < 0) {
		entry_fini(&fresh);
		return r;
	}
	old = entries_find(entries, key);
	if (old == NULL)
		old = &entries->items[entries->count++];
	else
		entry_fini(old);
	*old = fresh;
	return 0;
}

int entries_put_entry(struct entries *entries, const struct entry *entry, struct err *err)
{
	struct entry_key key = key_of(entry);
	struct entry_value value = {
		.texts = entry->texts,
		.list = entry->list,
		.commas = entry->commas,
		.standard = entry->standard,
		.origin = entry->origin,
		.file = entry->file,
	};

	return entries_put(entries, &key, &value, err);
}

static int read_secret(char **text, struct err *err)
{
	CLEANUP(buf_fini) struct buf content = BUF_INIT;
	char *fresh = NULL;
	int r = secret_read(*text + strlen("file:"), &content, err);

	if (r < 0)
		return r;
	r = string_copy(&fresh, content.length == 0 ? "" : content.data, content.length, err);
	if (r < 0)
		return r;
	free(*text);
	*text = fresh;
	return 0;
}

static int add_to_origin(struct entry *entry, const char *text, struct err *err)
{
	char *origin = NULL;
	int r = string_format(&origin, err, "%s (%s)", entry->origin, text);

	if (r < 0)
		return r;
	free(entry->origin);
	entry->origin = origin;
	return 0;
}

/* Of a value that is nothing but a file. */
static int keep_path(struct entry *entry, struct err *err)
{
	const char *path = entry->texts.items[0] + strlen("file:");

	if (entry->texts.count != 1)
		return 0;
	free(entry->file);
	entry->file = NULL;
	return string_copy(&entry->file, path, strlen(path), err);
}

static int resolve_files(struct entry *entry, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < entry->texts.count && r == 0; i++) {
		char **text = &entry->texts.items[i];

		if (strncmp(*text, "file:/", strlen("file:/")) != 0)
			continue;
		r = add_to_origin(entry, *text, err);
		if (r == 0)
			r = keep_path(entry, err);
		if (r == 0)
			r = read_secret(text, err);
		if (r < 0 && r != FAULT_MEMORY)
			(void)err_prefix(err, "%s: %s", entry->origin, entry->path);
	}
	return r;
}

static int split(struct entry *entry, struct err *err)
{
	struct strings parts = { NULL, 0 };
	int r;

	if (!entry->commas || entry->option == NULL || !value_is_list(entry->option))
		return 0;
	r = strings_add_parts(&parts, entry->texts.items[0], err);
	if (r < 0) {
		strings_fini(&parts);
		return r;
	}
	strings_fini(&entry->texts);
	entry->texts = parts;
	entry->list = true;
	entry->commas = false;
	return 0;
}

/* Where a library wants several values, it wants them with commas between. */
static int join(struct entry *entry, struct err *err)
{
	CLEANUP(buf_fini) struct buf joined = BUF_INIT;
	struct strings one = { NULL, 0 };
	int r;

	if (!entry->list || entry->option != NULL)
		return 0;
	for (size_t i = 0; i < entry->texts.count; i++) {
		buf_add_str(&joined, i == 0 ? "" : ",");
		buf_add_str(&joined, entry->texts.items[i]);
	}
	r = strings_add(&one, buf_str(&joined), joined.length, err);
	if (r < 0 || !buf_ok(&joined)) {
		strings_fini(&one);
		return err_memory(err);
	}
	strings_fini(&entry->texts);
	entry->texts = one;
	entry->list = false;
	return 0;
}

int entries_resolve(struct entries *entries, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < entries->count && r == 0; i++) {
		r = resolve_files(&entries->items[i], err);
		if (r == 0)
			r = split(&entries->items[i], err);
		if (r == 0)
			r = join(&entries->items[i], err);
	}
	return r;
}
