/*
 * The handler library against a scripted sidecar on a real Unix socket. Library and sidecar take
 * turns in one thread: inbox_handler_next() with a timeout of 0 does what can be done now, then the
 * sidecar reads or writes its part. Only what must block (run) gets a thread for the sidecar.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "inboxd/handler.h"

#define WAIT_MS 10000 /* a deadline, not a wait */

#define HELLO_OK                                                                                   \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":1,\"session\":\"s1\","             \
	"\"max_line_bytes\":33554432,\"timeout_ms\":30000,\"max_attempts\":10}}\n"
#define HEAD                                                                                       \
	"\"delivery\":{\"claim\":\"9001.2.17\",\"seq\":\"9001\",\"attempt\":2,"                    \
	"\"max_attempts\":10,\"deadline\":\"2026-11-21T05:42:00.250Z\",\"replay\":true}"
#define DELIVER(id, event)                                                                         \
	"{\"jsonrpc\":\"2.0\",\"id\":\"" id "\",\"method\":\"deliver\",\"params\":{" HEAD          \
	",\"event\":" event ",\"headers\":[]}}\n"
#define PLAIN(id) DELIVER(id, "{\"id\":\"A234\",\"data\":{\"order\":17}}")
#define ENTRY(id) "{\"id\":\"" id "\"," HEAD ",\"event\":{\"id\":\"E-" id "\"}}"
#define OF_KEY(id, partition, key)                                                                 \
	"{\"id\":\"" id "\"," HEAD ",\"event\":{\"id\":\"E-" id "\",\"kafkatopic\":\"orders\","    \
	"\"kafkapartition\":" partition key "}}"
#define A                   ",\"partitionkey\":\"a\""
#define B                   ",\"partitionkey\":\"b\""
#define STATUS(id, verdict) "{\"id\":\"" id "\",\"status\":\"" verdict "\"}"
#define BATCH(id, entries)                                                                         \
	"{\"jsonrpc\":\"2.0\",\"id\":\"" id                                                        \
	"\",\"method\":\"deliver_batch\",\"params\":{\"entries\":[" entries "]}}\n"
#define CANCEL(id, reason)                                                                         \
	"{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"delivery\":\"" id                \
	"\",\"reason\":\"" reason "\"}}\n"
#define ANSWERED(id, verdict) "{\"jsonrpc\":\"2.0\",\"id\":\"" id "\",\"result\":{" verdict "}}"
#define DONE(id)              ANSWERED(id, "\"status\":\"done\"")
#define DRAIN                 "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"drain\"}"
#define DRAINED               "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"in_flight\":0}}\n"

struct world {
	char directory[64];
	char path[96];
	int listener;
	int peer; /* the sidecar's end of the connection; -1 = none */
	struct inbox_handler *handler;
	struct inbox_delivery *delivery; /* the last one handed out */
	char line[1 << 16];              /* the last one the sidecar read, without its LF */
	int logged;
	char last[512]; /* line of the log */
};

static void count_log(const char *text, void *arg)
{
	struct world *world = arg;

	assert_null(strchr(text, '\n'));
	world->logged++;
	(void)snprintf(world->last, sizeof(world->last), "%s", text);
}

static struct inbox_handler_options options_of(struct world *world)
{
	return (struct inbox_handler_options){
		.name = "billing",
		.socket = world->path,
		.instance = "pod-1",
		.backoff_ms = 1,
		.backoff_max_ms = 2,
		.log = count_log,
		.log_arg = world,
	};
}

static void listen_on(struct world *world)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", world->path);
	world->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(world->listener >= 0);
	assert_int_equal(
		bind(world->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(world->listener, 8), 0);
}

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	(void)snprintf(world->directory, sizeof(world->directory), "/tmp/handler-test-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	snprintf(world->path, sizeof(world->path), "%s/inbox.sock", world->directory);
	world->peer = -1;
	listen_on(world);
	*state = world;
	return 0;
}

static void hang_up(struct world *world)
{
	if (world->peer >= 0)
		close(world->peer);
	world->peer = -1;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	inbox_handler_free(world->handler);
	hang_up(world);
	close(world->listener);
	unlink(world->path);
	rmdir(world->directory);
	free(world);
	return 0;
}

static bool readable_within(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

static void make_handler(struct world *world)
{
	const struct inbox_handler_options options = options_of(world);

	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
}

/* One turn of the library. */
static int turn(struct world *world, int timeout_ms)
{
	return inbox_handler_next(world->handler, &world->delivery, timeout_ms);
}

static void sidecar_accepts(struct world *world)
{
	for (int i = 0; !readable_within(world->listener, 0) && i < WAIT_MS; i++)
		assert_int_equal(turn(world, 1), INBOX_TIMEOUT);
	hang_up(world);
	world->peer = accept(world->listener, NULL, NULL);
	assert_true(world->peer >= 0);
}

static void sidecar_sends_bytes(struct world *world, const char *bytes, size_t length)
{
	assert_int_equal(send(world->peer, bytes, length, MSG_NOSIGNAL), length);
}

static void sidecar_sends(struct world *world, const char *text)
{
	sidecar_sends_bytes(world, text, strlen(text));
}

/* Reads one line, byte by byte: what follows stays in the socket. */
static const char *read_line(struct world *world)
{
	size_t length = 0;

	for (;;) {
		assert_true(readable_within(world->peer, WAIT_MS));
		assert_int_equal(recv(world->peer, world->line + length, 1, 0), 1);
		if (world->line[length] == '\n')
			break;
		assert_true(++length < sizeof(world->line));
	}
	world->line[length] = '\0';
	return world->line;
}

static void sidecar_reads(struct world *world, const char *expected)
{
	assert_string_equal(read_line(world), expected);
}

static void assert_sidecar_reads_nothing(struct world *world)
{
	assert_false(readable_within(world->peer, 0));
}

static void greet_with(struct world *world, const char *answer)
{
	sidecar_accepts(world);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	assert_non_null(strstr(read_line(world), "\"method\":\"hello\""));
	sidecar_sends(world, answer);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
}

static void greet(struct world *world)
{
	greet_with(world, HELLO_OK);
}

/* A handler that asks for ordered batches. The sidecar's order is of that name; NULL: it does not know any. */
static void connect_ordered(struct world *world, const char *ordering)
{
	struct inbox_handler_options options = options_of(world);
	char reply[256] = "{\"id\":1,\"result\":{}}\n";

	options.batch_max = 10;
	options.batch_ordered = true;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	sidecar_accepts(world);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	assert_non_null(
		strstr(read_line(world), "\"batch\":{\"max\":10,\"wait_ms\":0,\"ordered\":true},"));
	if (ordering != NULL)
		(void)snprintf(reply, sizeof(reply),
			"{\"id\":1,\"result\":{\"ordering\":\"%s\"}}\n", ordering);
	sidecar_sends(world, reply);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
}

static void connect_handler(struct world *world)
{
	make_handler(world);
	greet(world);
}

/* The sidecar sends, the program gets. */
static struct inbox_delivery *deliver(struct world *world, const char *text)
{
	sidecar_sends(world, text);
	assert_int_equal(turn(world, WAIT_MS), 0);
	return world->delivery;
}

static void assert_bytes(struct inbox_bytes bytes, const char *expected, size_t length)
{
	assert_non_null(bytes.data);
	assert_int_equal(bytes.length, length);
	assert_memory_equal(bytes.data, expected, length);
	assert_int_equal(bytes.data[length], 0);
}

static void assert_says(struct world *world, const char *words)
{
	if (strstr(inbox_handler_error(world->handler), words) == NULL)
		fail_msg("\"%s\" is not in: %s", words, inbox_handler_error(world->handler));
}

/* Options and hello */

static void hello_has_the_name_and_the_defaults(void **state)
{
	struct world *world = *state;

	make_handler(world);
	sidecar_accepts(world);
	turn(world, 0);
	sidecar_reads(world,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1],"
		"\"handler\":\"billing\",\"instance\":\"pod-1\",\"max_in_flight\":64,"
		"\"batch\":{\"max\":1,\"wait_ms\":0},"
		"\"client\":\"libinboxhandler/" INBOXD_VERSION "\"}}");
}

static void hello_has_the_options_and_subscriptions(void **state)
{
	struct world *world = *state;
	const char *const types[] = { "order.*", "a\"b\xff", NULL };
	const struct inbox_subscription wanted[] = { { "orders", types }, { "x", NULL },
		{ NULL, types + 2 } };
	struct inbox_handler_options options = options_of(world);

	options.subscribe = wanted;
	options.subscribe_count = 3;
	options.consumer = "search";
	options.max_in_flight = 7;
	options.timeout_ms = 500;
	options.batch_max = 50;
	options.batch_wait_ms = 5;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	sidecar_accepts(world);
	turn(world, 0);
	read_line(world);
	assert_non_null(strstr(
		world->line, "\"handler\":\"billing\",\"consumer\":\"search\",\"instance\":"));
	assert_non_null(strstr(world->line,
		",\"subscribe\":[{\"topic\":\"orders\",\"types\":[\"order.*\","
		"\"a\\\"b\xEF\xBF\xBD\"]},"
		"{\"topic\":\"x\"},{\"types\":[]}],\"max_in_flight\":7,\"timeout_ms\":500,"
		"\"batch\":{\"max\":50,\"wait_ms\":5},"));
}

