/*
 * The rescue of instance.h: gives back the rows of dead instances. Each dead instance has three
 * ranges: the stragglers it named, its claims from the table, and the rows that were born claimed.
 * Each range is walked in windows, and the progress is recorded in the table, so that another
 * instance can continue after a crash.
 */
#include <inttypes.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"
#include "store/leases/instance.h"

#define BORN_WINDOW 20000 /* seqs examined by one statement */
#define REFUSED_MOST                                                                               \
	100            /* limit per walk: when more rows are refused, the rows are not the cause */
#define SLOW_WINDOW 20 /* claims examined by one statement */

/* One dead instance. The statements return: rows freed, rows locked, the next position, and whether
 * that is the end. */
struct rescue {
	struct db *db;
	const struct rescue_bounds *bounds;
	int32_t id;
	int64_t freed;
};

struct walk {
	enum query query;
	const char *unit;
	int64_t width;
	int64_t part; /* present size of a window: smaller after a refusal */
	int64_t at;
	int64_t noted; /* start of the next round: the first window with a locked row */
	int64_t locked;
	int refused; /* rows that PostgreSQL refuses alone */
	bool done;
};

/* The ranges of one dead instance: the stragglers, which are below its bounds; claims from the
 * table; rows born claimed. */
struct walks {
	struct walk named;
	struct walk slow;
	struct walk born;
};

static int step(struct rescue *rescue, struct walk *walk, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, rescue->id);
	params_bigint(&params, walk->at);
	params_bigint(&params, walk->part);
	r = db_run(rescue->db, walk->query, &params, &rows, err);
	if (r != 0)
		return r;
	rescue->freed += rows_int(rows, 0, 0);
	walk->locked += rows_int(rows, 0, 1);
	walk->at = rows_int(rows, 0, 2);
	if (walk->locked == 0)
		walk->noted = walk->at;
	walk->done = rows_bool(rows, 0, 3);
	return 0;
}

/* If a window is refused, one row of it may be the cause; smaller windows leave that row out. The
 * row stays for the next round, like a locked one. */
static int step_round(struct rescue *rescue, struct walk *walk, struct err *err)
{
	struct err said = ERR_INIT;
	int r = step(rescue, walk, &said);

	if (r == 0 && walk->part < walk->width)
		walk->part *= 2;
	if (r == 0)
		return 0;
	if (!db_is_open(rescue->db) || !db_error_may_be_row(&said) ||
		walk->refused == REFUSED_MOST) {
		if (err != NULL)
			*err = said;
		return r;
	}
	if (walk->part > 1) {
		walk->part /= 2;
		return 0;
	}
	(void)err_prefix(&said, "%s %" PRId64 " of instance %d", walk->unit, walk->at, rescue->id);
	if (err != NULL)
		*err = said;
	walk->locked++;
	walk->refused++;
	walk->at++;
	return 0;
}

/* At least one window, so that a late round makes progress too. */
static int walk_on(struct rescue *rescue, struct walk *walk, struct err *err)
{
	const struct rescue_bounds *bounds = rescue->bounds;
	int r = 0;

	do
		r = step_round(rescue, walk, err);
	while (r == 0 && !walk->done && !atomic_load(bounds->stop) &&
		clock_now_ms() < bounds->until_ms);
	return r;
}

static bool is_done(const struct walk *walk)
{
	return walk->done && walk->locked == 0;
}

/* Records the progress. If this statement is lost in a crash, the next rescue walks the same
 * windows again. That is safe, because rows that are already free do not match any more. */
static int note(struct rescue *rescue, const struct walks *walks, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	bool done = is_done(&walks->named) && is_done(&walks->slow) && is_done(&walks->born);

	params_int(&params, rescue->id);
	if (done)
		return db_run(rescue->db, QUERY_RESCUE_DONE, &params, NULL, err);
	params_bigint(&params, walks->born.noted);
	params_bigint(&params, walks->slow.noted);
	params_bool(&params, is_done(&walks->named));
	return db_run(rescue->db, QUERY_RESCUE_PROGRESS, &params, NULL, err);
}

static struct walk walk_from(enum query query, const char *unit, int64_t width, int64_t at)
{
	return (struct walk){
		.query = query, .unit = unit, .width = width, .part = width, .at = at, .noted = at
	};
}

/* Rows that are locked by a handler's transaction are left for the next round. That round starts at
 * the first of them, and not at once. */
static int rescue_one(struct rescue *rescue, int64_t low_rest, int64_t low_claim, struct err *err)
{
	struct walks walks = {
		.named = walk_from(QUERY_RESCUE_STRAGGLERS, "straggler", BOUNDS_STRAGGLERS, 1),
		.slow = walk_from(QUERY_RESCUE_SLOW, "claim", SLOW_WINDOW, low_claim),
		.born = walk_from(QUERY_RESCUE_BORN, "row", BORN_WINDOW, low_rest),
	};
	int r;

	FAULT_POINT("before_rescue");
	r = walk_on(rescue, &walks.named, err);
	if (r == 0 && walks.named.done)
		r = walk_on(rescue, &walks.slow, err);
	FAULT_POINT("between_rescues");
	if (r == 0 && walks.slow.done)
		r = walk_on(rescue, &walks.born, err);
	FAULT_POINT("after_rescue");
	if (r == 0)
		r = note(rescue, &walks, err);
	if (r != 0)
		return r;
	return walks.born.done || walks.named.locked + walks.slow.locked + walks.born.locked > 0
		       ? 0
		       : RESCUE_MORE;
}

int instance_rescue(
	struct db *db, const struct rescue_bounds *bounds, int64_t *rescued, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	bool more = false;
	int r;

	*rescued = 0;
	r = db_run(db, QUERY_LIST_UNRESCUED, NULL, &rows, err);
	for (int i = 0; r >= 0 && i < rows_count(rows) && !atomic_load(bounds->stop); i++) {
		struct rescue rescue = {
			.db = db,
			.bounds = bounds,
			.id = (int32_t)rows_int(rows, i, 0),
		};

		r = rescue_one(&rescue, rows_int(rows, i, 1), rows_int(rows, i, 2), err);
		*rescued += rescue.freed;
		more |= r == RESCUE_MORE;
	}
	if (r < 0)
		return r;
	return more ? RESCUE_MORE : 0;
}
