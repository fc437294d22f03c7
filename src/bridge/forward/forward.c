/*
 * See forward.h. One thread, and one wait of libcurl's multi interface: its sockets, the socket of inboxd and the
 * signals. A message that finds no free request waits as `pending`; that happens only when one was cancelled.
 *
 * If the service cannot be reached, forward makes a pause: the window is 0, so inboxd sends no messages. After the pause
 * the window is 1. After the first response it has its full size again.
 *
 * A service that asks to come later is busy. One such response can concern its message only, for example if one customer
 * has used up a quota. So the first such response in a row only halves the window, and the second one makes a pause. After
 * this pause the window is 1. It grows by 1 each time when a whole window had no such response.
 */
#include "bridge/forward/forward.h"

#include <stdlib.h>
#include <strings.h>

#include "base/outage_log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "bridge/forward/added_headers.h"
#include "bridge/forward/file_value.h"
#include "bridge/forward/request.h"
#include "bridge/forward/tls.h"

enum {
	WAIT_MAX_MS = 1000, /* log_repeats() */
	PAUSE_MS = 200,     /* the first pause; doubles */
	PAUSE_MAX_MS = 10000,
	LATER_MS = 1000,   /* behind the pause, for a message that comes again */
	ACCEPTED_MANY = 8, /* a service with a low limit accepts fewer */
};

/* The kinds of failures in outage_log.h. */
enum { NOT_REACHED, BUSY };

struct forward {
	struct forward_options options; /* with the URL that was read */
	struct buf url;
	struct added_headers headers;
	struct intake intake;
	struct event event;
	CURLM *multi;
	struct request *requests;
	size_t count;
	size_t open;
	struct inbox_delivery *pending;
	int busy;                 /* responses in a row that ask to come later */
	struct outage_log outage; /* pauses in a row */
	int64_t resume_ms;        /* when the last pause ends */
	int most;                 /* messages at a time without an outage */
	int64_t accepted;         /* responses since the last one that asks to come later */
	int64_t grown_at;         /* `accepted` when `most` has grown */
	int window;               /* that inboxd knows */
};

static int check_options(const struct forward_options *options, struct err *err)
{
	if (strncasecmp(options->url, "http://", 7) != 0 &&
		strncasecmp(options->url, "https://", 8) != 0)
		return err_set(
			err, FAULT_USAGE, "--url: the URL does not begin with http:// or https://");
	if (options->key != NULL && options->cert == NULL)
		return err_set(err, FAULT_USAGE,
			"--key is the key of a client certificate: give --cert, too");
	return 0;
}

/* Finds mistakes in the options that libcurl would otherwise report for each message, as if the service could not be
 * reached. The error does not quote the URL, because a URL may have a password. */
static int check_with_libcurl(const struct forward_options *options, struct err *err)
{
	CURLU *url = curl_url();
	CURLUcode r;

	if (url == NULL)
		return err_memory(err);
	r = curl_url_set(url, CURLUPART_URL, options->url, 0);
	curl_url_cleanup(url);
	if (r == CURLUE_OUT_OF_MEMORY)
		return err_memory(err);
	if (r != CURLUE_OK)
		return err_set(err, FAULT_USAGE, "--url: %s", curl_url_strerror(r));
	return options->ca == NULL && options->cert == NULL ? 0 : tls_check(options, err);
}

static int read_url(struct forward *forward, struct err *err)
{
	const int r = file_value_read(forward->options.url, &forward->url, err);

	if (r != 0)
		return r == FAULT_USAGE ? err_prefix(err, "--url") : r;
	forward->options.url = buf_str(&forward->url);
	return buf_ok(&forward->url) ? 0 : err_memory(err);
}

static int forward_open(
	struct forward *forward, const struct forward_options *given, struct err *err)
{
	const struct forward_options *options = &forward->options;
	int r;