static void the_host_is_the_instance_when_none_is_given(void **state)
{
	struct world *world = *state;
	struct inbox_handler_options options = options_of(world);
	char host[256] = "";
	char expected[300];

	gethostname(host, sizeof(host) - 1);
	snprintf(expected, sizeof(expected), "\"instance\":\"%s\"", host);
	options.instance = NULL;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	sidecar_accepts(world);
	turn(world, 0);
	assert_non_null(strstr(read_line(world), expected));
}

static void an_invalid_option_is_named(void **state)
{
	struct world *world = *state;
	static char long_path[200];
	static char long_name[300];
	const struct inbox_handler_options good = options_of(world);
	struct inbox_handler_options bad[7] = { good, good, good, good, good, good, good };
	const char *const names[7] = { "name", "name", "bytes of socket", "max_in_flight",
		"timeout_ms", "batch_max", "backoff_ms" };

	memset(long_path, 'x', sizeof(long_path) - 1);
	memset(long_name, 'x', sizeof(long_name) - 1);
	bad[0].name = NULL;
	bad[1].name = long_name;
	bad[2].socket = long_path;
	bad[3].max_in_flight = -1;
	bad[4].timeout_ms = -5;
	bad[5].batch_max = 10001;
	bad[6].backoff_ms = -1;
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(inbox_handler_new(&world->handler, &bad[i]), INBOX_ERROR_ARGUMENT);
		assert_null(world->handler);
		assert_non_null(strstr(inbox_handler_error(NULL), names[i]));
	}
}

static void options_beyond_the_size_of_the_struct_are_not_read(void **state)
{
	struct world *world = *state;
	struct inbox_handler_options options = options_of(world);

	options.size = offsetof(struct inbox_handler_options, max_in_flight);
	options.max_in_flight = -1;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	inbox_handler_free(world->handler);
	options = options_of(world);
	options.size = offsetof(struct inbox_handler_options, batch_ordered);
	options.batch_ordered = true;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	sidecar_accepts(world);
	turn(world, 0);
	assert_null(strstr(read_line(world), "ordered"));
}

static void the_default_socket_comes_from_the_environment(void **state)
{
	struct world *world = *state;
	struct inbox_handler_options options = options_of(world);

	options.socket = NULL;
	setenv("INBOXD_SOCKET_PATH", world->path, 1);
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	unsetenv("INBOXD_SOCKET_PATH");
	greet(world);
}

static void a_refused_hello_is_not_repeated(void **state)
{
	static const struct {
		const char *line;
		const char *words;
	} refusals[] = {
		{ "{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"uid 7\"}}\n",
			"allow_uid" },
		{ "{\"id\":1,\"error\":{\"code\":-32001,\"message\":\"v\"}}\n", "version" },
		{ "{\"id\":1,\"error\":{\"code\":-32003,\"message\":\"audit has orders\"}}\n",
			"audit has orders" },
		{ "{\"id\":1,\"error\":{\"code\":-32602,\"message\":\"v\"}}\n", "options" },
	};
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		make_handler(world);
		sidecar_accepts(world);
		sidecar_sends(world, refusals[i].line);
		hang_up(world);
		assert_int_equal(turn(world, WAIT_MS), INBOX_ERROR_REFUSED);
		assert_says(world, refusals[i].words);
		assert_int_equal(turn(world, 20), INBOX_ERROR_REFUSED);
		assert_false(readable_within(world->listener, 0));
		inbox_handler_free(world->handler);
		world->handler = NULL;
	}
}

static void after_a_refusal_by_a_stopping_sidecar_it_connects_again(void **state)
{
	struct world *world = *state;

	make_handler(world);
	sidecar_accepts(world);
	sidecar_sends(world, "{\"id\":1,\"error\":{\"code\":-32020,\"message\":\"stopping\"}}\n");
	turn(world, 0);
	assert_says(world, "stopping");
	greet(world);
	assert_int_equal(world->logged, 2);
}

static void it_connects_again_until_the_sidecar_exists(void **state)
{
	struct world *world = *state;

	close(world->listener);
	unlink(world->path);
	make_handler(world);
	for (int i = 0; i < 5; i++)
		assert_int_equal(turn(world, 4), INBOX_TIMEOUT);
	assert_says(world, "can't connect to the sidecar at /tmp/handler-test-");
	assert_says(world, "start inboxd, or use the path in its option socket.path");
	assert_true(world->logged >= 2);
	listen_on(world);
	greet(world);
}

static void a_line_before_the_hello_reply_ends_the_connection(void **state)
{
	struct world *world = *state;

	make_handler(world);
	sidecar_accepts(world);
	sidecar_sends(world, PLAIN("d1"));
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	assert_says(world, "before it answered hello");
	greet(world);
}

/* What is in a delivery */

static void a_delivery_has_all_parts_of_the_message(void **state)
{
	struct world *world = *state;
	const char *event =
		"{\"specversion\":\"1.0\",\"id\":\"A\\u002d234\",\"source\":\"orders\","
		"\"type\":\"order.created\",\"time\":\"2026-11-21T05:40:59.120Z\","
		"\"datacontenttype\":\"application/json\",\"partitionkey\":\"c\\u0000-17\","
		"\"kafkatopic\":\"orders\",\"kafkapartition\":3,\"kafkaoffset\":"
		"\"9007199254740993\","
		"\"traceparent\":\"00-ab\",\"odd\":{\"x\":[1]},\"none\":null,"
		"\"data\" : {\"order\": 17.10, \"deep\":[[{\"id\":\"no\"}],null]} }";
	char line[2048];
	struct inbox_delivery *delivery;

	connect_handler(world);
	snprintf(line, sizeof(line),
		"{\"params\":{\"headers\":[],\"event\":%s," HEAD
		"},\"new\":[{}],\"method\":\"deliver\",\"id\":\"d9001.2\"}\r\n",
		event);
	delivery = deliver(world, line);
	assert_string_equal(inbox_delivery_claim(delivery), "9001.2.17");
	assert_int_equal(inbox_delivery_seq(delivery), 9001);
	assert_int_equal(inbox_delivery_attempt(delivery), 2);
	assert_int_equal(inbox_delivery_max_attempts(delivery), 10);
	assert_int_equal(inbox_delivery_deadline_ms(delivery), 1795239720250);
	assert_true(inbox_delivery_replay(delivery));
	assert_int_equal(inbox_delivery_batch_rest(delivery), 0);
	assert_string_equal(inbox_delivery_event_id(delivery), "A-234");
	assert_string_equal(inbox_delivery_source(delivery), "orders");
	assert_string_equal(inbox_delivery_type(delivery), "order.created");
	assert_string_equal(inbox_delivery_time(delivery), "2026-11-21T05:40:59.120Z");
	assert_string_equal(inbox_delivery_topic(delivery), "orders");
	assert_int_equal(inbox_delivery_partition(delivery), 3);
	assert_int_equal(inbox_delivery_offset(delivery), 9007199254740993);
	assert_bytes(inbox_delivery_key(delivery), "c\0-17", 5);
	assert_true(inbox_delivery_data_is_json(delivery));
	assert_bytes(inbox_delivery_data(delivery),
		"{\"order\": 17.10, \"deep\":[[{\"id\":\"no\"}],null]}", 45);
	assert_bytes(inbox_delivery_event(delivery), event, strlen(event));
	assert_string_equal(inbox_delivery_attribute(delivery, "traceparent"), "00-ab");
	assert_string_equal(
		inbox_delivery_attribute(delivery, "datacontenttype"), "application/json");
	assert_null(inbox_delivery_attribute(delivery, "odd"));
	assert_null(inbox_delivery_attribute(delivery, "none"));
	assert_null(inbox_delivery_attribute(delivery, "missing"));
	assert_int_equal(inbox_delivery_done(delivery), 0);
}

static void missing_parts_of_a_message_are_empty(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *delivery;

	connect_handler(world);
	delivery = deliver(world,
		"{\"id\":7,\"method\":\"deliver\",\"params\":{\"event\":{},\"delivery\":{}}}\n");
	assert_string_equal(inbox_delivery_event_id(delivery), "");
	assert_string_equal(inbox_delivery_claim(delivery), "");
	assert_int_equal(inbox_delivery_deadline_ms(delivery), 0);
	assert_false(inbox_delivery_replay(delivery));
	assert_null(inbox_delivery_key(delivery).data);
	assert_int_equal(inbox_delivery_header_count(delivery), 0);
	assert_string_equal(inbox_delivery_header_name(delivery, 0), "");
	assert_null(inbox_delivery_header_value(delivery, 0).data);
	inbox_delivery_done(delivery);
	turn(world, 0);
	sidecar_reads(world, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"status\":\"done\"}}");
}

