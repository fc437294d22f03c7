/*
 * Implements config_page.h.
 */
#include "daemon/config_page.h"

#include "config/show.h"
#include "daemon/state.h"
#include "json/text.h"

#define LONGEST_VALUE 65536

static void add_member(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, ",\"%s\":", name);
	if (text == NULL)
		buf_add_str(out, "null");
	else
		json_add_any_string(out, text, LONGEST_VALUE);
}

static void add_key(const struct config_line *line, void *arg)
{
	struct buf *out = arg;

	buf_add_str(out, out->data[out->length - 1] == '[' ? "{\"key\":" : ",{\"key\":");
	json_add_any_string(out, line->key, LONGEST_VALUE);
	add_member(out, "value", line->text);
	add_member(out, "origin", line->origin);
	buf_addf(out, ",\"change_needs\":\"%s\"", line->reloadable ? "SIGHUP" : "restart");
	add_member(out, "after_restart", line->pending);
	buf_add_char(out, '}');
}

void config_page_of(struct buf *out, bool json, const struct config *config, bool running)
{
	if (!json) {
		(void)config_dump(config, true, out, NULL);
		return;
	}
	buf_addf(out, "{\"running\":%s,\"configuration\":[", running ? "true" : "false");
	if (buf_ok(out))
		(void)config_each(config, add_key, out, NULL);
	buf_add_str(out, "]}\n");
}

void config_page_add(struct buf *out, bool json, void *arg)
{
	struct daemon *daemon = arg;

	config_page_of(out, json, atomic_load(&daemon->shown_config), true);
}
