/*
 * See tls.h. libcurl reads the files only when it makes a connection. So the check lets it connect to a socket of this
 * process, which closes the connection without sending a byte. If libcurl fails before the connection is closed, it could
 * not use one of the files.
 */
#include "bridge/forward/tls.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CHECK_MS = 900 }; /* for a TLS library that does not call end_handshake(), as GnuTLS */

struct ends {
	int listener;
	int peer;
};

#define SET(option, value)                                                                         \
	do {                                                                                       \
		if (r == CURLE_OK)                                                                 \
			r = curl_easy_setopt(easy, (option), (value));                             \
	} while (0)

CURLcode tls_set(CURL *easy, const struct forward_options *options)
{
	CURLcode r = CURLE_OK;

	if (options->ca != NULL)
		SET(CURLOPT_CAINFO, options->ca);
	if (options->cert != NULL)
		SET(CURLOPT_SSLCERT, options->cert);
	if (options->key != NULL)
		SET(CURLOPT_SSLKEY, options->key);
	return r;
}

/* Gives a socket to which connections can be made, and its name; -1: none. The kernel chooses the name. */
static int listen_anywhere(char *name, size_t room)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(address);
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(name, 0, room);
	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address.sun_family)) == 0 &&
		listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
		length - offsetof(struct sockaddr_un, sun_path) - 1 < room) {
		/* The first byte of an abstract name is 0. */
		memcpy(name, address.sun_path + 1,
			length - offsetof(struct sockaddr_un, sun_path) - 1);
		return fd;
	}
	(void)close(fd);
	return -1;
}

/* Ends the handshake that is about to begin. Only one direction is closed. If both were closed, libcurl could report a
 * broken pipe instead of the error of the files. */
static CURLcode end_handshake(CURL *easy, void *context, void *arg)
{
	struct ends *ends = arg;

	(void)easy;
	(void)context;
	if (ends->peer < 0)
		ends->peer = accept4(ends->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	(void)shutdown(ends->peer, SHUT_WR);
	return CURLE_OK;
}

static CURLcode read_files(
	CURL *easy, const struct forward_options *options, const char *name, char *words)
{
	CURLcode r = tls_set(easy, options);

	SET(CURLOPT_URL, "https://localhost/");
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_ABSTRACT_UNIX_SOCKET, name);
	SET(CURLOPT_CONNECT_ONLY, 1L);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_TIMEOUT_MS, (long)CHECK_MS);
	SET(CURLOPT_ERRORBUFFER, words);
	return r == CURLE_OK ? curl_easy_perform(easy) : r;
}

static void close_ends(struct ends *ends)
{
	if (ends->listener >= 0)
		(void)close(ends->listener);
	if (ends->peer >= 0)
		(void)close(ends->peer);
}

int tls_check(const struct forward_options *options, struct err *err)
{
	char words[CURL_ERROR_SIZE] = "";
	char name[32];
	struct ends ends = { listen_anywhere(name, sizeof(name)), -1 };
	CURL *easy = curl_easy_init();
	CURLcode r = CURLE_OUT_OF_MEMORY;

	if (easy != NULL && ends.listener >= 0) {
		(void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, end_handshake);
		(void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, &ends);
		r = read_files(easy, options, name, words);
	}
	curl_easy_cleanup(easy);
	close_ends(&ends);
	/* Without a socket, the first connection shows what is wrong. */
	if (r != CURLE_SSL_CACERT_BADFILE && r != CURLE_SSL_CERTPROBLEM)
		return 0;
	return err_set(err, FAULT_USAGE, "--ca, --cert or --key: %s",
		words[0] != '\0' ? words : curl_easy_strerror(r));
}