static void a_tombstone_has_no_data_and_null_has(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	assert_null(inbox_delivery_data(deliver(world, DELIVER("d1", "{\"id\":\"A\"}"))).data);
	assert_false(inbox_delivery_data_is_json(world->delivery));
	deliver(world, DELIVER("d2", "{\"id\":\"A\",\"data\": null}"));
	assert_bytes(inbox_delivery_data(world->delivery), "null", 4);
	deliver(world, DELIVER("d3", "{\"data\":-1.50e+3}"));
	assert_bytes(inbox_delivery_data(world->delivery), "-1.50e+3", 8);
	deliver(world, DELIVER("d4", "{\"data\":\"\\u0041\"}"));
	assert_bytes(inbox_delivery_data(world->delivery), "\"\\u0041\"", 8);
}

static void binary_data_and_keys_are_decoded(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	deliver(world, DELIVER("d1", "{\"data_base64\":\"AP8Q+/8=\","
				     "\"partitionkeybase64\":\"/w==\"}"));
	assert_bytes(inbox_delivery_data(world->delivery), "\x00\xff\x10\xfb\xff", 5);
	assert_false(inbox_delivery_data_is_json(world->delivery));
	assert_bytes(inbox_delivery_key(world->delivery), "\xff", 1);
	deliver(world, DELIVER("d2", "{\"data_base64\":\"\",\"partitionkey\":\"\"}"));
	assert_bytes(inbox_delivery_data(world->delivery), "", 0);
	assert_bytes(inbox_delivery_key(world->delivery), "", 0);
}

static void headers_keep_order_bytes_and_null(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *delivery;

	connect_handler(world);
	delivery = deliver(world,
		"{\"id\":\"d1\",\"method\":\"deliver\",\"params\":{\"event\":{},\"headers\":["
		"[\"a\",\"1\"],[\"bin\",{\"base64\":\"AAE=\"}],[\"nul\",null],[\"a\",\"2\"],"
		"[{\"base64\":\"/"
		"w==\"},\"odd\",\"later\",{\"x\":1}],[\"more\",{\"x\":\"y\"}],[]]}}\n");
	assert_int_equal(inbox_delivery_header_count(delivery), 7);
	assert_string_equal(inbox_delivery_header_name(delivery, 0), "a");
	assert_bytes(inbox_delivery_header_value(delivery, 0), "1", 1);
	assert_bytes(inbox_delivery_header(delivery, "a"), "2", 1);
	assert_bytes(inbox_delivery_header(delivery, "bin"), "\0\1", 2);
	assert_string_equal(inbox_delivery_header_name(delivery, 2), "nul");
	assert_null(inbox_delivery_header(delivery, "nul").data);
	assert_string_equal(inbox_delivery_header_name(delivery, 4), "\xff");
	assert_bytes(inbox_delivery_header_value(delivery, 4), "odd", 3);
	assert_null(inbox_delivery_header(delivery, "more").data);
	assert_string_equal(inbox_delivery_header_name(delivery, 6), "");
	assert_null(inbox_delivery_header(delivery, "missing").data);
}

static void an_unreadable_delivery_is_answered_by_the_library(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	sidecar_sends(world, DELIVER("d1", "{\"data_base64\":\"AAAAA?==\"}"));
	sidecar_sends(world, "{\"id\":\"d2\",\"method\":\"deliver\",\"params\":{" HEAD "}}\n");
	sidecar_sends(world, "{\"id\":\"d3\",\"method\":\"deliver\",\"params\":{}}\n");
	sidecar_sends(world, "{\"method\":\"deliver\",\"params\":{}}\n");
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	turn(world, 0);
	sidecar_reads(
		world, ANSWERED("d1", "\"status\":\"retry\",\"reason\":\"a base64 text in it is "
				      "not base64\",\"code\":\"PROTOCOL\""));
	sidecar_reads(world, ANSWERED("d2", "\"status\":\"retry\",\"reason\":\"it has no "
					    "event\",\"code\":\"PROTOCOL\""));
	assert_non_null(strstr(read_line(world), "\"id\":\"d3\",\"error\":{\"code\":-32602"));
	assert_sidecar_reads_nothing(world);
}

static void a_member_name_with_nul_is_ignored(void **state)
{
	struct inbox_delivery *delivery;

	connect_handler(*state);
	delivery = deliver(
		*state, DELIVER("d1.1", "{\"id\\u0000and more than any table holds\":\"wrong\","
					"\"id\":\"A234\",\"data\\u0000\":1}"));
	assert_string_equal(inbox_delivery_event_id(delivery), "A234");
	assert_null(inbox_delivery_data(delivery).data);
}

static void a_message_can_arrive_in_pieces(void **state)
{
	struct world *world = *state;
	const char *text = PLAIN("d1") PLAIN("d2");

	connect_handler(world);
	for (size_t i = 0; i < strlen(text) - 1; i++) {
		sidecar_sends_bytes(world, text + i, 1);
		if (turn(world, 0) == 0)
			inbox_delivery_done(world->delivery);
	}
	deliver(world, "\n");
	inbox_delivery_done(world->delivery);
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
	sidecar_reads(world, DONE("d2"));
}

static void the_start_of_a_message_can_arrive_with_the_previous_one(void **state)
{
	struct world *world = *state;
	const char *text = PLAIN("d2");

	connect_handler(world);
	sidecar_sends(world, PLAIN("d1"));
	sidecar_sends_bytes(world, text, 40);
	assert_int_equal(turn(world, WAIT_MS), 0);
	inbox_delivery_done(world->delivery);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	inbox_delivery_done(deliver(world, text + 40));
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
	sidecar_reads(world, DONE("d2"));
}

static void *send_large(void *arg)
{
	struct world *world = arg;
	const size_t size = 20 << 20;
	char *payload = malloc(size);
	size_t sent = 0;

	memset(payload, 'x', size);
	sidecar_sends(
		world, "{\"id\":\"d1\",\"method\":\"deliver\",\"params\":{\"event\":{\"data\":\"");
	while (sent < size) {
		const ssize_t n = send(world->peer, payload + sent, size - sent, MSG_NOSIGNAL);

		assert_true(n > 0);
		sent += (size_t)n;
	}
	sidecar_sends(world, "\"}}}\n");
	sidecar_sends(world, PLAIN("d2"));
	free(payload);
	return NULL;
}

