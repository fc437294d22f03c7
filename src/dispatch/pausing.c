/*
 * Pauses of operators (rule R29). They are read with each exchange of handlers (handler_memory.h), before the first message is
 * routed or claimed. A paused topic or consumer is a set of streams: what is not delivered goes back to the table, new rows
 * are stored waiting, and claims leave the streams out. A paused handler is closed: its messages are parked, as those of
 * a handler that is away. Nothing of this spends an attempt, and what is in flight finishes.
 */
#include "base/log.h"
#include "dispatch/loop.h"
#include "report/meters.h"

static void log_change(const struct pauses *before, const struct pauses *after)
{
	for (size_t i = 0; i < after->count; i++) {
		const struct pause *pause = &after->items[i];
		const struct pause *old = pauses_find(before, pause->kind, pause->name);

		if (old == NULL || old->ingest != pause->ingest)
			log_warn("paused", LOG_STR("kind", pause_kind_name(pause->kind)),
				LOG_STR("name", pause->name),
				LOG_STR("reading", pause->ingest ? "stopped" : "goes on"),
				LOG_STR("next",
					"its messages wait until `inboxd resume`; `inboxd status` "
					"says who paused it and why"));
	}
	for (size_t i = 0; i < before->count; i++) {
		const struct pause *pause = &before->items[i];

		if (pauses_find(after, pause->kind, pause->name) == NULL)
			log_info("resumed", LOG_STR("kind", pause_kind_name(pause->kind)),
				LOG_STR("name", pause->name));
	}
}

static bool is_listed(const char *const values[METRIC_LABELS], const void *pauses)
{
	return pauses_find(pauses, pause_kind_of(values[0]), values[1]) != NULL;
}

static void show(struct dispatch *dispatch, const struct pauses *pauses)
{
	struct metrics *metrics = dispatch->context.options.metrics;

	for (size_t i = 0; i < pauses->count; i++)
		metric_set(metrics_get(metrics, METER_PAUSED,
				   pause_kind_name(pauses->items[i].kind), pauses->items[i].name),
			1);
	metrics_keep(metrics, METER_PAUSED, is_listed, pauses);
	atomic_store(&dispatch->context.options.health->paused, (int64_t)pauses->count);
}

/* A suspect that reserves a connection of a paused handler is not delivered either. */
static void release_suspects(struct dispatch *dispatch)
{
	struct handler_queue *queue = dispatch->order.queues.by_name;
	struct connection *connection;

	for (; queue != NULL; queue = queue->hh.next) {
		if (!queue->paused)
			continue;
		TAILQ_FOREACH (connection, &queue->group->connections, link)
			suspects_release_of(&dispatch->schedule, connection);
	}
}

void pausing_take(struct dispatch *dispatch, struct pauses *pauses)
{
	struct handler_groups *groups = &dispatch->groups;

	if ((groups->pauses_known && pauses_equal(&groups->pauses, pauses)) ||
		!admission_set_pauses(dispatch->context.options.admission, pauses))
		return; /* without memory the next exchange tries again */
	groups->pauses_known = true;
	log_change(&groups->pauses, pauses);
	show(dispatch, pauses);
	/* As after a revocation, but the partitions stay here: their lanes go on knowing what waits in the table. */
	suspects_release(&dispatch->schedule, false);
	entries_return_undelivered(&dispatch->order, false);
	handler_groups_set_pauses(groups, pauses);
	release_suspects(dispatch);
	claimer_sweep_soon(&dispatch->table);
}
