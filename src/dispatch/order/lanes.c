/*
 * See lanes.h. A lane exists while it has entries, is held, or knows of rows in the table. It can be in one of three
 * lists:
 *
 *	claimable   the claimer claims its next run. The lane has no entries. A hot lane is there when half of its
 *	            entries are gone, if all its rows in the table are behind the others: so it does not run dry (rule
 *	            R25).
 *	idle        it has no entries and is blocked: its first row waits for a retry or for a handler. A claim of due
 *	            rows, or a sweep, continues the lane when that row can be claimed.
 *	retrying    its entries wait in memory for the retry of an earlier row. The list is in the order of the times at
 *	            which this wait ends.
 *
 * A held lane is neither claimable nor idle: the end of its hold puts it into one of these lists.
 */
#include "dispatch/order/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"

/* An idle lane is kept this long at least. A claim or batch that was decided before the lane became idle has
 * arrived by then, and still needs what the lane knows about the table. */
#define IDLE_AT_LEAST_MS 10000

void lanes_init(struct lanes *lanes, const struct lane_rules *rules)
{
	memset(lanes, 0, sizeof(*lanes));
	lanes->rules = *rules;
	TAILQ_INIT(&lanes->claimable);
	TAILQ_INIT(&lanes->idle);
	TAILQ_INIT(&lanes->retrying);
}

static void unlist(struct lanes *lanes, struct lane *lane)
{
	if (lane->claimable) {
		TAILQ_REMOVE(&lanes->claimable, lane, claimable_link);
		lanes->claimable_count--;
		lane->claimable = false;
	}
	if (lane->idle) {
		TAILQ_REMOVE(&lanes->idle, lane, idle_link);
		lanes->idle_count--;
		lane->idle = false;
	}
}

static void forget_retry(struct lanes *lanes, struct lane *lane)
{
	if (lane->retry_offset == INT64_MAX)
		return;
	TAILQ_REMOVE(&lanes->retrying, lane, retrying_link);
	lane->retry_offset = INT64_MAX;
}

static void drop(struct lanes *lanes, struct lane *lane)
{
	unlist(lanes, lane);
	forget_retry(lanes, lane);
	HASH_DEL(lanes->table, lane);
	free(lane);
}

void lanes_fini(struct lanes *lanes)
{
	struct lane *lane;
	struct lane *next;

	HASH_ITER (hh, lanes->table, lane, next)
		drop(lanes, lane);
}

static struct lane *find(const struct lanes *lanes, size_t stream, uint64_t hash)
{
	struct lane_key key = { stream, hash };
	struct lane *lane = NULL;

	_Static_assert(sizeof(key) == 2 * sizeof(uint64_t), "hashed as bytes: no padding");
	/* The analyzer does not see that both members are set, once they are read byte by byte. */
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
	HASH_FIND(hh, lanes->table, &key, sizeof(key), lane);
	return lane;
}

static struct lane *find_or_make(struct lanes *lanes, size_t stream, uint64_t hash)
{
	struct lane *lane = find(lanes, stream, hash);

	if (lane != NULL)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (lane == NULL)
		return NULL;
	lane->key = (struct lane_key){ stream, hash };
	lane->table_low = INT64_MAX;
	lane->table_high = -1;
	lane->retry_offset = INT64_MAX;
	lane->id = ++lanes->ids;
	TAILQ_INIT(&lane->entries);
	TAILQ_INIT(&lane->unsettled);
	HASH_ADD(hh, lanes->table, key, sizeof(lane->key), lane);
	if (lane->hh.tbl == NULL) {
		free(lane);
		return NULL;
	}
	return lane;
}

/* Remembers that a row of the lane waits in the table. The number of the last claim tells later whether a claim can
 * have seen this row. */
static void note_in_table(const struct lanes *lanes, struct lane *lane, int64_t offset)
{
	if (offset < lane->table_low)
		lane->table_low = offset;
	if (offset > lane->table_high)
		lane->table_high = offset;
	lane->table_seen = lanes->claims_given;
}

