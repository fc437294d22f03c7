/*
 * See handler_memory.h. The exchange writes the handlers of this instance to inbox_handlers and reads those of all
 * instances. It is made before the first message is routed or claimed, every third of a lease, and soon after a
 * hello, after the end of a handler's last connection, and after a notification.
 *
 * Race: a handler connects or leaves while the exchange runs. The result is older than that, so it is ignored for this
 * handler: `changed` of the handler is compared with the number of changes when the job was made.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/table/jobs.h"
#include "json/text.h"

#define A_THIRD  3
#define PAUSE_MS 200  /* between two exchanges, however often handlers connect and leave */
#define AGAIN_MS 1000 /* after an exchange that failed, for example because a row is locked */

static int64_t memory_ms(const struct dispatch *dispatch)
{
	return dispatch->options.config->inbox.handler_memory;
}

void handler_memory_init(struct dispatch *dispatch)
{
	dispatch->handler_memory.loaded = memory_ms(dispatch) == 0;
}

void handler_memory_exchange_soon(struct dispatch *dispatch)
{
	dispatch->handler_memory.exchange_soon = true;
	dispatch_schedule(dispatch);
}

/* ------------------------------------------------------------------ the handlers of this instance */

static bool same_topic(const struct subscription *a, const struct subscription *b)
{
	if (a->topic == NULL || b->topic == NULL)
		return a->topic == b->topic;
	return strcmp(a->topic, b->topic) == 0;
}

static void add_subscription(struct buf *json, const struct subscription *subs, size_t count)
{
	const char *separator = "";

	buf_add_char(json, '{');
	if (subs->topic != NULL) {
		buf_add_str(json, "\"topic\":");
		json_add_string(json, bytes_of(subs->topic));
		separator = ",";
	}
	if (subs->type != NULL) {
		buf_addf(json, "%s\"types\":", separator);
		for (size_t i = 0; i < count; i++) {
			buf_add_char(json, i == 0 ? '[' : ',');
			json_add_string(json, bytes_of(subs[i].type));
		}
		buf_add_char(json, ']');
	}
	buf_add_char(json, '}');
}

/* The subscriptions in the form of a hello. Types of the same topic are in one object. */
static char *json_of(const struct hello *hello)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT;
	size_t next = 0;

	buf_add_char(&json, '[');
	for (size_t i = 0; i < hello->subscribe_count; i = next) {
		const struct subscription *subs = &hello->subscribe[i];

		for (next = i + 1; subs->type != NULL && next < hello->subscribe_count &&
				   hello->subscribe[next].type != NULL &&
				   same_topic(subs, &hello->subscribe[next]);)
			next++;
		if (i > 0)
			buf_add_char(&json, ',');
		add_subscription(&json, subs, next - i);
	}
	buf_add_char(&json, ']');
	return buf_ok(&json) ? strdup(buf_str(&json)) : NULL;
}

void handler_memory_joined(
	struct dispatch *dispatch, struct handler *handler, const struct hello *hello)
{
	free(handler->known.subscriptions);
	handler->known.subscriptions = json_of(hello);
	handler->known.hello_ms = clock_now_ms();
	handler->known.hello_unsaved = true;
	handler->known.leave_unsaved = false;
	handler->known.away = false;
	handler->known.changed = ++dispatch->handler_memory.changes;
	handler_memory_exchange_soon(dispatch);
}

void handler_memory_left(struct dispatch *dispatch, struct handler *handler)
{
	handler->known.leave_unsaved = true;
	handler->known.changed = ++dispatch->handler_memory.changes;
	handler_memory_exchange_soon(dispatch);
}

/* False: no memory. */
static bool add_own(struct job *job, const struct handler *handler, int64_t now_ms)
{
	struct known_own *own = &job->own[job->count];
	int64_t gone_ms = now_ms - handler->gone_ms;

	if (handler->known.subscriptions == NULL)
		return true;
	*own = (struct known_own){
		.name = strdup(handler->name),
		.subscriptions = strdup(handler->known.subscriptions),
		.hello_age_ms = now_ms - handler->known.hello_ms,
		.gone_ms = handler->session_count > 0 ? 0
			   : gone_ms > 0              ? gone_ms
						      : 1,
		.fresh = handler->known.hello_unsaved,
	};
	job->count++;
	return own->name != NULL && own->subscriptions != NULL;
}

static struct job *exchange_job(struct dispatch *dispatch, int64_t now_ms)
{
	struct job *job = job_new(JOB_HANDLERS);
	const struct handler *handler;
	bool good = job != NULL;

