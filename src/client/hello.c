/* Builds the hello: the first line of every connection, with the name of the handler, its subscriptions and its
 * limits. */
#include "client/handler.h"

#include <string.h>
#include <unistd.h>

#ifndef INBOXD_VERSION
#define INBOXD_VERSION "0"
#endif

enum { NAME_MAX_BYTES = 255 };

static void add_member(struct ih_buffer *out, const char *name, int64_t number)
{
	ih_buffer_add_text(out, name);
	ih_buffer_add_number(out, number);
}

static void add_string(struct ih_buffer *out, const char *text)
{
	ih_buffer_add_string(out, text, SIZE_MAX);
}

static void add_types(struct ih_buffer *out, const char *const *types)
{
	ih_buffer_add_text(out, "\"types\":[");
	for (size_t i = 0; types[i] != NULL; i++) {
		ih_buffer_add_text(out, i == 0 ? "" : ",");
		add_string(out, types[i]);
	}
	ih_buffer_add_text(out, "]");
}

static void add_subscription(struct ih_buffer *out, const struct inbox_subscription *subscription)
{
	const bool both = subscription->topic != NULL && subscription->types != NULL;

	ih_buffer_add_text(out, "{");
	if (subscription->topic != NULL) {
		ih_buffer_add_text(out, "\"topic\":");
		add_string(out, subscription->topic);
	}
	ih_buffer_add_text(out, both ? "," : "");
	if (subscription->types != NULL)
		add_types(out, subscription->types);
	ih_buffer_add_text(out, "}");
}

static void add_subscriptions(struct ih_buffer *out, const struct inbox_handler_options *options)
{
	if (options->subscribe_count == 0)
		return;
	ih_buffer_add_text(out, ",\"subscribe\":[");
	for (size_t i = 0; i < options->subscribe_count; i++) {
		ih_buffer_add_text(out, i == 0 ? "" : ",");
		add_subscription(out, &options->subscribe[i]);
	}
	ih_buffer_add_text(out, "]");
}

static void add_instance(struct ih_buffer *out, const char *instance)
{
	char host[NAME_MAX_BYTES + 1] = "";

	if (instance == NULL) {
		gethostname(host, sizeof(host) - 1);
		instance = host;
	}
	ih_buffer_add_text(out, ",\"instance\":");
	ih_buffer_add_string(out, instance, NAME_MAX_BYTES);
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
	return value == 0 ? otherwise : value;
}

void ih_hello_build(struct ih_buffer *out, const struct inbox_handler_options *options)
{
	ih_buffer_add_text(out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\","
				"\"params\":{\"protocol\":[1],\"handler\":");
	add_string(out, options->name);
	add_instance(out, options->instance);
	add_subscriptions(out, options);
	add_member(out, ",\"max_in_flight\":", or_default(options->max_in_flight, 64));
	add_member(out, ",\"timeout_ms\":", or_default(options->timeout_ms, 30000));
	add_member(out, ",\"batch\":{\"max\":", or_default(options->batch_max, 1));
	add_member(out, ",\"wait_ms\":", options->batch_wait_ms);
	ih_buffer_add_text(out, "},\"client\":\"libinboxhandler/" INBOXD_VERSION "\"}}\n");
}
