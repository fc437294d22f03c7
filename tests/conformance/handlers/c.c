/*
 * The test handler of the conformance kit, on the C library. tests/conformance/README.md says what it must do for which
 * type of an event.
 */
#include <inboxd/handler.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MS = 10, MAX_SUBSCRIPTIONS = 8, MAX_TYPES = 8 };

struct subscriptions {
	struct inbox_subscription items[MAX_SUBSCRIPTIONS];
	const char *types[MAX_SUBSCRIPTIONS][MAX_TYPES + 1];
	size_t count;
};

static int option(const char *name)
{
	const char *text = getenv(name);

	return text == NULL ? 0 : atoi(text);
}

static long long number(const struct inbox_delivery *delivery, const char *attribute)
{
	const char *text = inbox_delivery_attribute(delivery, attribute);

	return text == NULL ? -1 : atoll(text);
}

static void print_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void print_member(FILE *out, const char *name, const char *value)
{
	fprintf(out, ",\"%s\":", name);
	print_string(out, value);
}

static void print_base64(FILE *out, struct inbox_bytes bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	fputc('"', out);
	for (size_t i = 0; i < bytes.length; i += 3) {
		const size_t left = bytes.length - i;
		unsigned group = 0;

		for (size_t j = 0; j < 3; j++)
			group = group << 8 | (j < left ? (unsigned char)bytes.data[i + j] : 0);
		fputc(digits[group >> 18], out);
		fputc(digits[group >> 12 & 63], out);
		fputc(left > 1 ? digits[group >> 6 & 63] : '=', out);
		fputc(left > 2 ? digits[group & 63] : '=', out);
	}
	fputc('"', out);
}

static void print_content(FILE *out, const struct inbox_delivery *delivery)
{
	const struct inbox_bytes key = inbox_delivery_key(delivery);
	const struct inbox_bytes data = inbox_delivery_data(delivery);

	if (key.data != NULL) {
		fputs(",\"key_base64\":", out);
		print_base64(out, key);
	}
	if (data.data != NULL && inbox_delivery_data_is_json(delivery)) {
		fputs(",\"data\":", out);
		fwrite(data.data, 1, data.length, out);
	} else if (data.data != NULL) {
		fputs(",\"data_base64\":", out);
		print_base64(out, data);
	}
	fputs(",\"headers\":[", out);
	for (size_t i = 0; i < inbox_delivery_header_count(delivery); i++) {
		const struct inbox_bytes value = inbox_delivery_header_value(delivery, i);

		fputs(i == 0 ? "[" : ",[", out);
		print_string(out, inbox_delivery_header_name(delivery, i));
		fputc(',', out);
		if (value.data == NULL)
			fputs("null", out);
		else
			print_base64(out, value);
		fputc(']', out);
	}
	fputs("]}", out);
}

/* Answers with everything that the library says about the delivery. */
static void echo(struct inbox_delivery *delivery)
{
	const char *trace = inbox_delivery_attribute(delivery, "traceparent");
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	fprintf(out,
		"{\"seq\":\"%lld\",\"attempt\":%d,\"replay\":%s,\"partition\":%d,\"offset\":\"%"
		"lld\"",
		(long long)inbox_delivery_seq(delivery), inbox_delivery_attempt(delivery),
		inbox_delivery_replay(delivery) ? "true" : "false",
		inbox_delivery_partition(delivery), (long long)inbox_delivery_offset(delivery));
	print_member(out, "claim", inbox_delivery_claim(delivery));
	print_member(out, "id", inbox_delivery_event_id(delivery));
	print_member(out, "source", inbox_delivery_source(delivery));
	print_member(out, "type", inbox_delivery_type(delivery));
	print_member(out, "topic", inbox_delivery_topic(delivery));
	if (trace != NULL)
		print_member(out, "traceparent", trace);
	print_content(out, delivery);
	fclose(out);
	inbox_delivery_done_with(delivery, text, length);
	free(text);
}

static void done(struct inbox_delivery *delivery)
{
	inbox_delivery_done(delivery);
}

static void result(struct inbox_delivery *delivery)
{
	const struct inbox_bytes data = inbox_delivery_data(delivery);

	inbox_delivery_done_with(delivery, data.data, data.length);
}

/* Copies a member of an event of the kit, as it is written, up to the closing quote or bracket. "" = it has none. */
static const char *member(const char *event, const char *name, char *copy, size_t size)
{
	const char *at = strstr(event, name);
	size_t depth = 0;
	size_t length = 0;

	copy[0] = '\0';
	if (at == NULL)
		return NULL;
	at += strlen(name);
	at += strspn(at, ": ");
	if (*at == '"') {
		length = strcspn(++at, "\"");
	} else {
		do {
			depth += at[length] == '{';
			depth -= at[length] == '}';
			length++;
		} while (depth > 0 && at[length] != '\0');
	}
	snprintf(copy, size, "%.*s", (int)length, at);
	return copy;
}

