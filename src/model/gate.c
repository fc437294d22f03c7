#include "model/gate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/lane_set.h"
#include "model/partition_index.h"

#define LAST_RESERVE_BYTES (1 << 20)

struct entry {
	const char *topic; /* the index's copy of the name */
	int32_t partition;
	bool assigned;
	bool dirty;
	bool overflow;
	uint64_t version;
};

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* budget came back, or an overflow ended */
	struct gate_limits limits;
	struct partition_index index;
	struct entry *entries;
	size_t count;
	size_t room;
	int64_t claimed;
	int64_t claimed_bytes;
	int64_t waiting;
	int64_t placed; /* rows ever placed to wait */
	struct routing *routing;
	struct lane_set parked; /* lanes parked by the batch at hand */
	bool parked_broken;     /* no memory for that set: everything ordered is parked */
};

static void lock(struct gate *gate)
{
	(void)pthread_mutex_lock(&gate->lock);
}

static void unlock(struct gate *gate)
{
	(void)pthread_mutex_unlock(&gate->lock);
}

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr);
}

int gate_new(struct gate **out, const struct gate_limits *limits, struct err *err)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (gate == NULL)
		return err_memory(err);
	gate->limits = *limits;
	(void)pthread_mutex_init(&gate->lock, NULL);
	cond_init(&gate->changed);
	*out = gate;
	return 0;
}

void gate_free(struct gate *gate)
{
	if (gate == NULL)
		return;
	partition_index_fini(&gate->index);
	free(gate->entries);
	lane_set_fini(&gate->parked);
	routing_free(gate->routing);
	(void)pthread_cond_destroy(&gate->changed);
	(void)pthread_mutex_destroy(&gate->lock);
	free(gate);
}

static int make_room(struct gate *gate)
{
	size_t room = gate->room == 0 ? 16 : gate->room * 2;
	struct entry *entries;

	if (gate->count < gate->room)
		return 0;
	entries = realloc(gate->entries, room * sizeof(*entries));
	if (entries == NULL)
		return FAULT_MEMORY;
	gate->entries = entries;
	gate->room = room;
	return 0;
}

static int find_or_add(struct gate *gate, const char *topic, int32_t partition)
{
	int number = partition_index_find(&gate->index, topic, partition);
	const char *name;

	if (number >= 0)
		return number;
	if (make_room(gate) < 0)
		return FAULT_MEMORY;
	number = (int)gate->count;
	name = partition_index_add(&gate->index, topic, partition, number);
	if (name == NULL)
		return FAULT_MEMORY;
	gate->entries[number] = (struct entry){ .topic = name, .partition = partition };
	gate->count++;
	return number;
}

int gate_partition(struct gate *gate, const char *topic, int32_t partition, struct err *err)
{
	int index;

	lock(gate);
	index = find_or_add(gate, topic, partition);
	unlock(gate);
	return index < 0 ? err_memory(err) : index;
}

size_t gate_count(struct gate *gate)
{
	size_t count;

	lock(gate);
	count = gate->count;
	unlock(gate);
	return count;
}

struct gate_partition gate_look(struct gate *gate, size_t index)
{
	struct gate_partition look;

	lock(gate);
	look = (struct gate_partition){
		.topic = gate->entries[index].topic,
		.partition = gate->entries[index].partition,
		.assigned = gate->entries[index].assigned,
		.dirty = gate->entries[index].dirty,
		.overflow = gate->entries[index].overflow,
		.version = gate->entries[index].version,
	};
	unlock(gate);
	return look;
}

void gate_assign(struct gate *gate, size_t index, bool waiting)
{
	struct entry *entry;

	lock(gate);
	entry = &gate->entries[index];
	entry->assigned = true;
	entry->dirty = waiting;
	entry->overflow = false;
	entry->version++;
	unlock(gate);
}

void gate_revoke(struct gate *gate, size_t index)
{
	lock(gate);
	gate->entries[index].assigned = false;
	gate->entries[index].overflow = false;
	unlock(gate);
}

static bool fits(const struct gate *gate, size_t count, size_t bytes)
{
	bool alone = gate->claimed == 0 && count == 1;

	return gate->claimed + (int64_t)count <= gate->limits.max_claimed &&
	       (alone || gate->claimed_bytes + (int64_t)bytes <= gate->limits.max_claimed_bytes);
}

/* True when the message waits for others: for those of its key, or of its whole partition. */
static bool is_ordered(const struct gate *gate, const struct message *message)
{
	return gate->limits.ordering == ORDERING_PARTITION ||
	       (gate->limits.ordering == ORDERING_KEY && message_is_keyed(message));
}

static uint64_t lane_of(const struct gate *gate, const struct message *message)
{
	return gate->limits.ordering == ORDERING_PARTITION ? 0 : message->key_hash;
}

/* The statement that stores a batch does not see its own rows, so who is parked by this very batch
 * must be remembered here: nothing of the same lane may be claimed behind it. */
static bool is_behind(const struct gate *gate, const struct message *message, size_t index)
{
	return gate->parked_broken || lane_set_has(&gate->parked, index, lane_of(gate, message));
}

static struct placement park(
	struct gate *gate, const struct message *message, size_t index, bool ordered)
{
	if (ordered && lane_set_add(&gate->parked, index, lane_of(gate, message)) < 0)
		gate->parked_broken = true;
	return (struct placement){ .place = PLACE_PARK };
}

static struct placement place_one(struct gate *gate, const struct message *message, size_t index)
{
	struct entry *entry = &gate->entries[index];
	bool ordered = is_ordered(gate, message);

