/*
 * See request.h. Redirects are not followed: a service has one URL, and a redirect of a POST can lose its body.
 */
#include "bridge/forward/request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "bridge/forward/header_text.h"
#include "bridge/forward/tls.h"

enum {
	LATE_MS = 2000, /* how long after the deadline the request waits for the cancel of inboxd */
	RETRY_AFTER_MAX_S = 24 * 60 * 60, /* a longer Retry-After is cut */
	REASON_BODY_BYTES = 300,          /* of a response, in a reason */
	IDLE_MAX_S = 1,    /* many services close a connection that is idle for 2 or 5 s */
	HEAD_MAX = 900000, /* libcurl sends 1 MiB at most, also with the headers of the user */
	HEAD_MANY = 8000,  /* what some services do not accept; others, 16 KiB */
	RESPONSE_HEAD_MAX = 65536,
	TOO_LARGE = 100, /* CURLE_TOO_LARGE of libcurl 8.6 */
};

/* --- The handle -------------------------------------------------------------------------------- */

static size_t take_response(char *bytes, size_t size, size_t count, void *arg)
{
	struct request *request = arg;

	(void)size; /* always 1 */
	if (request->response.length + count > BRIDGE_RESULT_MAX) {
		request->overflow = true;
		return 0; /* ends the transfer */
	}
	buf_add(&request->response, bytes, count);
	return count;
}

static size_t take_response_header(char *bytes, size_t size, size_t count, void *arg)
{
	struct request *request = arg;

	(void)bytes;
	(void)size; /* always 1 */
	request->response_head += count;
	request->overflow = request->response_head > RESPONSE_HEAD_MAX;
	return request->overflow ? 0 : count;
}

/* libcurl calls this function each time when a connection is ready for the request. If the service closes a reused
 * connection without a byte of a response, libcurl sends the request again, up to five times: the service may have closed
 * the connection before the request came. But this message may also have ended a worker of the service, and would end the
 * next one within the same attempt. libcurl has no option that prevents this, so the function refuses the second call. */
static int send_once(void *arg, char *ip, char *local_ip, int port, int local_port)
{
	struct request *request = arg;
	const bool again = request->sent;

	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	request->sent = true;
	return again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

#define SET(option, value)                                                                         \
	do {                                                                                       \
		if (r == CURLE_OK)                                                                 \
			r = curl_easy_setopt(easy, (option), (value));                             \
	} while (0)

/* libcurl 7.88 fails with "Error in the HTTP2 framing layer" if it uses a connection without TLS again (curl issue 10634).
 * Debian 12 has this version. */
static bool h2c_needs_new_connections(void)
{
	const unsigned version = curl_version_info(CURLVERSION_NOW)->version_num;

	return version >= 0x075800 && version < 0x080000;
}

static CURLcode set_options(struct request *request, const struct forward_options *options)
{
	CURL *easy = request->easy;
	CURLcode r = tls_set(easy, options);

	SET(CURLOPT_URL, options->url);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_ERRORBUFFER, request->words);
	SET(CURLOPT_WRITEFUNCTION, take_response);
	SET(CURLOPT_WRITEDATA, request);
	SET(CURLOPT_HEADERFUNCTION, take_response_header);
	SET(CURLOPT_HEADERDATA, request);
	SET(CURLOPT_PREREQFUNCTION, send_once);
	SET(CURLOPT_PREREQDATA, request);
	SET(CURLOPT_MAXAGE_CONN, (long)IDLE_MAX_S);
	SET(CURLOPT_PRIVATE, request);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_USERAGENT, "inboxd/" INBOXD_VERSION);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_timeout_ms);
	SET(CURLOPT_HTTP_VERSION, options->h2c ? (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
					       : (long)CURL_HTTP_VERSION_2TLS);
	if (options->h2c && h2c_needs_new_connections()) {
		SET(CURLOPT_FRESH_CONNECT, 1L);
		SET(CURLOPT_FORBID_REUSE, 1L);
	}
	/* A request waits until it is known whether it can share a connection that is being made. */
	SET(CURLOPT_PIPEWAIT,
		options->h2c || strncasecmp(options->url, "https:", 6) == 0 ? 1L : 0L);
	return r;
}

