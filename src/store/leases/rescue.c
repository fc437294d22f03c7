/*
 * The rescue of instance.h: gives back the rows of dead instances. Each dead instance has three
 * ranges: the stragglers it named, its claims from the table, and the rows that were born claimed.
 * Each range is walked in windows, and the progress is recorded in the table after each window, so
 * that another instance can continue after a crash.
 *
 * A window locks its rows until it ends, and how long that takes depends on the rows, their indexes
 * and the triggers of the user. So the next window is sized by the time of the last one.
 */
#include <inttypes.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"
#include "store/leases/instance.h"

#define FAST_MS 100 /* after a faster window the next one is twice as wide */
#define SLOW_MS 400 /* after a slower one half as wide */
#define REFUSED_MOST                                                                               \
	100 /* limit per walk: when more rows are refused, the rows are not the cause */

/* The statements return: rows freed, rows locked, the next position, and whether that is the end. */
static const struct range {
	enum query query;
	const char *unit;
	int64_t first; /* the first window */
	int64_t most;  /* the widest one */
} ranges[RESCUE_RANGES] = {
	[RESCUE_STRAGGLERS] = { QUERY_RESCUE_STRAGGLERS, "straggler", BOUNDS_STRAGGLERS,
		BOUNDS_STRAGGLERS },
	[RESCUE_CLAIMS] = { QUERY_RESCUE_SLOW, "claim", 2, 20 },
	[RESCUE_BORN] = { QUERY_RESCUE_BORN, "row", 1000, 20000 },
};

struct rescue_walk {
	const struct range *range;
	int64_t *window;
	int64_t at;
	int64_t noted; /* start of the next round: the first window with a locked row */
	int64_t locked;
	int refused; /* rows that PostgreSQL refuses alone */
	bool done;
};

/* One dead instance. */
struct dead {
	struct rescue *rescue;
	int32_t id;
	struct rescue_walk walks[RESCUE_RANGES];
};

static void pace(struct rescue_walk *walk, int64_t took_ms)
{
	if (took_ms < FAST_MS)
		*walk->window *= 2;
	else if (took_ms > SLOW_MS && *walk->window > 1)
		*walk->window /= 2;
	if (*walk->window > walk->range->most)
		*walk->window = walk->range->most;
}

static int step(struct dead *dead, struct rescue_walk *walk, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t began_ms = clock_now_ms();
	int r;

	params_int(&params, dead->id);
	params_bigint(&params, walk->at);
	params_bigint(&params, *walk->window);
	r = db_run(dead->rescue->db, walk->range->query, &params, &rows, err);
	if (r != 0)
		return r;
	dead->rescue->freed += rows_int(rows, 0, 0);
	walk->locked += rows_int(rows, 0, 1);
	walk->at = rows_int(rows, 0, 2);
	if (walk->locked == 0)
		walk->noted = walk->at;
	walk->done = rows_bool(rows, 0, 3);
	pace(walk, clock_now_ms() - began_ms);
	return 0;
}

/* A single row may be the cause that a window is refused, takes too long or meets a lock. Smaller windows leave that row out.
 * The row stays for the next round, like a locked one. A lock that holds up a single row may be one of the
 * whole table. */
static int step_round(struct dead *dead, struct rescue_walk *walk, struct err *err)
{
	struct err said = ERR_INIT;
	enum pg_error_class class;
	int r = step(dead, walk, &said);

	if (r == 0)
		return 0;
	class = db_error_kind(&said);
	if (db_is_open(dead->rescue->db) && *walk->window > 1 &&
		(db_error_may_be_row(&said) || class == PG_ERROR_SLOW || class == PG_ERROR_BUSY)) {
		*walk->window /= 2;
		return 0;
	}
	(void)err_prefix(
		&said, "%s %" PRId64 " of instance %d", walk->range->unit, walk->at, dead->id);
	*err = said;
	if (!db_is_open(dead->rescue->db) || walk->refused == REFUSED_MOST ||
		!(db_error_may_be_row(&said) || class == PG_ERROR_SLOW))
		return r;
	walk->locked++;
	walk->refused++;
	walk->at++;
	return 0;
}

static bool is_done(const struct rescue_walk *walk)
{
	return walk->done && walk->locked == 0;
}

/* Records the progress. If this statement is lost in a crash, the next rescue walks the same
 * window again. That is safe, because rows that are already free do not match any more. */
