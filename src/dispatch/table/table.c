/* See table.h. */
#include "dispatch/table/table.h"

#include "report/meters.h"

void table_init(struct table *table, struct context *context, struct order *order)
{
	struct metrics *metrics = context->options.metrics;

	table->context = context;
	table->order = order;
	settler_init(&table->settler);
	table->settler.events_dropped = metrics_get(metrics, METER_EVENTS_DROPPED, NULL, NULL);
	table->settle_seconds = metrics_get(metrics, METER_SETTLE, NULL, NULL);
	table->claim_seconds = metrics_get(metrics, METER_CLAIM, NULL, NULL);
	table->set_aside_gauge = metrics_get(metrics, METER_SET_ASIDE, "settle", NULL);
	metric_set(table->set_aside_gauge, 0); /* an earlier instance run may have left a value */
	metric_set(metrics_get(metrics, METER_SET_ASIDE, "claim", NULL), 0);
}

void table_fini(struct table *table)
{
	worker_pool_free(table->pool);
	claim_cursor_fini(&table->claimer.cursor);
	refused_rows_fini(&table->claimer.refused);
}
