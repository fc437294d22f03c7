/*
 * See handler_groups.h. The hash of handler_queues.h finds a group by its name: each queue belongs to one group, and a
 * group is kept while entries are routed to it or the table may know it.
 */
#include "dispatch/groups/handler_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"
#include "json/text.h"
#include "report/meters.h"

/* The time for which a handler may be without a connection before its queued messages are parked. */
#define GONE_GRACE_MS 1000
#define RESTART_MS    30000 /* a handler that has gone for a restart is back by then */

void handler_groups_init(struct handler_groups *groups, struct order *order, struct table *table)
{
	groups->context = order->context;
	groups->order = order;
	groups->table = table;
	(void)pthread_mutex_init(&groups->lock, NULL);
}

struct handler_id handler_group_id(const struct handler_group *group)
{
	return (struct handler_id){ group->consumer, group->name };
}

static void add_series(struct handler_groups *groups, struct handler_group *group)
{
	struct metrics *metrics = groups->context->options.metrics;
	const char *name = group->name;
	const char *consumer = group->consumer;

	for (int end = 0; end < END_RETURNED; end++) {
		const char *const values[METRIC_LABELS] = { name,
			retry_policy_outcome((enum entry_end)end), consumer };

		group->queue.ended[end] = metrics_series(metrics, METER_DELIVERIES, values);
	}
	group->queue.end_to_end = metrics_get(metrics, METER_END_TO_END, consumer, NULL);
	group->queue.in_flight_gauge = metrics_get(metrics, METER_IN_FLIGHT, name, consumer);
	group->seconds = metrics_get(metrics, METER_HANDLER, name, consumer);
	if (!config_sends_only(groups->context->options.config))
		(void)metrics_get(metrics, METER_HANDLERS_CONNECTED, name,
			consumer); /* 0 until it connects */
}

/* Otherwise the names of handlers that never come back would use up METRICS_MAX_SERIES. No other object points to these
 * series. */
static void remove_series(struct handler_groups *groups, const struct handler_group *group)
{
	static const enum meter of_handler[] = { METER_IN_FLIGHT, METER_HANDLER,
		METER_HANDLERS_CONNECTED };
	struct metrics *metrics = groups->context->options.metrics;

	for (int end = 0; end < END_RETURNED; end++) {
		const char *const values[METRIC_LABELS] = { group->name,
			retry_policy_outcome((enum entry_end)end), group->consumer };

		metrics_remove(metrics, METER_DELIVERIES, values);
	}
	for (size_t i = 0; i < sizeof(of_handler) / sizeof(of_handler[0]); i++) {
		const char *const values[METRIC_LABELS] = { group->name, group->consumer, NULL };

		metrics_remove(metrics, of_handler[i], values);
	}
}

static void count_connections(
	const struct handler_groups *groups, const struct handler_group *group)
{
	metric_set(metrics_get(groups->context->options.metrics, METER_HANDLERS_CONNECTED,
			   group->name, group->consumer),
		(double)group->queue.connections);
}

static struct handler_group *group_new(struct handler_groups *groups, struct handler_id id)
{
	struct handler_group *group = calloc(1, sizeof(*group));

	if (group == NULL)
		return NULL;
	group->name = strdup(id.name);
	group->consumer = strdup(id.consumer);
	if (group->name == NULL || group->consumer == NULL ||
		!handler_queues_add(
			&groups->order->queues, &group->queue, handler_group_id(group))) {
		free(group->name);
		free(group->consumer);
		free(group);
		return NULL;
	}
	group->queue.group = group;
	group->queue.paused = pauses_find(&groups->pauses, PAUSE_HANDLER, group->name) != NULL;
	TAILQ_INIT(&group->connections);
	add_series(groups, group);
	return group;
}

static void group_free(struct handler_groups *groups, struct handler_group *group)
{
	handler_queues_remove(&groups->order->queues, &group->queue);
	free(group->known.subscriptions);
	free(group->name);
	free(group->consumer);
	free(group);
}

void handler_groups_fini(struct handler_groups *groups)
{
	while (groups->order->queues.by_name != NULL)
		group_free(groups, groups->order->queues.by_name->group);
	buf_fini(&groups->names);
	buf_fini(&groups->away);
	buf_fini(&groups->paused);
	pauses_fini(&groups->pauses);
	(void)pthread_mutex_destroy(&groups->lock);
}

struct handler_group *handler_groups_get(struct handler_groups *groups, struct handler_id id)
{
	struct handler_queue *queue = handler_queues_find(&groups->order->queues, id);

	return queue != NULL ? queue->group : group_new(groups, id);
}

/* ------------------------------------------------------------------ what others read */

