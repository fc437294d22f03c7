/*
 * Hears of replays: a thread with one PostgreSQL connection that listens for the notification
 * inboxd_replay and pokes dispatch. It only saves the wait for the next poll: a notification that is
 * lost, or a pooler that passes none on, costs up to worker.poll and nothing else (rule R19).
 */
#ifndef DISPATCH_NOTICES_H
#define DISPATCH_NOTICES_H

#include <stdbool.h>

#include "base/wake.h"
#include "store/db.h"

struct notices;

/* Starts the thread. `wake` is kept, and poked after each notification. */
int notices_new(
	struct notices **out, const struct db_options *db, struct wake *wake, struct err *err);
/* Interrupts what hangs and joins the thread. */
void notices_free(struct notices *notices);
/* True once after a notification. Any thread. */
bool notices_heard(struct notices *notices);

#endif
