/*
 * See delivery.h. Also the public functions that read a delivery (inbox_delivery_claim and so on).
 *
 * The texts of a record lie in one buffer, one after the other. A field is a position in it and not a pointer, because
 * the buffer moves when it grows. Each text has a NUL behind it, so that a program can use it as a C string.
 */
#include "client/delivery.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json/text.h"

enum {
	/* Deliveries kept for reuse, after a burst: with the memory below about 10 MiB. */
	SPARE_MAX = 1024,
	KEPT_BYTES = 8192, /* memory each of them keeps for texts */
	KEPT_PAIRS = 64,
};

void ih_record_fini(struct ih_record *record)
{
	buf_fini(&record->bag);
}

void ih_record_clear(struct ih_record *record, size_t keep)
{
	buf_trim(&record->bag, keep);
	buf_cut(&record->bag, 0);
	memset(record->fields, 0, sizeof(record->fields));
}

/* Where the next text will start. Never 0, which means absent. */
static uint32_t begin(struct ih_record *record)
{
	if (record->bag.length == 0)
		buf_add(&record->bag, "", 1);
	return (uint32_t)record->bag.length;
}

static struct ih_slice finish(struct ih_record *record, uint32_t start)
{
	const struct ih_slice slice = { start, (uint32_t)record->bag.length - start };

	buf_add(&record->bag, "", 1);
	return record->bag.broken ? (struct ih_slice){ 0, 0 } : slice;
}

struct ih_slice ih_record_add(struct ih_record *record, struct bytes text)
{
	const uint32_t start = begin(record);

	buf_add(&record->bag, text.data, text.length);
	return finish(record, start);
}

bool ih_record_add_base64(struct ih_record *record, struct bytes text, struct ih_slice *out)
{
	const uint32_t start = begin(record);

	if (!base64_decode(&record->bag, text))
		return false;
	*out = finish(record, start);
	return true;
}

struct inbox_bytes ih_record_bytes(const struct ih_record *record, struct ih_slice slice)
{
	if (slice.start == 0)
		return (struct inbox_bytes){ NULL, 0 };
	return (struct inbox_bytes){ record->bag.data + slice.start, slice.length };
}

const char *ih_record_text(const struct ih_record *record, enum ih_field field)
{
	const struct ih_slice slice = record->fields[field];

	return slice.start == 0 ? "" : record->bag.data + slice.start;
}

int64_t ih_record_number(const struct ih_record *record, enum ih_field field)
{
	return strtoll(ih_record_text(record, field), NULL, 10);
}

void ih_pool_init(struct ih_pool *pool)
{
	TAILQ_INIT(&pool->spare);
	pool->count = 0;
}

static void delivery_free(struct inbox_delivery *delivery)
{
	ih_record_fini(&delivery->record);
	free(delivery->headers.items);
	free(delivery->attributes.items);
	buf_fini(&delivery->events);
	free(delivery);
}

void ih_pool_fini(struct ih_pool *pool)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&pool->spare);

	while (delivery != NULL) {
		struct inbox_delivery *next = TAILQ_NEXT(delivery, list);

		delivery_free(delivery);
		delivery = next;
	}
	ih_pool_init(pool);
}

struct inbox_delivery *ih_pool_take(struct ih_pool *pool)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&pool->spare);

	if (delivery == NULL)
		return calloc(1, sizeof(*delivery));
	TAILQ_REMOVE(&pool->spare, delivery, list);
	pool->count--;
	return delivery;
}

static void pairs_clear(struct ih_pairs *pairs)
{
	pairs->count = 0;
	if (pairs->capacity <= KEPT_PAIRS)
		return;
	free(pairs->items);
	*pairs = (struct ih_pairs){ .items = NULL };
}

void ih_pool_give(struct ih_pool *pool, struct inbox_delivery *delivery)
{
	if (pool->count >= SPARE_MAX) {
		delivery_free(delivery);
		return;
	}
	ih_record_clear(&delivery->record, KEPT_BYTES);
	pairs_clear(&delivery->headers);
	pairs_clear(&delivery->attributes);
	buf_fini(&delivery->events);
	delivery->event_count = 0;
	delivery->batch = NULL;
	delivery->cancelled = NULL;
	delivery->broken = NULL;
	/* The delivery that was used last is reused first, because its memory is still in the CPU's cache. */
	TAILQ_INSERT_HEAD(&pool->spare, delivery, list);
	pool->count++;
}

void ih_pool_give_all(struct ih_pool *pool, struct ih_deliveries *list)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(list);

	while (delivery != NULL) {
		struct inbox_delivery *next = TAILQ_NEXT(delivery, list);

		ih_pool_give(pool, delivery);
		delivery = next;
	}
	TAILQ_INIT(list);
}

struct ih_pair *ih_pairs_add(struct ih_pairs *pairs)
{
	const size_t capacity = pairs->capacity == 0 ? 8 : pairs->capacity * 2;

	if (pairs->count == pairs->capacity) {
		struct ih_pair *items = realloc(pairs->items, capacity * sizeof(*items));

		if (items == NULL)
			return NULL;
		pairs->items = items;
		pairs->capacity = capacity;
	}
	pairs->items[pairs->count] = (struct ih_pair){ .name = { 0, 0 } };
	return &pairs->items[pairs->count++];
}

static bool same_field(
	const struct inbox_delivery *one, const struct inbox_delivery *other, enum ih_field field)
{
	struct inbox_bytes a = ih_record_bytes(&one->record, one->record.fields[field]);
	struct inbox_bytes b = ih_record_bytes(&other->record, other->record.fields[field]);

	return a.data != NULL && b.data != NULL && a.length == b.length &&
	       memcmp(a.data, b.data, a.length) == 0;
}