static void a_large_message_arrives_completely(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	connect_handler(world);
	assert_int_equal(pthread_create(&thread, NULL, send_large, world), 0);
	assert_int_equal(turn(world, WAIT_MS), 0);
	assert_int_equal(inbox_delivery_data(world->delivery).length, (20 << 20) + 2);
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	assert_int_equal(turn(world, WAIT_MS), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Verdicts */

static void each_verdict_is_a_line(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	assert_int_equal(inbox_delivery_done(deliver(world, PLAIN("d1"))), 0);
	assert_int_equal(
		inbox_delivery_done_with(deliver(world, PLAIN("d2")), "{\n\"a\":\f1}", 9), 0);
	assert_int_equal(
		inbox_delivery_retry(deliver(world, PLAIN("d3")), 60000, "upstream\n503\x80", "UP"),
		0);
	assert_int_equal(inbox_delivery_retry(deliver(world, PLAIN("d4")), -1, NULL, NULL), 0);
	assert_int_equal(inbox_delivery_dead(deliver(world, PLAIN("d5")), "schema", "SCHEMA"), 0);
	assert_int_equal(inbox_delivery_snooze(deliver(world, PLAIN("d6")), -7), 0);
	assert_int_equal(inbox_delivery_settled(deliver(world, PLAIN("d7"))), 0);
	assert_int_equal(
		inbox_delivery_snooze_with(deliver(world, PLAIN("d8")), 5, "night", "N"), 0);
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
	sidecar_reads(world, ANSWERED("d2", "\"status\":\"done\",\"result\":{ \"a\": 1}"));
	sidecar_reads(world, ANSWERED("d3", "\"status\":\"retry\",\"delay_ms\":60000,\"reason\":"
					    "\"upstream\\u000a503\xEF\xBF\xBD\",\"code\":\"UP\""));
	sidecar_reads(world, ANSWERED("d4", "\"status\":\"retry\""));
	sidecar_reads(world,
		ANSWERED("d5", "\"status\":\"dead\",\"reason\":\"schema\",\"code\":\"SCHEMA\""));
	sidecar_reads(world, ANSWERED("d6", "\"status\":\"snooze\""));
	sidecar_reads(world, ANSWERED("d7", "\"status\":\"settled\""));
	sidecar_reads(world, ANSWERED("d8", "\"status\":\"snooze\",\"delay_ms\":5,\"reason\":"
					    "\"night\",\"code\":\"N\""));
}

static const struct inbox_event an_event = { .topic = "out", .type = "made" };

static void events_go_with_done_and_with_no_other_verdict(void **state)
{
	static const struct inbox_header headers[] = { { "tenant", { "a\"", 2 } },
		{ "none", { NULL, 0 } }, { "raw", { "\xff", 1 } } };
	struct inbox_event full = { .aggregate = "order",
		.type = "made",
		.key = "k",
		.id = "i",
		.source = "/s",
		.subject = "x",
		.data = { "{\n\"a\":1}", 8 },
		.data_is_json = true,
		.headers = headers,
		.header_count = 3 };
	struct world *world = *state;

	connect_handler(world);
	assert_int_equal(inbox_delivery_emit(deliver(world, PLAIN("d1")), &full), 0);
	full = (struct inbox_event){ .topic = "t", .type = "gone", .data = { "", 0 } };
	assert_int_equal(inbox_delivery_emit(world->delivery, &full), 0);
	assert_int_equal(inbox_delivery_emit(world->delivery, &an_event), 0);
	assert_int_equal(inbox_delivery_done_with(world->delivery, "1", 1), 0);
	assert_int_equal(inbox_delivery_emit(deliver(world, PLAIN("d2")), &an_event), 0);
	assert_int_equal(inbox_delivery_dead(world->delivery, NULL, NULL), 0);
	assert_int_equal(inbox_delivery_done(deliver(world, PLAIN("d3"))), 0);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("d1",
			"\"status\":\"done\",\"result\":1,\"emit\":[{\"type\":\"made\","
			"\"aggregate\":"
			"\"order\",\"key\":\"k\",\"data\":{ "
			"\"a\":1},\"headers\":[[\"tenant\",\"a\\\"\"]"
			",[\"none\",null],[\"raw\",{\"base64\":\"/w==\"}]],\"id\":\"i\",\"source\":"
			"\"/"
			"s\",\"subject\":\"x\"},{\"type\":\"gone\",\"topic\":\"t\",\"data_base64\":"
			"\"\"},{\"type\":\"made\",\"topic\":\"out\"}]"));
	sidecar_reads(world, ANSWERED("d2", "\"status\":\"dead\""));
	sidecar_reads(world, DONE("d3"));
}

static int emit_json(const struct world *world, const char *json)
{
	return inbox_delivery_emit_json(world->delivery, json, strlen(json));
}

static void events_can_be_json_already(void **state)
{
	static const char *const wrong[] = { "", "{}", "[7]", "[[]]", "[{}", "[{}] []",
		"[{},null]" };
	struct world *world = *state;

	connect_handler(world);
	deliver(world, PLAIN("d1"));
	assert_int_equal(emit_json(world, "[]"), 0);
	assert_int_equal(emit_json(world, " [ {\"topic\":\"t\",\n\"data\":[[1.50]]}, {} ] "), 0);
	assert_int_equal(inbox_delivery_emit(world->delivery, &an_event), 0);
	assert_int_equal(emit_json(world, "[{\"a\":1}]"), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(emit_json(world, wrong[i]), INBOX_ERROR_ARGUMENT);
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("d1",
			"\"status\":\"done\",\"emit\":[ {\"topic\":\"t\", \"data\":[[1.50]]},"
			" {} ,{\"type\":\"made\",\"topic\":\"out\"},{\"a\":1}]"));
}

static void an_event_that_cannot_be_sent_is_refused_and_the_delivery_stays_open(void **state)
{
	static const struct inbox_header nameless = { NULL, { "a", 1 } };
	static const struct inbox_event wrong[] = {
		{ .type = "t" },
		{ .topic = "t" },
		{ .topic = "t\xff", .type = "t" },
		{ .topic = "t", .type = "t", .key = "\x80" },
		{ .topic = "t", .type = "t", .data = { "{", 1 }, .data_is_json = true },
		{ .topic = "t", .type = "t", .data = { "", 0 }, .data_is_json = true },
		{ .topic = "t", .type = "t", .data = { "", (size_t)40 << 20 } },
		{ .topic = "t", .type = "t", .headers = &nameless, .header_count = 1 },
	};
	struct world *world = *state;

	connect_handler(world);
	(void)deliver(world, PLAIN("d1"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(
			inbox_delivery_emit(world->delivery, &wrong[i]), INBOX_ERROR_ARGUMENT);
		assert_non_null(strstr(inbox_handler_error(world->handler), "is not added"));
	}
	for (int i = 0; i < 1000; i++)
		assert_int_equal(inbox_delivery_emit(world->delivery, &an_event), 0);
	assert_int_equal(inbox_delivery_emit(world->delivery, &an_event), INBOX_ERROR_ARGUMENT);
	assert_int_equal(inbox_delivery_settled(world->delivery), INBOX_ERROR_ARGUMENT);
	assert_non_null(strstr(inbox_handler_error(world->handler), "inbox.complete("));
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
}

static void events_that_are_too_long_together_are_refused(void **state)
{
	struct world *world = *state;
	char *large = calloc(1, (size_t)10 << 20);
	struct inbox_event event = an_event;

	connect_handler(world);
	event.data = (struct inbox_bytes){ large, (size_t)10 << 20 };
	assert_int_equal(inbox_delivery_emit(deliver(world, PLAIN("d1")), &event), 0);
	assert_int_equal(inbox_delivery_emit(world->delivery, &event), INBOX_ERROR_ARGUMENT);
	assert_int_equal(inbox_delivery_done_with(world->delivery, large, (size_t)4 << 20),
		INBOX_ERROR_ARGUMENT);
	assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), 0);
	turn(world, 0);
	sidecar_reads(world, ANSWERED("d1", "\"status\":\"retry\""));
	free(large);
}

static void each_entry_of_a_batch_has_its_own_events(void **state)
{
	struct inbox_delivery *entries[2];
	struct world *world = *state;

	connect_handler(world);
	sidecar_sends(world, BATCH("b1", ENTRY("e1") "," ENTRY("e2")));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(inbox_handler_next(world->handler, &entries[i], WAIT_MS), 0);
		if (i == 1)
			assert_int_equal(inbox_delivery_emit(entries[i], &an_event), 0);
	}
	assert_int_equal(inbox_delivery_done(entries[0]), 0);
	assert_int_equal(inbox_delivery_done(entries[1]), 0);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("b1",
			"\"entries\":[" STATUS("e1",
				"done") ",{\"id\":\"e2\",\"status\":\"done\","
					"\"emit\":[{\"type\":\"made\",\"topic\":\"out\"}]}]"));
}

static void a_result_that_is_not_json_is_refused_and_the_delivery_stays_open(void **state)
{
	struct world *world = *state;
	static const char *const wrong[] = { "", "{", "{} {}", "nul", "\"\x01\"", "\"\xff\"",
		"{}\"", "1 tru", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"" };
	char deep[1024];
	struct inbox_delivery *delivery;

	connect_handler(world);
	delivery = deliver(world, PLAIN("d1"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(inbox_delivery_done_with(delivery, wrong[i], strlen(wrong[i])),
			INBOX_ERROR_ARGUMENT);
	}
	assert_int_equal(inbox_delivery_done_with(delivery, NULL, 0), INBOX_ERROR_ARGUMENT);
	memset(deep, '[', sizeof(deep) / 2);
	memset(deep + sizeof(deep) / 2, ']', sizeof(deep) / 2);
	assert_int_equal(
		inbox_delivery_done_with(delivery, deep, sizeof(deep)), INBOX_ERROR_ARGUMENT);
	assert_int_equal(
		inbox_delivery_done_with(delivery, "1", (size_t)17 << 20), INBOX_ERROR_ARGUMENT);
	assert_says(world, "store it elsewhere");
	assert_int_equal(inbox_delivery_done(delivery), 0);
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
}

static void a_reason_is_cut_at_a_character(void **state)
{
	struct world *world = *state;
	char reason[4200];

	memset(reason, 'x', sizeof(reason));
	memcpy(reason + 4095, "\xC3\xA9!", 4);
	connect_handler(world);
	inbox_delivery_dead(deliver(world, PLAIN("d1")), reason, NULL);
	turn(world, 0);
	read_line(world);
	assert_string_equal(strrchr(world->line, 'x'), "x\"}}");
}

static void invalid_utf8_in_a_reason_is_replaced(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	inbox_delivery_dead(deliver(world, PLAIN("d1")),
		"\xC3\xA9 \xF0\x9F\x98\x80 \xC0\x80 \xED\xA0\x80 \xE2\x82", NULL);
	turn(world, 0);
#define BAD "\xEF\xBF\xBD"
	sidecar_reads(world,
		ANSWERED("d1", "\"status\":\"dead\",\"reason\":\"\xC3\xA9 \xF0\x9F\x98\x80 " BAD BAD
			       " " BAD BAD BAD " " BAD BAD "\""));
#undef BAD
}

static void a_message_can_have_many_headers(void **state)
{
	struct world *world = *state;
	char line[4096] = "{\"id\":\"d1\",\"method\":\"deliver\",\"params\":{\"event\":{},"
			  "\"headers\":[[\"h\",\"0\"]";
	size_t used = strlen(line);

	for (int i = 1; i < 200; i++)
		used += (size_t)snprintf(line + used, sizeof(line) - used, ",[\"h\",\"x\"]");
	(void)snprintf(line + used, sizeof(line) - used, "]}}\n");
	connect_handler(world);
	assert_int_equal(inbox_delivery_header_count(deliver(world, line)), 200);
	inbox_delivery_done(world->delivery);
	assert_int_equal(inbox_delivery_header_count(deliver(world, PLAIN("d2"))), 0);
}

static void the_entries_of_a_batch_are_answered_in_one_line(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *entries[3];

	connect_handler(world);
	sidecar_sends(world, BATCH("b1", ENTRY("e1") "," ENTRY("e2") "," ENTRY("e3")));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(turn(world, WAIT_MS), 0);
		entries[i] = world->delivery;
		assert_int_equal(inbox_delivery_batch_rest(entries[i]), 2 - i);
	}
	assert_string_equal(inbox_delivery_event_id(entries[1]), "E-e2");
	inbox_delivery_retry(entries[2], 5, "no", NULL);
	inbox_delivery_done_with(entries[0], "[1]", 3);
	turn(world, 0);
	assert_sidecar_reads_nothing(world);
	inbox_delivery_done(entries[1]);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("b1",
			"\"entries\":[{\"id\":\"e3\",\"status\":\"retry\",\"delay_ms\":5,"
			"\"reason\":\"no\"},{\"id\":\"e1\",\"status\":\"done\",\"result\":[1]},"
			"{\"id\":\"e2\",\"status\":\"done\"}]"));
}

