/*
 * Implements low_sweep.h.
 */
#include "ingest/relay/low_sweep.h"

#include "base/time/clock.h"

#define FIRST_TURN_MS 100
#define TURN_MS       5
#define PAUSE_MS      1000 /* between two turns */
#define REST_MS       10000
#define QUICK_MS      2 /* a range that takes less is doubled */
#define SLOW_MS       10
#define WIDTH_FIRST   10000
#define WIDTH_LEAST   1000
#define WIDTH_MOST    (INT64_C(1) << 40)

void low_sweep_begin(struct low_sweep *sweep)
{
	*sweep = (struct low_sweep){ .after = INT64_MIN, .width = WIDTH_FIRST, .going = true };
}

bool low_sweep_is_due(struct low_sweep *sweep, int64_t tip)
{
	int64_t passed_ms = clock_now_ms() - sweep->read_ms;

	if (sweep->complete && passed_ms < (sweep->going ? PAUSE_MS : REST_MS))
		return false;
	if (!sweep->going)
		sweep->after = INT64_MIN;
	sweep->going = true;
	sweep->tip = tip;
	return true;
}

bool low_sweep_goes_on(const struct low_sweep *sweep, int64_t began_ms)
{
	return sweep->going &&
	       clock_now_ms() - began_ms < (sweep->complete ? TURN_MS : FIRST_TURN_MS);
}

/* The seqs of the sequence begin at 1. */
static int64_t end_of_range(const struct low_sweep *sweep)
{
	int64_t last = sweep->after < 0 ? 0 : sweep->after + sweep->width;

	return last < sweep->tip ? last : sweep->tip;
}

static void adapt(struct low_sweep *sweep, int64_t took_ms)
{
	if (took_ms < QUICK_MS && sweep->width < WIDTH_MOST)
		sweep->width *= 2;
	else if (took_ms > SLOW_MS && sweep->width > WIDTH_LEAST)
		sweep->width /= 2;
}

int low_sweep_read(struct low_sweep *sweep, struct db *db, struct relay_page page,
	struct rows **rows, struct err *err)
{
	int64_t last = end_of_range(sweep);
	int64_t began_ms = clock_now_ms();
	int r;

	page.after = sweep->after;
	r = relay_low(db, &page, last, rows, err);
	if (r != 0)
		return r;
	sweep->read_ms = clock_now_ms();
	adapt(sweep, sweep->read_ms - began_ms);
	/* the page may be cut */
	if (rows_count(*rows) > 0)
		last = rows_int(*rows, rows_count(*rows) - 1, RELAY_SEQ);
	sweep->after = last;
	sweep->going = last < sweep->tip;
	sweep->complete |= !sweep->going;
	return 0;
}