	*forward = (struct forward){ .options = *given, .intake = { .signal_fd = -1 } };
	forward->window = options->intake.jobs;
	forward->most = options->intake.jobs;
	r = read_url(forward, err);
	if (r == 0)
		r = check_options(options, err);
	if (r == 0)
		r = added_headers_init(
			&forward->headers, options->headers, options->header_count, err);
	if (r != 0)
		return r;
	if (added_headers_have_files(&forward->headers))
		status_table_renews_credentials(&forward->options.statuses);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, FAULT_INTERNAL, "libcurl cannot be initialised");
	r = check_with_libcurl(options, err);
	if (r != 0)
		return r;
	forward->multi = curl_multi_init();
	forward->requests = calloc((size_t)options->intake.jobs, sizeof(*forward->requests));
	if (forward->multi == NULL || forward->requests == NULL)
		return err_memory(err);
	(void)curl_multi_setopt(forward->multi, CURLMOPT_MAXCONNECTS, (long)options->intake.jobs);
	r = event_init(&forward->event, err);
	while (r == 0 && forward->count < (size_t)options->intake.jobs)
		r = request_init(&forward->requests[forward->count++], options, err);
	return r != 0 ? r : intake_open(&forward->intake, &options->intake, err);
}

/* Open messages go back to inboxd with the connection. */
static void forward_close(struct forward *forward)
{
	for (size_t i = 0; i < forward->count; i++) {
		if (forward->requests[i].delivery != NULL)
			(void)curl_multi_remove_handle(forward->multi, forward->requests[i].easy);
		request_fini(&forward->requests[i]);
	}
	free(forward->requests);
	if (forward->multi != NULL)
		(void)curl_multi_cleanup(forward->multi);
	event_fini(&forward->event);
	added_headers_fini(&forward->headers);
	buf_fini(&forward->url);
	intake_close(&forward->intake);
	curl_global_cleanup();
	log_repeats(true);
}

/* --- Messages ---------------------------------------------------------------------------------- */

static struct request *free_request(struct forward *forward)
{
	for (size_t i = 0; i < forward->count; i++) {
		if (forward->requests[i].delivery == NULL)
			return &forward->requests[i];
	}
	return NULL;
}

/* The verdict of a message that cannot be sent. */
static int refuse(struct request *request, struct err *err)
{
	struct bridge_verdict verdict;
	int r;

	request_verdict(request, CURLE_OK, &verdict);
	r = bridge_answer(request->delivery, &verdict, err);
	request->delivery = NULL;
	return r;
}

static int begin(struct forward *forward, struct request *request, struct inbox_delivery *delivery,
	struct err *err)
{
	int r = event_read(&forward->event, delivery, err);

	if (r != 0)
		return r;
	request->delivery = delivery;
	r = added_headers_refresh(&forward->headers, err);
	if (r == 0)
		r = request_prepare(request, &forward->headers, &forward->event, err);
	if (r == REQUEST_TOO_LARGE)
		return refuse(request, err);
	if (r == 0 && curl_multi_add_handle(forward->multi, request->easy) != CURLM_OK)
		r = err_memory(err);
	if (r != 0)
		request->delivery = NULL;
	else
		forward->open++;
	return r;
}

/* INTAKE_NONE, INTAKE_ENDED, a fault. */
static int take_messages(struct forward *forward, struct err *err)
{
	struct request *request;
	int r = 0;

	while (r == 0) {
		if (forward->pending == NULL)
			r = intake_next(&forward->intake, &forward->pending, err);
		if (r != 0)
			return r;
		if (inbox_delivery_cancelled(forward->pending) != NULL) {
			/* only releases it */
			(void)inbox_delivery_skipped(forward->pending);
			forward->pending = NULL;
			continue;
		}
		request = free_request(forward);
		if (request == NULL)
			return INTAKE_NONE;
		r = begin(forward, request, forward->pending, err);
		forward->pending = NULL;
	}
	return r;
}

static void end_request(struct forward *forward, struct request *request)
{
	(void)curl_multi_remove_handle(forward->multi, request->easy);
	request->delivery = NULL;
	forward->open--;
}