bool ih_share_order(const struct inbox_delivery *one, const struct inbox_delivery *other,
	enum ih_ordering ordering)
{
	if (ordering != IH_ORDER_KEY && ordering != IH_ORDER_PARTITION)
		return false;
	return same_field(one, other, IH_TOPIC) && same_field(one, other, IH_PARTITION) &&
	       (ordering == IH_ORDER_PARTITION || same_field(one, other, IH_KEY));
}

struct ih_batch *ih_batch_new(struct inbox_bytes id)
{
	struct ih_batch *batch = calloc(1, sizeof(*batch));

	if (batch == NULL)
		return NULL;
	buf_add(&batch->id, id.data, id.length);
	if (batch->id.broken) {
		ih_batch_free(batch);
		return NULL;
	}
	return batch;
}

void ih_batch_free(struct ih_batch *batch)
{
	if (batch == NULL)
		return;
	buf_fini(&batch->id);
	buf_fini(&batch->answers);
	free(batch);
}

const char *inbox_delivery_claim(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_CLAIM);
}

int64_t inbox_delivery_seq(const struct inbox_delivery *delivery)
{
	return ih_record_number(&delivery->record, IH_SEQ);
}

int inbox_delivery_attempt(const struct inbox_delivery *delivery)
{
	return (int)ih_record_number(&delivery->record, IH_ATTEMPT);
}

int inbox_delivery_max_attempts(const struct inbox_delivery *delivery)
{
	return (int)ih_record_number(&delivery->record, IH_MAX_ATTEMPTS);
}

const char *inbox_delivery_consumer(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_CONSUMER);
}

int64_t inbox_delivery_deadline_ms(const struct inbox_delivery *delivery)
{
	const char *text = ih_record_text(&delivery->record, IH_DEADLINE);
	struct tm day = { .tm_isdst = 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &day);

	if (rest == NULL)
		return 0;
	return (int64_t)timegm(&day) * 1000 + (*rest == '.' ? strtol(rest + 1, NULL, 10) : 0);
}

bool inbox_delivery_replay(const struct inbox_delivery *delivery)
{
	return strcmp(ih_record_text(&delivery->record, IH_REPLAY), "true") == 0;
}

size_t inbox_delivery_batch_rest(const struct inbox_delivery *delivery)
{
	return delivery->batch == NULL ? 0 : delivery->batch->ready;
}

const char *inbox_delivery_event_id(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_EVENT_ID);
}

const char *inbox_delivery_source(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_SOURCE);
}

const char *inbox_delivery_type(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_TYPE);
}

const char *inbox_delivery_time(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_TIME);
}

const char *inbox_delivery_topic(const struct inbox_delivery *delivery)
{
	return ih_record_text(&delivery->record, IH_TOPIC);
}

int inbox_delivery_partition(const struct inbox_delivery *delivery)
{
	return (int)ih_record_number(&delivery->record, IH_PARTITION);
}

int64_t inbox_delivery_offset(const struct inbox_delivery *delivery)
{
	return ih_record_number(&delivery->record, IH_OFFSET);
}

static struct inbox_bytes field(const struct inbox_delivery *delivery, enum ih_field field)
{
	return ih_record_bytes(&delivery->record, delivery->record.fields[field]);
}

struct inbox_bytes inbox_delivery_key(const struct inbox_delivery *delivery)
{
	return field(delivery, IH_KEY);
}

/* A payload of JSON null is data, too: only the position tells whether there is one. */
bool inbox_delivery_data_is_json(const struct inbox_delivery *delivery)
{
	return delivery->record.fields[IH_DATA_JSON].start != 0;
}

struct inbox_bytes inbox_delivery_data(const struct inbox_delivery *delivery)
{
	return field(delivery, inbox_delivery_data_is_json(delivery) ? IH_DATA_JSON : IH_DATA);
}

struct inbox_bytes inbox_delivery_event(const struct inbox_delivery *delivery)
{
	return field(delivery, IH_EVENT);
}

/* The last pair of this name, or NULL. */
static const struct ih_pair *find_pair(
	const struct inbox_delivery *delivery, const struct ih_pairs *pairs, const char *name)
{
	for (size_t i = pairs->count; i > 0; i--) {
		const struct ih_pair *pair = &pairs->items[i - 1];
		const char *its_name = ih_record_bytes(&delivery->record, pair->name).data;

		if (its_name != NULL && strcmp(its_name, name) == 0)
			return pair;
	}
	return NULL;
}

const char *inbox_delivery_attribute(const struct inbox_delivery *delivery, const char *name)
{
	const struct ih_pair *pair = find_pair(delivery, &delivery->attributes, name);

	return pair == NULL ? NULL : ih_record_bytes(&delivery->record, pair->value).data;
}

size_t inbox_delivery_header_count(const struct inbox_delivery *delivery)
{
	return delivery->headers.count;
}

const char *inbox_delivery_header_name(const struct inbox_delivery *delivery, size_t index)
{
	if (index >= delivery->headers.count)
		return "";
	return ih_record_bytes(&delivery->record, delivery->headers.items[index].name).data;
}

struct inbox_bytes inbox_delivery_header_value(const struct inbox_delivery *delivery, size_t index)
{
	if (index >= delivery->headers.count)
		return (struct inbox_bytes){ NULL, 0 };
	return ih_record_bytes(&delivery->record, delivery->headers.items[index].value);
}

struct inbox_bytes inbox_delivery_header(const struct inbox_delivery *delivery, const char *name)
{
	const struct ih_pair *pair = find_pair(delivery, &delivery->headers, name);

	if (pair == NULL)
		return (struct inbox_bytes){ NULL, 0 };
	return ih_record_bytes(&delivery->record, pair->value);
}
