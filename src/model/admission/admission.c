/*
 * See admission.h. One mutex protects everything. Its functions are short, except the two that wait on `changed`; a
 * wait gives the lock up.
 *
 * Parts, in this order: the consumers and streams, the placement of a batch, the budget, what may wait in the table (dirty and
 * overflow), the routing, the estimate for backpressure, and the look at the table.
 *
 * Ingest reserves budget in admission_place() before the transaction, and dispatch releases it after the settle. A
 * transaction that fails must therefore release what it reserved: budget that is lost stays lost until the next
 * instance run.
 */
#include "model/admission/admission.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "model/admission/lane_set.h"
#include "model/admission/partition_index.h"

/* Bytes that may be claimed at once when nothing is claimed, however small the budget is. */
#define LAST_RESERVE_BYTES (1 << 20)

/* A consumer with its partitions, each of which is a stream. */
struct listed {
	char *name; /* owned */
	enum ordering ordering;
	bool known;
	bool was_known;
	struct partition_index index;
};

struct entry {
	const char *topic; /* the index's copy of the name */
	int32_t partition;
	const char *consumer; /* its name */
	enum ordering ordering;
	bool assigned;
	bool dirty;
	bool overflow;
	bool paused;
	uint64_t version;
};

struct admission {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* there is room for `wanted`, or an overflow ended */
	/* What admission_wait() waits for; a count of 0 = nobody waits. */
	struct {
		size_t count;
		size_t bytes;
	} wanted;
	struct admission_limits limits;
	struct admission_look look;
	struct listed *consumers;
	size_t consumer_count;
	struct consumers names; /* the renames, and the handlers of the consumer without a name */
	struct entry *entries;
	size_t count;
	size_t room;
	bool ordered; /* any entry is */
	int64_t claimed;
	int64_t claimed_bytes;
	int64_t waiting;
	int64_t placed; /* rows ever placed to wait */
	struct routing *routing;
	struct pauses pauses;
	bool pauses_known;
	bool stops_reading; /* of any topic */
	/* lanes of which admission_place() has parked a message of this batch */
	struct lane_set parked;
	bool parked_broken; /* no memory for that set: all ordered messages are parked */
};

static void lock(struct admission *admission)
{
	(void)pthread_mutex_lock(&admission->lock);
}

static void unlock(struct admission *admission)
{
	(void)pthread_mutex_unlock(&admission->lock);
}

/* --- Consumers and streams -------------------------------------------------------------------------- */

static int add_consumer(struct admission *admission, const char *name, enum ordering ordering)
{
	size_t count = admission->consumer_count;
	char *copy = strdup(name);
	struct listed *consumers = NULL;

	if (copy != NULL)
		consumers = realloc(admission->consumers, (count + 1) * sizeof(*consumers));
	if (consumers == NULL) {
		free(copy);
		return FAULT_MEMORY;
	}
	admission->consumers = consumers;
	consumers[count] = (struct listed){ .name = copy, .ordering = ordering };
	admission->consumer_count++;
	return (int)count;
}

int admission_new(struct admission **out, const struct admission_limits *limits, struct err *err)
{
	struct admission *admission = calloc(1, sizeof(*admission));
	pthread_condattr_t monotonic;

	if (admission == NULL || add_consumer(admission, "", limits->ordering) < 0) {
		free(admission);
		return err_memory(err);
	}
	admission->limits = *limits;
	(void)pthread_mutex_init(&admission->lock, NULL);
	/* Without this, a step of the host's clock would end a wait too early or much too late. */
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&admission->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	*out = admission;
	return 0;
}

void admission_free(struct admission *admission)
{
	if (admission == NULL)
		return;
	for (size_t i = 0; i < admission->consumer_count; i++) {
		partition_index_fini(&admission->consumers[i].index);
		free(admission->consumers[i].name);
	}
	free(admission->consumers);
	consumers_fini(&admission->names);
	free(admission->entries);
	lane_set_fini(&admission->parked);
	routing_free(admission->routing);
	pauses_fini(&admission->pauses);
	(void)pthread_cond_destroy(&admission->changed);
	(void)pthread_mutex_destroy(&admission->lock);
	free(admission);
}

int admission_consumer(
	struct admission *admission, const char *name, enum ordering ordering, struct err *err)
{
	int number = -1;