/* A handler of a named consumer is an object. The statements that read inbox_instances.handlers rely on that. */
static void add_name(struct buf *names, const struct handler_group *group)
{
	if (names->length > 1)
		buf_add_char(names, ',');
	if (*group->consumer == '\0') {
		json_add_string(names, bytes_of(group->name));
		return;
	}
	buf_add_str(names, "{\"name\":");
	json_add_string(names, bytes_of(group->name));
	buf_add_str(names, ",\"consumer\":");
	json_add_string(names, bytes_of(group->consumer));
	buf_add_char(names, '}');
}

/* Ends the list and publishes it. Without memory the earlier one is kept, since a truncated one is not JSON; the next
 * tick tries again. */
static void publish_list(struct handler_groups *groups, struct buf *built, struct buf *published)
{
	struct buf earlier = *published;

	buf_add_char(built, ']');
	if (!buf_ok(built)) {
		groups->lists_outdated = true;
		return;
	}
	(void)pthread_mutex_lock(&groups->lock);
	*published = *built;
	(void)pthread_mutex_unlock(&groups->lock);
	*built = earlier;
}

static void update_names(struct handler_groups *groups)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT;
	CLEANUP(buf_fini) struct buf away = BUF_INIT;
	const struct handler_queue *queue;

	buf_add_char(&names, '[');
	buf_add_char(&away, '[');
	for (queue = groups->order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		if (queue->connections > 0)
			add_name(&names, queue->group);
		else if (queue->group->known.away)
			add_name(&away, queue->group);
	}
	publish_list(groups, &names, &groups->names);
	publish_list(groups, &away, &groups->away);
}

static void copy_list(struct handler_groups *groups, const struct buf *list, struct buf *out)
{
	(void)pthread_mutex_lock(&groups->lock);
	if (list->length == 0)
		buf_add_str(out, "[]"); /* not published yet */
	else
		buf_add(out, list->data, list->length);
	(void)pthread_mutex_unlock(&groups->lock);
}

void handler_groups_write_names(struct handler_groups *groups, struct buf *out)
{
	copy_list(groups, &groups->names, out);
}

void handler_groups_write_away(struct handler_groups *groups, struct buf *out)
{
	copy_list(groups, &groups->away, out);
}

void handler_groups_publish(struct handler_groups *groups)
{
	struct routing *snapshot = NULL;

	update_names(groups);
	if (!groups->order->routing_complete)
		return; /* ingest has no routing until then, so it parks all messages */
	if (routing_copy(&snapshot, groups->order->routing, NULL) != 0) {
		log_error("routing_not_published", LOG_STR("why", "out of memory"),
			LOG_STR("next", "ingest keeps using the earlier subscriptions"));
		return;
	}
	admission_set_routing(groups->context->options.admission, snapshot);
	claimer_sweep_soon(groups->table);
}

void handler_groups_exchange_soon(struct handler_groups *groups)
{
	groups->exchange_soon = true;
	context_request_round(groups->context);
}

void handler_groups_write_paused(struct handler_groups *groups, struct buf *out)
{
	copy_list(groups, &groups->paused, out);
}

/* ------------------------------------------------------------------ shares of memory */

/* True at the limit. A handler that is full stays full until it holds half of that. One that holds nothing is not full, even if
 * its limit is 0, because it has no share and the others leave nothing: it would be closed and opened in turns. */
static bool is_at_limit(const struct handler_groups *groups, const struct handler_group *group)
{
	const struct handler_queue *queue = &group->queue;
	bool over = false;

	for (int m = 0; m < MEASURES; m++) {
		size_t limit = handler_queue_limit(&groups->order->queues, queue, (enum measure)m);

		over |= group->full ? queue->held[m] > limit / 2
				    : queue->held[m] > 0 && queue->held[m] >= limit;
	}
	return over;
}

/* While no other handler needs memory, one may use all of it. Then new messages of those above their limit are parked in
 * the table. */
static void update_share(
	struct handler_groups *groups, struct handler_group *group, bool memory_needed)
{
	bool full = is_at_limit(groups, group);

	if (full && !group->full && !memory_needed)
		return;
	if (full == group->full || routing_close(groups->order->routing, handler_group_id(group),
					   full || group->queue.paused) != 0)
		return; /* no memory: the next round of the loop tries again */
	group->full = full;
	handler_groups_publish(groups);
}

/* A handler whose connections have just ended keeps its share of the deliveries in flight. At most as many of these
 * handlers as are connected keep a share: a client that says hello with many names must not use up the shares of all
 * others. */
