/*
 * Implements http_error.h. libevent 2.1 cannot be asked for another page (2.2 has
 * evhttp_set_errorcb()). Its page is complete in the buffer of the connection before the first byte
 * is sent, so it is replaced there. No answer of inboxd itself is HTML.
 */
#include "http/error.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_PAGE 1024 /* bytes, with the head; libevent's pages have about 400 */

static const struct {
	int code;
	const char *reason;
	const char *words;
} errors[] = {
	{ 400, "Bad Request", "that is no HTTP request, or its head is larger than 16 KiB" },
	{ 413, "Request Entity Too Large", "the body is larger than 4 KiB" },
	{ 417, "Expectation Failed", "nothing but 100-continue can be expected here" },
	{ 501, "Not Implemented", "there is no such method here; GET, HEAD and PUT are served" },
	{ 0, "Error", "the request cannot be served" },
};

/* The status of a complete error page of libevent; 0: not such a page. */
static int find_page(const char *text)
{
	const char *line = strchr(text, ' ');

	if (strncmp(text, "HTTP/1.", 7) != 0 || line == NULL ||
		strstr(text, "\r\nContent-Type: text/html") == NULL ||
		strstr(text, "</HTML>") == NULL)
		return 0;
	return (int)strtol(line, NULL, 10);
}

static void exchange(struct evbuffer *output, int code)
{
	char body[160];
	size_t i = 0;
	int length;

	while (errors[i].code != code && errors[i].code != 0)
		i++;
	length = snprintf(body, sizeof(body), "{\"error\":\"%s\"}\n", errors[i].words);
	(void)evbuffer_drain(output, evbuffer_get_length(output));
	(void)evbuffer_add_printf(output,
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, errors[i].reason, length, body);
}

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *unused)
{
	char text[LARGEST_PAGE + 1];
	ev_ssize_t length;
	int code;

	(void)unused;
	if (info->n_added == 0 || evbuffer_get_length(output) > LARGEST_PAGE)
		return;
	/* A connection hides the beginning of its output from other code. */
	(void)evbuffer_unfreeze(output, 1);
	length = evbuffer_copyout(output, text, LARGEST_PAGE);
	text[length < 0 ? 0 : length] = '\0';
	code = find_page(text);
	if (code != 0)
		exchange(output, code);
	(void)evbuffer_freeze(output, 1);
}

struct bufferevent *http_error_listen(struct event_base *base, void *unused)
{
	struct bufferevent *connection = bufferevent_socket_new(base, -1, 0);

	(void)unused;
	if (connection != NULL)
		(void)evbuffer_add_cb(bufferevent_get_output(connection), on_output, NULL);
	return connection;
}
