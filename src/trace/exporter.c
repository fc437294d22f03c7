/*
 * See exporter.h. An event loop with the HTTP client of libevent, which also resolves host names in the loop, so that
 * no call blocks. The spans of a request stay in the ring until its answer has arrived.
 *
 * Three events drive it: the interval of a second, the deadline of an answer, and the wake-up from other threads. Each
 * ends in step(), which begins a request if there is none. A request ends in exactly one of spans_accepted(),
 * spans_refused() and request_failed(), which set `sending` to 0 and wake step() again.
 *
 * Spans are a help for people, never a promise: no error here may reach the processing of messages. An outage of the
 * collector is logged once at its begin and once at its end.
 */
#include "trace/exporter.h"

#include <event2/buffer.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outage_log.h"
#include "base/threads/thread.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "report/meters.h"
#include "trace/otlp.h"

#define INTERVAL_SECONDS  1
#define ANSWER_SECONDS    5
#define STOP_SECONDS      1
#define BACKOFF_MS        1000
#define BACKOFF_MAX_MS    30000
#define MAX_REQUEST       (4u << 20)
#define MAX_ANSWER_HEAD   16384
#define MAX_ANSWER_BODY   65536
#define DEFAULT_PORT      80
#define DEFAULT_PATH      "/v1/traces"
#define TOO_MANY_REQUESTS 429

struct exporter {
	struct ring *ring;
	struct otlp_resource resource;
	const char *endpoint;
	struct evhttp_uri *uri;
	char host[256];
	char authority[300];
	struct event_base *base;
	struct evdns_base *dns;
	struct evhttp_connection *connection; /* NULL: to be made */
	struct event *interval;
	struct event *overdue;
	struct event *poked;
	struct buf body;
	size_t sending; /* spans in the request that is under way; 0: there is none */
	bool broken;    /* the connection must be replaced */
	bool stopping;
	struct outage_log outage; /* requests that failed in a row */
	int64_t retry_at_ms;
	struct metric *exported;
	struct metric *dropped;
	struct metric *failed;
	struct thread thread;
};

/* --- The result of a request ------------------------------------------------------------------- */

/* The next step runs from the loop, not from here: on_answer() is called by libevent, which still uses the
 * connection that the next step may replace. */
static void end_request(struct exporter *exporter)
{
	exporter->sending = 0;
	(void)event_del(exporter->overdue);
	event_active(exporter->poked, EV_TIMEOUT, 0);
}