int request_init(struct request *request, const struct forward_options *options, struct err *err)
{
	CURLcode r;

	*request = (struct request){ .easy = curl_easy_init(), .options = options };
	if (request->easy == NULL)
		return err_memory(err);
	r = set_options(request, options);
	if (r == CURLE_OK)
		return 0;
	return r == CURLE_OUT_OF_MEMORY
		       ? err_memory(err)
		       : err_set(err, FAULT_USAGE, "forward: libcurl refuses an option: %s",
				 curl_easy_strerror(r));
}

void request_fini(struct request *request)
{
	curl_easy_cleanup(request->easy);
	curl_slist_free_all(request->headers);
	buf_fini(&request->body);
	buf_fini(&request->response);
}

/* --- The message ------------------------------------------------------------------------------- */

/* Adds the header that is in `line`, and empties it. */
static bool add_header(struct request *request, struct buf *line)
{
	struct curl_slist *longer = NULL;

	if (buf_ok(line))
		longer = curl_slist_append(request->headers, buf_str(line));
	request->head += line->length + 2;
	buf_reset(line);
	if (longer != NULL)
		request->headers = longer;
	return longer != NULL;
}

static bool add_trace_header(
	struct request *request, struct buf *line, const struct event *event, const char *name)
{
	const struct bytes value = header_text_trace(event_attribute(event, name));

	if (value.data == NULL)
		return true;
	buf_addf(line, "%s: ", name);
	header_text_add(line, value, "");
	return add_header(request, line);
}

/* A media type has spaces that must not be encoded. One that is not printable is none. */
static bool add_content_type(struct request *request, struct buf *line, const struct event *event)
{
	const struct bytes type = event_attribute(event, "datacontenttype");
	bool good = type.length > 0;

	for (size_t i = 0; i < type.length; i++)
		good = good && ((const char *)type.data)[i] >= ' ' &&
		       ((const char *)type.data)[i] < 0x7f;
	/* Without a value, libcurl leaves out its own "application/x-www-form-urlencoded". */
	buf_add_str(line, "Content-Type:");
	if (good) {
		buf_add_char(line, ' ');
		buf_add(line, type.data, type.length);
	} else if (event->data.data != NULL) {
		buf_add_str(line,
			event->data_is_json ? " application/json" : " application/octet-stream");
	}
	return add_header(request, line);
}

static bool is_trace(struct bytes name)
{
	return bytes_equal(name, BYTES_LITERAL("traceparent")) ||
	       bytes_equal(name, BYTES_LITERAL("tracestate"));
}

static bool add_attributes(struct request *request, struct buf *line, const struct event *event)
{
	for (size_t i = 0; i < event->count; i++) {
		const struct bytes name = event->attributes[i].name;
		struct bytes text = event->attributes[i].text;

		if (is_trace(name))
			text = header_text_trace(text);
		if (bytes_equal(name, BYTES_LITERAL("datacontenttype")) || text.data == NULL)
			continue;
		buf_add_str(line, "ce-");
		buf_add(line, name.data, name.length);
		buf_add_str(line, ": ");
		header_text_add(line, text, "");
		if (!add_header(request, line))
			return false;
	}
	return true;
}

