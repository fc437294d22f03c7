/*
 * Visits the entries by section, then in the order in which they were first put. Secrets are recognised
 * here, and nowhere else: every way to show a value goes through config_each().
 */
#include "config/show.h"

#include <string.h>

#include "config/sources/config_entries.h"
#include "config/sources/strings.h"

enum { WIDEST_TEXT = 40 };

static const char *const secret_words[] = { "password", "passphrase", "secret", "token", "passfile",
	"key.pem", "jaas", "oauthbearer.config", "scram_client_key", "scram_server_key" };

/* "sasl.oauthbearer.token.endpoint.url": the address of a server that issues tokens. A login or a query in the address can
 * be a secret. */
static bool is_address(const char *name, const char *text)
{
	const char *url = strstr(name, ".url");

	return url != NULL && strcmp(url, ".url") == 0 && strpbrk(text, "@?") == NULL;
}

bool config_is_secret(const char *name, const char *text)
{
	const char *authority = strstr(text, "://");

	for (size_t i = 0;
		i < sizeof(secret_words) / sizeof(secret_words[0]) && !is_address(name, text);
		i++) {
		if (strcasestr(name, secret_words[i]) != NULL)
			return true;
	}
	return strcasestr(text, "password") != NULL ||
	       (authority != NULL && strchr(authority, '@') != NULL);
}

/* Who puts a value into a file may want to hide it, whatever the name of the key is. */
static bool is_secret(const struct config_entry *entry)
{
	const char *text = entry->texts.count == 0 ? "" : entry->texts.items[0];

	return entry->option == NULL && text[0] != '\0' &&
	       (entry->from_file || config_is_secret(entry->name, text));
}

