/*
 * Hears of replays: a thread with one PostgreSQL connection that listens for the notification
 * inboxd_replay and pokes dispatch. It only saves the wait for the next poll: a notification that is
 * lost, or a pooler that passes none on, costs up to worker.poll and nothing else (rule R19).
 */
#ifndef DISPATCH_REPLAY_LISTENER_H
#define DISPATCH_REPLAY_LISTENER_H

#include <stdbool.h>

#include "base/wake.h"
#include "store/db.h"

struct replay_listener;

/* Starts the thread. `wake` is kept, and poked after each notification. */
int replay_listener_new(struct replay_listener **out, const struct db_options *db,
	struct wake *wake, struct err *err);
/* Interrupts what hangs and joins the thread. */
void replay_listener_free(struct replay_listener *notices);
/* True once after a notification. Any thread. */
bool replay_listener_heard(struct replay_listener *notices);

#endif
