/*
 * See forward.h. One thread, and one wait of libcurl's multi interface: its sockets, the socket of inboxd and the
 * signals. A message that finds no free request waits as `pending`; that happens only when one was cancelled.
 *
 * While the service cannot be reached, the window is 0: inboxd sends no messages. When the pause is over the window is 1,
 * and after the first response all of it again.
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
	PAUSE_MS = 200,     /* the first pause while the service cannot be reached; doubles */
	PAUSE_MAX_MS = 10000,
};

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
	struct outage_log outage; /* requests in a row that did not reach the service */
	int64_t resume_ms;        /* when to try the service again; 0 = no pause */
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

/* What libcurl would only say of each message, as if the service were away. The text of an error has no URL: it may have a
 * password. */
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

static void pause_messages(struct forward *forward, const char *why)
{
	const int64_t now_ms = clock_now_ms();

	/* The other requests of the same moment fail, too. */
	if (forward->resume_ms > now_ms)
		return;
	forward->resume_ms = now_ms + 1 +
			     backoff_delay_ms(PAUSE_MS, PAUSE_MAX_MS, (int)forward->outage.failures,
				     random_u64());
	/* The URL stays out of the log: it may have a password. */
	if (outage_log_failed(&forward->outage, 0, now_ms))
		log_warn("service_not_reached", LOG_STR("error", why),
			LOG_INT("retry_in_ms", forward->resume_ms - now_ms),
			LOG_STR("next", "the messages wait, and no attempt is spent"),
			LOG_OUTAGE(&forward->outage, now_ms));
}

static void resume_messages(struct forward *forward)
{
	struct outage_log ended;

	if (outage_log_ended(&forward->outage, &ended))
		log_info("service_reached", LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	forward->resume_ms = 0;
}

static int finish(
	struct forward *forward, struct request *request, CURLcode result, struct err *err)
{
	struct bridge_verdict verdict = { .status = BRIDGE_SNOOZE };
	int r;

	if (request_end_of(request, result) == REQUEST_NOT_REACHED) {
		pause_messages(forward,
			request->words[0] != '\0' ? request->words : curl_easy_strerror(result));
		verdict.delay_ms = forward->resume_ms - clock_now_ms();
		if (verdict.delay_ms < 0)
			verdict.delay_ms = 0;
	} else {
		resume_messages(forward);
		request_verdict(request, result, &verdict);
	}
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
	int window = (int)forward->count;

	if (forward->outage.failures > 0)
		window = clock_now_ms() < forward->resume_ms ? 0 : 1;
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
