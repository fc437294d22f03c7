/*
 * Admission: the decision where a new message goes, and whether there is room for it. Ingest and dispatch share it.
 *
 * It holds what both threads must agree on: the partitions, the budget of claimed messages, and who
 * wants what. The table decides who is behind whom (rule R11: a row that asks is parked by the
 * INSERT when an older one of its key waits); admission only knows per partition whether anything may
 * wait there at all ("dirty"), so a healthy partition asks nothing.
 *
 * Invariant: a partition is clean only if no row of it waits in the table. Whoever is about to make
 * a row wait calls admission_dirty() before its statement and again when its outcome is known; cleaning
 * needs the version that was read before the look at the table.
 *
 * All functions lock and may be called by any thread. Partitions are never removed, so an index
 * stays good.
 */
#ifndef MODEL_ADMISSION_H
#define MODEL_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/message.h"
#include "model/ordering.h"
#include "model/routing.h"

struct admission;

struct admission_limits {
	enum ordering ordering;
	int64_t max_claimed; /* messages */
	int64_t max_claimed_bytes;
};

int admission_new(struct admission **out, const struct admission_limits *limits, struct err *err);
void admission_free(struct admission *admission);

/* One partition as a snapshot. */
struct admission_partition {
	const char *topic; /* lives as long as the admission */
	int32_t partition;
	bool assigned;    /* Kafka gave it to this instance and its watermark is read */
	bool dirty;       /* rows of it may wait in the table */
	bool overflow;    /* new rows are stored waiting until the table has been claimed empty */
	uint64_t version; /* rises with every admission_dirty() */
};

/* The index of a partition, made on first sight. Negative: FAULT_MEMORY. */
int admission_partition(
	struct admission *admission, const char *topic, int32_t partition, struct err *err);
size_t admission_count(struct admission *admission);
struct admission_partition admission_get(struct admission *admission, size_t index);

/* Ingest: the partition is ours from now on; `waiting`: the table has waiting rows of it. */
void admission_assign(struct admission *admission, size_t index, bool waiting);
void admission_revoke(struct admission *admission, size_t index);

enum placement_kind { PLACEMENT_CLAIMED = 0, PLACEMENT_WAITING = 1, PLACEMENT_PARKED = 2 };

struct placement {
	enum placement_kind kind;
	bool asks; /* PLACEMENT_CLAIMED only if the table holds nothing older of its key */
};

/* Ingest: decides about the messages of a batch, in their order, under one lock, and takes budget
 * for those it lets be claimed. messages[i] belongs to partition indexes[i].
 * No room: its partition overflows from that message on. Nobody wants it: parked (rule R15). */
void admission_place(struct admission *admission, struct message *const *messages,
	const size_t *indexes, size_t count, struct placement *out);
/* Waits until there is room for `count` messages of `bytes` together or timeout_ms passed: a short
 * wait here is far cheaper than a detour through the table. True when there is room. */
bool admission_wait(struct admission *admission, size_t count, size_t bytes, int64_t timeout_ms);
/* Waits until the partition does not overflow, there is little room, or timeout_ms has passed. Under a
 * steady stream the table is never seen empty unless ingest pauses for a moment. True: no overflow. */
bool admission_wait_drained(struct admission *admission, size_t index, int64_t timeout_ms);
/* Takes budget for rows to be claimed from the table; grants at most `count`, returns how many. */
size_t admission_reserve(struct admission *admission, size_t count);
/* Counts the bytes of messages whose number was reserved by admission_reserve(). */
void admission_charge(struct admission *admission, size_t bytes);
/* Another budget from now on (SIGHUP); what is taken stays taken. */
void admission_set_budget(
	struct admission *admission, int64_t max_claimed, int64_t max_claimed_bytes);
/* Gives budget back. */
void admission_release(struct admission *admission, size_t count, size_t bytes);
/* Budget taken now, and bytes still free (0 when none, at least 1 MiB when nothing is claimed). */
void admission_usage(struct admission *admission, size_t *count, size_t *bytes, size_t *free_bytes);

void admission_dirty(struct admission *admission, size_t index);
/* The table held no waiting row of it after `version` was read: clean, unless the version moved. */
void admission_clean(struct admission *admission, size_t index, uint64_t version);
/* The table has been claimed empty of due rows since `version` was read: overflow ends. */
void admission_drained(struct admission *admission, size_t index, uint64_t version);

/* Dispatch: who wants what from now on. Takes the snapshot. */
void admission_set_routing(struct admission *admission, struct routing *routing);
/* Whether a handler here wants messages of the topic now. */
bool admission_serves(struct admission *admission, const char *topic);

/* Backpressure (ingest.max_pending): an estimate of rows waiting and unrouted, raised by admission_place() and
 * set from a look at the table. What was placed since `placed` was read, before that look, the look may
 * not have seen: it is added. */
int64_t admission_placed(struct admission *admission);
void admission_set_waiting(struct admission *admission, int64_t waiting, int64_t placed);
int64_t admission_pending(struct admission *admission); /* waiting + claimed */

#endif