static void keep_shares_of_gone(struct handler_queues *queues)
{
	int64_t since_ms = clock_now_ms() - RESTART_MS;
	struct handler_queue *queue;
	size_t connected = 0;
	size_t gone = 0;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		connected += queue->connections > 0;
	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next) {
		if (queue->connections > 0 || queue->leaving == 0)
			continue;
		if (queue->group->gone_ms < since_ms || (connected > 0 && gone >= connected))
			queue->leaving = 0;
		gone += queue->leaving > 0;
	}
}

void handler_groups_update_shares(struct handler_groups *groups)
{
	const struct config *config = groups->context->options.config;
	const struct handler_limits limits = {
		.claimed = { (size_t)config->inbox.max_claimed,
			(size_t)config->inbox.max_claimed_bytes },
		.in_flight = { (size_t)config->inbox.max_in_flight,
			(size_t)config->inbox.max_claimed_bytes },
	};
	struct handler_queues *queues = &groups->order->queues;
	struct handler_queue *queue;
	bool memory_needed;

	keep_shares_of_gone(queues);
	handler_queues_share_out(queues, &limits);
	memory_needed = handler_queues_need_memory(queues);
	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		update_share(groups, queue->group, memory_needed);
}

bool handler_group_exceeds(const struct handler_groups *groups, const struct handler_group *group,
	enum measure measure)
{
	return group->full &&
	       group->queue.held[measure] >
		       handler_queue_limit(&groups->order->queues, &group->queue, measure);
}

struct handler_group *handler_groups_largest(
	const struct handler_groups *groups, enum measure measure, size_t below)
{
	struct handler_group *largest = NULL;
	struct handler_queue *queue;

	for (queue = groups->order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		size_t held = queue->held[measure];

		if (held < below && handler_group_exceeds(groups, queue->group, measure) &&
			(largest == NULL || held > largest->queue.held[measure]))
			largest = queue->group;
	}
	return largest;
}

/* ------------------------------------------------------------------ connections come and go */

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

/* A handler that is away does not block an equal subscription of a connected one. So a handler that was renamed takes
 * over the subscriptions of its former name. */
static int subscribe(struct routing *routing, const struct hello *hello, struct err *err)
{
	const struct handler_id id = { hello->consumer, hello->handler };
	const char *displaced =
		routing_displaced(routing, id, hello->subscribe, hello->subscribe_count);
	CLEANUP(freep) char *other = displaced == NULL ? NULL : strdup(displaced);
	const char *narrowed =
		routing_narrowed(routing, id, hello->subscribe, hello->subscribe_count);
	CLEANUP(freep) char *from = narrowed == NULL ? NULL : strdup(narrowed);
	int r = routing_set(routing, id, hello->subscribe, hello->subscribe_count, err);

	if (r == 0 && other != NULL)
		log_warn("handler_took_over", LOG_STR("handler", hello->handler),
			LOG_STR("from", other),
			LOG_STR("why", "it has an equal subscription, and the other is away"),
			LOG_STR("next",
				"if the handler was renamed, run `inboxd handlers forget` for the "
				"other name"));
	if (r == 0 && from != NULL)
		log_warn("subscription_takes", LOG_STR("handler", hello->handler),
			LOG_STR("from", from),
			LOG_STR("why", "its subscription is more specific, and each message goes "
				       "to one handler of a consumer"),
			LOG_STR("next",
				"if both need these messages, list both as consumers in the "
				"configuration"));
	return r;
}

int handler_groups_join(struct handler_groups *groups, const struct hello *hello,
	struct handler_group **out, struct err *err)
{
	const struct handler_id id = { hello->consumer, hello->handler };
	struct routing *routing = groups->order->routing;
	struct handler_group *group;
	struct known_state *known;
	int r = subscribe(routing, hello, err);

	if (r != 0)
		return r;
	group = handler_groups_get(groups, id);
	if (group == NULL) {
		(void)routing_remove(routing, id);
		return err_memory(err);
	}
	/* The new subscriptions in the routing are open. */
	if ((group->full || group->queue.paused) && routing_close(routing, id, true) != 0)
		group->full = false;
	group->queue.connections++;
	group->queue.routed = true;
	count_connections(groups, group);
	known = &group->known;
	free(known->subscriptions);
	known->subscriptions = json_of(hello);
	known->hello_ms = clock_now_ms();
	known->hello_unsaved = true;
	known->leave_unsaved = false;
	known->away = false;
	known->changed = ++groups->changes;
	handler_groups_exchange_soon(groups);
	handler_groups_publish(groups);
	*out = group;
	return 0;
}

void handler_groups_leave(struct handler_groups *groups, struct handler_group *group)
{
	group->queue.connections--;
	count_connections(groups, group);
	if (group->queue.connections == 0) {
		group->gone_ms = clock_now_ms();
		group->known.leave_unsaved = true;
		group->known.changed = ++groups->changes;
		handler_groups_exchange_soon(groups);
	}
	update_names(groups);
}

