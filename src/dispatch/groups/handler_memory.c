/*
 * See handler_memory.h. The exchange writes the handlers of this instance to inbox_handlers and reads those of all
 * instances. It is made before the first message is routed or claimed, every third of a lease if a look at the table says that
 * something changed or there is no look (maintenance_jobs.c), and soon after a hello, after the end of a handler's last connection,
 * and after a notification. Without a change it is made more seldom: the time when a handler was last seen counts if this
 * process is killed. It also notes that this instance still lists its consumers.
 *
 * Race: a handler connects or leaves while the exchange runs. The result is older than that, so it is ignored for this
 * handler: `changed` of the group is compared with the number of changes when the job was made.
 */
#include "dispatch/groups/handler_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"

#define A_THIRD     3
#define A_TWENTIETH 20
#define LISTED_MS   30000
#define PAUSE_MS    200  /* between two exchanges, however often handlers connect and leave */
#define AGAIN_MS    1000 /* after an exchange that failed, for example because a row is locked */

static int64_t memory_ms(const struct handler_groups *groups)
{
	return groups->context->options.config->inbox.handler_memory;
}

/* False: no memory. */
static bool add_own(struct job *job, const struct handler_group *group, int64_t now_ms)
{
	struct known_own *own = &job->handlers.own[job->handlers.count];
	int64_t gone_ms = now_ms - group->gone_ms;

	if (group->known.subscriptions == NULL)
		return true;
	*own = (struct known_own){
		.name = strdup(group->name),
		.consumer = strdup(group->consumer),
		.subscriptions = strdup(group->known.subscriptions),
		.hello_age_ms = now_ms - group->known.hello_ms,
		.gone_ms = group->queue.connections > 0 ? 0
			   : gone_ms > 0                ? gone_ms
							: 1,
		.fresh = group->known.hello_unsaved,
	};
	job->handlers.count++;
	return own->name != NULL && own->consumer != NULL && own->subscriptions != NULL;
}

static struct job *exchange_job(struct handler_groups *groups, int64_t now_ms)
{
	const struct handler_queue *queue = groups->order->queues.by_name;
	struct job *job = job_new(JOB_HANDLERS);
	bool good = job != NULL;

