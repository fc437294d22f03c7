/*
 * The options of a program: their defaults and limits, and the hello that is made of them, which opens every
 * connection. Pure, except that it reads the environment and the name of the host.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/handler.h"
#include "json/text.h"

#ifndef INBOXD_VERSION
#define INBOXD_VERSION "0"
#endif

#define DEFAULT_SOCKET "/run/inboxd/inbox.sock"
#define MAX_TIMEOUT_MS 31622400000LL /* 366 days; the protocol's own limit, as the others */

enum {
	MAX_NAME = 255,
	MAX_BATCH = 10000,
	MAX_WAIT_MS = 60000,
	MAX_SOCKET = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
};

static void use_default(int64_t *value, int64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

/* A program that was built with an older header has a shorter struct. The missing options are zero. */
static void copy(struct inbox_handler_options *out, const struct inbox_handler_options *given)
{
	size_t size = given->size;

	/* A newer program has options that this library does not know. */
	if (size == 0 || size > sizeof(*out))
		size = sizeof(*out);
	memset(out, 0, sizeof(*out));
	memcpy(out, given, size);
	if (out->socket == NULL)
		out->socket = getenv("INBOXD_SOCKET_PATH");
	if (out->socket == NULL || *out->socket == '\0')
		out->socket = DEFAULT_SOCKET;
	use_default(&out->backoff_ms, 100);
	use_default(&out->backoff_max_ms, 10000);
	if (out->max_in_flight == 0)
		out->max_in_flight = 64;
	if (out->batch_max == 0)
		out->batch_max = 1;
}

int ih_options_complete(
	struct inbox_handler_options *out, const struct inbox_handler_options *given)
{
	copy(out, given);
	const struct {
		const char *name;
		int64_t value, min, max;
	} limits[] = {
		{ "bytes of name", out->name == NULL ? 0 : (int64_t)strlen(out->name), 1,
			MAX_NAME },
		{ "bytes of socket", (int64_t)strlen(out->socket), 1, MAX_SOCKET },
		{ "max_in_flight", out->max_in_flight, 1, IH_MAX_WINDOW },
		{ "bytes of consumer", out->consumer == NULL ? 1 : (int64_t)strlen(out->consumer),
			1, MAX_NAME },
		{ "timeout_ms", out->timeout_ms, 0, MAX_TIMEOUT_MS },
		{ "batch_max", out->batch_max, 1, MAX_BATCH },
		{ "batch_wait_ms", out->batch_wait_ms, 0, MAX_WAIT_MS },
		{ "backoff_ms", out->backoff_ms, 1, INT32_MAX },
		{ "backoff_max_ms", out->backoff_max_ms, 1, INT32_MAX },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (limits[i].value < limits[i].min || limits[i].value > limits[i].max)
			return ih_fail(NULL, INBOX_ERROR_ARGUMENT,
				"options of the handler: %s is %lld, and must be %lld to %lld",
				limits[i].name, (long long)limits[i].value,
				(long long)limits[i].min, (long long)limits[i].max);
	}
	return 0;
}

static void add_string(struct buf *out, const char *text)
{
	json_add_any_string(out, text, SIZE_MAX);
}

static void add_subscription(struct buf *out, const struct inbox_subscription *subscription)
{
	const char *const *types = subscription->types;

	buf_add_str(out, "{");
	if (subscription->topic != NULL) {
		buf_add_str(out, "\"topic\":");
		add_string(out, subscription->topic);
		buf_add_str(out, types == NULL ? "" : ",");
	}
	if (types != NULL) {
		buf_add_str(out, "\"types\":[");
		for (size_t i = 0; types[i] != NULL; i++) {
			buf_add_str(out, i == 0 ? "" : ",");
			add_string(out, types[i]);
		}
		buf_add_str(out, "]");
	}
	buf_add_str(out, "}");
}

void ih_options_hello(struct buf *out, const struct inbox_handler_options *options)
{
	const char *instance = options->instance;
	char host[MAX_NAME + 1] = "";

	if (instance == NULL) {
		/* It may leave out the NUL of a name that is too long. */
		gethostname(host, sizeof(host) - 1);
		instance = host;
	}
	buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\","
			 "\"params\":{\"protocol\":[1],\"handler\":");
	add_string(out, options->name);
	if (options->consumer != NULL) {
		buf_add_str(out, ",\"consumer\":");
		add_string(out, options->consumer);
	}
	buf_add_str(out, ",\"instance\":");
	json_add_any_string(out, instance, MAX_NAME);
	for (size_t i = 0; i < options->subscribe_count; i++) {
		buf_add_str(out, i == 0 ? ",\"subscribe\":[" : ",");
		add_subscription(out, &options->subscribe[i]);
	}
	buf_add_str(out, options->subscribe_count == 0 ? "" : "]");
	buf_addf(out, ",\"max_in_flight\":%d", options->max_in_flight);
	if (options->timeout_ms > 0)
		buf_addf(out, ",\"timeout_ms\":%lld", (long long)options->timeout_ms);
	buf_addf(out, ",\"batch\":{\"max\":%d,\"wait_ms\":%lld%s}", options->batch_max,
		(long long)options->batch_wait_ms,
		options->batch_ordered ? ",\"ordered\":true" : "");
	buf_add_str(out, ",\"client\":\"libinboxhandler/" INBOXD_VERSION "\"}}\n");
}
