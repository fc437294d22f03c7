/*
 * A plain array that is searched from its start: a configuration has some sixty keys, and a file at most
 * ten thousand.
 *
 * Entries are texts only. Parsing them early would make a wrong value in the file an error even if --set replaces
 * it, and a reload could not compare what a person wrote.
 */
#include "config/sources/config_entries.h"

#include <string.h>
#include <sys/stat.h>

#include "config/secret.h"
#include "config/sources/strings.h"

static void entry_fini(struct config_entry *entry)
{
	free(entry->scope);
	free(entry->path);
	free(entry->origin);
	free(entry->file);
	strings_fini(&entry->texts);
}

/* On failure the caller still calls entry_fini(). */
static int entry_init(struct config_entry *entry, const struct key *key,
	const struct config_entry_value *value, struct err *err)
{
	int r;

	*entry = (struct config_entry){
		.section = key->section,
		.option = key->option,
		.list = value->list,
		.commas = value->commas,
		.standard = value->standard,
		.removed = value->removed,
		.from_file = value->from_file,
	};
	if (key->scope == NULL)
		r = string_format(&entry->path, err, "%s.%s", key->section->name, key->name);
	else
		r = string_format(
			&entry->path, err, "%s.%s.%s", key->section->name, key->scope, key->name);
	if (r < 0)
		return r;
	entry->name = entry->path + strlen(entry->path) - strlen(key->name);
	r = string_copy(&entry->origin, value->origin, strlen(value->origin), err);
	if (r == 0 && key->scope != NULL)
		r = string_copy(&entry->scope, key->scope, strlen(key->scope), err);
	if (r == 0 && value->file != NULL)
		r = string_copy(&entry->file, value->file, strlen(value->file), err);
	/* `topics:` without a value is an empty list; for a key with one value it is an empty text. */
	if (value->nothing && key->option != NULL && option_is_list(key->option))
		return r;
	for (size_t i = 0; i < value->count && r == 0; i++)
		r = strings_add(&entry->texts, value->texts[i], strlen(value->texts[i]), err);
	return r;
}

int config_entries_new(struct config_entries **out, struct err *err)
{
	*out = calloc(1, sizeof(**out));
	return *out == NULL ? err_memory(err) : 0;
}

void config_entries_free(struct config_entries *entries)
{
	if (entries == NULL)
		return;
	for (size_t i = 0; i < entries->count; i++)
		entry_fini(&entries->items[i]);
	free(entries->items);
	free(entries);
}

struct config_entry *config_entries_find(const struct config_entries *entries, const char *section,
	const char *scope, const char *name)
{
	for (size_t i = 0; i < entries->count; i++) {
		struct config_entry *entry = &entries->items[i];

		if (strcmp(entry->name, name) == 0 && strcmp(entry->section->name, section) == 0 &&
			(scope == NULL || strcmp(entry->scope, scope) == 0))
			return entry;
	}
	return NULL;
}

struct config_entry *config_entries_same(
	const struct config_entries *entries, const struct config_entry *entry)
{
	return config_entries_find(entries, entry->section->name, entry->scope, entry->name);
}

static bool is_equal(const struct config_entry *entry, const struct config_entry *other)
{
	return other != NULL && entry->removed == other->removed &&
	       strings_equal(&entry->texts, &other->texts) &&
	       strcmp(entry->origin, other->origin) == 0;
}

bool config_entries_are_equal(const struct config_entries *a, const struct config_entries *b)
{
	const size_t count = a == NULL ? 0 : a->count;

	if (count != (b == NULL ? 0 : b->count))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!is_equal(&a->items[i], config_entries_same(b, &a->items[i])))
			return false;
	}
	return true;
}

int config_entries_put(struct config_entries *entries, const struct key *key,
	const struct config_entry_value *value, struct err *err)
{
	struct config_entry *old =
		config_entries_find(entries, key->section->name, key->scope, key->name);
	struct config_entry fresh;
	int r;

	/* Everything that can fail comes before the first change. */
	if (old == NULL && entries->count == entries->capacity) {
		size_t capacity = entries->capacity == 0 ? 64 : entries->capacity * 2;
		struct config_entry *items = realloc(entries->items, capacity * sizeof(*items));

		if (items == NULL)
			return err_memory(err);
		entries->items = items;
		entries->capacity = capacity;
	}
	r = entry_init(&fresh, key, value, err);
	if (r < 0) {
		entry_fini(&fresh);
		return r;
	}
	if (old == NULL)
		old = &entries->items[entries->count++];
	else
		entry_fini(old);
	*old = fresh;
	return 0;
}

