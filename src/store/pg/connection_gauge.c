/*
 * Implements connection_gauge.h.
 */
#include "store/pg/connection_gauge.h"

#include "report/meters.h"

static void add(struct connection_gauge *gauge, int n)
{
	if (gauge->gauges[gauge->state] != NULL)
		metric_add(gauge->gauges[gauge->state], n);
}

void connection_gauge_enter(struct connection_gauge *gauge, struct metrics *metrics)
{
	static const char *const names[CONNECTION_STATES] = {
		[CONNECTION_CLOSED] = "closed",
		[CONNECTION_IDLE] = "idle",
		[CONNECTION_BUSY] = "busy",
		[CONNECTION_TRANSACTION] = "transaction",
	};

	*gauge = (struct connection_gauge){ .state = CONNECTION_CLOSED };
	for (int i = 0; metrics != NULL && i < CONNECTION_STATES; i++)
		gauge->gauges[i] = metrics_get(metrics, METER_PG_CONNECTIONS, names[i], NULL);
	add(gauge, 1);
}

void connection_gauge_move(struct connection_gauge *gauge, enum connection_state state)
{
	if (gauge->state == state)
		return;
	add(gauge, -1);
	gauge->state = state;
	add(gauge, 1);
}

void connection_gauge_leave(struct connection_gauge *gauge)
{
	add(gauge, -1);
	*gauge = (struct connection_gauge){ .state = CONNECTION_CLOSED };
}
