/*
 * What the relay shows about itself in the metrics. One thread.
 */
#ifndef INGEST_RELAY_RELAY_GAUGES_H
#define INGEST_RELAY_RELAY_GAUGES_H

#include "report/metrics.h"
#include "store/outbox/relay_rows.h"

struct relay_gauges {
	struct metric *leader;
	struct metric *waiting;
	struct metric *oldest;
	struct metric *dead;
	struct metric *holes;
	struct metric *held_keys;
	struct metric *held_topics;
	struct metric *refused;
};

void relay_gauges_init(struct relay_gauges *gauges, struct metrics *metrics);
/* Whether this instance is elected, and what it remembers. `refused`: rows that PostgreSQL refuses to change. */
void relay_gauges_show_memory(const struct relay_gauges *gauges, bool elected,
	const struct holes *holes, const struct holds *holds, size_t refused);
void relay_gauges_show_backlog(
	const struct relay_gauges *gauges, const struct relay_backlog *backlog);

#endif
