/*
 * The replay listener: a thread with one PostgreSQL connection that listens for the notification inboxd_replay and
 * wakes dispatch. It only shortens the wait: if a notification is lost, or a connection pooler does not forward it,
 * the next poll finds the row, up to worker.poll later (rule R19).
 */
#ifndef DISPATCH_TABLE_REPLAY_LISTENER_H
#define DISPATCH_TABLE_REPLAY_LISTENER_H

#include <stdbool.h>

#include "base/threads/wake.h"
#include "store/pg/db.h"

struct replay_listener;

/* Starts the thread. Keeps `wake` and pokes it after each notification. FAULT_MEMORY, FAULT_INTERNAL. */
int replay_listener_new(struct replay_listener **out, const struct db_options *db,
	struct wake *wake, struct err *err);
/* Interrupts the wait of the thread and joins it. */
void replay_listener_free(struct replay_listener *listener);
/* True if a notification arrived since the last call. Any thread. */
bool replay_listener_take_notice(struct replay_listener *listener);

#endif
