/*
 * The address of http.listen: to listen on it, and to check it for `inboxd check`. See listen.h. The
 * host is mandatory: if a missing host meant every address, a typing error would publish the metrics.
 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time/clock.h"
#include "json/text.h"

#define BACKLOG     64
#define ANSWER_MS   2000
#define ANSWER_MOST (16u << 20) /* bytes; /status and /config have a line for each handler or key */

struct address {
	char host[256];
	char port[8];
};

static bool is_port(const char *text)
{
	size_t length = strlen(text);

	return length >= 1 && length <= 5 && strspn(text, "0123456789") == length &&
	       strtol(text, NULL, 10) <= 65535;
}

static int split(const char *listen, struct address *out, struct err *err)
{
	const char *colon = strrchr(listen, ':');
	const char *host = listen;
	size_t length = colon == NULL ? 0 : (size_t)(colon - listen);
	bool bracketed = length >= 2 && host[0] == '[' && host[length - 1] == ']';

	if (bracketed) {
		host++;
		length -= 2;
	}
	if (length == 0 || length >= sizeof(out->host) || !is_port(colon + 1) ||
		(!bracketed && memchr(host, ':', length) != NULL))
		return err_set(err, FAULT_CONFIG,
			"http.listen: '%s' is not host:port; write 127.0.0.1:9464, [::1]:9464, or "
			"0.0.0.0:9464 for every address",
			listen);
	(void)snprintf(out->host, sizeof(out->host), "%.*s", (int)length, host);
	(void)snprintf(out->port, sizeof(out->port), "%s", colon + 1);
	return 0;
}

static int keep_or_close(int fd, bool good)
{
	int error = errno;

	if (good)
		return fd;
	(void)close(fd);
	errno = error;
	return -1;
}

/* Two sockets can be bound to one address while neither listens. */
static int open_bound(const struct addrinfo *at)
{
	int on = 1;
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return keep_or_close(fd, bind(fd, at->ai_addr, at->ai_addrlen) == 0);
}

static int open_listening(const struct addrinfo *at)
{
	int fd = open_bound(at);

	return fd < 0 ? -1 : keep_or_close(fd, listen(fd, BACKLOG) == 0);
}

static int open_connected(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : keep_or_close(fd, connect(fd, at->ai_addr, at->ai_addrlen) == 0);
}

static const char *advice(int error)
{
	static const struct {
		int error;
		const char *text;
	} known[] = {
		{ EADDRINUSE, "another program listens there; choose a free port" },
		{ EADDRNOTAVAIL, "this host has no such address; choose one of its own" },
		{ EACCES, "ports below 1024 need a privilege; choose a higher one" },
		{ EAFNOSUPPORT, "this host has no such address family; choose another" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].error == error)
			return known[i].text;
	}
	return "choose an address this host can listen on";
}

/* A name may have several addresses (localhost: ::1 and 127.0.0.1); the first one that can be
 * opened is used. Positive: the errno of the last one. */
static int open_first(
	const char *listen, int (*open_one)(const struct addrinfo *at), int *fd, struct err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct address address;
	struct addrinfo *found;
	int error;
	int r = split(listen, &address, err);

	*fd = -1;
	if (r < 0)
		return r;
	r = getaddrinfo(address.host, address.port, &hints, &found);
	if (r != 0)
		return err_set(err, FAULT_SOCKET,
			"http.listen: cannot resolve '%s': %s; write an IP address instead",
			address.host, gai_strerror(r));
	for (const struct addrinfo *at = found; at != NULL && *fd < 0; at = at->ai_next)
		*fd = open_one(at);
	error = errno;
	freeaddrinfo(found);
	return *fd < 0 ? error : 0;
}

static int cannot_listen(const char *listen, int error, struct err *err)
{
	(void)err_set(
		err, FAULT_SOCKET, "http.listen: cannot listen on %s: %s", listen, strerror(error));
	return err_advise(err, "%s, or leave it empty to disable HTTP", advice(error));
}

int http_listen(const char *listen, int *fd, struct err *err)
{
	int r = open_first(listen, open_listening, fd, err);

	return r > 0 ? cannot_listen(listen, r, err) : r;
}

int http_listen_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { .v6 = { .sin6_port = 0 } };
	socklen_t length = sizeof(at);

	if (getsockname(fd, &at.any, &length) < 0)
		return 0;
	return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