static bool add_headers(
	struct request *request, struct buf *line, bool structured, const struct event *event)
{
	/* Without it libcurl asks for leave to send a large body, and waits a second for the answer. */
	buf_add_str(line, "Expect:");
	if (!add_header(request, line))
		return false;
	buf_add_str(line, "Idempotency-Key: ");
	header_text_add_idempotency_key(
		line, event_attribute(event, "source"), event_attribute(event, "id"));
	if (!add_header(request, line) || !add_trace_header(request, line, event, "traceparent") ||
		!add_trace_header(request, line, event, "tracestate"))
		return false;
	if (!structured)
		return add_content_type(request, line, event) &&
		       add_attributes(request, line, event);
	buf_add_str(line, "Content-Type: application/cloudevents+json; charset=utf-8");
	return add_header(request, line);
}

static bool add_users_headers(struct request *request, const struct added_headers *headers)
{
	for (size_t i = 0; i < headers->count; i++) {
		struct buf *line = &headers->items[i].line;
		struct curl_slist *longer = curl_slist_append(request->headers, buf_str(line));

		if (longer == NULL || !buf_ok(line))
			return false;
		request->headers = longer;
	}
	return true;
}

static bool build(
	struct request *request, const struct added_headers *headers, const struct event *event)
{
	const bool structured = request->options->structured;
	const struct bytes json = { event->json.data, event->json.length };
	const struct bytes body = structured ? json : event->data;
	struct buf line = BUF_INIT;
	bool good = add_headers(request, &line, structured, event) &&
		    add_users_headers(request, headers);

	buf_fini(&line);
	buf_add(&request->body, body.data, body.length);
	return good && buf_ok(&request->body);
}

int request_prepare(struct request *request, const struct added_headers *headers,
	struct event *event, struct err *err)
{
	CURL *easy = request->easy;
	CURLcode r = CURLE_OK;

	curl_slist_free_all(request->headers);
	request->headers = NULL;
	request->head = 0;
	buf_trim(&request->body, BRIDGE_RESULT_MAX);
	buf_reset(&request->body);
	buf_trim(&request->response, 65536);
	buf_reset(&request->response);
	request->response_head = 0;
	request->overflow = false;
	request->sent = false;
	request->words[0] = '\0';
	if (!build(request, headers, event))
		return err_memory(err);
	if (request->head > HEAD_MAX)
		return REQUEST_TOO_LARGE;
	request->begun_ms = clock_now_ms();
	request->give_up_ms = intake_deadline_ms(request->delivery) + LATE_MS;
	SET(CURLOPT_HTTPHEADER, request->headers);
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
	SET(CURLOPT_POSTFIELDS, buf_str(&request->body));
	SET(CURLOPT_TIMEOUT_MS, (long)(request->give_up_ms - request->begun_ms));
	return r == CURLE_OK ? 0 : err_memory(err);
}

/* --- The response ------------------------------------------------------------------------------ */