	if (gate->routing == NULL || !routing_wants(gate->routing, message->topic, message->type)) {
		gate->waiting++;
		gate->placed++;
		return park(gate, message, index, ordered);
	}
	if (ordered && is_behind(gate, message, index))
		return park(gate, message, index, ordered);
	if (entry->overflow || !fits(gate, 1, message->bytes)) {
		entry->overflow = true;
		gate->waiting++;
		gate->placed++;
		return (struct placement){ .place = PLACE_WAIT };
	}
	gate->claimed++;
	gate->claimed_bytes += (int64_t)message->bytes;
	return (struct placement){ .place = PLACE_CLAIM, .asks = ordered && entry->dirty };
}

void gate_place(struct gate *gate, struct message *const *messages, const size_t *indexes,
	size_t count, struct placement *out)
{
	lock(gate);
	lane_set_clear(&gate->parked);
	gate->parked_broken = false;
	for (size_t i = 0; i < count; i++)
		out[i] = place_one(gate, messages[i], indexes[i]);
	unlock(gate);
}

bool gate_wait(struct gate *gate, size_t count, size_t bytes, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	bool hopeless = (int64_t)count > gate->limits.max_claimed ||
			(count > 1 && (int64_t)bytes > gate->limits.max_claimed_bytes);
	int waited = 0;
	bool room;

	lock(gate);
	while (!(room = fits(gate, count, bytes)) && !hopeless && waited == 0)
		waited = pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
	unlock(gate);
	return room;
}

/* Waiting is worth it only while the claims from the table have room to go on with. */
static bool may_drain(const struct gate *gate)
{
	return gate->claimed <= gate->limits.max_claimed / 2 &&
	       gate->claimed_bytes <= gate->limits.max_claimed_bytes / 2;
}

bool gate_wait_drained(struct gate *gate, size_t index, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	int waited = 0;
	bool drained;

	lock(gate);
	while (gate->entries[index].overflow && may_drain(gate) && waited == 0)
		waited = pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
	drained = !gate->entries[index].overflow;
	unlock(gate);
	return drained;
}

static int64_t bytes_free(const struct gate *gate)
{
	int64_t room = gate->limits.max_claimed_bytes - gate->claimed_bytes;

	if (gate->claimed == 0 && room < LAST_RESERVE_BYTES)
		return LAST_RESERVE_BYTES;
	return room > 0 ? room : 0;
}

size_t gate_reserve(struct gate *gate, size_t count)
{
	int64_t room;

	lock(gate);
	room = gate->limits.max_claimed - gate->claimed;
	if (room < 0 || bytes_free(gate) == 0)
		room = 0;
	if ((int64_t)count > room)
		count = (size_t)room;
	gate->claimed += (int64_t)count;
	unlock(gate);
	return count;
}

void gate_charge(struct gate *gate, size_t bytes)
{
	lock(gate);
	gate->claimed_bytes += (int64_t)bytes;
	unlock(gate);
}

void gate_set_budget(struct gate *gate, int64_t max_claimed, int64_t max_claimed_bytes)
{
	lock(gate);
	gate->limits.max_claimed = max_claimed;
	gate->limits.max_claimed_bytes = max_claimed_bytes;
	unlock(gate);
}

void gate_release(struct gate *gate, size_t count, size_t bytes)
{
	lock(gate);
	gate->claimed -= (int64_t)count;
	gate->claimed_bytes -= (int64_t)bytes;
	if (gate->claimed < 0)
		gate->claimed = 0;
	if (gate->claimed_bytes < 0)
		gate->claimed_bytes = 0;
	(void)pthread_cond_broadcast(&gate->changed);
	unlock(gate);
}

void gate_usage(struct gate *gate, size_t *count, size_t *bytes, size_t *free_bytes)
{
	lock(gate);
	*count = (size_t)gate->claimed;
	*bytes = (size_t)gate->claimed_bytes;
	*free_bytes = (size_t)bytes_free(gate);
	unlock(gate);
}

void gate_dirty(struct gate *gate, size_t index)
{
	lock(gate);
	gate->entries[index].dirty = true;
	gate->entries[index].version++;
	unlock(gate);
}

void gate_clean(struct gate *gate, size_t index, uint64_t version)
{
	lock(gate);
	if (gate->entries[index].version == version)
		gate->entries[index].dirty = false;
	unlock(gate);
}

void gate_drained(struct gate *gate, size_t index, uint64_t version)
{
	lock(gate);
	if (gate->entries[index].version == version) {
		gate->entries[index].overflow = false;
		(void)pthread_cond_broadcast(&gate->changed);
	}
	unlock(gate);
}

void gate_set_routing(struct gate *gate, struct routing *routing)
{
	struct routing *old;

	lock(gate);
	old = gate->routing;
	gate->routing = routing;
	unlock(gate);
	routing_free(old);
}

bool gate_serves(struct gate *gate, const char *topic)
{
	bool serves;

	lock(gate);
	serves = gate->routing != NULL && routing_serves(gate->routing, topic);
	unlock(gate);
	return serves;
}

int64_t gate_placed(struct gate *gate)
{
	int64_t placed;

	lock(gate);
	placed = gate->placed;
	unlock(gate);
	return placed;
}

void gate_set_waiting(struct gate *gate, int64_t waiting, int64_t placed)
{
	lock(gate);
	gate->waiting = waiting + gate->placed - placed;
	unlock(gate);
}

int64_t gate_pending(struct gate *gate)
{
	int64_t pending;

	lock(gate);
	pending = gate->waiting + gate->claimed;
	unlock(gate);
	return pending;
}
