/*
 * Implements http_check.h.
 */
#include "http/check.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/listen.h"
#include "json/text.h"

#define ANSWER_MS   2000
#define ANSWER_MOST (1u << 20) /* bytes; /status has a few hundred, and one line per handler */

/* Reads the whole answer, or the part that arrived in time. */
static void read_answer(int fd, struct buf *answer)
{
	int64_t until_ms = clock_now_ms() + ANSWER_MS;
	char part[4096];
	ssize_t got;

	do {
		got = recv(fd, part, sizeof(part), 0);
		if (got > 0)
			buf_add(answer, part, (size_t)got);
	} while (got > 0 && buf_ok(answer) && clock_now_ms() < until_ms);
}

static void ask(const char *listen, struct buf *answer)
{
	static const char request[] =
		"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	int fd = http_connect(listen, ANSWER_MS);

	if (fd < 0)
		return;
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(request) - 1)
		read_answer(fd, answer);
	(void)close(fd);
}

/* A quotation mark inside a JSON string is preceded by a backslash, so a match is a real member. */
static bool has_socket(const char *status, const char *path)
{
	CLEANUP(buf_fini) struct buf member = BUF_INIT;

	buf_add_str(&member, ",\"socket\":");
	json_add_string(&member, bytes_of(path));
	return buf_ok(&member) && strstr(status, buf_str(&member)) != NULL;
}

static int taken(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(buf_fini) struct buf answer = { .limit = ANSWER_MOST };
	const char *status;

	ask(config->http.listen, &answer);
	status = strstr(buf_str(&answer), "\r\n\r\n{\"version\":");
	if (status != NULL && has_socket(status, config->socket.path)) {
		buf_addf(found, "%s is listened on by the inboxd of this configuration",
			config->http.listen);
		return 0;
	}
	(void)err_set(err, FAULT_CHECK, "http.listen: %s listens on %s already",
		status == NULL ? "another program" : "an inboxd with another socket.path",
		config->http.listen);
	return err_advise(err, "choose a free port, or leave http.listen empty to disable HTTP");
}

int http_check(const struct config *config, struct buf *found, struct err *err)
{
	int r;

	if (config->http.listen[0] == '\0') {
		buf_add_str(found, "off: http.listen is empty");
		return 0;
	}
	r = http_listen_try(config->http.listen, err);
	if (r == HTTP_LISTEN_TAKEN)
		return taken(config, found, err);
	if (r == 0)
		buf_addf(found, "%s can be listened on", config->http.listen);
	return r;
}