void http_own_address(int fd, char *out, size_t size)
{
	union {
		struct sockaddr any;
		struct sockaddr_storage storage;
	} at;
	socklen_t length = sizeof(at);

	if (getsockname(fd, &at.any, &length) < 0 ||
		getnameinfo(&at.any, length, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
		out[0] = '\0';
}

/* --- The check of `inboxd check` --------------------------------------------------------------- */

enum { LISTEN_TAKEN = 1 };

/* Checks whether http_listen() would succeed: binds a socket and closes it. LISTEN_TAKEN: another
 * process listens there. Faults as of http_listen(). */
static int try_to_listen(const char *listen, struct err *err)
{
	int fd;
	int r = open_first(listen, open_bound, &fd, err);

	if (r == 0)
		(void)close(fd);
	if (r == EADDRINUSE)
		return LISTEN_TAKEN;
	return r > 0 ? cannot_listen(listen, r, err) : r;
}

/* A blocking socket connected to this address, with a time limit for each call; -1: nobody listens. */
static int open_connection(const char *listen, int timeout_ms)
{
	const struct timeval most = { timeout_ms / 1000, timeout_ms % 1000 * 1000L };
	int fd;

	if (open_first(listen, open_connected, &fd, NULL) != 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	return fd;
}

static void receive(int fd, const char *path, const char *accept, struct buf *text)
{
	CLEANUP(buf_fini) struct buf request = BUF_INIT;
	int64_t until_ms = clock_now_ms() + ANSWER_MS;
	char part[4096];
	ssize_t got;

	buf_addf(&request,
		"GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nConnection: close\r\n\r\n",
		path, accept);
	got = send(fd, buf_str(&request), request.length, MSG_NOSIGNAL);
	if (got != (ssize_t)request.length)
		got = -1;
	while (got > 0 && buf_ok(text) && clock_now_ms() < until_ms) {
		got = recv(fd, part, sizeof(part), 0);
		if (got > 0)
			buf_add(text, part, (size_t)got);
	}
}

/* The value of a header, without an end of its own; NULL: there is none. `name` has the colon and a blank. */
static const char *header_of(const char *text, const char *body, const char *name)
{
	const char *at = strcasestr(text, name);

	return at != NULL && at < body ? at + strlen(name) : NULL;
}

static void read_answer(struct http_answer *answer)
{
	static const char end[] = "\r\n\r\n";
	const char *text = buf_str(&answer->text);
	const char *body = strstr(text, end);
	const char *server;
	const char *length;

	if (!buf_ok(&answer->text) || body == NULL || strncmp(text, "HTTP/1.", 7) != 0)
		return;
	body += strlen(end);
	server = header_of(text, body, "\r\nServer: ");
	length = header_of(text, body, "\r\nContent-Length: ");
	answer->status = (int)strtol(text + strlen("HTTP/1.1"), NULL, 10);
	answer->by_inboxd = server != NULL && strncmp(server, HTTP_SERVER "\r", 7) == 0;
	answer->complete = length != NULL && strtoul(length, NULL, 10) == strlen(body);
	answer->body = body;
}

void http_ask(const char *listen, const char *path, const char *accept, struct http_answer *answer)
{
	int fd = open_connection(listen, ANSWER_MS);

	*answer = (struct http_answer){ .connected = fd >= 0, .text = { .limit = ANSWER_MOST } };
	if (fd < 0)
		return;
	receive(fd, path, accept, &answer->text);
	(void)close(fd);
	read_answer(answer);
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
	struct http_answer answer;
	bool inboxd;
	bool own;

	http_ask(config->http.listen, "/status", "application/json", &answer);
	inboxd = answer.body != NULL && strncmp(answer.body, "{\"version\":", 11) == 0;
	own = inboxd && has_socket(answer.body, config->socket.path);
	buf_fini(&answer.text);
	if (own) {
		buf_addf(found, "the inboxd of this configuration listens on %s",
			config->http.listen);
		return 0;
	}
	(void)err_set(err, FAULT_CHECK, "http.listen: %s listens on %s already",
		!inboxd ? "another program" : "an inboxd with another socket.path",
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
	r = try_to_listen(config->http.listen, err);
	if (r == LISTEN_TAKEN)
		return taken(config, found, err);
	if (r == 0)
		buf_addf(found, "%s is free", config->http.listen);
	return r;
}