static void a_broken_entry_does_not_block_its_batch(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	sidecar_sends(world, BATCH("b1", "{\"id\":\"e1\"},{" HEAD ",\"event\":{}}," ENTRY("e3")));
	assert_int_equal(turn(world, WAIT_MS), 0);
	inbox_delivery_done(world->delivery);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("b1",
			"\"entries\":[{\"id\":\"e1\",\"status\":\"retry\",\"reason\":\"it has no "
			"event\",\"code\":\"PROTOCOL\"},{\"id\":\"e3\",\"status\":\"done\"}]"));
	sidecar_sends(world, BATCH("b2", ""));
	turn(world, 0);
	turn(world, 0);
	assert_non_null(strstr(read_line(world), "\"id\":\"b2\",\"error\":{\"code\":-32602"));
}

/* Ordered batches */

static void expect_event(struct world *world, const char *id)
{
	assert_int_equal(turn(world, WAIT_MS), 0);
	assert_string_equal(inbox_delivery_event_id(world->delivery), id);
}

static void after_an_unfinished_message_those_of_its_key_are_skipped(void **state)
{
	struct world *world = *state;

	connect_ordered(world, "key");
	sidecar_sends(
		world, BATCH("b1", OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A) "," OF_KEY("e3",
					   "0", B) "," OF_KEY("e4", "0", A) "," OF_KEY("e5", "1",
					   A) "," OF_KEY("e6", "0", "") "," OF_KEY("e7", "0", B)));
	expect_event(world, "E-e1");
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	expect_event(world, "E-e2");
	assert_int_equal(inbox_delivery_batch_rest(world->delivery), 5);
	assert_int_equal(inbox_delivery_snooze(world->delivery, -1), 0);
	expect_event(world, "E-e3");
	assert_int_equal(inbox_delivery_batch_rest(world->delivery), 3);
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	expect_event(world, "E-e5");
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	expect_event(world, "E-e6");
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	expect_event(world, "E-e7");
	assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), 0);
	turn(world, 0);
	sidecar_reads(world,
		ANSWERED("b1",
			"\"entries\":[" STATUS("e1", "done") "," STATUS("e4", "skipped") "," STATUS(
				"e2", "snooze") "," STATUS("e3", "done") "," STATUS("e5",
				"done") "," STATUS("e6", "done") "," STATUS("e7", "retry") "]"));
}

static void dead_and_settled_messages_skip_none(void **state)
{
	struct world *world = *state;

	connect_ordered(world, "key");
	sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A) "," OF_KEY(
						 "e3", "0", A)));
	expect_event(world, "E-e1");
	assert_int_equal(inbox_delivery_dead(world->delivery, NULL, NULL), 0);
	expect_event(world, "E-e2");
	assert_int_equal(inbox_delivery_settled(world->delivery), 0);
	expect_event(world, "E-e3");
	assert_int_equal(inbox_delivery_skipped(world->delivery), 0);
	turn(world, 0);
	sidecar_reads(world, ANSWERED("b1", "\"entries\":[" STATUS("e1", "dead") "," STATUS("e2",
						    "settled") "," STATUS("e3", "skipped") "]"));
}

static void only_messages_of_the_same_batch_are_skipped(void **state)
{
	struct world *world = *state;

	connect_ordered(world, "key");
	sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", A)) BATCH("b2", OF_KEY("e2", "0", A)));
	expect_event(world, "E-e1");
	assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), 0);
	expect_event(world, "E-e2");
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	turn(world, 0);
	sidecar_reads(world, ANSWERED("b1", "\"entries\":[" STATUS("e1", "retry") "]"));
	sidecar_reads(world, ANSWERED("b2", "\"entries\":[" STATUS("e2", "done") "]"));
}

static void the_order_of_the_sidecar_decides_what_is_skipped(void **state)
{
	/* Which of: the same key, another key of the partition, no key, another partition. */
	static const struct {
		const char *ordering;
		bool skipped[4];
	} rows[] = {
		{ "key", { true, false, false, false } },
		{ "partition", { true, true, true, false } },
		{ "none", { false, false, false, false } },
		{ NULL, { false, false, false, false } },
		{ "later", { true, true, true, false } },
	};
	static const char *const ids[4] = { "E-e2", "E-e3", "E-e4", "E-e5" };
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		connect_ordered(world, rows[i].ordering);
		sidecar_sends(world,
			BATCH("b1",
				OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A) "," OF_KEY("e3", "0",
					B) "," OF_KEY("e4", "0", "") "," OF_KEY("e5", "1", A)));
		expect_event(world, "E-e1");
		assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), 0);
		for (size_t at = 0; at < 4; at++) {
			if (rows[i].skipped[at])
				continue;
			expect_event(world, ids[at]);
			assert_int_equal(inbox_delivery_done(world->delivery), 0);
		}
		assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
		read_line(world);
		for (size_t at = 0; at < 4; at++) {
			char expected[64];

			(void)snprintf(expected, sizeof(expected),
				"{\"id\":\"%s\",\"status\":\"%s\"}", ids[at] + 2,
				rows[i].skipped[at] ? "skipped" : "done");
			assert_non_null(strstr(world->line, expected));
		}
		inbox_handler_free(world->handler);
		world->handler = NULL;
	}
}

static void without_the_option_no_message_is_skipped(void **state)
{
	struct world *world = *state;

	make_handler(world);
	sidecar_accepts(world);
	turn(world, 0);
	assert_null(strstr(read_line(world), "ordered"));
	sidecar_sends(world, "{\"id\":1,\"result\":{\"ordering\":\"key\"}}\n");
	sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A)));
	expect_event(world, "E-e1");
	assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), 0);
	expect_event(world, "E-e2");
}

static void a_sidecar_that_does_not_know_skipped_gets_a_snooze(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	assert_int_equal(inbox_delivery_skipped(deliver(world, PLAIN("d1"))), 0);
	turn(world, 0);
	sidecar_reads(world, ANSWERED("d1", "\"status\":\"snooze\",\"delay_ms\":0"));
}

static void behind_a_cancelled_message_those_of_its_key_are_skipped(void **state)
{
	struct world *world = *state;

	connect_ordered(world, "key");
	sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A)));
	expect_event(world, "E-e1");
	sidecar_sends(world, CANCEL("e1", "timeout"));
	assert_string_equal(inbox_delivery_cancelled(world->delivery), "timeout");
	assert_int_equal(inbox_delivery_retry(world->delivery, -1, NULL, NULL), INBOX_CANCELLED);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	sidecar_reads(world, ANSWERED("b1", "\"entries\":[" STATUS("e2", "skipped") "]"));
}

static void a_stop_skips_the_unseen_messages_behind_the_first_of_a_key(void **state)
{
	struct world *world = *state;

	connect_ordered(world, "key");
	sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", B) "," OF_KEY("e2", "0", A) "," OF_KEY(
						 "e3", "0", A)));
	expect_event(world, "E-e1");
	inbox_handler_stop(world->handler);
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	sidecar_reads(world, ANSWERED("b1", "\"entries\":[" STATUS("e1", "done") "," STATUS("e3",
						    "skipped") ","
							       "{\"id\":\"e2\",\"status\":"
							       "\"snooze\",\"delay_ms\":0}]"));
	sidecar_reads(world, DRAIN);
}

static void fail_the_first(struct inbox_delivery *delivery, void *arg)
{
	struct world *world = arg;

	if (strcmp(inbox_delivery_event_id(delivery), "E-e3") == 0) {
		inbox_handler_stop(world->handler);
		inbox_delivery_done(delivery);
	}
}