/* The row that the entries wait for counts as any other in the table from now on. */
static void end_retry(struct lanes *lanes, struct lane *lane)
{
	int64_t offset = lane->retry_offset;

	forget_retry(lanes, lane);
	note_in_table(lanes, lane, offset);
	lane->blocked = true;
}

/* A lane that had this many entries since its last claim is hot. Any other lane is claimed again when it is empty. */
#define HOT_FROM 8

/* True when half of the entries of a hot lane are gone, a whole claim fits, and all rows that the claim can bring
 * belong behind the entries. While a row goes back to the table they do not: the claim could bring rows behind that
 * one. */
static bool needs_refill(const struct lanes *lanes, const struct lane *lane)
{
	const struct entry *last = TAILQ_LAST(&lane->entries, entry_list);
	const struct lane_rules *rules = &lanes->rules;

	return lane->table_low != INT64_MAX && !lane->blocked && lane->retry_offset == INT64_MAX &&
	       lane->filled >= HOT_FROM && lane->count <= lane->filled / 2 &&
	       lane->count + rules->claim <= rules->depth && lane->outgoing == 0 &&
	       (last == NULL || lane->table_low > last->message->offset);
}

/* Puts a lane into the list that fits its state, or frees it. */
static void relist(struct lanes *lanes, struct lane *lane)
{
	unlist(lanes, lane);
	if (lane->retry_offset != INT64_MAX && lane->count == 0)
		end_retry(lanes, lane);
	if (lane->holds > 0 || (lane->count > 0 && !needs_refill(lanes, lane)))
		return;
	if (lane->table_low == INT64_MAX) {
		drop(lanes, lane);
	} else if (lane->blocked) {
		lane->idle = true;
		lane->idle_since_ms = clock_now_ms();
		TAILQ_INSERT_TAIL(&lanes->idle, lane, idle_link);
		lanes->idle_count++;
	} else {
		lane->claimable = true;
		TAILQ_INSERT_TAIL(&lanes->claimable, lane, claimable_link);
		lanes->claimable_count++;
	}
}

static bool is_before(const struct entry *a, const struct entry *b)
{
	if (a->message->offset != b->message->offset)
		return a->message->offset < b->message->offset;
	return a->message->seq < b->message->seq;
}

/* Most messages arrive in order, so the search starts at the tail. */
static void insert(struct lane *lane, struct entry *entry)
{
	struct entry *at;

	TAILQ_FOREACH_REVERSE(at, &lane->entries, entry_list, lane_link)
	{
		if (is_before(at, entry))
			break;
	}
	if (at == NULL)
		TAILQ_INSERT_HEAD(&lane->entries, entry, lane_link);
	else
		TAILQ_INSERT_AFTER(&lane->entries, at, entry, lane_link);
	lane->active += entry->state != ENTRY_QUEUED;
	entry->lane = lane;
}

void lanes_set_state(struct entry *entry, enum entry_state state)
{
	if (entry->lane != NULL && !entry->in_lane.answered) {
		entry->lane->active -= entry->state != ENTRY_QUEUED;
		entry->lane->active += state != ENTRY_QUEUED;
	}
	entry->state = state;
}

/*
 * True when an earlier message of the lane is in the table or is being written back to it, so that a delivery of
 * this entry would overtake it. A completion that is not in doubt does not count: its entry stops the lane. A row for
 * whose short retry the lane waits does not count. A held lane counts: another instance may still be processing an
 * earlier row.
 */
static bool is_overtaking(const struct lane *lane, const struct entry *entry)
{
	const struct entry *at = TAILQ_LAST(&lane->entries, entry_list);

	if (lane->holds > 0 || lane->table_low < entry->message->offset)
		return true;
	if (lane->outgoing == 0)
		return false;
	if (at != NULL && at->in_lane.outgoing && is_before(at, entry))
		return true; /* the usual case; a full lane is long */
	TAILQ_FOREACH (at, &lane->entries, lane_link) {
		if (!is_before(at, entry))
			return false;
		if (at->in_lane.outgoing)
			return true;
	}
	return false;
}

