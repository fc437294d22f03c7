/*
 * The events that this process stored last, as fingerprints of identity and payload. Most duplicates are retries of a
 * producer and repeat byte for byte what was stored a moment ago: for those nobody has to ask the table whether their
 * payload is another than what is stored. 512 KiB: most of the last 20,000 events, however old they are.
 *
 * It never decides whether an event is new: only the table's primary key does. What it says is: with this payload, and
 * with no other since, this process stored the event or found nothing else stored. It does not see what others do to
 * the row. So it is to be forgotten when what was added comes to nothing, and when others may have stored what is
 * ours to read from now on.
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

/* From now on with this payload. */
void recent_add(struct recent *recent, const struct message *message);
/* Same source and event id, and the payload it was last added with (absent is not empty), but for a collision of
 * two hashes of 63 bits. */
bool recent_has(const struct recent *recent, const struct message *message);
/* All of them. */
void recent_forget(struct recent *recent);

#endif
