/* By section, then in the order the keys were first put. */
#include "config/show.h"

#include <string.h>

#include "config/passed.h"

enum { WIDEST_TEXT = 40 };

bool show_is_reloadable(const struct entry *entry)
{
	return entry->option != NULL && entry->option->reloadable;
}

static bool is_masked(const struct entry *entry)
{
	if (entry->option != NULL || entry->texts.count == 0 || entry->texts.items[0][0] == '\0')
		return false;
	return passed_is_secret(entry->name) || passed_holds_secret(entry->texts.items[0]);
}

/* A value may hold anything; a line may not. */
static void add_plain(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++)
		buf_add_char(out, (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text);
}

static void add_list(struct buf *out, const struct strings *texts)
{
	buf_add_char(out, '[');
	for (size_t i = 0; i < texts->count; i++) {
		buf_add_str(out, i == 0 ? "" : ", ");
		add_plain(out, texts->items[i]);
	}
	buf_add_char(out, ']');
}

static void add_text(struct buf *out, const struct entry *entry)
{
	if (is_masked(entry))
		buf_add_str(out, "***");
	else if (entry->list || entry->texts.count != 1)
		add_list(out, &entry->texts);
	else if (entry->texts.items[0][0] == '\0')
		buf_add_str(out, "\"\"");
	else
		add_plain(out, entry->texts.items[0]);
}

static int visit_section(
	const struct config *config, const struct section *section, config_visit *visit, void *arg)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	for (size_t i = 0; i < config->entries->count && buf_ok(&text); i++) {
		const struct entry *entry = &config->entries->items[i];
		struct config_line line = { entry->path, NULL, entry->origin,
			show_is_reloadable(entry) };

		if (entry->section != section)
			continue;
		buf_reset(&text);
		add_text(&text, entry);
		line.text = buf_str(&text);
		if (buf_ok(&text))
			visit(&line, arg);
	}
	return buf_ok(&text) ? 0 : FAULT_MEMORY;
}

int config_each(const struct config *config, config_visit *visit, void *arg, struct err *err)
{
	int r = 0;

	for (const struct section *section = option_sections; section->name != NULL && r == 0;
		section++)
		r = visit_section(config, section, visit, arg);
	return r < 0 ? err_memory(err) : 0;
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