/* False while an entry of the lane is ready, delivered or being settled (unless it was done and `next_after` is
 * `answer`), while the lane waits for a short retry, and while it has too many unsettled verdicts. A lower offset that
 * arrives then does not interrupt the entry; it becomes the head afterwards. */
static bool may_start(const struct lanes *lanes, const struct lane *lane)
{
	return lane->active == 0 && lane->retry_offset == INT64_MAX &&
	       lane->unsettled_count < lanes->rules.max_unsettled;
}

/* A fast lane may fill all memory. Then ingest waits for room, which costs less than to park rows and claim them later.
 * A slower lane leaves memory to others. */
static bool is_full(const struct lanes *lanes, const struct lane *lane)
{
	const struct entry *oldest = TAILQ_FIRST(&lane->unsettled);

	if (lane->count < lanes->rules.depth)
		return false;
	if (oldest == NULL)
		oldest = TAILQ_FIRST(&lane->entries);
	return clock_now_ms() - oldest->in_lane.since_ms >= lanes->rules.fast_ms;
}

int lanes_admit(struct lanes *lanes, struct entry *entry, enum lane_arrival *out, struct err *err)
{
	struct lane *lane;

	*out = ADMIT_HEAD;
	if (!entry_is_ordered(entry))
		return 0;
	lane = find_or_make(lanes, entry->stream, entry_lane_hash(entry));
	if (lane == NULL)
		return err_memory(err);
	entry->in_lane.since_ms = clock_now_ms();
	if (is_overtaking(lane, entry) || is_full(lanes, lane))
		*out = ADMIT_PARK;
	else if (!may_start(lanes, lane))
		*out = ADMIT_BEHIND;
	entry->state = ENTRY_QUEUED;
	insert(lane, entry);
	lane->count++;
	if (lane->count > lane->filled)
		lane->filled = lane->count;
	if (*out == ADMIT_HEAD && !lanes_is_head(entry))
		*out = ADMIT_BEHIND;
	relist(lanes, lane);
	return 0;
}

bool lanes_must_park(const struct entry *entry)
{
	return entry->lane != NULL && is_overtaking(entry->lane, entry);
}

bool lanes_is_head(const struct entry *entry)
{
	return entry->lane == NULL || TAILQ_FIRST(&entry->lane->entries) == entry;
}

/* The claim saw all rows that the lane knows about. What is left in the table starts behind the run: either rows that
 * were known before, or the rows that `followed` stands for. */
static void note_claimed_run(struct lane *lane, const struct lane_run *run)
{
	if (run->followed && lane->table_high <= run->last_offset)
		lane->table_high = run->last_offset + 1;
	if (lane->table_high > run->last_offset) {
		lane->table_low = run->last_offset + 1;
	} else {
		lane->table_low = INT64_MAX;
		lane->table_high = -1;
	}
}

/* The lowest offset that a row in the table can have if memory holds the start of the lane. Entries on their way to the
 * table do not count. */
static int64_t behind_entries(const struct lane *lane, int64_t offset)
{
	const struct entry *last = TAILQ_LAST(&lane->entries, entry_list);

	while (last != NULL && last->in_lane.outgoing)
		last = TAILQ_PREV(last, entry_list, lane_link);
	return last == NULL || last->message->offset < offset ? offset + 1
							      : last->message->offset + 1;
}

void lanes_claimed(struct lanes *lanes, size_t stream, uint64_t hash, const struct lane_run *run)
{
	struct lane *lane = find_or_make(lanes, stream, hash);
	bool brings_retry;

	if (lane == NULL)
		return;
	brings_retry = lane->retry_offset == run->last_offset;
	/* The row for which the entries wait comes back. What is known about rows in the table is about rows behind the
	 * entries, and stays. */
	if (brings_retry && lane->table_low > run->last_offset) {
		forget_retry(lanes, lane);
		if (run->followed && lane->table_low == INT64_MAX)
			note_in_table(lanes, lane, behind_entries(lane, run->last_offset));
		lane->blocked = false;
		unlist(lanes, lane);
		return;
	}
	if (brings_retry)
		forget_retry(lanes, lane);
	/* A row that was seen in the table after this claim was given may be missing in its run although it has a lower
	 * offset. Then the lane still waits for that row. */
	if (lane->table_low == INT64_MAX || lane->table_seen < run->number)
		note_claimed_run(lane, run);
	else if (run->followed)
		note_in_table(lanes, lane, run->last_offset + 1);
	lane->blocked = false;
	unlist(lanes, lane);
}

