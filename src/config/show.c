/*
 * Visits the entries by section, then in the order in which they were first put. Secrets are recognised
 * here, and nowhere else: every way to show a value goes through config_each().
 */
#include "config/show.h"

#include <string.h>

#include "config/sources/entries.h"

enum { WIDEST_TEXT = 40 };

static const char *const secret_words[] = { "password", "secret", "token", "passfile", "key.pem",
	"jaas", "oauthbearer.config" };

/* By the name, because inboxd does not know all names that it passes on; or by the value: a connection
 * string, such as postgres.dbname can be, can contain a password. */
static bool is_secret(const struct entry *entry)
{
	const char *text = entry->texts.count == 0 ? "" : entry->texts.items[0];
	const char *authority = strstr(text, "://");

	if (entry->option != NULL || text[0] == '\0')
		return false;
	for (size_t i = 0; i < sizeof(secret_words) / sizeof(secret_words[0]); i++) {
		if (strcasestr(entry->name, secret_words[i]) != NULL)
			return true;
	}
	return strcasestr(text, "password") != NULL ||
	       (authority != NULL && strchr(authority, '@') != NULL);
}

static void add_text(struct buf *out, const struct entry *entry)
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
		/* A value can contain any character; its line must stay one line. */
		for (const char *c = entry->texts.items[i]; *c != '\0'; c++)
			buf_add_char(out, (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c);
	}
	buf_add_str(out, list ? "]" : "");
}

int config_each(const struct config *config, config_visit *visit, void *arg, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const struct entries *entries = config->entries;

	for (const struct section *section = option_sections; section->name != NULL; section++) {
		for (size_t i = 0; i < entries->count; i++) {
			const struct entry *entry = &entries->items[i];
			struct config_line line = { entry->path, NULL, entry->origin,
				entry_is_reloadable(entry) };

			if (entry->section != section)
				continue;
			buf_reset(&text);
			add_text(&text, entry);
			line.text = buf_str(&text);
			if (!buf_ok(&text))
				return err_memory(err);
			visit(&line, arg);
		}
	}
	return 0;
}

struct columns {
	int key;
	int text;
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

	buf_addf(columns->out, "%-*s  %-*s  # %s\n", columns->key, line->key, columns->text,
		line->text, line->origin);
}

int config_dump(const struct config *config, struct buf *out, struct err *err)
{
	struct columns columns = { 0, 0, out };
	int r = config_each(config, measure, &columns, err);

	if (r == 0)
		r = config_each(config, add_line, &columns, err);
	if (r < 0)
		return r;
	return buf_ok(out) ? 0 : err_memory(err);
}
