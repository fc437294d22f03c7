/*
 * The events that this process stored last, as fingerprints of identity and payload. Most duplicates repeat an event
 * of a moment ago byte for byte (a producer's retry): for those nobody has to ask the table whether their
 * payload is another than what is stored. Some 30,000 events in 512 KiB; the oldest are forgotten first.
 *
 * It never decides whether an event is new: only the table's primary key does. What it says is: this identity with this
 * payload was stored, or was compared with what is stored. A row that somebody changed or replaced since then is not
 * seen. Whoever adds what is not committed yet forgets everything when it comes to nothing.
 * One thread.
 */
#ifndef STORE_RECENT_H
#define STORE_RECENT_H

#include <stdbool.h>

#include "model/message.h"

struct recent;

/* FAULT_MEMORY. */
int recent_new(struct recent **out, struct err *err);
void recent_free(struct recent *recent);

void recent_add(struct recent *recent, const struct message *message);
/* Same source, event id, and payload (absent is not empty), but for a collision of two hashes of 63 bits. */
bool recent_has(const struct recent *recent, const struct message *message);
/* All of them. */
void recent_forget(struct recent *recent);

#endif
