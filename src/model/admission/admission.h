/*
 * Admission decides for each new message whether it is born claimed, stored waiting, or parked. Ingest and dispatch
 * share it. It holds what both threads must agree on: the streams, the memory budget, and the routing.
 *
 * A stream is a partition for one consumer. Its messages are placed, ordered and claimed without regard to other
 * consumers of the partition; a partition is acquired and revoked with all its streams.
 *
 * Admission does not decide about order; the table does (rule R11). A placement with `asks` lets the INSERT check for
 * an older waiting row of the key, and park the new row behind it. Admission only knows for each stream whether any
 * row of it may wait in the table ("dirty"). In a clean stream no INSERT needs that check.
 *
 * Invariant: a stream is clean only if no row of it waits in the table. Code that makes a row wait calls
 * admission_dirty() before its statement and again when the outcome is known. admission_clean() needs the version that
 * was read before the table was checked, so a row that begins to wait in between keeps the stream dirty. Exception: the
 * retry of a message that was answered `settled` and is not completed. Until that is known, its entry stops its lane in memory.
 *
 * Any thread; every function takes a lock, and none but the two that wait blocks for longer. A stream or a consumer is
 * never removed, so its index stays valid.
 */
#ifndef MODEL_ADMISSION_ADMISSION_H
#define MODEL_ADMISSION_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/admission/pauses.h"
#include "model/message/message.h"
#include "model/message/ordering.h"
#include "model/routing/consumers.h"
#include "model/routing/routing.h"

struct admission;

struct admission_limits {
	enum ordering ordering; /* of the consumer without a name */
	int64_t max_claimed;    /* messages */
	int64_t max_claimed_bytes;
};

int admission_new(struct admission **out, const struct admission_limits *limits, struct err *err);
void admission_free(struct admission *admission);

/* The number of a consumer, which is known from now on, and is added if it is new. The one without a name has the number
 * 0. The ordering of a consumer does not change. Negative: FAULT_MEMORY. */
int admission_consumer(
	struct admission *admission, const char *name, enum ordering ordering, struct err *err);
/* Makes all other consumers unknown: handlers cannot say hello for them. Their streams stay. Keeps a copy of the renames and of the
 * handlers of the consumer without a name. FAULT_MEMORY. */
int admission_keep_known(
	struct admission *admission, const struct consumers *known, struct err *err);
/* The name of the consumer of a handler, as consumers_of_handler(), valid as long as the admission. */
const char *admission_consumer_of(
	struct admission *admission, const char *handler, const char *named);
/* The name of a known consumer, valid as long as the admission; NULL: no consumer of this name is known. */
const char *admission_known(struct admission *admission, const char *name);
/* The ordering of a consumer that is or was known. */
enum ordering admission_ordering_of(struct admission *admission, const char *name);
/* Appends the names of the known consumers, separated by commas; the one without a name is left out. */
void admission_add_known(struct admission *admission, struct buf *out);
/* The strictest ordering of the consumers that are or were known. */
enum ordering admission_strictest(struct admission *admission);

/* One stream as a snapshot. */
struct admission_stream {
	const char *topic; /* valid as long as the admission, like the name of the consumer */
	int32_t partition;
	const char *consumer; /* "" = the one without a name */
	enum ordering ordering;
	bool assigned;    /* this instance owns the partition and has read its watermark */
	bool dirty;       /* rows of it may wait in the table */
	bool overflow;    /* new rows are stored waiting until all due rows have been claimed */
	bool paused;      /* an operator has paused its topic or its consumer (rule R29) */
	uint64_t version; /* increases with every admission_dirty() */
};

/* The index of a stream, which is added if it is new. `consumer`: its number. Negative: FAULT_MEMORY. */
int admission_stream(struct admission *admission, const char *topic, int32_t partition,
	size_t consumer, struct err *err);
size_t admission_count(struct admission *admission);
/* True when any stream has an order. */
bool admission_is_ordered(struct admission *admission);
struct admission_stream admission_get(struct admission *admission, size_t index);

/* Dispatch: this instance owns the partition from now on. `waiting`: the table may have waiting rows of the stream. Ingest
 * may have placed messages of it before, so an overflow stays. */
void admission_assign(struct admission *admission, size_t index, bool waiting);
void admission_revoke(struct admission *admission, size_t index);

enum placement_kind { PLACEMENT_CLAIMED = 0, PLACEMENT_WAITING = 1, PLACEMENT_PARKED = 2 };

/* The rows of which none may wait in the table: those of the same key, or all of the stream. */
enum placement_asks { ASKS_NOTHING = 0, ASKS_KEY = 1, ASKS_STREAM = 2 };

