/*
 * The gate between ingest and dispatch: where does a new message go, and is there room for it?
 *
 * It holds what both threads must agree on: the partitions, the budget of claimed messages, and who
 * wants what. The table decides who is behind whom (rule R11: a row that asks is parked by the
 * INSERT when an older one of its key waits); the gate only knows per partition whether anything may
 * wait there at all ("dirty"), so a healthy partition asks nothing.
 *
 * Invariant: a partition is clean only if no row of it waits in the table. Whoever is about to make
 * a row wait calls gate_dirty() before its statement and again when its outcome is known; cleaning
 * needs the version that was read before the look at the table.
 *
 * All functions lock and may be called by any thread. Partitions are never removed, so an index
 * stays good.
 */
#ifndef MODEL_GATE_H
#define MODEL_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/message.h"
#include "model/ordering.h"
#include "model/routing.h"

struct gate;

struct gate_limits {
	enum ordering ordering;
	int64_t max_claimed; /* messages */
	int64_t max_claimed_bytes;
};

int gate_new(struct gate **out, const struct gate_limits *limits, struct err *err);
void gate_free(struct gate *gate);

/* One partition as a snapshot. */
struct gate_partition {
	const char *topic; /* lives as long as the gate */
	int32_t partition;
	bool assigned;    /* Kafka gave it to this instance and its watermark is read */
	bool dirty;       /* rows of it may wait in the table */
	bool overflow;    /* new rows are stored waiting until the table has been claimed empty */
	uint64_t version; /* rises with every gate_dirty() */
};

/* The index of a partition, made on first sight. Negative: FAULT_MEMORY. */
int gate_partition(struct gate *gate, const char *topic, int32_t partition, struct err *err);
size_t gate_count(struct gate *gate);
struct gate_partition gate_look(struct gate *gate, size_t index);

/* Ingest: the partition is ours from now on; `waiting`: the table has waiting rows of it. */
void gate_assign(struct gate *gate, size_t index, bool waiting);
void gate_revoke(struct gate *gate, size_t index);

enum place { PLACE_CLAIM = 0, PLACE_WAIT = 1, PLACE_PARK = 2 };

struct placement {
	enum place place;
	bool asks; /* PLACE_CLAIM only if the table holds nothing older of its key */
};

/* Ingest: decides about the messages of a batch, in their order, under one lock, and takes budget
 * for those it lets be claimed. messages[i] belongs to partition indexes[i].
 * No room: its partition overflows from that message on. Nobody wants it: parked (rule R15). */
void gate_place(struct gate *gate, struct message *const *messages, const size_t *indexes,
	size_t count, struct placement *out);
/* Waits until there is room for `count` messages of `bytes` together or timeout_ms passed: a short
 * wait here is far cheaper than a detour through the table. True when there is room. */
bool gate_wait(struct gate *gate, size_t count, size_t bytes, int64_t timeout_ms);
/* Waits until the partition does not overflow, there is little room, or timeout_ms has passed. Under a
 * steady stream the table is never seen empty unless ingest pauses for a moment. True: no overflow. */
bool gate_wait_drained(struct gate *gate, size_t index, int64_t timeout_ms);
/* Takes budget for rows to be claimed from the table; grants at most `count`, returns how many. */
size_t gate_reserve(struct gate *gate, size_t count);
/* Counts the bytes of messages whose number was reserved by gate_reserve(). */
void gate_charge(struct gate *gate, size_t bytes);
/* Another budget from now on (SIGHUP); what is taken stays taken. */
void gate_set_budget(struct gate *gate, int64_t max_claimed, int64_t max_claimed_bytes);
/* Gives budget back. */
void gate_release(struct gate *gate, size_t count, size_t bytes);
/* Budget taken now, and bytes still free (0 when none, at least 1 MiB when nothing is claimed). */
void gate_usage(struct gate *gate, size_t *count, size_t *bytes, size_t *free_bytes);

void gate_dirty(struct gate *gate, size_t index);
/* The table held no waiting row of it after `version` was read: clean, unless the version moved. */
void gate_clean(struct gate *gate, size_t index, uint64_t version);
/* The table has been claimed empty of due rows since `version` was read: overflow ends. */
void gate_drained(struct gate *gate, size_t index, uint64_t version);

/* Dispatch: who wants what from now on. Takes the snapshot. */
void gate_set_routing(struct gate *gate, struct routing *routing);
/* Whether a handler here wants messages of the topic now. */
bool gate_serves(struct gate *gate, const char *topic);

/* Backpressure (ingest.max_pending): an estimate of rows waiting and unrouted, raised by gate_place() and
 * set from a look at the table. What was placed since `placed` was read, before that look, the look may
 * not have seen: it is added. */
int64_t gate_placed(struct gate *gate);
void gate_set_waiting(struct gate *gate, int64_t waiting, int64_t placed);
int64_t gate_pending(struct gate *gate); /* waiting + claimed */

#endif