static void *sidecar_of_an_ordered_batch(void *arg)
{
	struct world *world = arg;

	world->peer = accept(world->listener, NULL, NULL);
	read_line(world);
	sidecar_sends(world,
		"{\"id\":1,\"result\":{\"ordering\":\"key\"}}\n" BATCH("b1",
			OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A) "," OF_KEY("e3", "0", B)));
	sidecar_reads(world,
		ANSWERED("b1", "\"entries\":[" STATUS("e2",
				       "skipped") ","
						  "{\"id\":\"e1\",\"status\":\"retry\",\"reason\":"
						  "\"the handler function "
						  "returned without a "
						  "verdict\",\"code\":\"NO_VERDICT\"}," STATUS(
							  "e3", "done") "]"));
	sidecar_reads(world, DRAIN);
	sidecar_sends(world, DRAINED);
	return NULL;
}

static void the_callback_is_not_called_for_skipped_messages(void **state)
{
	struct world *world = *state;
	struct inbox_handler_options options = options_of(world);
	pthread_t thread;

	options.batch_max = 10;
	options.batch_ordered = true;
	assert_int_equal(inbox_handler_new(&world->handler, &options), 0);
	assert_int_equal(pthread_create(&thread, NULL, sidecar_of_an_ordered_batch, world), 0);
	assert_int_equal(inbox_handler_run(world->handler, fail_the_first, world), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* With the n-th allocation failing the delivery stays open; what is skipped by then stays skipped. */
static void a_skip_without_memory_can_be_repeated(void **state)
{
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		bool failed;
		int r;

		connect_ordered(world, "key");
		sidecar_sends(world, BATCH("b1", OF_KEY("e1", "0", A) "," OF_KEY("e2", "0", A)));
		expect_event(world, "E-e1");
		alloc_fail_at(n);
		r = inbox_delivery_snooze(world->delivery, -1);
		failed = alloc_fail_never();
		if (failed) {
			assert_int_equal(r, INBOX_ERROR_MEMORY);
			assert_int_equal(inbox_delivery_snooze(world->delivery, -1), 0);
		}
		assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
		sidecar_reads(
			world, ANSWERED("b1", "\"entries\":[" STATUS("e2", "skipped") "," STATUS(
						      "e1", "snooze") "]"));
		inbox_handler_free(world->handler);
		world->handler = NULL;
		if (!failed)
			break;
	}
}

static void many_long_reasons_leave_room_for_every_verdict(void **state)
{
	struct world *world = *state;
	char reason[4001];
	size_t open = 0;

	memset(reason, '\x01', 4000); /* six bytes each on the wire */
	reason[4000] = '\0';
	connect_handler(world);
	sidecar_sends(
		world, "{\"id\":\"b1\",\"method\":\"deliver_batch\",\"params\":{\"entries\":[");
	for (int i = 0; i < 2000; i++) {
		sidecar_sends(world, i == 0 ? ENTRY("e") : "," ENTRY("e"));
		turn(world, 0);
	}
	sidecar_sends(world, "]}}\n");
	for (open = 0; turn(world, 100) == 0; open++)
		inbox_delivery_retry(world->delivery, 1, reason, "C");
	assert_int_equal(open, 2000);
	for (size_t total = 0;;) {
		const ssize_t n = recv(world->peer, world->line, sizeof(world->line), 0);

		assert_true(n > 0);
		total += (size_t)n;
		assert_true(total < 33554432);
		if (world->line[n - 1] == '\n')
			break;
		turn(world, 0);
	}
}

/* Extend, window, cancel */

static void extend_is_sent_at_once(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	deliver(world, PLAIN("d1"));
	assert_int_equal(inbox_delivery_extend(world->delivery, 45000), 0);
	sidecar_reads(world, "{\"jsonrpc\":\"2.0\",\"method\":\"extend\",\"params\":{\"delivery\":"
			     "\"d1\",\"timeout_ms\":45000}}");
	assert_int_equal(inbox_delivery_extend(world->delivery, 0), INBOX_ERROR_ARGUMENT);
	sidecar_sends(world, CANCEL("d1", "timeout"));
	assert_int_equal(inbox_delivery_extend(world->delivery, 1000), INBOX_CANCELLED);
	read_line(world);
	assert_int_equal(inbox_delivery_extend(world->delivery, 1000), INBOX_CANCELLED);
	assert_sidecar_reads_nothing(world);
}

static void assert_left(const struct inbox_delivery *delivery, int64_t most_ms)
{
	const int64_t left_ms = inbox_delivery_left_ms(delivery);

	assert_true(left_ms <= most_ms && left_ms > most_ms - 10000);
}

/* The deadline in the deliveries of these tests is one day, which is long ago or far away for the clock of this host. */
static void the_time_that_is_left_comes_from_the_timeout_and_not_from_a_clock(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *delivery;

	connect_handler(world);
	delivery = deliver(world, PLAIN("d1"));
	assert_left(delivery, 30000);
	assert_int_equal(inbox_delivery_extend(delivery, 90000), 0);
	assert_left(delivery, 90000);
	assert_int_equal(inbox_delivery_extend(delivery, INT64_MAX), 0);
	assert_true(inbox_delivery_left_ms(delivery) > INT64_MAX / 2);
	assert_int_equal(inbox_delivery_done(delivery), 0);
}

static void the_time_that_is_left_is_that_of_the_hello_reply(void **state)
{
	struct world *world = *state;

	make_handler(world);
	greet_with(world, "{\"id\":1,\"result\":{\"protocol\":1,\"timeout_ms\":600000}}\n");
	assert_left(deliver(world, PLAIN("d1")), 600000);
}

static void the_window_is_sent_at_once_and_after_every_hello(void **state)
{
	static const char pause[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"window\",\"params\":{\"max_in_flight\":0}}";
	struct world *world = *state;

	make_handler(world);
	assert_int_equal(inbox_handler_window(world->handler, -1), INBOX_ERROR_ARGUMENT);
	assert_int_equal(inbox_handler_window(world->handler, 5), 0);
	greet(world);
	turn(world, 0);
	assert_non_null(strstr(read_line(world), "\"max_in_flight\":5"));
	assert_int_equal(inbox_handler_window(world->handler, 0), 0);
	sidecar_reads(world, pause);
	hang_up(world);
	greet(world);
	turn(world, 0);
	sidecar_reads(world, pause);
}

static void a_cancelled_delivery_has_its_reason_and_its_answer_is_dropped(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *delivery;

	connect_handler(world);
	delivery = deliver(world, PLAIN("d1"));
	assert_null(inbox_delivery_cancelled(delivery));
	sidecar_sends(world, CANCEL("d2", "timeout") CANCEL("d1", "lease_lost"));
	assert_string_equal(inbox_delivery_cancelled(delivery), "lease_lost");
	assert_int_equal(inbox_delivery_done(delivery), INBOX_CANCELLED);
	delivery = deliver(world, PLAIN("d2"));
	sidecar_sends(world, CANCEL("d2", "a later version's"));
	assert_string_equal(inbox_delivery_cancelled(delivery), "cancelled");
	assert_int_equal(inbox_delivery_done(delivery), INBOX_CANCELLED);
	turn(world, 0);
	assert_sidecar_reads_nothing(world);
}

static void a_delivery_cancelled_before_it_was_returned_is_never_returned(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	deliver(world, PLAIN("d1") PLAIN("d2") PLAIN("d3") CANCEL("d2", "timeout"));
	inbox_delivery_done(world->delivery);
	assert_int_equal(turn(world, 0), 0);
	inbox_delivery_done(world->delivery);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	sidecar_reads(world, DONE("d1"));
	sidecar_reads(world, DONE("d3"));
}

static void a_cancelled_entry_is_omitted_from_the_answer(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *second;

	connect_handler(world);
	inbox_delivery_done(
		deliver(world, BATCH("b1", ENTRY("e1") "," ENTRY("e2") "," ENTRY("e3"))));
	assert_int_equal(turn(world, 0), 0);
	second = world->delivery;
	sidecar_sends(world, CANCEL("e2", "timeout") CANCEL("e3", "timeout"));
	assert_string_equal(inbox_delivery_cancelled(second), "timeout");
	assert_int_equal(inbox_delivery_done(second), INBOX_CANCELLED);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	sidecar_reads(world, ANSWERED("b1", "\"entries\":[{\"id\":\"e1\",\"status\":\"done\"}]"));
}

static void cancelling_a_batch_cancels_its_entries(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *first;

	connect_handler(world);
	first = deliver(world, BATCH("b1", ENTRY("e1") "," ENTRY("e2")));
	sidecar_sends(world, CANCEL("b1", "shutdown"));
	assert_string_equal(inbox_delivery_cancelled(first), "shutdown");
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	assert_int_equal(inbox_delivery_done(first), INBOX_CANCELLED);
	turn(world, 0);
	assert_sidecar_reads_nothing(world);
}

/* Loss and broken lines */

static void a_lost_connection_cancels_and_the_next_one_delivers_again(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *old;
	struct inbox_delivery *entry;

	connect_handler(world);
	old = deliver(world, PLAIN("d1") BATCH("b1", ENTRY("e1") "," ENTRY("e2")) PLAIN("d2"));
	assert_int_equal(turn(world, 0), 0);
	inbox_delivery_done(world->delivery);
	assert_int_equal(turn(world, 0), 0);
	entry = world->delivery;
	hang_up(world);
	assert_string_equal(inbox_delivery_cancelled(old), "connection_lost");
	assert_says(world, "the connection was lost; connecting again in");
	greet(world);
	assert_non_null(strstr(world->last, "connected to "));
	assert_non_null(strstr(world->last, " ms without a connection"));
	assert_int_equal(inbox_delivery_done(old), INBOX_CANCELLED);
	assert_int_equal(inbox_delivery_done(entry), INBOX_CANCELLED);
	inbox_delivery_done(deliver(world, PLAIN("d1")));
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
	assert_sidecar_reads_nothing(world);
}

static void an_answer_into_a_closed_connection_ends_only_that_connection(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	deliver(world, PLAIN("d1"));
	hang_up(world);
	assert_int_equal(inbox_delivery_done(world->delivery), 0);
	assert_int_equal(inbox_handler_flush(world->handler), 0);
	greet(world);
	assert_sidecar_reads_nothing(world);
}

static void a_line_that_is_not_a_json_object_ends_the_connection(void **state)
{
	static const char *const lines[] = { "nonsense\n", "\n", "[]\n", "7\n", "{}{}\n", "{\n",
		"{\"a\":1}\"b}\n", "{\"id\":\"\xff\"}\n", "{\"a\":01}\n" };
	struct world *world = *state;

	make_handler(world);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		greet(world);
		sidecar_sends(world, PLAIN("d1"));
		sidecar_sends(world, lines[i]);
		assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
		assert_says(world, "not a JSON object");
	}
	greet(world);
	deliver(world, PLAIN("d1"));
}

static void *send_endless(void *arg)
{
	struct world *world = arg;
	static char block[1 << 16];

	memset(block, ' ', sizeof(block));
	for (int i = 0; i < 600; i++) {
		if (send(world->peer, block, sizeof(block), MSG_NOSIGNAL) < 0)
			break;
	}
	return NULL;
}

static void a_line_without_end_ends_the_connection(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	connect_handler(world);
	assert_int_equal(pthread_create(&thread, NULL, send_endless, world), 0);
	for (int i = 0; !readable_within(world->listener, 0) && i < WAIT_MS; i++)
		turn(world, 1);
	assert_says(world, "more than 32 MiB");
	assert_int_equal(pthread_join(thread, NULL), 0);
	greet(world);
}

static void unknown_requests_are_answered_and_unknown_notifications_ignored(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	sidecar_sends(world, "{\"id\":\"x\",\"method\":\"dance\"}\n{\"method\":\"dance\"}\n");
	sidecar_sends(world, "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}\n");
	sidecar_sends(world, "{\"id\":2,\"result\":{}}\n" PLAIN("d1"));
	assert_int_equal(turn(world, WAIT_MS), 0);
	turn(world, 0);
	assert_non_null(strstr(read_line(world), "\"id\":\"x\",\"error\":{\"code\":-32601"));
	assert_sidecar_reads_nothing(world);
}

/* When answers leave */

static void an_answer_is_sent_before_the_next_message_is_handled(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	deliver(world, PLAIN("d1") PLAIN("d2"));
	inbox_delivery_done(world->delivery);
	assert_sidecar_reads_nothing(world);
	assert_int_equal(turn(world, 0), 0);
	sidecar_reads(world, DONE("d1"));
}

static void every_answer_of_a_fast_handler_is_sent(void **state)
{
	struct world *world = *state;
	char text[8192] = "";
	size_t used = 0;

	connect_handler(world);
	for (int i = 0; i < 10; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s", PLAIN("d1") PLAIN("d2"));
	for (int i = 0; i < 10; i++)
		sidecar_sends(world, text);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(turn(world, WAIT_MS), 0);
		inbox_delivery_done(world->delivery);
	}
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	for (int i = 0; i < 100; i++) {
		sidecar_reads(world, DONE("d1"));
		sidecar_reads(world, DONE("d2"));
	}
}

/* Stop */

static void stop_before_any_connection_stops_at_once(void **state)
{
	struct world *world = *state;

	make_handler(world);
	inbox_handler_stop(world->handler);
	assert_int_equal(turn(world, -1), INBOX_STOPPED);
	assert_int_equal(turn(world, -1), INBOX_STOPPED);
	assert_false(readable_within(world->listener, 0));
}

static void stop_returns_unseen_messages_and_waits_for_open_ones(void **state)
{
	struct world *world = *state;
	struct inbox_delivery *open;

	connect_handler(world);
	open = deliver(world, PLAIN("d1") PLAIN("d2"));
	inbox_handler_stop(world->handler);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	sidecar_reads(world, ANSWERED("d2", "\"status\":\"snooze\",\"delay_ms\":0"));
	sidecar_reads(world, DRAIN);
	sidecar_sends(world, PLAIN("d3"));
	assert_int_equal(turn(world, 20), INBOX_TIMEOUT);
	sidecar_reads(world, ANSWERED("d3", "\"status\":\"snooze\",\"delay_ms\":0"));
	assert_int_equal(inbox_delivery_done(open), 0);
	turn(world, 0);
	sidecar_reads(world, DONE("d1"));
	sidecar_sends(world, DRAINED);
	assert_int_equal(turn(world, -1), INBOX_STOPPED);
}

static void a_connection_lost_while_draining_ends_the_handler(void **state)
{
	struct world *world = *state;

	connect_handler(world);
	inbox_handler_stop(world->handler);
	assert_int_equal(turn(world, 0), INBOX_TIMEOUT);
	hang_up(world);
	assert_int_equal(turn(world, -1), INBOX_STOPPED);
}

/* The loop */

static void handle(struct inbox_delivery *delivery, void *arg)
{
	struct world *world = arg;

	if (strcmp(inbox_delivery_event_id(delivery), "stop") == 0)
		inbox_handler_stop(world->handler);
	if (strcmp(inbox_delivery_event_id(delivery), "silent") != 0)
		inbox_delivery_done(delivery);
}

static void *sidecar_of_the_loop(void *arg)
{
	struct world *world = arg;

	hang_up(world);
	world->peer = accept(world->listener, NULL, NULL);
	read_line(world);
	sidecar_sends(world, HELLO_OK PLAIN("d1") DELIVER("d2", "{\"id\":\"silent\"}"));
	sidecar_reads(world, DONE("d1"));
	sidecar_reads(world,
		ANSWERED("d2", "\"status\":\"retry\",\"reason\":\"the handler function returned "
			       "without a verdict\",\"code\":\"NO_VERDICT\""));
	hang_up(world);
	world->peer = accept(world->listener, NULL, NULL);
	read_line(world);
	sidecar_sends(world, HELLO_OK DELIVER("d3", "{\"id\":\"stop\"}"));
	sidecar_reads(world, DONE("d3"));
	sidecar_reads(world, DRAIN);
	sidecar_sends(world, DRAINED);
	return NULL;
}

static void run_handles_reconnects_and_drains(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	make_handler(world);
	assert_int_equal(pthread_create(&thread, NULL, sidecar_of_the_loop, world), 0);
	assert_int_equal(inbox_handler_run(world->handler, handle, world), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *sidecar_that_refuses(void *arg)
{
	struct world *world = arg;

	world->peer = accept(world->listener, NULL, NULL);
	sidecar_sends(world, "{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"no\"}}\n");
	return NULL;
}

static void a_refused_run_returns_the_refusal(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	make_handler(world);
	assert_int_equal(pthread_create(&thread, NULL, sidecar_that_refuses, world), 0);
	assert_int_equal(inbox_handler_run(world->handler, handle, world), INBOX_ERROR_REFUSED);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The signal is for the handler's thread: here it would only interrupt the script. */
static void *stop_by_signal(void *arg)
{
	struct world *world = arg;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	world->peer = accept(world->listener, NULL, NULL);
	read_line(world);
	sidecar_sends(world, HELLO_OK PLAIN("d1"));
	sidecar_reads(world, DONE("d1"));
	kill(getpid(), SIGTERM);
	sidecar_reads(world, DRAIN);
	sidecar_sends(world, DRAINED);
	return NULL;
}

static void serve_returns_success_on_sigterm(void **state)
{
	struct world *world = *state;
	const struct inbox_handler_options options = options_of(world);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, stop_by_signal, world), 0);
	assert_int_equal(inbox_handler_serve(&options, handle, world), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void serve_reports_wrong_options(void **state)
{
	(void)state;
	assert_int_equal(
		inbox_handler_serve(&(struct inbox_handler_options){ .name = "" }, handle, NULL),
		1);
}

/* Memory */

static void without_memory_no_handler_is_created(void **state)
{
	struct world *world = *state;
	const struct inbox_handler_options options = options_of(world);
	size_t n;

	for (n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = inbox_handler_new(&world->handler, &options);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, INBOX_ERROR_MEMORY);
		assert_non_null(strstr(inbox_handler_error(NULL), "memory"));
	}
	assert_true(n > 3);
}

static void a_message_without_memory_is_returned_by_the_next_call(void **state)
{
	static const char text[] =
		"{\"id\":\"d1\",\"method\":\"deliver\",\"params\":{" HEAD
		",\"event\":{\"id\":\"A\",\"traceparent\":\"00\",\"data\":{}},"
		"\"headers\":[[\"a\",{\"base64\":\"AAE=\"}]]}}\n" BATCH("b1", ENTRY("e1"));
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		bool failed;
		int r;

		connect_handler(world);
		sidecar_sends(world, text);
		alloc_fail_at(n);
		r = turn(world, WAIT_MS);
		failed = alloc_fail_never();
		if (failed && r != 0) {
			assert_int_equal(r, INBOX_ERROR_MEMORY);
			assert_int_equal(turn(world, WAIT_MS), 0);
		}
		assert_string_equal(inbox_delivery_event_id(world->delivery), "A");
		assert_bytes(inbox_delivery_header(world->delivery, "a"), "\0\1", 2);
		assert_int_equal(turn(world, WAIT_MS), 0);
		assert_string_equal(inbox_delivery_event_id(world->delivery), "E-e1");
		inbox_handler_free(world->handler);
		world->handler = NULL;
		if (!failed)
			break;
	}
}

/* Every path of answering: with the n-th allocation failing, either the verdict stands or the
 * delivery stays open and can be answered again. */
static void a_verdict_without_memory_can_be_repeated(void **state)
{
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		struct inbox_delivery *entry;
		bool failed;
		int r;

		connect_handler(world);
		entry = deliver(world, BATCH("b1", ENTRY("e1")));
		alloc_fail_at(n);
		r = inbox_delivery_dead(entry, "a reason", "CODE");
		failed = alloc_fail_never();
		if (failed) {
			assert_int_equal(r, INBOX_ERROR_MEMORY);
			assert_int_equal(inbox_delivery_dead(entry, "a reason", "CODE"), 0);
		}
		turn(world, 0);
		sidecar_reads(
			world, ANSWERED("b1", "\"entries\":[{\"id\":\"e1\",\"status\":\"dead\","
					      "\"reason\":\"a reason\",\"code\":\"CODE\"}]"));
		inbox_handler_free(world->handler);
		world->handler = NULL;
		if (!failed)
			break;
	}
}

/* A valid result is never called invalid because memory is missing. */
static void a_result_without_memory_is_not_called_invalid(void **state)
{
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		struct inbox_delivery *delivery;
		bool failed;
		int r;

		connect_handler(world);
		delivery = deliver(world, PLAIN("d1"));
		alloc_fail_at(n);
		r = inbox_delivery_done_with(delivery, "{\"a\":1}", 7);
		failed = alloc_fail_never();
		if (failed) {
			assert_int_equal(r, INBOX_ERROR_MEMORY);
			assert_int_equal(inbox_delivery_done_with(delivery, "{\"a\":1}", 7), 0);
		}
		turn(world, 0);
		sidecar_reads(world, ANSWERED("d1", "\"status\":\"done\",\"result\":{\"a\":1}"));
		inbox_handler_free(world->handler);
		world->handler = NULL;
		if (!failed)
			break;
	}
}