	lock(admission);
	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (strcmp(admission->consumers[i].name, name) == 0)
			number = (int)i;
	}
	if (number < 0)
		number = add_consumer(admission, name, ordering);
	if (number >= 0) {
		admission->consumers[number].known = true;
		admission->consumers[number].was_known = true;
	}
	unlock(admission);
	return number < 0 ? err_memory(err) : number;
}

int admission_keep_known(
	struct admission *admission, const struct consumers *known, struct err *err)
{
	struct consumers names = CONSUMERS_INIT;
	struct consumers before;
	int r = consumers_copy_names(&names, known, err);

	if (r < 0) {
		consumers_fini(&names);
		return r;
	}
	lock(admission);
	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (consumers_find(known, admission->consumers[i].name) == NULL)
			admission->consumers[i].known = false;
	}
	before = admission->names;
	admission->names = names;
	unlock(admission);
	consumers_fini(&before);
	return 0;
}

/* The lock is held. */
static const char *find_known(void *arg, const char *name)
{
	const struct admission *admission = arg;

	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (admission->consumers[i].known &&
			strcmp(admission->consumers[i].name, name) == 0)
			return admission->consumers[i].name;
	}
	return NULL;
}

const char *admission_known(struct admission *admission, const char *name)
{
	const char *found;

	lock(admission);
	found = find_known(admission, name);
	unlock(admission);
	return found;
}

const char *admission_consumer_of(
	struct admission *admission, const char *handler, const char *named)
{
	const char *found;

	lock(admission);
	found = consumers_of_handler(&admission->names, handler, named, find_known, admission);
	unlock(admission);
	return found;
}

enum ordering admission_ordering_of(struct admission *admission, const char *name)
{
	enum ordering ordering = ORDERING_NONE;

	lock(admission);
	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (strcmp(admission->consumers[i].name, name) == 0)
			ordering = admission->consumers[i].ordering;
	}
	unlock(admission);
	return ordering;
}

void admission_add_known(struct admission *admission, struct buf *out)
{
	const char *separator = "";

	lock(admission);
	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (!admission->consumers[i].known || admission->consumers[i].name[0] == '\0')
			continue;
		buf_addf(out, "%s\"%s\"", separator, admission->consumers[i].name);
		separator = ", ";
	}
	unlock(admission);
}

enum ordering admission_strictest(struct admission *admission)
{
	enum ordering ordering = ORDERING_NONE;

	lock(admission);
	for (size_t i = 0; i < admission->consumer_count; i++) {
		if (admission->consumers[i].was_known &&
			admission->consumers[i].ordering > ordering)
			ordering = admission->consumers[i].ordering;
	}
	unlock(admission);
	return ordering;
}

static bool is_paused(const struct admission *admission, const char *topic, const char *consumer)
{
	return pauses_find(&admission->pauses, PAUSE_TOPIC, topic) != NULL ||
	       pauses_find(&admission->pauses, PAUSE_CONSUMER, consumer) != NULL;
}

/* The array grows before the index, because a number in the index must always have an entry. */
static int find_or_add(
	struct admission *admission, struct listed *consumer, const char *topic, int32_t partition)
{
	int number = partition_index_find(&consumer->index, topic, partition);
	const char *name;

	if (number >= 0)
		return number;
	if (admission->count == admission->room) {
		size_t room = admission->room == 0 ? 16 : admission->room * 2;
		struct entry *entries = realloc(admission->entries, room * sizeof(*entries));

		if (entries == NULL)
			return FAULT_MEMORY;
		admission->entries = entries;
		admission->room = room;
	}
	number = (int)admission->count;
	name = partition_index_add(&consumer->index, topic, partition, number);
	if (name == NULL)
		return FAULT_MEMORY;
	admission->entries[number] = (struct entry){
		.topic = name,
		.partition = partition,
		.consumer = consumer->name,
		.ordering = consumer->ordering,
		.paused = is_paused(admission, name, consumer->name),
	};
	admission->count++;
	admission->ordered |= consumer->ordering != ORDERING_NONE;
	return number;
}