int config_entries_put_entry(
	struct config_entries *entries, const struct config_entry *entry, struct err *err)
{
	const struct key key = { entry->section, entry->option, entry->scope, entry->name };
	const struct config_entry_value value = {
		.texts = (const char *const *)entry->texts.items,
		.count = entry->texts.count,
		.list = entry->list,
		.commas = entry->commas,
		.standard = entry->standard,
		.removed = entry->removed,
		.from_file = entry->from_file,
		.origin = entry->origin,
		.file = entry->file,
	};

	return config_entries_put(entries, &key, &value, err);
}

/* The running entry, if its value is from a pipe of this path: to read it again would wait for a writer. */
static const struct config_entry *read_before(
	const struct config_entries *running, const struct config_entry *entry, const char *path)
{
	const struct config_entry *before =
		running == NULL ? NULL : config_entries_same(running, entry);
	struct stat found;

	return before != NULL && before->file != NULL && strcmp(before->file, path) == 0 &&
			       before->texts.count == 1 && stat(path, &found) == 0 &&
			       S_ISFIFO(found.st_mode)
		       ? before
		       : NULL;
}

static int take_text(char **text, const char *from, struct err *err)
{
	char *fresh = NULL;
	int r = string_copy(&fresh, from, strlen(from), err);

	if (r != 0)
		return r;
	free(*text);
	*text = fresh;
	return 0;
}

/* Replaces a text file:/path by the content of the file. Adds the text to the origin, because an error in the content is
 * not to be corrected where the path is written. Keeps the path of a single text for secret.h, which reads it again. If the
 * file is not needed, it is not opened, and the text stays file:/path. */
static int read_file(struct config_entry *entry, char **text, bool needed,
	const struct config_entries *running, struct err *err)
{
	CLEANUP(buf_fini) struct buf content = BUF_INIT;
	const struct config_entry *before;
	const char *path = *text + strlen("file:");
	char *fresh = NULL;
	int r = string_format(&fresh, err, "%s (%s)", entry->origin, *text);

	if (r == 0) {
		free(entry->origin);
		entry->origin = fresh;
		fresh = NULL;
	}
	if (r == 0 && entry->texts.count == 1)
		r = string_copy(&entry->file, path, strlen(path), err);
	entry->from_file = true;
	if (r != 0 || !needed)
		return r;
	before = read_before(running, entry, path);
	if (before != NULL)
		return take_text(text, before->texts.items[0], err);
	r = secret_read(path, &content, err);
	if (r == 0)
		r = string_copy(
			&fresh, content.length == 0 ? "" : content.data, content.length, err);
	if (r == FAULT_CONFIG)
		(void)err_prefix(err, "%s: %s", entry->origin, entry->path);
	if (r != 0)
		return r;
	free(*text);
	*text = fresh;
	return 0;
}

/* First the files, because a list can be in a file, too. */
static int complete(struct config_entry *entry, bool needed, const struct config_entries *running,
	struct err *err)
{
	CLEANUP(strings_fini) struct strings texts = { NULL, 0 };
	CLEANUP(buf_fini) struct buf joined = BUF_INIT;
	bool split = entry->commas && entry->option != NULL && option_is_list(entry->option);
	bool join = entry->list && entry->option == NULL;
	struct strings before = entry->texts;
	int r = 0;

	for (size_t i = 0; i < before.count && r == 0; i++) {
		if (strncmp(before.items[i], "file:/", strlen("file:/")) == 0)
			r = read_file(entry, &before.items[i], needed, running, err);
	}
	if (r < 0 || (!split && !join))
		return r;
	for (size_t i = 0; i < before.count && join; i++) {
		buf_add_str(&joined, i == 0 ? "" : ",");
		buf_add_str(&joined, before.items[i]);
	}
	if (split)
		r = strings_add_parts(&texts, before.items[0], err);
	else
		r = strings_add(&texts, buf_str(&joined), joined.length, err);
	if (r < 0 || !buf_ok(&joined))
		return err_memory(err);
	entry->texts = texts;
	texts = before;
	entry->list = split;
	entry->commas = false;
	return 0;
}

int config_entries_complete(struct config_entries *entries, const struct config_entries *running,
	bool without_kafka, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < entries->count && r == 0; i++) {
		struct config_entry *entry = &entries->items[i];
		bool unused = without_kafka && entry->option == NULL &&
			      strcmp(entry->section->name, "kafka") == 0;

		r = complete(entry, !unused, running, err);
	}
	return r;
}

bool config_entry_is_reloadable(const struct config_entry *entry)
{
	return entry->option != NULL && entry->option->reloadable;
}
