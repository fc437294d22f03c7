#include "store/census.h"

#include "model/meters.h"

static void add(struct census *census, int n)
{
	if (census->gauges[census->state] != NULL)
		metric_add(census->gauges[census->state], n);
}

void census_enter(struct census *census, struct metrics *metrics)
{
	static const char *const names[CENSUS_STATES] = {
		[CENSUS_CLOSED] = "closed",
		[CENSUS_IDLE] = "idle",
		[CENSUS_BUSY] = "busy",
		[CENSUS_TRANSACTION] = "transaction",
	};

	*census = (struct census){ .state = CENSUS_CLOSED };
	for (int i = 0; metrics != NULL && i < CENSUS_STATES; i++)
		census->gauges[i] = metrics_get(metrics, METER_PG_CONNECTIONS, names[i], NULL);
	add(census, 1);
}

void census_move(struct census *census, enum census_state state)
{
	if (census->state == state)
		return;
	add(census, -1);
	census->state = state;
	add(census, 1);
}

void census_leave(struct census *census)
{
	add(census, -1);
	*census = (struct census){ .state = CENSUS_CLOSED };
}