int admission_stream(struct admission *admission, const char *topic, int32_t partition,
	size_t consumer, struct err *err)
{
	int index;

	lock(admission);
	index = find_or_add(admission, &admission->consumers[consumer], topic, partition);
	unlock(admission);
	return index < 0 ? err_memory(err) : index;
}

size_t admission_count(struct admission *admission)
{
	size_t count;

	lock(admission);
	count = admission->count;
	unlock(admission);
	return count;
}

bool admission_is_ordered(struct admission *admission)
{
	bool ordered;

	lock(admission);
	ordered = admission->ordered;
	unlock(admission);
	return ordered;
}

struct admission_stream admission_get(struct admission *admission, size_t index)
{
	struct admission_stream snapshot;

	lock(admission);
	snapshot = (struct admission_stream){
		.topic = admission->entries[index].topic,
		.partition = admission->entries[index].partition,
		.consumer = admission->entries[index].consumer,
		.ordering = admission->entries[index].ordering,
		.assigned = admission->entries[index].assigned,
		.dirty = admission->entries[index].dirty,
		.overflow = admission->entries[index].overflow,
		.paused = admission->entries[index].paused,
		.version = admission->entries[index].version,
	};
	unlock(admission);
	return snapshot;
}

void admission_assign(struct admission *admission, size_t index, bool waiting)
{
	struct entry *entry;

	lock(admission);
	entry = &admission->entries[index];
	entry->assigned = true;
	entry->dirty = waiting;
	entry->version++;
	unlock(admission);
}

void admission_revoke(struct admission *admission, size_t index)
{
	lock(admission);
	admission->entries[index].assigned = false;
	admission->entries[index].overflow = false;
	unlock(admission);
}

bool admission_set_pauses(struct admission *admission, const struct pauses *pauses)
{
	struct pauses copy;

	if (!pauses_copy(&copy, pauses))
		return false;
	lock(admission);
	pauses_fini(&admission->pauses);
	admission->pauses = copy;
	admission->pauses_known = true;
	admission->stops_reading = false;
	for (size_t i = 0; i < copy.count; i++)
		admission->stops_reading |= copy.items[i].ingest;
	for (size_t i = 0; i < admission->count; i++) {
		struct entry *entry = &admission->entries[i];
		bool paused = is_paused(admission, entry->topic, entry->consumer);

		if (paused != entry->paused)
			entry->overflow = !paused && entry->assigned && entry->dirty;
		entry->paused = paused;
	}
	(void)pthread_cond_broadcast(&admission->changed);
	unlock(admission);
	return true;
}

bool admission_knows_pauses(struct admission *admission)
{
	bool known;

	lock(admission);
	known = admission->pauses_known;
	unlock(admission);
	return known;
}

bool admission_stops_reading(struct admission *admission)
{
	bool stops;

	lock(admission);
	stops = admission->stops_reading;
	unlock(admission);
	return stops;
}

bool admission_reads(struct admission *admission, const char *topic)
{
	const struct pause *pause;
	bool reads;

	lock(admission);
	pause = pauses_find(&admission->pauses, PAUSE_TOPIC, topic);
	reads = pause == NULL || !pause->ingest;
	unlock(admission);
	return reads;
}

/* --- Placement -------------------------------------------------------------------------------------- */

/* Bytes do not count for a single message into an empty budget. Otherwise a message larger than the budget could never
 * be claimed. */
static bool fits(const struct admission *admission, size_t count, size_t bytes)
{
	bool alone = admission->claimed == 0 && count == 1;

	return admission->claimed + (int64_t)count <= admission->limits.max_claimed &&
	       (alone || admission->claimed_bytes + (int64_t)bytes <=
				 admission->limits.max_claimed_bytes);
}

/* The lane of a message: what must not wait in the table when the message is born claimed. */
static enum placement_asks lane_kind(const struct entry *entry, const struct message *message)
{
	if (entry->ordering == ORDERING_PARTITION)
		return ASKS_STREAM;
	return entry->ordering == ORDERING_KEY && message_is_keyed(message) ? ASKS_KEY
									    : ASKS_NOTHING;
}

/* Together with the stream this names the lane. */
static uint64_t lane_of(const struct entry *entry, const struct message *message)
{
	return entry->ordering == ORDERING_PARTITION ? 0 : message->key_hash;
}