void lanes_settling(struct lanes *lanes, struct entry *entry)
{
	struct lane *lane = entry->lane;
	struct in_lane *in_lane = &entry->in_lane;

	lanes_set_state(entry, ENTRY_SETTLING);
	if (lane == NULL)
		return;
	if (entry_is_outgoing(entry)) {
		in_lane->outgoing = true;
		lane->outgoing++;
	}
	if (entry->end == END_RETURNED)
		return;
	in_lane->unsettled = true;
	TAILQ_INSERT_TAIL(&lane->unsettled, entry, in_lane.unsettled_link);
	lane->unsettled_count++;
	if (entry->end != END_DONE || lanes->rules.wait_for_commit)
		return;
	in_lane->answered = true;
	TAILQ_REMOVE(&lane->entries, entry, lane_link);
	lane->active--;
}

static void leave_unsettled(struct entry *entry)
{
	if (!entry->in_lane.unsettled)
		return;
	entry->in_lane.unsettled = false;
	TAILQ_REMOVE(&entry->lane->unsettled, entry, in_lane.unsettled_link);
	entry->lane->unsettled_count--;
}

void lanes_take_back(struct entry *entry)
{
	leave_unsettled(entry);
	lanes_take_back_failed(entry);
}

void lanes_take_back_failed(struct entry *entry)
{
	struct lane *lane = entry->lane;

	if (entry->in_lane.answered) {
		entry->in_lane.answered = false;
		insert(lane, entry);
	}
	if (!entry->in_lane.outgoing) {
		entry->in_lane.outgoing = true;
		lane->outgoing++;
	}
}

struct entry *lanes_verdict_before(const struct entry *entry)
{
	return entry->in_lane.unsettled ? TAILQ_PREV(entry, entry_list, in_lane.unsettled_link)
					: NULL;
}

bool lanes_is_half_unsettled(const struct lanes *lanes, const struct lane *lane)
{
	const struct entry *first = TAILQ_FIRST(&lane->unsettled);

	return lane->unsettled_count * 2 >= lanes->rules.max_unsettled && first != NULL &&
	       first->settling.job == NULL;
}

struct entry *lanes_next(const struct lanes *lanes, const struct lane *lane)
{
	return may_start(lanes, lane) ? TAILQ_FIRST(&lane->entries) : NULL;
}

/* True when a claim has brought the row again before it was known that its retry is in the table. */
static bool is_back(const struct lane *lane, const struct entry *entry)
{
	const struct entry *at = TAILQ_FIRST(&lane->entries);

	while (at != NULL && at->message->offset < entry->message->offset)
		at = TAILQ_NEXT(at, lane_link);
	return at != NULL && at->message->offset == entry->message->offset;
}

static void wait_for_retry(struct lanes *lanes, struct lane *lane, const struct entry *entry)
{
	struct lane *before = TAILQ_LAST(&lanes->retrying, lane_list);

	lane->retry_offset = entry->message->offset;
	lane->retry_until_ms = clock_now_ms() + entry->in_lane.retry_ms;
	while (before != NULL && before->retry_until_ms > lane->retry_until_ms)
		before = TAILQ_PREV(before, lane_list, retrying_link);
	if (before == NULL)
		TAILQ_INSERT_HEAD(&lanes->retrying, lane, retrying_link);
	else
		TAILQ_INSERT_AFTER(&lanes->retrying, before, lane, retrying_link);
}

bool lanes_end_retry(struct lanes *lanes, int64_t now_ms, struct entry **next)
{
	struct lane *lane = TAILQ_FIRST(&lanes->retrying);

	if (lane == NULL || lane->retry_until_ms > now_ms)
		return false;
	end_retry(lanes, lane);
	*next = lanes_next(lanes, lane);
	relist(lanes, lane);
	return true;
}