/* inboxd delivers a cancelled message again, so its request ends now. */
static void obey_cancels(struct forward *forward)
{
	for (size_t i = 0; i < forward->count; i++) {
		struct request *request = &forward->requests[i];
		const char *reason = request->delivery == NULL
					     ? NULL
					     : inbox_delivery_cancelled(request->delivery);

		if (reason == NULL)
			continue;
		log_warn("request_cancelled", LOG_STR("what", reason),
			LOG_STR("event_id", inbox_delivery_event_id(request->delivery)));
		/* It only releases the delivery: nothing is sent for a cancelled one. */
		(void)inbox_delivery_skipped(request->delivery);
		end_request(forward, request);
	}
}

/* --- Responses --------------------------------------------------------------------------------- */

/* True if the request began before the last pause ended. Its response says nothing about the service after the pause. */
static bool is_late(const struct forward *forward, const struct request *request)
{
	return request->begun_ms < forward->resume_ms;
}

static int64_t pause_left_ms(const struct forward *forward)
{
	const int64_t left_ms = forward->resume_ms - clock_now_ms();

	return left_ms > 0 ? left_ms : 0;
}

#define LOG_PAUSE(forward)                                                                         \
	LOG_INT("retry_in_ms", pause_left_ms(forward)),                                            \
		LOG_STR("next", "the messages wait, and no attempt is spent"),                     \
		LOG_OUTAGE(&(forward)->outage, clock_now_ms())

/* `wanted_ms`: how long the service asks to wait; negative = it does not say. */
static void pause_messages(struct forward *forward, int64_t wanted_ms)
{
	const int failures = (int)forward->outage.failures;

	if (wanted_ms < 0)
		wanted_ms = 1 + backoff_delay_ms(PAUSE_MS, PAUSE_MAX_MS, failures, random_u64());
	if (wanted_ms > PAUSE_MAX_MS)
		wanted_ms = PAUSE_MAX_MS;
	forward->resume_ms = clock_now_ms() + wanted_ms;
}