/* Without memory for the set, the order is kept by parking every later message of the batch that has one. */
static struct placement park(
	struct admission *admission, const struct message *message, size_t index, bool ordered)
{
	if (ordered && lane_set_add(&admission->parked, index,
			       lane_of(&admission->entries[index], message)) < 0)
		admission->parked_broken = true;
	return (struct placement){ .kind = PLACEMENT_PARKED };
}

static struct placement place_one(
	struct admission *admission, const struct message *message, size_t index)
{
	struct entry *entry = &admission->entries[index];
	const struct routing_key key = { entry->consumer, message->topic, message->type };
	enum placement_asks asks = lane_kind(entry, message);
	bool ordered = asks != ASKS_NOTHING;

	if (admission->routing == NULL || !routing_wants(admission->routing, &key)) {
		admission->waiting++;
		admission->placed++;
		return park(admission, message, index, ordered);
	}
	/* Behind a message of its lane that this batch parks. The INSERT does not see the rows that it inserts itself,
	 * so it cannot park the message; admission must. */
	if (ordered && (admission->parked_broken ||
			       lane_set_has(&admission->parked, index, lane_of(entry, message))))
		return park(admission, message, index, ordered);
	if (entry->paused) {
		admission->waiting++;
		admission->placed++;
		return (struct placement){ .kind = PLACEMENT_WAITING };
	}
	/* An overflow lasts until all due rows are claimed, so that new messages do not take the budget from them. */
	if (entry->overflow || !fits(admission, 1, message->bytes)) {
		entry->overflow = true;
		admission->waiting++;
		admission->placed++;
		return (struct placement){ .kind = PLACEMENT_WAITING };
	}
	admission->claimed++;
	admission->claimed_bytes += (int64_t)message->bytes;
	return (struct placement){
		.kind = PLACEMENT_CLAIMED,
		.asks = entry->dirty ? asks : ASKS_NOTHING,
	};
}

void admission_place(struct admission *admission, struct message *const *messages,
	const size_t *indexes, size_t count, struct placement *out)
{
	lock(admission);
	lane_set_clear(&admission->parked);
	admission->parked_broken = false;
	for (size_t i = 0; i < count; i++)
		out[i] = place_one(admission, messages[i], indexes[i]);
	unlock(admission);
}

/* --- Budget ----------------------------------------------------------------------------------------- */

bool admission_wait(struct admission *admission, size_t count, size_t bytes, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	int waited = 0;
	bool too_large;
	bool room;

	lock(admission);
	/* More than the whole budget: no release can make room for it. */
	too_large = (int64_t)count > admission->limits.max_claimed ||
		    (count > 1 && (int64_t)bytes > admission->limits.max_claimed_bytes);
	admission->wanted.count = count;
	admission->wanted.bytes = bytes;
	while (!(room = fits(admission, count, bytes)) && !too_large && waited == 0)
		waited = pthread_cond_timedwait(&admission->changed, &admission->lock, &until);
	admission->wanted.count = 0;
	unlock(admission);
	return room;
}

/* True while claims from the table have room, which is what ends an overflow. */
static bool may_drain(const struct admission *admission)
{
	return admission->claimed <= admission->limits.max_claimed / 2 &&
	       admission->claimed_bytes <= admission->limits.max_claimed_bytes / 2;
}

bool admission_is_draining(struct admission *admission, size_t index)
{
	const struct entry *entry;
	bool draining;

	lock(admission);
	entry = &admission->entries[index];
	draining = entry->overflow && admission->routing != NULL &&
		   routing_attends(admission->routing, entry->consumer);
	unlock(admission);
	return draining;
}

bool admission_wait_drained(struct admission *admission, size_t index, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	int waited = 0;
	bool drained;

	lock(admission);
	while (admission->entries[index].overflow && may_drain(admission) && waited == 0)
		waited = pthread_cond_timedwait(&admission->changed, &admission->lock, &until);
	drained = !admission->entries[index].overflow;
	unlock(admission);
	return drained;
}

static int64_t bytes_free(const struct admission *admission)
{
	int64_t room = admission->limits.max_claimed_bytes - admission->claimed_bytes;

	if (admission->claimed == 0 && room < LAST_RESERVE_BYTES)
		return LAST_RESERVE_BYTES;
	return room > 0 ? room : 0;
}

