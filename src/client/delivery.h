/*
 * A delivery in the memory of the handler: a record with its texts, and the pool of deliveries for reuse. A delivery is
 * in one list at a time: spare, ready (received, and the program has not seen it) or open (handed out to the program).
 * Deliveries are reused, so that a message needs no allocation. One thread.
 */
#ifndef CLIENT_DELIVERY_H
#define CLIENT_DELIVERY_H

#include <sys/queue.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "inboxd/handler.h"

enum ih_field {
	IH_NO_FIELD,
	/* of a line */
	IH_LINE_ID, /* raw JSON, as the next */
	IH_CANCELLED_ID,
	IH_CANCEL_REASON,
	IH_METHOD,
	IH_ERROR_CODE,
	IH_ERROR_MESSAGE,
	IH_MAX_LINE_BYTES,
	IH_TIMEOUT,
	IH_ORDERING,
	IH_LAST_LINE_FIELD = IH_ORDERING,
	/* of a delivery */
	IH_ID, /* raw JSON */
	IH_CLAIM,
	IH_SEQ,
	IH_ATTEMPT,
	IH_MAX_ATTEMPTS,
	IH_CONSUMER,
	IH_DEADLINE,
	IH_REPLAY,
	IH_EVENT, /* raw JSON */
	IH_EVENT_ID,
	IH_SOURCE,
	IH_TYPE,
	IH_TIME,
	IH_KEY,
	IH_TOPIC,
	IH_PARTITION,
	IH_OFFSET,
	IH_DATA,
	IH_DATA_JSON, /* raw JSON */
	IH_FIELDS
};

/* The position of a text. The first byte of the buffer is unused, so that start 0 means absent. */
struct ih_slice {
	uint32_t start;
	uint32_t length;
};

/* The texts of one line or one delivery, and the position of each field in them. */
struct ih_record {
	struct buf bag; /* broken = a text is missing, because there was no memory */
	struct ih_slice fields[IH_FIELDS];
};

void ih_record_fini(struct ih_record *record);
/* Removes all texts. Keeps up to `keep` bytes of memory. */
void ih_record_clear(struct ih_record *record, size_t keep);
/* Adds a text and a NUL behind it. */
struct ih_slice ih_record_add(struct ih_record *record, struct bytes text);
/* Adds the bytes of a base64 text. False: it is not base64. */
bool ih_record_add_base64(struct ih_record *record, struct bytes text, struct ih_slice *out);
/* The bytes of a slice; data == NULL when it is absent. Borrowed until the next addition. */
struct inbox_bytes ih_record_bytes(const struct ih_record *record, struct ih_slice slice);
/* The text of a field, "" when absent. Borrowed as above. */
const char *ih_record_text(const struct ih_record *record, enum ih_field field);
int64_t ih_record_number(const struct ih_record *record, enum ih_field field);

/* A Kafka header, or an attribute of the event that has no field of its own. */
struct ih_pair {
	struct ih_slice name;
	struct ih_slice value;
};

struct ih_pairs {
	struct ih_pair *items;
	size_t count;
	size_t capacity;
};

/* A deliver_batch request. Its entries are answered in one line, after the last of them has its verdict. */
struct ih_batch {
	struct buf id;      /* raw JSON */
	struct buf answers; /* entries answered so far, with commas between them */
	size_t open;        /* entries without a verdict */
	size_t ready;       /* entries that are not handed out */
	bool lost;          /* its connection is lost, so the answers are not sent */
};

struct inbox_delivery {
	TAILQ_ENTRY(inbox_delivery) list;
	struct inbox_handler *handler;
	struct ih_batch *batch; /* NULL = delivered alone */
	struct ih_record record;
	struct ih_pairs headers;
	struct ih_pairs attributes;
	int64_t due_ms;    /* the deadline, on the monotonic clock */
	struct buf events; /* that its answer emits: JSON objects with commas between them */
	size_t event_count;
	const char *cancelled; /* the reason; NULL = it is not cancelled */
	const char *broken;    /* how it violates the protocol; NULL = it does not */
};

TAILQ_HEAD(ih_deliveries, inbox_delivery);

struct ih_pool {
	struct ih_deliveries spare;
	size_t count;
};

/* Which messages have an order: `inbox.ordering` of the sidecar. UNKNOWN: the sidecar is older than ordered batches. */
enum ih_ordering { IH_ORDER_UNKNOWN, IH_ORDER_NONE, IH_ORDER_KEY, IH_ORDER_PARTITION };

/* True if the messages must be processed one after the other. */
bool ih_share_order(const struct inbox_delivery *one, const struct inbox_delivery *other,
	enum ih_ordering ordering);

void ih_pool_init(struct ih_pool *pool);
void ih_pool_fini(struct ih_pool *pool);
/* An empty delivery in no list, or NULL when out of memory. */
struct inbox_delivery *ih_pool_take(struct ih_pool *pool);
/* Returns a delivery, which must be in no list, to the pool. */
void ih_pool_give(struct ih_pool *pool, struct inbox_delivery *delivery);
/* Returns all deliveries of a list to the pool. */
void ih_pool_give_all(struct ih_pool *pool, struct ih_deliveries *list);

/* Adds an empty pair. NULL when out of memory. */
struct ih_pair *ih_pairs_add(struct ih_pairs *pairs);

/* NULL when out of memory. */
struct ih_batch *ih_batch_new(struct inbox_bytes id);
void ih_batch_free(struct ih_batch *batch);

#endif