struct entry *lanes_leave(struct lanes *lanes, struct entry *entry, bool outside, bool blocked)
{
	struct lane *lane = entry->lane;
	struct entry *next;

	if (lane == NULL)
		return NULL;
	leave_unsettled(entry);
	if (!entry->in_lane.answered) {
		TAILQ_REMOVE(&lane->entries, entry, lane_link);
		lane->active -= entry->state != ENTRY_QUEUED;
	}
	lane->outgoing -= entry->in_lane.outgoing;
	lane->count--;
	entry->lane = NULL;
	if (outside && entry->in_lane.retry_ms > 0 && lane->retry_offset == INT64_MAX &&
		!TAILQ_EMPTY(&lane->entries)) {
		if (!is_back(lane, entry))
			wait_for_retry(lanes, lane, entry);
	} else if (outside) {
		note_in_table(lanes, lane, entry->message->offset);
		lane->blocked |= blocked;
	}
	next = lanes_next(lanes, lane);
	relist(lanes, lane);
	return next;
}

int lanes_parked(struct lanes *lanes, size_t stream, uint64_t hash, int64_t offset, struct err *err)
{
	struct lane *lane = find_or_make(lanes, stream, hash);

	if (lane == NULL)
		return err_memory(err);
	/* A sweep knows the key of a parked row, not its offset. Memory holds the start of the lane, so the row is
	 * behind the last entry. If the lane has no entry, nothing is known, and 0 parks whatever arrives. */
	if (offset < 0)
		offset = TAILQ_EMPTY(&lane->entries)
				 ? 0
				 : TAILQ_LAST(&lane->entries, entry_list)->message->offset + 1;
	note_in_table(lanes, lane, offset);
	lane->blocked = false;
	relist(lanes, lane);
	return 0;
}

void lanes_block(struct lanes *lanes, size_t stream, uint64_t hash)
{
	struct lane *lane = find(lanes, stream, hash);

	if (lane == NULL)
		return;
	lane->blocked = true;
	if (lane->table_low == INT64_MAX)
		lane->table_low = 0;
	relist(lanes, lane);
}

int lanes_hold(struct lanes *lanes, size_t stream, uint64_t hash)
{
	struct lane *lane = find_or_make(lanes, stream, hash);

	if (lane == NULL)
		return FAULT_MEMORY;
	lane->holds++;
	relist(lanes, lane);
	return 0;
}

void lanes_unhold(struct lanes *lanes, size_t stream, uint64_t hash, int64_t offset)
{
	struct lane *lane = find(lanes, stream, hash);

	if (lane == NULL || lane->holds == 0)
		return;
	lane->holds--;
	if (offset >= 0) {
		note_in_table(lanes, lane, offset);
		lane->blocked = false;
	}
	relist(lanes, lane);
}

bool lanes_is_free(const struct lanes *lanes, size_t stream, uint64_t hash)
{
	const struct lane *lane = find(lanes, stream, hash);

	return lane == NULL || (lane->count == 0 && lane->holds == 0);
}

size_t lanes_take_claimable(struct lanes *lanes, struct lane_key *out, size_t most)
{
	size_t taken = 0;
	struct lane *lane;

	while (taken < most && (lane = TAILQ_FIRST(&lanes->claimable)) != NULL) {
		out[taken++] = lane->key;
		lane->filled = lane->count;
		unlist(lanes, lane);
	}
	return taken;
}

void lanes_forget_streams(struct lanes *lanes, lanes_is_gone *is_gone, void *arg)
{
	struct lane *lane;
	struct lane *next;

	HASH_ITER (hh, lanes->table, lane, next) {
		if (lane->count == 0 && is_gone(arg, lane->key.stream))
			drop(lanes, lane);
	}
}

void lanes_forget_idle(struct lanes *lanes, size_t most, int64_t now_ms)
{
	struct lane *oldest;

	while (lanes->table != NULL && lanes->idle_count > most) {
		oldest = TAILQ_FIRST(&lanes->idle);
		if (oldest == NULL || now_ms - oldest->idle_since_ms < IDLE_AT_LEAST_MS)
			return;
		drop(lanes, oldest);
	}
}