size_t admission_reserve(struct admission *admission, size_t count)
{
	int64_t room;

	lock(admission);
	room = admission->limits.max_claimed - admission->claimed;
	if (room < 0 || bytes_free(admission) == 0)
		room = 0;
	if ((int64_t)count > room)
		count = (size_t)room;
	admission->claimed += (int64_t)count;
	unlock(admission);
	return count;
}

void admission_charge(struct admission *admission, size_t bytes)
{
	lock(admission);
	admission->claimed_bytes += (int64_t)bytes;
	unlock(admission);
}

void admission_set_budget(
	struct admission *admission, int64_t max_claimed, int64_t max_claimed_bytes)
{
	lock(admission);
	admission->limits.max_claimed = max_claimed;
	admission->limits.max_claimed_bytes = max_claimed_bytes;
	unlock(admission);
}

void admission_release(struct admission *admission, size_t count, size_t bytes)
{
	lock(admission);
	admission->claimed -= (int64_t)count;
	admission->claimed_bytes -= (int64_t)bytes;
	if (admission->claimed < 0)
		admission->claimed = 0;
	if (admission->claimed_bytes < 0)
		admission->claimed_bytes = 0;
	/* Not at each release: it would wake up ingest for each message, and there is no room yet. */
	if (admission->wanted.count > 0 &&
		fits(admission, admission->wanted.count, admission->wanted.bytes))
		(void)pthread_cond_broadcast(&admission->changed);
	unlock(admission);
}

void admission_usage(struct admission *admission, size_t *count, size_t *bytes, size_t *free_bytes)
{
	lock(admission);
	*count = (size_t)admission->claimed;
	*bytes = (size_t)admission->claimed_bytes;
	*free_bytes = (size_t)bytes_free(admission);
	unlock(admission);
}

/* --- What may wait in the table --------------------------------------------------------------------- */

void admission_dirty(struct admission *admission, size_t index)
{
	lock(admission);
	admission->entries[index].dirty = true;
	admission->entries[index].version++;
	unlock(admission);
}

void admission_clean(struct admission *admission, size_t index, uint64_t version)
{
	lock(admission);
	/* Another version: a row began to wait after the table was checked. */
	if (admission->entries[index].version == version)
		admission->entries[index].dirty = false;
	unlock(admission);
}

void admission_drained(struct admission *admission, size_t index, uint64_t version)
{
	lock(admission);
	if (admission->entries[index].version == version) {
		admission->entries[index].overflow = false;
		(void)pthread_cond_broadcast(&admission->changed);
	}
	unlock(admission);
}

/* --- Routing and backpressure ----------------------------------------------------------------------- */

void admission_set_routing(struct admission *admission, struct routing *routing)
{
	struct routing *old;

	lock(admission);
	old = admission->routing;
	admission->routing = routing;
	unlock(admission);
	/* Outside of the lock: a large table takes long to free. */
	routing_free(old);
}

bool admission_serves(struct admission *admission, const char *topic)
{
	bool serves;

	lock(admission);
	serves = admission->routing != NULL && routing_serves(admission->routing, topic);
	unlock(admission);
	return serves;
}

int64_t admission_placed(struct admission *admission)
{
	int64_t placed;

	lock(admission);
	placed = admission->placed;
	unlock(admission);
	return placed;
}

void admission_set_waiting(struct admission *admission, int64_t waiting, int64_t placed)
{
	lock(admission);
	admission->waiting = waiting + admission->placed - placed;
	unlock(admission);
}

int64_t admission_pending(struct admission *admission)
{
	int64_t pending;

	lock(admission);
	pending = admission->waiting + admission->claimed;
	unlock(admission);
	return pending;
}

void admission_set_look(struct admission *admission, struct admission_look look)
{
	lock(admission);
	admission->look = look;
	unlock(admission);
}

struct admission_look admission_look(struct admission *admission)
{
	struct admission_look look;

	lock(admission);
	look = admission->look;
	unlock(admission);
	if (look.at_ms == 0 || clock_now_ms() - look.at_ms >= look.recent_ms)
		look.at_ms = 0;
	return look;
}

bool admission_is_unchanged(struct admission *admission, int64_t version)
{
	struct admission_look look = admission_look(admission);

	return look.at_ms != 0 && look.version == version;
}
