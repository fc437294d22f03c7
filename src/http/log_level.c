/*
 * The log level over HTTP. See log_level.h.
 */
#include "http/log_level.h"

#include <string.h>

#include "base/log.h"

#define LONGEST_LEVEL 8
#define LEVELS        "debug, info, warn or error"

void http_level_show(struct buf *json)
{
	buf_addf(json, "{\"level\":\"%s\"}\n", log_level_name(log_get_level()));
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The body is not a string: it has no end mark, and it may contain a NUL. */
static int parse(struct bytes body, enum log_level *out)
{
	char word[LONGEST_LEVEL] = "";
	const char *first = body.data;
	const char *last;
	size_t length;

	if (first == NULL)
		return -1;
	last = first + body.length;
	while (first < last && is_blank(*first))
		first++;
	while (last > first && is_blank(last[-1]))
		last--;
	length = (size_t)(last - first);
	if (length >= sizeof(word) || memchr(first, '\0', length) != NULL)
		return -1;
	memcpy(word, first, length);
	return log_level_parse(word, out);
}

int http_level_set(struct bytes body, const struct http_client *client, struct buf *json)
{
	enum log_level before = log_get_level();
	enum log_level after;

	if (!http_is_this_host(client)) {
		http_refuse_client(json, client,
			"the log level is set from this host only; elsewhere set log.level in the "
			"configuration and send SIGHUP");
		return 403;
	}
	if (parse(body, &after) != 0) {
		buf_add_str(json, "{\"error\":\"the body is not a log level; send " LEVELS "\"}\n");
		return 400;
	}
	log_set_level(after);
	/* logged at a level that is enabled before or after the change, so that the log shows the
	 * reason when lines stop */
	log_at(before > after ? before : after, "log_level_set",
		LOG_STR("level", log_level_name(after)), LOG_STR("was", log_level_name(before)),
		LOG_STR("next", "it applies until SIGHUP or a restart"));
	http_level_show(json);
	return 200;
}