/* The kit has one event, of texts without escapes and an object. */
static void emit(struct inbox_delivery *delivery)
{
	const char *events = inbox_delivery_data(delivery).data;
	char texts[4][256];
	struct inbox_event event = {
		.topic = member(events, "\"topic\"", texts[0], sizeof(texts[0])),
		.key = member(events, "\"key\"", texts[1], sizeof(texts[1])),
		.type = member(events, "\"type\"", texts[2], sizeof(texts[2])),
		.data_is_json = true,
	};

	event.data.data = member(events, "\"data\"", texts[3], sizeof(texts[3]));
	event.data.length = strlen(texts[3]);
	inbox_delivery_emit(delivery, &event);
	inbox_delivery_done(delivery);
}

static void retry(struct inbox_delivery *delivery)
{
	inbox_delivery_retry(delivery, number(delivery, "delayms"),
		inbox_delivery_attribute(delivery, "reason"),
		inbox_delivery_attribute(delivery, "code"));
}

static void dead(struct inbox_delivery *delivery)
{
	inbox_delivery_dead(delivery, inbox_delivery_attribute(delivery, "reason"),
		inbox_delivery_attribute(delivery, "code"));
}

static void snooze(struct inbox_delivery *delivery)
{
	inbox_delivery_snooze_with(delivery, number(delivery, "delayms"),
		inbox_delivery_attribute(delivery, "reason"),
		inbox_delivery_attribute(delivery, "code"));
}

static void settled(struct inbox_delivery *delivery)
{
	inbox_delivery_settled(delivery);
}

static void skipped(struct inbox_delivery *delivery)
{
	inbox_delivery_skipped(delivery);
}

/* In C an unexpected end is a return without a verdict. */
static void raise_error(struct inbox_delivery *delivery)
{
	(void)delivery;
}

static void work(struct inbox_delivery *delivery)
{
	for (long long left = number(delivery, "workms");
		left > 0 && inbox_delivery_cancelled(delivery) == NULL; left -= STEP_MS)
		usleep(STEP_MS * 1000);
	inbox_delivery_done(delivery);
}

static void extend(struct inbox_delivery *delivery)
{
	inbox_delivery_extend(delivery, number(delivery, "timeoutms"));
	inbox_delivery_done(delivery);
}

static struct inbox_handler *handler;

static void window(struct inbox_delivery *delivery)
{
	inbox_handler_window(handler, (int)number(delivery, "window"));
	inbox_delivery_done(delivery);
}

static const struct {
	const char *type;
	void (*act)(struct inbox_delivery *delivery);
} acts[] = {
	{ "echo", echo },
	{ "result", result },
	{ "emit", emit },
	{ "retry", retry },
	{ "dead", dead },
	{ "snooze", snooze },
	{ "settled", settled },
	{ "skipped", skipped },
	{ "raise", raise_error },
	{ "work", work },
	{ "extend", extend },
	{ "window", window },
};

static void handle(struct inbox_delivery *delivery, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		if (strcmp(acts[i].type, inbox_delivery_type(delivery)) == 0) {
			acts[i].act(delivery);
			return;
		}
	}
	done(delivery);
}

/* "orders order.created order.*;* audit.*": a topic and its types, separated by blanks. */
static void read_subscriptions(struct subscriptions *all, char *text)
{
	char *rest = NULL;

	for (char *part = strtok_r(text, ";", &rest);
		part != NULL && all->count < MAX_SUBSCRIPTIONS; part = strtok_r(NULL, ";", &rest)) {
		const char **types = all->types[all->count];
		char *words = NULL;
		const char *topic = strtok_r(part, " ", &words);
		const char *type = strtok_r(NULL, " ", &words);

		for (size_t i = 0; type != NULL && i < MAX_TYPES; i++) {
			types[i] = type;
			type = strtok_r(NULL, " ", &words);
		}
		all->items[all->count++] = (struct inbox_subscription){
			.topic = strcmp(topic, "*") == 0 ? NULL : topic,
			.types = types[0] == NULL ? NULL : types,
		};
	}
}

static void log_to_stderr(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s\n", text);
}

/* inbox_handler_serve() gives the program no object to change its window, so this one has its own. */
static void on_signal(int signal_number)
{
	(void)signal_number;
	inbox_handler_stop(handler);
}

int main(void)
{
	static struct subscriptions subscribe;
	const struct sigaction action = { .sa_handler = on_signal };
	char *text = getenv("CONFORMANCE_SUBSCRIBE");
	struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = getenv("CONFORMANCE_NAME"),
		.consumer = getenv("CONFORMANCE_CONSUMER"),
		.max_in_flight = option("CONFORMANCE_MAX_IN_FLIGHT"),
		.timeout_ms = option("CONFORMANCE_TIMEOUT_MS"),
		.batch_max = option("CONFORMANCE_BATCH_MAX"),
		.batch_wait_ms = option("CONFORMANCE_BATCH_WAIT_MS"),
		.batch_ordered = option("CONFORMANCE_ORDERED") != 0,
		.log = log_to_stderr,
	};
	int r;

	if (text != NULL)
		read_subscriptions(&subscribe, text);
	options.subscribe = subscribe.items;
	options.subscribe_count = subscribe.count;
	if (inbox_handler_new(&handler, &options) < 0) {
		fprintf(stderr, "%s\n", inbox_handler_error(NULL));
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	r = inbox_handler_run(handler, handle, NULL);
	inbox_handler_free(handler);
	return r < 0 ? 1 : 0;
}