static void spans_accepted(struct exporter *exporter)
{
	struct outage_log ended;

	if (outage_log_ended(&exporter->outage, &ended))
		log_info("otlp_export_back", LOG_INT("failed_requests", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	metric_add(exporter->exported, (int64_t)exporter->sending);
	ring_release(exporter->ring, exporter->sending);
	end_request(exporter);
}

/* Sending them again would only be refused again. */
static void spans_refused(struct exporter *exporter, int code)
{
	log_warn("otlp_spans_refused", LOG_STR("endpoint", exporter->endpoint),
		LOG_INT("status", code), LOG_INT("spans", (int64_t)exporter->sending),
		LOG_STR("next",
			"these spans are dropped; check otlp.endpoint and the collector's log"));
	metric_add(exporter->failed, 1);
	metric_add(exporter->dropped, (int64_t)exporter->sending);
	ring_release(exporter->ring, exporter->sending);
	end_request(exporter);
}

/* The spans stay in the ring. When that is full, the newest ones are dropped. */
static void request_failed(struct exporter *exporter, const char *why)
{
	int64_t delay_ms = backoff_delay_ms(
		BACKOFF_MS, BACKOFF_MAX_MS, (int)exporter->outage.failures, random_u64());
	const int64_t now_ms = clock_now_ms();

	if (outage_log_failed(&exporter->outage, 0, now_ms))
		log_warn("otlp_export_failed", LOG_STR("endpoint", exporter->endpoint),
			LOG_STR("error", why), LOG_INT("retry_in_ms", delay_ms),
			LOG_STR("next",
				"spans are kept while there is room for them, then dropped"),
			LOG_OUTAGE(&exporter->outage, now_ms));
	exporter->retry_at_ms = now_ms + delay_ms;
	exporter->broken = true;
	metric_add(exporter->failed, 1);
	end_request(exporter);
}

/* A request that is NULL or has the code 0 got no answer. One that on_overdue() has ended is ignored. */
static void on_answer(struct evhttp_request *request, void *arg)
{
	struct exporter *exporter = arg;
	int code = request == NULL ? 0 : evhttp_request_get_response_code(request);
	char why[64];

	(void)snprintf(why, sizeof(why), "the collector answers with status %d", code);
	if (exporter->sending == 0)
		return;
	if (code == 0)
		request_failed(exporter, "no connection, or an answer that is not HTTP");
	else if (code == TOO_MANY_REQUESTS || code >= 500)
		request_failed(exporter, why);
	else if (code >= 200 && code < 300)
		spans_accepted(exporter);
	else
		spans_refused(exporter, code);
}

/* --- Requests ----------------------------------------------------------------------------------- */

static void disconnect(struct exporter *exporter)
{
	exporter->broken = false;
	if (exporter->connection != NULL)
		evhttp_connection_free(exporter->connection);
	exporter->connection = NULL;
}

/* After a failure the old connection can be in any state, so it is replaced. */
static bool connect_again(struct exporter *exporter)
{
	int port = evhttp_uri_get_port(exporter->uri);

	if (exporter->broken)
		disconnect(exporter);
	if (exporter->connection != NULL)
		return true;
	exporter->connection = evhttp_connection_base_new(exporter->base, exporter->dns,
		exporter->host, (unsigned short)(port < 0 ? DEFAULT_PORT : port));
	if (exporter->connection == NULL)
		return false;
	evhttp_connection_set_timeout(exporter->connection, ANSWER_SECONDS);
	evhttp_connection_set_max_headers_size(exporter->connection, MAX_ANSWER_HEAD);
	evhttp_connection_set_max_body_size(exporter->connection, MAX_ANSWER_BODY);
	return true;
}

/* A request with the first `sending` spans of the ring. NULL: no memory. */
static struct evhttp_request *make_request(struct exporter *exporter)
{
	struct evhttp_request *request;
	struct evkeyvalq *headers;

	buf_reset(&exporter->body);
	otlp_begin(&exporter->body, &exporter->resource);
	for (size_t i = 0; i < exporter->sending; i++)
		otlp_add_span(&exporter->body, i == 0, ring_at(exporter->ring, i));
	otlp_end(&exporter->body);
	request = buf_ok(&exporter->body) ? evhttp_request_new(on_answer, exporter) : NULL;
	if (request == NULL)
		return NULL;
	headers = evhttp_request_get_output_headers(request);
	if (evhttp_add_header(headers, "Host", exporter->authority) == 0 &&
		evhttp_add_header(headers, "Content-Type", "application/json") == 0 &&
		evhttp_add_header(headers, "User-Agent", "inboxd/" INBOXD_VERSION) == 0 &&
		evbuffer_add(evhttp_request_get_output_buffer(request), exporter->body.data,
			exporter->body.length) == 0)
		return request;
	evhttp_request_free(request);
	return NULL;
}

static void send_spans(struct exporter *exporter, size_t count)
{
	const struct timeval deadline = { .tv_sec = ANSWER_SECONDS };
	const char *path = evhttp_uri_get_path(exporter->uri);
	struct evhttp_request *request = NULL;

	exporter->sending = count < EXPORT_MOST ? count : EXPORT_MOST;
	if (connect_again(exporter))
		request = make_request(exporter);
	if (path == NULL || path[0] == '\0' || strcmp(path, "/") == 0)
		path = DEFAULT_PATH;
	(void)event_add(exporter->overdue, &deadline);
	/* evhttp_make_request() can call on_answer() before it returns. */
	if (request == NULL ||
		evhttp_make_request(exporter->connection, request, EVHTTP_REQ_POST, path) != 0)
		request_failed(exporter, "out of memory");
}

/* Sends the next request if there are enough spans for one; with `due` also if there are fewer. */
static void step(struct exporter *exporter, bool due)
{
	size_t count;

	if (exporter->sending > 0)
		return;
	count = ring_count(exporter->ring);
	/* A stop waits for what can be sent at once, not for a collector that fails. */
	if (exporter->stopping && (count == 0 || exporter->outage.failures > 0))
		(void)event_base_loopbreak(exporter->base);
	else if (count > 0 && (due || count >= EXPORT_MOST) &&
		 clock_now_ms() >= exporter->retry_at_ms)
		send_spans(exporter, count);
}

/* --- The loop ----------------------------------------------------------------------------------- */

static void on_interval(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	step(arg, true);
}

/* libevent's own timeout begins again with every byte that arrives; this one is for the whole request. */
static void on_overdue(evutil_socket_t fd, short what, void *arg)
{
	struct exporter *exporter = arg;

	(void)fd;
	(void)what;
	if (exporter->sending == 0)
		return;
	disconnect(exporter);
	request_failed(exporter, "the collector has not answered within 5 seconds");
}

/* Spans wait, a request has ended, or the thread must stop. A stop has at most STOP_SECONDS. */
static void on_poked(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval most = { .tv_sec = STOP_SECONDS };
	struct exporter *exporter = arg;

	(void)fd;
	(void)what;
	wake_clear(&exporter->thread.wake);
	if (thread_is_stopping(&exporter->thread) && !exporter->stopping) {
		exporter->stopping = true;
		(void)event_base_loopexit(exporter->base, &most);
	}
	step(exporter, exporter->stopping);
}

/* Spans that are left at the end count as dropped, so that the metrics add up. */
static void exporter_main(void *arg)
{
	struct exporter *exporter = arg;

	(void)event_base_dispatch(exporter->base);
	metric_add(exporter->dropped, (int64_t)ring_count(exporter->ring));
}

static void exporter_free(struct exporter *exporter)
{
	if (exporter == NULL)
		return;
	exporter->sending = 0;
	if (exporter->connection != NULL)
		evhttp_connection_free(exporter->connection);
	if (exporter->dns != NULL)
		evdns_base_free(exporter->dns, 0);
	if (exporter->interval != NULL)
		event_free(exporter->interval);
	if (exporter->overdue != NULL)
		event_free(exporter->overdue);
	if (exporter->poked != NULL)
		event_free(exporter->poked);
	if (exporter->base != NULL)
		event_base_free(exporter->base);
	if (exporter->uri != NULL)
		evhttp_uri_free(exporter->uri);
	thread_fini(&exporter->thread);
	buf_fini(&exporter->body);
	free(exporter);
}

DEFINE_CLEANUP(struct exporter *, exporter_free);

/* Without a resolv.conf, addresses and the names in /etc/hosts still work. */
static struct evdns_base *make_dns(struct event_base *base)
{
	const int flags = EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE;
	struct evdns_base *dns = evdns_base_new(base, flags);

	if (dns != NULL)
		return dns;
	dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (dns != NULL)
		(void)evdns_base_load_hosts(dns, "/etc/hosts");
	return dns;
}

static int make_loop(struct exporter *exporter, struct err *err)
{
	const struct timeval often = { .tv_sec = INTERVAL_SECONDS };
	int r = thread_init(&exporter->thread, err);

	if (r < 0)
		return r;
	exporter->base = event_base_new();
	if (exporter->base == NULL)
		return err_memory(err);
	exporter->dns = make_dns(exporter->base);
	exporter->interval = event_new(exporter->base, -1, EV_PERSIST, on_interval, exporter);
	exporter->overdue = event_new(exporter->base, -1, 0, on_overdue, exporter);
	exporter->poked = event_new(
		exporter->base, exporter->thread.wake.fd, EV_READ | EV_PERSIST, on_poked, exporter);
	if (exporter->dns == NULL || exporter->interval == NULL || exporter->overdue == NULL ||
		exporter->poked == NULL || event_add(exporter->interval, &often) < 0 ||
		event_add(exporter->poked, NULL) < 0)
		return err_memory(err);
	return 0;
}

/* The configuration has checked the form already (check_otlp_endpoint()). */
static int read_endpoint(struct exporter *exporter, struct err *err)
{
	const char *start = exporter->endpoint + strlen("http://");
	const char *host;

	exporter->uri = evhttp_uri_parse(exporter->endpoint);
	host = exporter->uri == NULL ? NULL : evhttp_uri_get_host(exporter->uri);
	if (host == NULL || host[0] == '\0')
		return err_set(err, FAULT_CONFIG,
			"otlp.endpoint: \"%s\" is not the address of a collector; write "
			"http://host:4318",
			exporter->endpoint);
	if (host[0] == '[') /* the address alone */
		(void)snprintf(exporter->host, sizeof(exporter->host), "%.*s",
			(int)strcspn(host + 1, "]"), host + 1);
	else
		(void)snprintf(exporter->host, sizeof(exporter->host), "%s", host);
	(void)snprintf(exporter->authority, sizeof(exporter->authority), "%.*s",
		(int)strcspn(start, "/"), start);
	return 0;
}

int exporter_start(struct exporter **out, const struct trace_options *options, struct ring *ring,
	struct err *err)
{
	CLEANUP(exporter_freep) struct exporter *exporter = calloc(1, sizeof(*exporter));
	int r;

	if (exporter == NULL)
		return err_memory(err);
	exporter->ring = ring;
	exporter->endpoint = options->endpoint;
	exporter->resource = (struct otlp_resource){ options->service, options->instance };
	exporter->thread = (struct thread)THREAD_INIT;
	exporter->body.limit = MAX_REQUEST;
	exporter->exported = metrics_get(options->metrics, METER_OTLP_EXPORTED, NULL, NULL);
	exporter->dropped = metrics_get(options->metrics, METER_OTLP_DROPPED, NULL, NULL);
	exporter->failed = metrics_get(options->metrics, METER_OTLP_FAILURES, NULL, NULL);
	r = read_endpoint(exporter, err);
	if (r == 0)
		r = make_loop(exporter, err);
	if (r == 0)
		r = thread_start(&exporter->thread, "otlp", exporter_main, exporter, err);
	if (r < 0)
		return r;
	*out = exporter;
	exporter = NULL;
	return 0;
}

void exporter_poke(struct exporter *exporter)
{
	thread_wake(&exporter->thread);
}

void exporter_stop(struct exporter *exporter)
{
	if (exporter == NULL)
		return;
	thread_request_stop(&exporter->thread);
	thread_join(&exporter->thread);
	exporter_free(exporter);
}