static void add_text(struct buf *out, const struct config_entry *entry)
{
	bool list = entry->list || entry->texts.count != 1;

	if (is_secret(entry)) {
		buf_add_str(out, "***");
		return;
	}
	if (!list && entry->texts.items[0][0] == '\0')
		buf_add_str(out, "\"\"");
	buf_add_str(out, list ? "[" : "");
	for (size_t i = 0; i < entry->texts.count; i++) {
		buf_add_str(out, i == 0 ? "" : ", ");
		if (i > 0 && entry->option != NULL && entry->option->command) {
			buf_add_str(out, "***");
			break;
		}
		/* A value can contain any character; its line must stay one line. */
		for (const char *c = entry->texts.items[i]; *c != '\0'; c++)
			buf_add_char(out, (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c);
	}
	buf_add_str(out, list ? "]" : "");
}

static const char not_set[] = "not set";

static void add_text_or_none(struct buf *out, const struct config_entry *entry)
{
	if (entry == NULL || entry->removed)
		buf_add_str(out, not_set);
	else
		add_text(out, entry);
}

/* `change` has the key, and whether it needs a restart. False without memory. */
static bool report(struct config_change change, const struct config_entry *before,
	const struct config_entry *now, config_change_visit *visit, void *arg)
{
	CLEANUP(buf_fini) struct buf old = BUF_INIT;
	CLEANUP(buf_fini) struct buf fresh = BUF_INIT;

	add_text_or_none(&old, before);
	add_text_or_none(&fresh, now);
	change.before = buf_str(&old);
	change.now = buf_str(&fresh);
	if (!buf_ok(&old) || !buf_ok(&fresh))
		return false;
	visit(&change, arg);
	return true;
}

static bool report_pending(const struct config *now, config_change_visit *visit, void *arg)
{
	bool ok = true;

	for (size_t i = 0; now->pending != NULL && i < now->pending->count && ok; i++) {
		const struct config_entry *entry = &now->pending->items[i];

		ok = report((struct config_change){ .key = entry->path, .restart = true },
			config_entries_same(now->entries, entry), entry, visit, arg);
	}
	return ok;
}

int config_changes(const struct config *before, const struct config *now,
	config_change_visit *visit, void *arg, struct err *err)
{
	bool ok = true;

	for (size_t i = 0; i < now->entries->count && ok; i++) {
		const struct config_entry *entry = &now->entries->items[i];
		const struct config_entry *old = config_entries_same(before->entries, entry);

		if (old == NULL || !strings_equal(&old->texts, &entry->texts))
			ok = report((struct config_change){ .key = entry->path }, old, entry, visit,
				arg);
	}
	for (size_t i = 0; i < before->entries->count && ok; i++) {
		const struct config_entry *entry = &before->entries->items[i];

		if (config_entries_same(now->entries, entry) == NULL)
			ok = report((struct config_change){ .key = entry->path }, entry, NULL,
				visit, arg);
	}
	return ok && report_pending(now, visit, arg) ? 0 : err_memory(err);
}

/* The text that waits for a restart, in `text`; NULL: none. */
static const char *pending_text(
	const struct config *config, const struct config_entry *entry, struct buf *text)
{
	const struct config_entry *pending =
		config->pending == NULL ? NULL : config_entries_same(config->pending, entry);

	if (pending == NULL)
		return NULL;
	buf_reset(text);
	add_text_or_none(text, pending);
	return buf_str(text);
}

static int each_added(const struct config *config, const struct section *section,
	config_visit *visit, void *arg, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	for (size_t i = 0; config->pending != NULL && i < config->pending->count; i++) {
		const struct config_entry *entry = &config->pending->items[i];
		struct config_line line = { entry->path, not_set, entry->origin, false, NULL };

		if (entry->section != section ||
			config_entries_same(config->entries, entry) != NULL)
			continue;
		line.pending = pending_text(config, entry, &text);
		if (!buf_ok(&text))
			return err_memory(err);
		visit(&line, arg);
	}
	return 0;
}

int config_each(const struct config *config, config_visit *visit, void *arg, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	CLEANUP(buf_fini) struct buf later = BUF_INIT;
	const struct config_entries *entries = config->entries;

	for (const struct section *section = option_sections; section->name != NULL; section++) {
		for (size_t i = 0; i < entries->count; i++) {
			const struct config_entry *entry = &entries->items[i];
			struct config_line line = { entry->path, NULL, entry->origin,
				config_entry_is_reloadable(entry), NULL };

			if (entry->section != section)
				continue;
			buf_reset(&text);
			add_text(&text, entry);
			line.text = buf_str(&text);
			line.pending = pending_text(config, entry, &later);
			if (!buf_ok(&text) || !buf_ok(&later))
				return err_memory(err);
			visit(&line, arg);
		}
		if (each_added(config, section, visit, arg, err) != 0)
			return err_memory(err);
	}
	return 0;
}

struct columns {
	int key;
	int text;
	bool changes; /* also what a change needs */
	struct buf *out;
};

static void measure(const struct config_line *line, void *arg)
{
	struct columns *columns = arg;
	int key = (int)strlen(line->key);
	int text = (int)strlen(line->text);

	if (key > columns->key)
		columns->key = key;
	if (text > columns->text && text <= WIDEST_TEXT)
		columns->text = text;
}

static void add_line(const struct config_line *line, void *arg)
{
	struct columns *columns = arg;

	buf_addf(columns->out, "%-*s  %-*s  # %s", columns->key, line->key, columns->text,
		line->text, line->origin);
	if (columns->changes)
		buf_addf(columns->out, "; change: %s", line->reloadable ? "SIGHUP" : "restart");
	if (line->pending != NULL)
		buf_addf(columns->out, "; after a restart: %s", line->pending);
	buf_add_char(columns->out, '\n');
}

int config_dump(const struct config *config, bool changes, struct buf *out, struct err *err)
{
	struct columns columns = { 0, 0, changes, out };
	int r = config_each(config, measure, &columns, err);

	if (r == 0)
		r = config_each(config, add_line, &columns, err);
	if (r < 0)
		return r;
	return buf_ok(out) ? 0 : err_memory(err);
}