static long status_of(const struct request *request)
{
	long status = 0;

	(void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static int64_t retry_after_ms(const struct request *request)
{
	curl_off_t seconds = 0;

	(void)curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &seconds);
	if (seconds <= 0)
		return -1;
	return (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * 1000;
}

/* The status counts also if the rest is too long to be read. libcurl itself does not read a line of 100 KiB. */
static bool is_answered(const struct request *request, CURLcode result)
{
	return result == CURLE_OK ||
	       (status_of(request) != 0 && (request->overflow || result == CURLE_OUT_OF_MEMORY ||
						   (int)result == TOO_LARGE));
}

enum request_end request_end_of(const struct request *request, CURLcode result)
{
	if (!is_answered(request, result))
		return request->sent ? REQUEST_LOST : REQUEST_NOT_REACHED;
	return status_table_is_busy(&request->options->statuses, status_of(request),
		       retry_after_ms(request) >= 0)
		       ? REQUEST_BUSY
		       : REQUEST_ANSWERED;
}

static bool has_content_type(const struct request *request, const char *part)
{
	char *type = NULL;

	(void)curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type);
	return type != NULL && strcasestr(type, part) != NULL;
}

/* "application/json", "application/problem+json; charset=utf-8" */
static bool is_json(const struct request *request)
{
	return has_content_type(request, "/json") || has_content_type(request, "+json");
}

static void put_reason(struct request *request, long status, struct bridge_verdict *out)
{
	struct bytes body = { request->response.data, request->response.length };
	int length = snprintf(out->reason, sizeof(out->reason), "the service answered %ld%s",
		status, status >= 300 && status < 400 ? ", a redirect: give the final URL" : "");

	if (body.length == 0 || !(is_json(request) || has_content_type(request, "text/plain")))
		return;
	if (body.length > REASON_BODY_BYTES)
		body.length = REASON_BODY_BYTES;
	length += snprintf(out->reason + length, sizeof(out->reason) - (size_t)length, ": ");
	bridge_text_put(out->reason + length, sizeof(out->reason) - (size_t)length, body);
}

/* Many services do not accept long headers. They say so with 431, with 400, or by closing the connection. */
static void put_advice(const struct request *request, long status, struct bridge_verdict *out)
{
	const size_t length = strlen(out->reason);

	if (status != 431 && (request->head < HEAD_MANY || (status != 400 && status != 0)))
		return;
	(void)snprintf(out->reason + length, sizeof(out->reason) - length,
		"; the message has %zu bytes of headers, which many services do not accept: raise "
		"the limit of the service%s",
		request->head,
		request->options->structured
			? ""
			: ", or use --mode structured, which sends the attributes in the body");
}

static void put_result(struct request *request, CURLcode result, struct bridge_verdict *out)
{
	if (result != CURLE_OK)
		log_warn("result_not_stored",
			LOG_STR("event_id", inbox_delivery_event_id(request->delivery)),
			LOG_STR("error",
				"the response is too long: 1 MiB of body or 64 KiB of headers"),
			LOG_STR("next", "the message is done, without a result"));
	else if (request->response.length > 0 && is_json(request))
		out->result = (struct bytes){ request->response.data, request->response.length };
}

static void put_no_response(struct request *request, CURLcode result, struct bridge_verdict *out)
{
	const char *words = request->words[0] != '\0' ? request->words : curl_easy_strerror(result);

	/* by send_once() */
	if (result == CURLE_ABORTED_BY_CALLBACK)
		words = "the service has closed the connection";
	(void)snprintf(out->code, sizeof(out->code), "%s",
		result == CURLE_OPERATION_TIMEDOUT ? "TIMEOUT" : "HTTP_NO_RESPONSE");
	(void)snprintf(out->reason, sizeof(out->reason), "no response of the service: %s", words);
	put_advice(request, 0, out);
}

static void put_too_large(const struct request *request, struct bridge_verdict *out)
{
	out->status = BRIDGE_DEAD;
	(void)snprintf(out->code, sizeof(out->code), "HEADERS_TOO_LARGE");
	(void)snprintf(out->reason, sizeof(out->reason),
		"the attributes of the event need %zu bytes of headers, more than the %d that "
		"can be sent: use --mode structured, which sends them in the body",
		request->head, HEAD_MAX);
}

void request_verdict(struct request *request, CURLcode result, struct bridge_verdict *out)
{
	const struct forward_options *options = request->options;
	const long status = status_of(request);

	*out = (struct bridge_verdict){ .status = BRIDGE_RETRY, .delay_ms = -1 };
	if (request->head > HEAD_MAX) {
		put_too_large(request, out);
		return;
	}
	if (!is_answered(request, result)) {
		put_no_response(request, result, out);
		return;
	}
	out->status = status_table_find(&options->statuses, status);
	if (out->status == BRIDGE_DONE && options->settles) {
		out->status = BRIDGE_SETTLED;
	} else if (out->status == BRIDGE_DONE) {
		put_result(request, result, out);
	} else {
		(void)snprintf(out->code, sizeof(out->code), "HTTP_%ld", status);
		put_reason(request, status, out);
		put_advice(request, status, out);
		out->delay_ms = retry_after_ms(request);
	}
}