void handler_group_report_away(
	const struct handler_groups *groups, const struct handler_group *group)
{
	if (config_sends_only(groups->context->options.config))
		return; /* no message waits here */
	log_warn("handler_away", LOG_STR("handler", group->name),
		LOG_INT("memory_ms", groups->context->options.config->inbox.handler_memory),
		LOG_STR("next", "its messages wait for it until inbox.handler_memory has passed; "
				"`inboxd handlers forget` ends that"));
}

static void requeue(struct order *order, struct entry_list *list)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(list)) != NULL) {
		handler_queue_remove(entry);
		entry_ready(order, entry); /* routed to another handler, or parked */
	}
}

/* With inbox.handler_memory the messages of a handler that is gone wait for it. Without it they go to the handler with
 * the next specific subscription. */
static int leave_routing(struct handler_groups *groups, struct handler_group *group)
{
	const struct dispatch_options *options = &groups->context->options;
	int64_t hello_at_ms = group->known.hello_ms + atomic_load(options->pg_offset_ms);
	bool remembered = options->config->inbox.handler_memory > 0;
	int r = remembered ? routing_leave(
				     groups->order->routing, handler_group_id(group), hello_at_ms)
			   : routing_remove(groups->order->routing, handler_group_id(group));

	if (r != 0)
		return r;
	group->queue.routed = false;
	group->known.away = remembered;
	if (remembered)
		handler_group_report_away(groups, group);
	return 0;
}

static void leave_or_free(
	struct handler_groups *groups, struct handler_group *group, int64_t now_ms)
{
	const struct known_state *known = &group->known;

	if (group->queue.connections > 0 || now_ms - group->gone_ms < GONE_GRACE_MS)
		return;
	if (group->queue.routed) {
		if (leave_routing(groups, group) != 0)
			return; /* no memory: the next tick tries again */
		requeue(groups->order, &group->queue.ready);
		requeue(groups->order, &group->queue.suspects);
		handler_groups_publish(groups);
	}
	if (group->queue.held[MESSAGES] > 0 || known->away || known->in_table ||
		known->hello_unsaved || known->leave_unsaved)
		return;
	remove_series(groups, group);
	group_free(groups, group);
}

/* ------------------------------------------------------------------ pauses */

static void update_paused(struct handler_groups *groups)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	buf_add_char(&json, '[');
	for (size_t i = 0; i < groups->pauses.count; i++) {
		const struct pause *pause = &groups->pauses.items[i];

		buf_addf(&json, "%s{\"kind\":\"%s\",\"name\":", i == 0 ? "" : ",",
			pause_kind_name(pause->kind));
		json_add_string(&json, bytes_of(pause->name));
		buf_addf(&json, ",\"ingest\":%s}", pause->ingest ? "true" : "false");
	}
	publish_list(groups, &json, &groups->paused);
}

/* Without memory for the routing, claims of a paused handler go on, and what they bring is parked one by one. One that is
 * resumed stays paused until the next tick, which tries again. True: it has changed. */
static bool pause_group(struct handler_groups *groups, struct handler_group *group)
{
	bool paused = pauses_find(&groups->pauses, PAUSE_HANDLER, group->name) != NULL;

	if (paused == group->queue.paused)
		return false;
	if (routing_close(groups->order->routing, handler_group_id(group), paused || group->full) !=
			0 &&
		!paused)
		return false;
	group->queue.paused = paused;
	if (paused) {
		requeue(groups->order, &group->queue.ready);
		requeue(groups->order, &group->queue.suspects);
	}
	return true;
}

static bool pause_groups(struct handler_groups *groups)
{
	struct handler_queue *queue;
	bool changed = false;

	for (queue = groups->order->queues.by_name; queue != NULL; queue = queue->hh.next)
		changed |= pause_group(groups, queue->group);
	return changed;
}

void handler_groups_set_pauses(struct handler_groups *groups, struct pauses *pauses)
{
	pauses_fini(&groups->pauses);
	groups->pauses = *pauses;
	*pauses = (struct pauses){ NULL, 0 };
	(void)pause_groups(groups);
	update_paused(groups);
	if (groups->order->routing_complete)
		handler_groups_publish(groups);
}

/* ------------------------------------------------------------------ time */

void handler_groups_tick(struct handler_groups *groups, int64_t now_ms)
{
	struct handler_queue *queue;
	struct handler_queue *next;

	HASH_ITER (hh, groups->order->queues.by_name, queue, next)
		leave_or_free(groups, queue->group, now_ms);
	if (pause_groups(groups))
		handler_groups_publish(groups);
	if (groups->lists_outdated) {
		groups->lists_outdated = false;
		update_names(groups);
		update_paused(groups);
	}
}