struct placement {
	enum placement_kind kind;
	/* PLACEMENT_CLAIMED only if no older row of its lane waits in the table: the INSERT checks it. */
	enum placement_asks asks;
};

/* Ingest: decides about the messages of a batch, in their order, and reserves budget for those that are born claimed.
 * messages[i] is of the stream indexes[i]. Without room its stream is in overflow from that message on. A message
 * to which no open handler subscribes is parked (rule R15). */
void admission_place(struct admission *admission, struct message *const *messages,
	const size_t *indexes, size_t count, struct placement *out);
/* Waits until there is room for `count` messages of `bytes` together, for timeout_ms at most. A short wait is much
 * cheaper than to store the messages waiting and claim them later. True: there is room. One thread at a time. */
bool admission_wait(struct admission *admission, size_t count, size_t bytes, int64_t timeout_ms);
/* True while the stream is in overflow and claims can end that: an open handler of its consumer is connected. */
bool admission_is_draining(struct admission *admission, size_t index);
/* Waits until the overflow of the stream has ended, at most timeout_ms, and only while the budget has room for
 * claims. Under a steady stream new rows always become due, so the overflow would not end without such a pause of
 * ingest. True: no overflow. */
bool admission_wait_drained(struct admission *admission, size_t index, int64_t timeout_ms);
/* Reserves budget for at most `count` rows to be claimed from the table. Returns how many. */
size_t admission_reserve(struct admission *admission, size_t count);
/* Adds the bytes of messages whose number admission_reserve() has reserved. */
void admission_charge(struct admission *admission, size_t bytes);
/* Changes the budget (SIGHUP). Messages in memory stay there. */
void admission_set_budget(
	struct admission *admission, int64_t max_claimed, int64_t max_claimed_bytes);
/* Releases budget, and wakes the functions that wait. */
void admission_release(struct admission *admission, size_t count, size_t bytes);
/* The budget in use, and the bytes that are free: at least 1 MiB when nothing is claimed, so that a message larger than
 * the budget can be claimed alone. */
void admission_usage(struct admission *admission, size_t *count, size_t *bytes, size_t *free_bytes);

/* A row of the stream may wait in the table from now on. */
void admission_dirty(struct admission *admission, size_t index);
/* The table had no waiting row of the stream when it was checked, after `version` was read. The stream is clean,
 * unless its version has changed since. */
void admission_clean(struct admission *admission, size_t index, uint64_t version);
/* All due rows of the stream have been claimed since `version` was read: its overflow ends. */
void admission_drained(struct admission *admission, size_t index, uint64_t version);

/* Dispatch: other topics, consumers or handlers are paused now. New rows of a paused stream are stored waiting. After the
 * end of a pause a stream is in overflow, if rows of it may wait. False: no memory, and nothing has changed. */
bool admission_set_pauses(struct admission *admission, const struct pauses *pauses);
/* True after the first call of admission_set_pauses(). */
bool admission_knows_pauses(struct admission *admission);
/* True when any topic is not to be read from Kafka; whether this one is to be read. */
bool admission_stops_reading(struct admission *admission);
bool admission_reads(struct admission *admission, const char *topic);

/* Dispatch: the routing changed. Takes ownership of the copy. */
void admission_set_routing(struct admission *admission, struct routing *routing);
/* True when a handler of this sidecar, open or closed, subscribes to messages of the topic. */
bool admission_serves(struct admission *admission, const char *topic);

/*
 * Backpressure (ingest.max_pending): an estimate of the rows that wait, or are parked because no handler matches them.
 * Rows that are parked behind others of their lane do not count. admission_place() increases it,
 * and a count of the table sets it. The caller reads admission_placed() before the count. Rows placed since then may
 * be missing in the count, so they are added to it.
 */
int64_t admission_placed(struct admission *admission);
void admission_set_waiting(struct admission *admission, int64_t waiting, int64_t placed);
int64_t admission_pending(struct admission *admission); /* waiting + claimed */

/* What the last look of dispatch at the table has found for ingest. */
struct admission_look {
	int64_t at_ms;     /* clock_now_ms() of its answer; 0: there was none for a while */
	int64_t recent_ms; /* for so long it counts */
	int64_t version;   /* changes with the known consumers and the own partitions */
	bool orphans;      /* a partition waits to be adopted */
};
void admission_set_look(struct admission *admission, struct admission_look look);
struct admission_look admission_look(struct admission *admission);
/* True while a look that is recent has this version: what was read then is still true. */
bool admission_is_unchanged(struct admission *admission, int64_t version);

#endif
