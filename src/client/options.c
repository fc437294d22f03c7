/* See options.h. */
#include "client/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/handler.h"

#define DEFAULT_SOCKET "/run/inboxd/inbox.sock"

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

	if (size == 0 || size > sizeof(*out))
		size = sizeof(*out);
	memset(out, 0, sizeof(*out));
	memcpy(out, given, size);
	if (out->socket == NULL)
		out->socket = getenv("INBOXD_SOCKET_PATH");
	if (out->socket == NULL || *out->socket == '\0')
		out->socket = DEFAULT_SOCKET;
	use_default(&out->timeout_ms, 30000);
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
		{ "timeout_ms", out->timeout_ms, 1, IH_MAX_TIMEOUT_MS },
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