static int note(struct dead *dead, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const struct rescue_walk *walks = dead->walks;
	bool done = true;

	for (int i = 0; i < RESCUE_RANGES; i++)
		done = done && is_done(&walks[i]);
	params_int(&params, dead->id);
	if (done)
		return db_run(dead->rescue->db, QUERY_RESCUE_DONE, &params, NULL, err);
	params_bigint(&params, walks[RESCUE_BORN].noted);
	params_bigint(&params, walks[RESCUE_CLAIMS].noted);
	params_bool(&params, is_done(&walks[RESCUE_STRAGGLERS]));
	return db_run(dead->rescue->db, QUERY_RESCUE_PROGRESS, &params, NULL, err);
}

/* At least one window, so that a late round makes progress too. */
static int walk_on(struct dead *dead, struct rescue_walk *walk, struct err *err)
{
	const struct rescue *rescue = dead->rescue;
	int r;

	do {
		int64_t noted = walk->noted;

		r = step_round(dead, walk, err);
		if (r == 0 && (walk->noted != noted || walk->done))
			r = note(dead, err);
	} while (r == 0 && !walk->done && !atomic_load(rescue->stop) &&
		 clock_now_ms() < rescue->until_ms);
	return r;
}

/* The table has the position of the first row that stays. The position behind it is kept in memory, for one walk at a time. */
static void keep_position(struct dead *dead, int range)
{
	struct rescue *rescue = dead->rescue;
	const struct rescue_walk *walk = &dead->walks[range];

	if (rescue->ahead.id != 0 && (rescue->ahead.id != dead->id || rescue->ahead.range != range))
		return;
	rescue->ahead.id = !walk->done && walk->locked > 0 ? dead->id : 0;
	rescue->ahead.range = range;
	rescue->ahead.at = walk->at;
}

/* Rows that are locked by a handler's transaction are left for the next round. That round starts at
 * the first of them, and not at once. */
static int rescue_one(struct dead *dead, struct err *err)
{
	int64_t locked = 0;
	bool done = true;
	int r = 0;

	FAULT_POINT("before_rescue");
	for (int i = 0; r == 0 && done && i < RESCUE_RANGES; i++) {
		if (i == RESCUE_BORN)
			FAULT_POINT("between_rescues");
		r = walk_on(dead, &dead->walks[i], err);
		keep_position(dead, i);
		done = dead->walks[i].done;
		locked += dead->walks[i].locked;
	}
	FAULT_POINT("after_rescue");
	if (r != 0)
		return r;
	return done || locked > 0 ? 0 : RESCUE_MORE;
}

static struct dead dead_of(struct rescue *rescue, const struct rows *rows, int row)
{
	const int64_t starts[RESCUE_RANGES] = {
		[RESCUE_STRAGGLERS] = 1,
		[RESCUE_CLAIMS] = rows_int(rows, row, 2),
		[RESCUE_BORN] = rows_int(rows, row, 1),
	};
	struct dead dead = { .rescue = rescue, .id = (int32_t)rows_int(rows, row, 0) };

	for (int i = 0; i < RESCUE_RANGES; i++) {
		if (rescue->windows[i] == 0)
			rescue->windows[i] = ranges[i].first;
		dead.walks[i] = (struct rescue_walk){ .range = &ranges[i],
			.window = &rescue->windows[i],
			.at = starts[i],
			.noted = starts[i] };
	}
	if (rescue->ahead.id == dead.id && rescue->ahead.at > starts[rescue->ahead.range]) {
		dead.walks[rescue->ahead.range].at = rescue->ahead.at;
		dead.walks[rescue->ahead.range].locked = 1;
	}
	return dead;
}

/* Of an instance that is not in this list, another one may have freed the rows. */
static void forget_position(struct rescue *rescue, const struct rows *rows)
{
	bool listed = false;

	for (int i = 0; i < rows_count(rows); i++)
		listed = listed || rows_int(rows, i, 0) == rescue->ahead.id;
	if (!listed)
		rescue->ahead.id = 0;
}

int instance_rescue(struct rescue *rescue, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	bool more = false;
	int fault = 0;
	int r;

	rescue->freed = 0;
	r = db_run(rescue->db, QUERY_LIST_UNRESCUED, NULL, &rows, err);
	if (r != 0)
		return r;
	forget_position(rescue, rows);
	for (int i = 0;
		i < rows_count(rows) && db_is_open(rescue->db) && !atomic_load(rescue->stop); i++) {
		struct dead dead = dead_of(rescue, rows, i);
		struct err said = ERR_INIT;

		if (i > 0 && clock_now_ms() >= rescue->until_ms) {
			more = true;
			break;
		}
		r = rescue_one(&dead, &said);
		if (said.fault != 0 && fault == 0)
			*err = said;
		if (r < 0)
			fault = r;
		more |= r == RESCUE_MORE;
	}
	if (fault != 0)
		return fault;
	return more ? RESCUE_MORE : 0;
}
