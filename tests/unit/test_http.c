/*
 * The HTTP server, asked over real sockets on loopback; and two parts of it that need none: the
 * reading of Accept and the reading of an address. Its judges of health: test_http_health.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/cleanup.h"
#include "base/time/clock.h"
#include "http/connections.h"
#include "http/http.h"
#include "http/listen.h"
#include "http/metrics_page.h"
#include "report/meters.h"

#define ANSWER_SECONDS 20L /* a deadline, not a wait */
#define LEASE_MS       15000

struct world {
	struct metrics *metrics;
	struct health health;
	struct http *http;
	char answer[1 << 17]; /* the last one, whole */
	size_t length;
};

static void all_is_well(struct health *health)
{
	int64_t now = clock_now_ms();

	health->ingest_tick_ms = now;
	health->dispatch_tick_ms = now;
	health->heartbeat_ms = now;
	health->stored_ms = now;
	health->database_ok = true;
	health->group_joined = true;
	health->broker_ok = true;
	health->stopping = false;
}

static void a_small_status(struct buf *json, void *arg)
{
	(void)arg;
	buf_add_str(json, "{\"instance\":\"pod-7\"}");
}

static struct http_options options_of(struct world *world, const char *listen)
{
	return (struct http_options){
		.listen = listen,
		.metrics = world->metrics,
		.health = &world->health,
		.lease_ms = LEASE_MS,
		.status = a_small_status,
	};
}

static int started(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct http_options options;

	if (world == NULL || metrics_new(&world->metrics, meters, METER_COUNT, NULL) < 0)
		return -1;
	all_is_well(&world->health);
	options = options_of(world, "127.0.0.1:0");
	*state = world;
	return http_start(&world->http, &options, NULL);
}

static int stopped(void **state)
{
	struct world *world = *state;

	http_stop(world->http);
	metrics_free(world->metrics);
	free(world);
	return 0;
}

static int connect_to(const struct world *world)
{
	const struct timeval deadline = { .tv_sec = ANSWER_SECONDS };
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)http_port(world->http)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* All the server says until it closes the connection. */
static const char *hear_all(struct world *world, int fd)
{
	ssize_t got;

	world->length = 0;
	do {
		got = recv(fd, world->answer + world->length,
			sizeof(world->answer) - 1 - world->length, 0);
		assert_true(got >= 0);
		world->length += (size_t)got;
	} while (got > 0);
	world->answer[world->length] = '\0';
	assert_int_equal(close(fd), 0);
	return world->answer;
}

/* The answer to one request on a connection of its own; `more` is further header lines. */
static const char *ask(struct world *world, const char *method, const char *path, const char *more)
{
	char request[1024];
	int fd = connect_to(world);

	(void)snprintf(request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", method, path,
		more);
	say(fd, request);
	return hear_all(world, fd);
}

static const char *get(struct world *world, const char *path)
{
	return ask(world, "GET", path, "");
}

static const char *body_of(const char *answer)
{
	const char *end = strstr(answer, "\r\n\r\n");

	assert_non_null(end);
	return end + 4;
}

static void assert_code(const char *answer, const char *code)
{
	if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strncmp(answer + 9, code, 3) != 0)
		fail_msg("not %s:\n%s", code, answer);
}

static void assert_says(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' is not in:\n%s", part, text);
}

