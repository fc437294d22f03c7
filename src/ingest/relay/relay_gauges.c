/*
 * Implements relay_gauges.h.
 */
#include "ingest/relay/relay_gauges.h"

#include "report/meters.h"

void relay_gauges_init(struct relay_gauges *gauges, struct metrics *metrics)
{
	*gauges = (struct relay_gauges){
		.leader = metrics_get(metrics, METER_OUTBOX_LEADER, NULL, NULL),
		.waiting = metrics_get(metrics, METER_OUTBOX_WAITING, NULL, NULL),
		.oldest = metrics_get(metrics, METER_OUTBOX_OLDEST, NULL, NULL),
		.dead = metrics_get(metrics, METER_OUTBOX_DEAD, NULL, NULL),
		.holes = metrics_get(metrics, METER_OUTBOX_HOLES, NULL, NULL),
		.held_keys = metrics_get(metrics, METER_OUTBOX_HELD_KEYS, NULL, NULL),
		.held_topics = metrics_get(metrics, METER_OUTBOX_HELD_TOPICS, NULL, NULL),
		.refused = metrics_get(metrics, METER_SET_ASIDE, "record", NULL),
	};
}

void relay_gauges_show_memory(const struct relay_gauges *gauges, bool elected,
	const struct holes *holes, const struct holds *holds, size_t refused)
{
	metric_set(gauges->leader, elected);
	metric_set(gauges->holes, (double)holes->count);
	metric_set(gauges->held_topics, (double)holds->topics);
	metric_set(gauges->held_keys, (double)(holds->count - holds->topics));
	metric_set(gauges->refused, (double)refused);
}

void relay_gauges_show_backlog(
	const struct relay_gauges *gauges, const struct relay_backlog *backlog)
{
	metric_set(gauges->waiting, (double)backlog->waiting);
	metric_set(gauges->dead, (double)backlog->dead);
	metric_set(gauges->oldest, (double)backlog->oldest_ms / 1000.0);
}