	if (good) {
		job->own = calloc(HASH_COUNT(dispatch->handlers) + 1, sizeof(*job->own));
		good = job->own != NULL;
	}
	for (handler = dispatch->handlers; good && handler != NULL; handler = handler->hh.next) {
		if (handler->session_count > 0 || handler->known.hello_unsaved ||
			handler->known.leave_unsaved)
			good = add_own(job, handler, now_ms);
	}
	if (!good) {
		job_free(job);
		return NULL;
	}
	job->request.instance = dispatch->options.instance;
	job->memory_ms = memory_ms(dispatch);
	job->lease_ms = dispatch->options.config->worker.lease;
	job->changes = dispatch->handler_memory.changes;
	return job;
}

void handler_memory_run(struct dispatch *dispatch, int64_t now_ms)
{
	struct handler_memory *memory = &dispatch->handler_memory;
	bool due = now_ms >= memory->next_ms ||
		   (memory->exchange_soon && now_ms >= memory->last_ms + PAUSE_MS);
	struct job *job;

	if (!due || dispatch->claimer.under_way[JOB_HANDLERS])
		return;
	job = exchange_job(dispatch, now_ms);
	if (job == NULL)
		return; /* no memory now; the next round tries again */
	memory->exchange_soon = false;
	memory->last_ms = now_ms;
	memory->next_ms = now_ms + dispatch->options.config->worker.lease / A_THIRD;
	jobs_give(dispatch, job);
}

void handler_memory_failed(struct dispatch *dispatch)
{
	struct handler_memory *memory = &dispatch->handler_memory;

	memory->last_ms = clock_now_ms();
	memory->next_ms = memory->last_ms + AGAIN_MS;
}

/* ------------------------------------------------------------------ the handlers in the table */

static void remember(
	struct dispatch *dispatch, struct handler *handler, const struct remembered *remembered)
{
	struct err err = ERR_INIT;

	if (routing_remember(dispatch->routing, remembered, &err) != 0) {
		if (!handler->known.away && !handler->known.refusal_logged)
			log_warn("handler_not_remembered", LOG_STR("handler", handler->name),
				LOG_STR("why", err.text),
				LOG_STR("next", "this sidecar does not keep its messages for it"));
		handler->known.refusal_logged = true;
		return;
	}
	handler->known.refusal_logged = false;
	if (!handler->known.away)
		handler_memory_report_away(dispatch, handler);
	handler->known.away = true;
}

static void forget(struct dispatch *dispatch, struct handler *handler)
{
	if (!handler->known.away || routing_remove(dispatch->routing, handler->name) != 0)
		return;
	handler->known.away = false;
	log_warn("handler_forgotten", LOG_STR("handler", handler->name),
		LOG_STR("why", handler->known.in_table ? "inbox.handler_memory has passed"
						       : "an operator forgot it"),
		LOG_STR("next", "its messages go to the next specific handler, if there is one"));
}

/* True when the state in memory is newer than the result: the handler is connected, was connected a moment ago, or
 * changed after the job was made. */
static bool is_local_newer(const struct handler *handler, const struct job *job)
{
	return handler->session_count > 0 || handler->routed ||
	       handler->known.changed > job->changes;
}

static void take_known(
	struct dispatch *dispatch, const struct job *job, const struct known_handler *known)
{
	struct handler *handler = handlers_get(dispatch, known->remembered.handler);

	if (handler == NULL)
		return; /* no memory: the next exchange tries again */
	handler->known.in_table = true;
	if (is_local_newer(handler, job))
		return;
	if (known->known)
		remember(dispatch, handler, &known->remembered);
	else
		forget(dispatch, handler);
}

static void note_recorded(struct handler *handler, const struct job *job)
{
	handler->known.in_table = false;
	if (handler->known.changed > job->changes)
		return;
	handler->known.hello_unsaved = false;
	handler->known.leave_unsaved = false;
}

void handler_memory_answered(struct dispatch *dispatch, struct job *job)
{
	CLEANUP(routing_freep) struct routing *before = NULL;
	bool first = !dispatch->handler_memory.loaded;
	struct handler *handler;

	(void)routing_copy(&before, dispatch->routing, NULL);
	for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next)
		note_recorded(handler, job);
	for (size_t i = 0; i < job->known.count; i++)
		take_known(dispatch, job, &job->known.items[i]);
	for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next) {
		if (!handler->known.in_table && !is_local_newer(handler, job))
			forget(dispatch, handler);
	}
	dispatch->handler_memory.loaded = true;
	if (first || before == NULL || !routing_shares(before, dispatch->routing))
		handlers_publish(dispatch);
}

void handler_memory_report_away(const struct dispatch *dispatch, const struct handler *handler)
{
	log_warn("handler_away", LOG_STR("handler", handler->name),
		LOG_INT("memory_ms", memory_ms(dispatch)),
		LOG_STR("next", "its messages wait for it until inbox.handler_memory has passed; "
				"`inboxd handlers forget` ends that"));
}