static void note_response(struct forward *forward, const struct request *request)
{
	struct outage_log ended;

	if (is_late(forward, request))
		return;
	forward->busy = 0;
	forward->accepted++;
	if (forward->most < (int)forward->count &&
		forward->accepted - forward->grown_at >= forward->most) {
		forward->most++;
		forward->grown_at = forward->accepted;
	}
	if (outage_log_ended(&forward->outage, &ended))
		log_info("service_reached", LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
}

static void wait_until_reached(struct forward *forward, const struct request *request,
	CURLcode result, struct bridge_verdict *verdict)
{
	if (!is_late(forward, request)) {
		pause_messages(forward, -1);
		/* The URL stays out of the log: it may have a password. */
		if (outage_log_failed(&forward->outage, NOT_REACHED, clock_now_ms()))
			log_warn("service_not_reached",
				LOG_STR("error", request->words[0] != '\0'
							 ? request->words
							 : curl_easy_strerror(result)),
				LOG_PAUSE(forward));
	}
	verdict->status = BRIDGE_SNOOZE;
	verdict->delay_ms = pause_left_ms(forward);
}

/* A busy response without a time is a failure of its message if the service has accepted many others since the last busy
 * response. Otherwise a message that the service never accepts would wait for ever. */
static void slow_down(
	struct forward *forward, const struct request *request, struct bridge_verdict *verdict)
{
	const bool first = forward->busy == 0;
	const bool blamed = verdict->delay_ms < 0 && forward->accepted >= ACCEPTED_MANY;

	if (!is_late(forward, request)) {
		forward->busy++;
		forward->accepted = 0;
		forward->grown_at = 0;
		forward->most = first && forward->most > 1 ? forward->most / 2 : 1;
		if (!first) {
			pause_messages(forward, verdict->delay_ms);
			if (outage_log_failed(&forward->outage, BUSY, clock_now_ms()))
				log_warn("service_busy", LOG_STR("error", verdict->reason),
					LOG_PAUSE(forward));
		}
	}
	if (blamed)
		return;
	verdict->status = BRIDGE_SNOOZE;
	if (verdict->delay_ms < 0)
		verdict->delay_ms = pause_left_ms(forward) + LATER_MS;
	if (first)
		log_info("message_put_off",
			LOG_STR("event_id", inbox_delivery_event_id(request->delivery)),
			LOG_STR("error", verdict->reason),
			LOG_INT("retry_in_ms", verdict->delay_ms),
			LOG_STR("next", "the message comes again, and spends no attempt"));
}

static int finish(
	struct forward *forward, struct request *request, CURLcode result, struct err *err)
{
	const enum request_end end = request_end_of(request, result);
	struct bridge_verdict verdict;
	int r;

	request_verdict(request, result, &verdict);
	if (end == REQUEST_NOT_REACHED)
		wait_until_reached(forward, request, result, &verdict);
	else if (end == REQUEST_BUSY)
		slow_down(forward, request, &verdict);
	else
		note_response(forward, request);
	r = bridge_answer(request->delivery, &verdict, err);
	end_request(forward, request);
	return r;
}

static int take_responses(struct forward *forward, struct err *err)
{
	struct request *request = NULL;
	CURLMsg *message;
	int running = 0;
	int rest = 0;
	int r = 0;

	(void)curl_multi_perform(forward->multi, &running);
	while (r == 0 && (message = curl_multi_info_read(forward->multi, &rest)) != NULL) {
		const CURLcode result = message->data.result;

		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
		if (message->msg == CURLMSG_DONE)
			r = finish(forward, request, result, err);
	}
	return r;
}

/* --- The loop ---------------------------------------------------------------------------------- */

static void update_window(struct forward *forward)
{
	int window = forward->most;

	if (forward->outage.failures > 0)
		window = pause_left_ms(forward) > 0 ? 0 : 1;
	if (window == forward->window || forward->intake.stopping)
		return;
	if (inbox_handler_window(forward->intake.handler, window) == 0)
		forward->window = window;
}

static void wait_for_news(struct forward *forward)
{
	struct pollfd fds[INTAKE_FDS];
	struct curl_waitfd extra[INTAKE_FDS];
	unsigned count = 0;
	int64_t wait_ms = intake_prepare(&forward->intake, fds);
	const int64_t now_ms = clock_now_ms();

	if (forward->pending != NULL || wait_ms > WAIT_MAX_MS)
		wait_ms = WAIT_MAX_MS;
	if (forward->resume_ms > now_ms && forward->resume_ms - now_ms < wait_ms)
		wait_ms = forward->resume_ms - now_ms;
	for (size_t i = 0; i < INTAKE_FDS; i++) {
		if (fds[i].fd < 0)
			continue;
		extra[count++] = (struct curl_waitfd){
			.fd = fds[i].fd,
			.events = (short)(((fds[i].events & POLLIN) != 0 ? CURL_WAIT_POLLIN : 0) |
					  ((fds[i].events & POLLOUT) != 0 ? CURL_WAIT_POLLOUT : 0)),
		};
	}
	/* libcurl shortens the wait to its own timeouts. */
	(void)curl_multi_poll(forward->multi, extra, count, (int)wait_ms, NULL);
	log_repeats(false);
}

static int run(struct forward *forward, struct err *err)
{
	int r = INTAKE_NONE;

	while (r == INTAKE_NONE && !forward->intake.abandoned) {
		r = take_messages(forward, err);
		if (r != INTAKE_NONE)
			break;
		r = take_responses(forward, err);
		if (r != 0)
			break;
		update_window(forward);
		r = INTAKE_NONE;
		/* Answers that were just given are sent by the next take_messages(), which does not wait. */
		wait_for_news(forward);
		intake_take_signals(&forward->intake);
		obey_cancels(forward);
	}
	return r == INTAKE_ENDED || r == INTAKE_NONE ? 0 : r;
}

int forward_run(const struct forward_options *options, struct err *err)
{
	struct forward forward;
	int r = forward_open(&forward, options, err);

	if (r == 0)
		r = run(&forward, err);
	forward_close(&forward);
	return r;
}

void forward_add_library_version(struct buf *out)
{
	buf_add_str(out, curl_version_info(CURLVERSION_NOW)->version);
}