	if (good) {
		job->handlers.own = calloc(HASH_COUNT(queue) + 1, sizeof(*job->handlers.own));
		good = job->handlers.own != NULL;
	}
	for (; good && queue != NULL; queue = queue->hh.next) {
		const struct known_state *known = &queue->group->known;

		if (queue->connections > 0 || known->hello_unsaved || known->leave_unsaved)
			good = add_own(job, queue->group, now_ms);
	}
	if (!good) {
		job_free(job);
		return NULL;
	}
	job->request.instance = groups->context->options.instance;
	job->handlers.consumers = groups->context->options.own;
	job->handlers.memory_ms = memory_ms(groups);
	job->handlers.lease_ms = groups->context->options.config->worker.lease;
	job->handlers.changes = groups->changes;
	return job;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* A twentieth of inbox.handler_memory, but not more than two leases. Nobody lists a consumer that was not noted for a minute
 * (inbox.consumers in the schema). */
static bool was_seen_long_ago(const struct handler_groups *groups, int64_t now_ms)
{
	int64_t lease_ms = groups->context->options.config->worker.lease;

	return now_ms >= groups->exchanged_ms + lesser(memory_ms(groups) / A_TWENTIETH,
							lesser(2 * lease_ms, LISTED_MS));
}

static bool is_due(const struct handler_groups *groups, int64_t now_ms)
{
	if (groups->exchange_soon && now_ms >= groups->exchanged_ms + PAUSE_MS)
		return true;
	return now_ms >= groups->exchange_at_ms &&
	       (!looks_are_recent(groups->table, now_ms) ||
		       groups->exchanged_version != groups->table->looks.handlers_version ||
		       was_seen_long_ago(groups, now_ms));
}

void handler_memory_run(struct handler_groups *groups, int64_t now_ms)
{
	struct table *table = groups->table;
	struct job *job;

	if (!is_due(groups, now_ms) || table->database.under_way[JOB_HANDLERS] ||
		context_is_stopping(groups->context) || jobs_are_on_hold(table, now_ms) ||
		!jobs_may_give(table))
		return;
	job = exchange_job(groups, now_ms);
	if (job == NULL)
		return; /* no memory now; the next round tries again */
	groups->exchange_soon = false;
	groups->exchanged_ms = now_ms;
	groups->exchanged_version = table->looks.handlers_version;
	groups->exchange_at_ms =
		now_ms + lesser(groups->context->options.config->worker.lease / A_THIRD, LISTED_MS);
	jobs_give(table, job);
}

/* ------------------------------------------------------------------ the handlers in the table */

static void remember(struct handler_groups *groups, struct handler_group *group,
	const struct remembered *remembered)
{
	struct err err = ERR_INIT;

	if (routing_remember(groups->order->routing, remembered, &err) != 0) {
		if (!group->known.away && !group->known.refusal_logged)
			log_warn("handler_not_remembered", LOG_STR("handler", group->name),
				LOG_STR("why", err.text),
				LOG_STR("next", "this sidecar does not keep its messages for it"));
		group->known.refusal_logged = true;
		return;
	}
	group->known.refusal_logged = false;
	if (!group->known.away)
		handler_group_report_away(groups, group);
	group->known.away = true;
}

static void forget(struct handler_groups *groups, struct handler_group *group)
{
	if (!group->known.away ||
		routing_remove(groups->order->routing, handler_group_id(group)) != 0)
		return;
	group->known.away = false;
	if (config_sends_only(groups->context->options.config))
		return; /* no message waits here */
	log_warn("handler_forgotten", LOG_STR("handler", group->name),
		LOG_STR("why", group->known.in_table ? "inbox.handler_memory has passed"
						     : "an operator forgot it"),
		LOG_STR("next", "its messages go to the next specific handler, if there is one"));
}

/* True when the state in memory is newer than the result: the handler is connected, was connected a moment ago, or
 * changed after the job was made. */
static bool is_local_newer(const struct handler_group *group, const struct job *job)
{
	return group->queue.connections > 0 || group->queue.routed ||
	       group->known.changed > job->handlers.changes;
}

static void take_known(
	struct handler_groups *groups, const struct job *job, const struct known_handler *known)
{
	struct handler_group *group = handler_groups_get(groups, known->remembered.handler);

	if (group == NULL)
		return; /* no memory: the next exchange tries again */
	group->known.in_table = true;
	if (is_local_newer(group, job))
		return;
	if (known->known)
		remember(groups, group, &known->remembered);
	else
		forget(groups, group);
}

static void take_answer(struct handler_groups *groups, const struct job *job)
{
	CLEANUP(routing_freep) struct routing *before = NULL;
	struct order *order = groups->order;
	bool first = !order->routing_complete;
	struct handler_queue *queue;

	(void)routing_copy(&before, order->routing, NULL);
	for (queue = order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		struct known_state *known = &queue->group->known;

		known->in_table = false;
		if (known->changed > job->handlers.changes)
			continue;
		known->hello_unsaved = false;
		known->leave_unsaved = false;
	}
	for (size_t i = 0; i < job->handlers.known.count; i++)
		take_known(groups, job, &job->handlers.known.items[i]);
	for (queue = order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		struct handler_group *group = queue->group;

		if (!group->known.in_table && !is_local_newer(group, job))
			forget(groups, group);
	}
	order->routing_complete = true;
	if (first || before == NULL || !routing_shares(before, order->routing))
		handler_groups_publish(groups);
}

void handler_memory_take(struct handler_groups *groups, const struct job *job)
{
	if (job->result == 0) {
		take_answer(groups, job);
	} else {
		groups->exchanged_ms = clock_now_ms();
		groups->exchange_at_ms = groups->exchanged_ms + AGAIN_MS;
		groups->exchanged_version = 0;
	}
	context_request_round(groups->context);
}
