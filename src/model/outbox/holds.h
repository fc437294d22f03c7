/*
 * The holds of the outbox: the keys and topics whose events must wait. A key is held behind an event that the topic
 * has refused; a topic is held when it is unknown, forbidden, or has no leader. Each hold has a head: the event that
 * is tried again. Events behind it are parked.
 *
 * When the head is gone, the hold is free. It is removed only after the relay has gone through all parked events once
 * (a pass), because until then new events of the key would overtake parked ones.
 *
 * Keys and topics are 64 bits of their SHA-256. If two of them are the same, an event waits that need not. Pure. One
 * thread.
 */
#ifndef MODEL_OUTBOX_HOLDS_H
#define MODEL_OUTBOX_HOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOLDS_MOST 65536 /* a limit for the caller */

enum hold_state {
	HOLD_NONE,
	HOLD_WAITS, /* the head is tried again later */
	HOLD_FREE,  /* the head is gone; the next pass releases what is parked */
	HOLD_PASSES /* the pass is going on: parked events may be sent, new ones are parked */
};

struct hold {
	uint64_t hash; /* of a topic, or of a topic and a key */
	int64_t head;  /* seq */
	enum hold_state state;
	bool topic;
};

struct holds {
	struct hold *slots; /* a hash table with linear probing */
	size_t room;        /* a power of two, or 0 */
	size_t count;
	size_t topics; /* number of holds of topics */
	size_t free;   /* number of holds with HOLD_FREE */
};

#define HOLDS_INIT                                                                                 \
	{                                                                                          \
		.slots = NULL                                                                      \
	}

void holds_fini(struct holds *holds);
void holds_clear(struct holds *holds);

/* A copy of the hold; its state is HOLD_NONE if there is none. */
struct hold holds_get(const struct holds *holds, uint64_t hash);
/* Holds behind this head, also when the hold exists and is free or passes. FAULT_MEMORY: it is not held. */
int holds_set(struct holds *holds, uint64_t hash, int64_t head, bool topic);
/* The event `seq` is published, dead or gone. If it is the head of the hold, the hold is free. */
void holds_release(struct holds *holds, uint64_t hash, int64_t seq);
/* A pass begins: free holds pass. It ends: holds that still pass are removed. */
void holds_begin_pass(struct holds *holds);
void holds_end_pass(struct holds *holds);
/* The next hold that waits, from *position on, which starts at 0. NULL: there is none. */
const struct hold *holds_next_waiting(const struct holds *holds, size_t *position);

#endif