/* An error of ours: JSON, and nothing behind it. */
static void assert_error(const char *answer, const char *code, const char *words)
{
	char length[64];

	assert_code(answer, code);
	assert_says(answer, "Content-Type: application/json\r\n");
	assert_says(body_of(answer), "{\"error\":\"");
	assert_says(body_of(answer), words);
	(void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n", strlen(body_of(answer)));
	assert_says(answer, length);
	assert_null(strchr(answer, '<'));
}

static void metrics_are_prometheus_text(void **state)
{
	struct world *world = *state;
	const char *answer;

	metric_add(metrics_get(world->metrics, METER_MESSAGES_RECEIVED, "orders", NULL), 17);
	answer = get(world, "/metrics");
	assert_code(answer, "200");
	assert_says(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	assert_says(answer, "\ninboxd_messages_received_total{topic=\"orders\"} 17\n");
	assert_says(answer, "# TYPE inboxd_deliveries_total counter\n");
}

static void metrics_are_openmetrics_on_request(void **state)
{
	struct world *world = *state;
	const char *answer = ask(world, "GET", "/metrics",
		"Accept: application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5\r\n");

	assert_code(answer, "200");
	assert_says(answer,
		"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
	assert_says(answer, "# TYPE inboxd_deliveries counter\n");
	assert_string_equal(answer + world->length - strlen("# EOF\n"), "# EOF\n");
}

static void a_page_larger_than_a_socket_buffer_is_sent_completely(void **state)
{
	struct world *world = *state;
	char partition[16];

	for (int i = 0; i < 2000; i++) {
		(void)snprintf(partition, sizeof(partition), "%d", i);
		(void)metrics_get(world->metrics, METER_KAFKA_LAG, "orders", partition);
	}
	assert_says(get(world, "/metrics"),
		"inboxd_kafka_lag{topic=\"orders\",partition=\"1999\"} 0\n");
	assert_true(world->length > 100000);
}

static void head_is_get_without_the_body(void **state)
{
	struct world *world = *state;
	const char *answer = ask(world, "HEAD", "/readyz", "");

	assert_code(answer, "200");
	assert_says(answer, "Content-Length: 15\r\n");
	assert_string_equal(body_of(answer), "");
}

static void a_query_string_is_ignored(void **state)
{
	assert_code(get(*state, "/livez?verbose=1"), "200");
}

static void other_methods_are_refused_with_the_allowed_ones(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "PATCH", "OPTIONS" };

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		const char *answer = ask(*state, methods[i], "/metrics", "Content-Length: 0\r\n");

		assert_code(answer, "405");
		assert_says(answer, "Allow: GET, HEAD\r\n");
		assert_says(answer, "only GET, HEAD here");
	}
}

static void an_unknown_path_is_answered_with_the_known_ones(void **state)
{
	const char *answer = get(*state, "/");

	assert_code(answer, "404");
	assert_says(answer, "Content-Type: application/json\r\n");
	assert_string_equal(body_of(answer),
		"{\"error\":\"no such path\",\"paths\":[\"/metrics\","
		"\"/livez\",\"/readyz\",\"/status\",\"/config\",\"/log-level\"]}\n");
}

static void status_returns_the_text_of_the_program(void **state)
{
	const char *answer = get(*state, "/status");

	assert_code(answer, "200");
	assert_says(answer, "Cache-Control: no-store\r\n");
	assert_string_equal(body_of(answer), "{\"instance\":\"pod-7\"}\n");
}

static void several_requests_share_a_connection(void **state)
{
	struct world *world = *state;
	const char *answer;
	int fd = connect_to(world);

	say(fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n"
		"GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	answer = hear_all(world, fd);
	assert_says(answer, "{\"alive\":true}");
	assert_says(answer, "{\"ready\":true}");
}

static void ready_and_alive_answer_200(void **state)
{
	assert_string_equal(body_of(get(*state, "/readyz")), "{\"ready\":true}\n");
	assert_code(get(*state, "/livez"), "200");
}

static void not_ready_is_503_with_the_reason_and_still_alive(void **state)
{
	struct world *world = *state;
	const char *answer;

	world->health.database_ok = false;
	answer = get(world, "/readyz");
	assert_code(answer, "503");
	assert_string_equal(body_of(answer),
		"{\"ready\":false,\"reasons\":[{\"check\":\"database\",\"detail\":"
		"\"PostgreSQL is unreachable or refuses to work, trying again\"}]}\n");
	assert_code(get(world, "/livez"), "200");
}

static void a_malformed_request_is_answered_with_400(void **state)
{
	struct world *world = *state;
	int fd = connect_to(world);

	say(fd, "\x16\x03\x01 what is this\r\n\r\n");
	assert_error(hear_all(world, fd), "400", "not an HTTP request");
	assert_code(get(world, "/livez"), "200");
}

static void a_request_head_without_end_is_cut_off(void **state)
{
	struct world *world = *state;
	char line[1026];
	int fd = connect_to(world);
	ssize_t sent = 0;
	ssize_t got;

	(void)snprintf(line, sizeof(line), "X: %01020d\r\n", 0);
	say(fd, "GET /livez HTTP/1.1\r\n");
	for (int i = 0; i < 1000 && sent >= 0; i++)
		sent = send(fd, line, strlen(line), MSG_NOSIGNAL);
	do
		got = recv(fd, world->answer, sizeof(world->answer), 0);
	while (got > 0);
	/* Closed or reset; a deadline that passed would mean it is still listening. */
	assert_true(got == 0 || errno != EAGAIN);
	assert_int_equal(close(fd), 0);
	assert_code(get(world, "/livez"), "200");
}

static void a_request_body_beyond_the_limit_is_refused(void **state)
{
	assert_error(ask(*state, "POST", "/status", "Content-Length: 100000\r\n"), "413",
		"larger than 4 KiB");
}

static void errors_of_libevent_are_answered_in_json(void **state)
{
	assert_error(ask(*state, "BREW", "/status", ""), "501", "method is not supported");
	assert_error(ask(*state, "PUT", "/log-level", "Content-Length: many\r\n"), "400",
		"not an HTTP request");
	assert_error(ask(*state, "PUT", "/log-level", "Content-Length: 4\r\nExpect: tea\r\n"),
		"417", "100-continue");
	assert_code(get(*state, "/livez"), "200");
}

/* In pieces, so that the limit is passed when the answer cannot be to the head any more. */
static void a_chunked_body_beyond_the_limit_is_refused(void **state)
{
	struct world *world = *state;
	char body[5002];
	int fd = connect_to(world);

	memset(body, 'x', sizeof(body));
	body[sizeof(body) - 1] = '\0';
	say(fd, "PUT /log-level HTTP/1.1\r\nHost: localhost\r\n"
		"Transfer-Encoding: chunked\r\n\r\n1388\r\n");
	say(fd, body);
	(void)shutdown(fd, SHUT_WR);
	assert_error(hear_all(world, fd), "413", "larger than 4 KiB");
}

static void a_client_that_closes_before_its_answer_does_no_harm(void **state)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	struct world *world = *state;

	for (int i = 0; i < 20; i++) {
		int fd = connect_to(world);

		say(fd, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
		assert_int_equal(
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
		assert_int_equal(close(fd), 0);
	}
	assert_code(get(world, "/livez"), "200");
}

/* What is written to stderr until it has `word` in it; stderr is put back. */
static void hear_log(int pipe_end, int saved_stderr, const char *word)
{
	struct pollfd wait = { .fd = pipe_end, .events = POLLIN };
	char log[4096] = "";
	ssize_t got;

	assert_int_equal(poll(&wait, 1, (int)(ANSWER_SECONDS * 1000)), 1);
	got = read(pipe_end, log, sizeof(log) - 1);
	assert_int_equal(dup2(saved_stderr, STDERR_FILENO), STDERR_FILENO);
	assert_true(got > 0);
	assert_says(log, word);
}

static void without_descriptors_it_logs_and_answers_later(void **state)
{
	struct world *world = *state;
	struct rlimit old;
	struct rlimit tight;
	int saved = dup(STDERR_FILENO);
	int ends[2];
	int fd;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = (struct rlimit){ .rlim_cur = (rlim_t)ends[1] + 2, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	fd = connect_to(world);
	hear_log(ends[0], saved, "http_accept_failed");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_code(get(world, "/livez"), "200");
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(saved) + close(ends[0]) + close(ends[1]), 0);
}

/* --- Many connections ------------------------------------------------------------------------------- */

#define FEW 4

static const struct http_limits patient = { .connections = FEW,
	.request_ms = 60000,
	.answer_ms = 60000,
	.next_ms = 60000,
	.spare_ms = 60000,
	.settled_ms = 60000,
	.log_ms = 60000 };

static void start_again(struct world *world, const struct http_limits *limits)
{
	struct http_options options = options_of(world, "127.0.0.1:0");

	http_stop(world->http);
	world->http = NULL;
	options.limits = limits;
	assert_int_equal(http_start(&world->http, &options, NULL), 0);
}

/* One answer on a connection that stays open. */
static void ask_and_stay(struct world *world, int fd)
{
	say(fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
	world->length = 0;
	while (strstr(world->answer, "{\"alive\":true}\n") == NULL || world->length == 0) {
		ssize_t got = recv(fd, world->answer + world->length,
			sizeof(world->answer) - 1 - world->length, 0);

		assert_true(got > 0);
		world->length += (size_t)got;
		world->answer[world->length] = '\0';
	}
}

static void fill(struct world *world, int fds[FEW], bool asking)
{
	for (int i = 0; i < FEW; i++) {
		fds[i] = connect_to(world);
		if (asking)
			ask_and_stay(world, fds[i]);
		else
			say(fds[i], "GET /livez HTTP/1.1\r\nX: ");
	}
}

static void close_all(const int fds[FEW])
{
	for (int i = 0; i < FEW; i++)
		assert_int_equal(close(fds[i]), 0);
}

static bool is_closed(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, 0);

	return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void a_connection_above_the_limit_is_refused(void **state)
{
	struct world *world = *state;
	int fds[FEW];

	start_again(world, &patient);
	fill(world, fds, true);
	for (int i = 0; i < 3; i++)
		assert_error(get(world, "/livez"), "503", "too many connections are open");
	for (int i = 0; i < FEW; i++)
		ask_and_stay(world, fds[i]);
	close_all(fds);
}

static void assert_answers_again(struct world *world)
{
	int64_t until_ms = clock_now_ms() + ANSWER_SECONDS * 1000;

	while (strncmp(get(world, "/livez"), "HTTP/1.1 200", 12) != 0)
		assert_true(clock_now_ms() < until_ms);
}

static void a_closed_connection_makes_room_for_another(void **state)
{
	struct world *world = *state;
	int fds[FEW];

	start_again(world, &patient);
	for (int i = 0; i < 3 * FEW; i++)
		assert_code(get(world, "/livez"), "200");
	fill(world, fds, true);
	close_all(fds);
	assert_answers_again(world);
}

static void a_client_without_a_request_is_closed_for_another(void **state)
{
	struct http_limits limits = patient;
	struct world *world = *state;
	int fds[FEW];

	limits.spare_ms = 0;
	start_again(world, &limits);
	fill(world, fds, false);
	for (int i = 0; i < FEW; i++)
		assert_code(get(world, "/livez"), "200");
	/* Each of those closed its connection: only the first had to give way. */
	assert_true(is_closed(fds[0]));
	say(fds[1], "y\r\nConnection: close\r\n\r\n");
	assert_code(hear_all(world, fds[1]), "200");
	assert_int_equal(close(fds[0]) + close(fds[2]) + close(fds[3]), 0);
}

static void an_idle_client_is_closed_later_and_after_those(void **state)
{
	struct http_limits limits = patient;
	struct world *world = *state;
	int fds[FEW];
	int slow;

	limits.spare_ms = 0;
	limits.settled_ms = 0;
	start_again(world, &limits);
	fill(world, fds, true);
	assert_code(get(world, "/livez"), "200");
	assert_true(is_closed(fds[0]));
	slow = connect_to(world);
	assert_code(get(world, "/livez"), "200");
	assert_true(is_closed(slow));
	for (int i = 1; i < FEW; i++)
		ask_and_stay(world, fds[i]);
	assert_int_equal(close(slow), 0);
	close_all(fds);
}

static void a_request_that_arrives_too_slowly_is_closed(void **state)
{
	struct http_limits limits = patient;
	struct world *world = *state;
	int64_t began_ms = clock_now_ms();
	ssize_t sent = 1;
	int fd;

	limits.request_ms = 300;
	start_again(world, &limits);
	fd = connect_to(world);
	say(fd, "GET /livez HTTP/1.1\r\nX: ");
	while (sent > 0) {
		assert_true(clock_now_ms() - began_ms < ANSWER_SECONDS * 1000);
		(void)poll(NULL, 0, 20);
		sent = send(fd, "y", 1, MSG_NOSIGNAL);
	}
	assert_true(clock_now_ms() - began_ms >= 300);
	assert_int_equal(close(fd), 0);
}

static void the_next_request_has_its_own_timeout(void **state)
{
	struct http_limits limits = patient;
	struct world *world = *state;
	int fd;

	limits.next_ms = 100;
	start_again(world, &limits);
	fd = connect_to(world);
	ask_and_stay(world, fd);
	say(fd, "GET");
	assert_true(is_closed(fd));
	assert_int_equal(close(fd), 0);
}

static void a_large_status(struct buf *json, void *arg)
{
	char blanks[4096];

	(void)arg;
	memset(blanks, ' ', sizeof(blanks));
	for (int i = 0; i < 4096; i++)
		buf_add(json, blanks, sizeof(blanks));
}

static void an_answer_that_is_not_read_is_abandoned(void **state)
{
	struct http_limits limits = patient;
	struct world *world = *state;
	struct http_options options = options_of(world, "127.0.0.1:0");
	int fd;

	limits.answer_ms = 200;
	limits.connections = 1;
	options.limits = &limits;
	options.status = a_large_status;
	http_stop(world->http);
	assert_int_equal(http_start(&world->http, &options, NULL), 0);
	fd = connect_to(world);
	say(fd, "GET /status HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_true(recv(fd, world->answer, 1, 0) == 1);
	assert_answers_again(world);
	assert_int_equal(close(fd), 0);
}

static void stopping_does_not_wait_for_idle_connections(void **state)
{
	struct world *world = *state;
	int64_t before = clock_now_ms();
	char byte;
	int fd = connect_to(world);

	say(fd, "GET /metrics HTTP/1.1\r\n");
	http_stop(world->http);
	world->http = NULL;
	assert_true(clock_now_ms() - before < ANSWER_SECONDS * 1000);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	assert_int_equal(close(fd), 0);
}

static void an_ipv6_address_is_written_in_brackets(void **state)
{
	struct world *world = *state;
	struct http_options options = options_of(world, "[::1]:0");
	struct err err = ERR_INIT;
	struct http *http = NULL;
	int r = http_start(&http, &options, &err);

	/* A host without IPv6 says so; nothing else is an excuse. */
	if (r < 0)
		assert_says(err.text, "[::1]:0");
	else
		assert_true(http_port(http) > 0);
	http_stop(http);
}

static void a_taken_port_is_a_socket_fault_with_advice(void **state)
{
	struct world *world = *state;
	struct err err = ERR_INIT;
	struct http *http = NULL;
	char listen[32];
	struct http_options options = options_of(world, listen);

	(void)snprintf(listen, sizeof(listen), "127.0.0.1:%d", http_port(world->http));
	assert_int_equal(http_start(&http, &options, &err), FAULT_SOCKET);
	assert_null(http);
	assert_says(err.text, listen);
	assert_says(err.text, "Address already in use");
	assert_says(err.text, "choose a free port");
}

static void an_invalid_address_is_a_configuration_fault(void **state)
{
	static const char *const wrong[] = { "", ":", "9464", ":9464", "localhost",
		"localhost:", "localhost:http", "localhost:70000", "localhost:-1",
		"localhost:123456", "::1:9464", "[]:9464", "[::1]", "[::1]9464" };
	int fd = -1;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct err err = ERR_INIT;

		assert_int_equal(http_listen(wrong[i], &fd, &err), FAULT_CONFIG);
		assert_says(err.text, "http.listen");
		assert_says(err.text, "127.0.0.1:9464");
	}
	assert_int_equal(fd, -1);
}

static void an_address_of_another_host_is_a_socket_fault(void **state)
{
	struct err err = ERR_INIT;
	int fd = -1;

	(void)state;
	assert_int_equal(http_listen("192.0.2.1:0", &fd, &err), FAULT_SOCKET);
	assert_says(err.text, "this host has no such address");
}

static void an_unknown_host_name_is_a_socket_fault(void **state)
{
	struct err err = ERR_INIT;
	int fd = -1;

	(void)state;
	assert_int_equal(http_listen("no such host:0", &fd, &err), FAULT_SOCKET);
	assert_says(err.text, "cannot resolve 'no such host'");
}

static void without_memory_it_does_not_start_and_leaks_nothing(void **state)
{
	struct world *world = *state;
	struct http_options options = options_of(world, "127.0.0.1:0");
	struct http *http = NULL;
	int r = FAULT_MEMORY;

	for (size_t n = 1; r == FAULT_MEMORY; n++) {
		assert_true(n < 1000);
		alloc_fail_at(n);
		r = http_start(&http, &options, NULL);
		(void)alloc_fail_never();
	}
	assert_int_equal(r, 0);
	http_stop(http);
}

static void a_broken_status(struct buf *json, void *arg)
{
	(void)arg;
	buf_add_str(json, "{\"half\":");
	json->broken = true;
}

static void without_memory_the_answer_is_500_and_not_partial(void **state)
{
	struct world *world = *state;
	struct http_options options = options_of(world, "127.0.0.1:0");
	const char *answer;

	http_stop(world->http);
	options.status = a_broken_status;
	assert_int_equal(http_start(&world->http, &options, NULL), 0);
	answer = get(world, "/status");
	assert_code(answer, "500");
	assert_string_equal(body_of(answer), "{\"error\":\"out of memory for the answer\"}\n");
}

/* With SIGUSR1 blocked here and its default action in force, a thread that takes it ends the test. */
static void its_thread_blocks_signals_and_keeps_the_starters_mask(void **state)
{
	const struct timespec at_once = { 0 };
	sigset_t mine;
	sigset_t only;

	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
	assert_false(sigismember(&mine, SIGTERM));
	assert_int_equal(sigemptyset(&only), 0);
	assert_int_equal(sigaddset(&only, SIGUSR1), 0);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &only, NULL), 0);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	assert_code(get(*state, "/livez"), "200");
	assert_int_equal(sigtimedwait(&only, NULL, &at_once), SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
}

static void stopping_null_does_nothing(void **state)
{
	(void)state;
	http_stop(NULL);
}

static void openmetrics_is_sent_if_it_is_accepted_and_text_is_not_preferred(void **state)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "*/*", false },
		{ "text/plain", false },
		{ "application/openmetrics-text", true },
		{ "Application/OpenMetrics-Text ; Version=1.0.0", true },
		{ "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/"
		  "*;q=0.1",
			true },
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/"
		  "plain;"
		  "version=1.0.0;q=0.3",
			true },
		{ "application/openmetrics-text;version=0.0.1", false },
		{ "application/openmetrics-text;q=0", false },
		{ "application/openmetrics-text;q=0.3,text/plain;q=0.9", false },
		{ "application/openmetrics-text;q=0.3, text/plain;version=0.0.4;q=0.3", true },
		{ "application/openmetrics-textual", false },
		{ ",,;;,application/openmetrics-text,", true },
		{ "application/openmetrics-text;q=", false },
		{ "application/openmetrics-text;q=0.99999999999999999999999", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (http_accepts_openmetrics(cases[i].accept) != cases[i].openmetrics)
			fail_msg("misread: %s", cases[i].accept);
	}
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, started, stopped)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(metrics_are_prometheus_text),
		SERVED(metrics_are_openmetrics_on_request),
		SERVED(a_page_larger_than_a_socket_buffer_is_sent_completely),
		SERVED(head_is_get_without_the_body),
		SERVED(a_query_string_is_ignored),
		SERVED(other_methods_are_refused_with_the_allowed_ones),
		SERVED(an_unknown_path_is_answered_with_the_known_ones),
		SERVED(status_returns_the_text_of_the_program),
		SERVED(several_requests_share_a_connection),
		SERVED(ready_and_alive_answer_200),
		SERVED(not_ready_is_503_with_the_reason_and_still_alive),
		SERVED(a_malformed_request_is_answered_with_400),
		SERVED(errors_of_libevent_are_answered_in_json),
		SERVED(a_chunked_body_beyond_the_limit_is_refused),
		SERVED(a_request_head_without_end_is_cut_off),
		SERVED(a_request_body_beyond_the_limit_is_refused),
		SERVED(a_client_that_closes_before_its_answer_does_no_harm),
		SERVED(without_descriptors_it_logs_and_answers_later),
		SERVED(a_connection_above_the_limit_is_refused),
		SERVED(a_closed_connection_makes_room_for_another),
		SERVED(a_client_without_a_request_is_closed_for_another),
		SERVED(an_idle_client_is_closed_later_and_after_those),
		SERVED(a_request_that_arrives_too_slowly_is_closed),
		SERVED(the_next_request_has_its_own_timeout),
		SERVED(an_answer_that_is_not_read_is_abandoned),
		SERVED(stopping_does_not_wait_for_idle_connections),
		SERVED(an_ipv6_address_is_written_in_brackets),
		SERVED(a_taken_port_is_a_socket_fault_with_advice),
		cmocka_unit_test(an_invalid_address_is_a_configuration_fault),
		cmocka_unit_test(an_address_of_another_host_is_a_socket_fault),
		cmocka_unit_test(an_unknown_host_name_is_a_socket_fault),
		SERVED(without_memory_it_does_not_start_and_leaks_nothing),
		SERVED(without_memory_the_answer_is_500_and_not_partial),
		SERVED(its_thread_blocks_signals_and_keeps_the_starters_mask),
		cmocka_unit_test(stopping_null_does_nothing),
		cmocka_unit_test(openmetrics_is_sent_if_it_is_accepted_and_text_is_not_preferred),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