/* The connection a handler made and gave up is still in the backlog. */
static void forget_handler(struct world *world)
{
	inbox_handler_free(world->handler);
	world->handler = NULL;
	while (readable_within(world->listener, 0))
		close(accept(world->listener, NULL, NULL));
}

static void a_handler_stops_cleanly_without_memory_to_connect(void **state)
{
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		bool failed;

		make_handler(world);
		alloc_fail_at(n);
		turn(world, 0);
		inbox_handler_window(world->handler, 3);
		inbox_handler_stop(world->handler);
		turn(world, 0);
		failed = alloc_fail_never();
		assert_int_equal(turn(world, -1), INBOX_STOPPED);
		forget_handler(world);
		if (!failed)
			break;
	}
}

static void a_handler_stops_cleanly_without_memory_to_drain(void **state)
{
	struct world *world = *state;

	for (size_t n = 1;; n++) {
		bool failed;

		connect_handler(world);
		deliver(world, PLAIN("d1") PLAIN("d2") PLAIN("d3"));
		alloc_fail_at(n);
		inbox_delivery_extend(world->delivery, 5);
		inbox_handler_stop(world->handler);
		turn(world, 0);
		failed = alloc_fail_never();
		hang_up(world);
		assert_int_equal(turn(world, 0), INBOX_STOPPED);
		forget_handler(world);
		if (!failed)
			break;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hello_has_the_name_and_the_defaults),
		TEST(hello_has_the_options_and_subscriptions),
		TEST(the_host_is_the_instance_when_none_is_given),
		TEST(an_invalid_option_is_named),
		TEST(options_beyond_the_size_of_the_struct_are_not_read),
		TEST(the_default_socket_comes_from_the_environment),
		TEST(a_refused_hello_is_not_repeated),
		TEST(after_a_refusal_by_a_stopping_sidecar_it_connects_again),
		TEST(it_connects_again_until_the_sidecar_exists),
		TEST(a_line_before_the_hello_reply_ends_the_connection),
		TEST(a_delivery_has_all_parts_of_the_message),
		TEST(missing_parts_of_a_message_are_empty),
		TEST(a_tombstone_has_no_data_and_null_has),
		TEST(binary_data_and_keys_are_decoded),
		TEST(headers_keep_order_bytes_and_null),
		TEST(an_unreadable_delivery_is_answered_by_the_library),
		TEST(a_member_name_with_nul_is_ignored),
		TEST(a_message_can_arrive_in_pieces),
		TEST(the_start_of_a_message_can_arrive_with_the_previous_one),
		TEST(a_large_message_arrives_completely),
		TEST(each_verdict_is_a_line),
		TEST(events_go_with_done_and_with_no_other_verdict),
		TEST(events_can_be_json_already),
		TEST(an_event_that_cannot_be_sent_is_refused_and_the_delivery_stays_open),
		TEST(events_that_are_too_long_together_are_refused),
		TEST(each_entry_of_a_batch_has_its_own_events),
		TEST(a_result_that_is_not_json_is_refused_and_the_delivery_stays_open),
		TEST(a_reason_is_cut_at_a_character),
		TEST(invalid_utf8_in_a_reason_is_replaced),
		TEST(a_message_can_have_many_headers),
		TEST(the_entries_of_a_batch_are_answered_in_one_line),
		TEST(a_broken_entry_does_not_block_its_batch),
		TEST(many_long_reasons_leave_room_for_every_verdict),
		TEST(after_an_unfinished_message_those_of_its_key_are_skipped),
		TEST(dead_and_settled_messages_skip_none),
		TEST(only_messages_of_the_same_batch_are_skipped),
		TEST(the_order_of_the_sidecar_decides_what_is_skipped),
		TEST(without_the_option_no_message_is_skipped),
		TEST(a_sidecar_that_does_not_know_skipped_gets_a_snooze),
		TEST(behind_a_cancelled_message_those_of_its_key_are_skipped),
		TEST(a_stop_skips_the_unseen_messages_behind_the_first_of_a_key),
		TEST(the_callback_is_not_called_for_skipped_messages),
		TEST(a_skip_without_memory_can_be_repeated),
		TEST(extend_is_sent_at_once),
		TEST(the_time_that_is_left_comes_from_the_timeout_and_not_from_a_clock),
		TEST(the_time_that_is_left_is_that_of_the_hello_reply),
		TEST(the_window_is_sent_at_once_and_after_every_hello),
		TEST(a_cancelled_delivery_has_its_reason_and_its_answer_is_dropped),
		TEST(a_delivery_cancelled_before_it_was_returned_is_never_returned),
		TEST(a_cancelled_entry_is_omitted_from_the_answer),
		TEST(cancelling_a_batch_cancels_its_entries),
		TEST(a_lost_connection_cancels_and_the_next_one_delivers_again),
		TEST(an_answer_into_a_closed_connection_ends_only_that_connection),
		TEST(a_line_that_is_not_a_json_object_ends_the_connection),
		TEST(a_line_without_end_ends_the_connection),
		TEST(unknown_requests_are_answered_and_unknown_notifications_ignored),
		TEST(an_answer_is_sent_before_the_next_message_is_handled),
		TEST(every_answer_of_a_fast_handler_is_sent),
		TEST(stop_before_any_connection_stops_at_once),
		TEST(stop_returns_unseen_messages_and_waits_for_open_ones),
		TEST(a_connection_lost_while_draining_ends_the_handler),
		TEST(run_handles_reconnects_and_drains),
		TEST(a_refused_run_returns_the_refusal),
		TEST(serve_returns_success_on_sigterm),
		TEST(serve_reports_wrong_options),
		TEST(without_memory_no_handler_is_created),
		TEST(a_message_without_memory_is_returned_by_the_next_call),
		TEST(a_verdict_without_memory_can_be_repeated),
		TEST(a_result_without_memory_is_not_called_invalid),
		TEST(a_handler_stops_cleanly_without_memory_to_connect),
		TEST(a_handler_stops_cleanly_without_memory_to_drain),
	};

	return cmocka_run_group_tests_name("handler library", tests, NULL, NULL);
}
