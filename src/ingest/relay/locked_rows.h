/*
 * Published events whose rows somebody has locked, for example a service that reads them FOR UPDATE. They are recorded
 * when the lock is gone; until then they must not be sent again, and no other event waits. After a crash of the relay
 * they are published once more. Pure. One thread.
 */
#ifndef INGEST_RELAY_LOCKED_ROWS_H
#define INGEST_RELAY_LOCKED_ROWS_H

#include "store/outbox/relay_rows.h"

#define LOCKED_ROWS_MOST 10000 /* beyond it, the relay waits for the locks */

struct locked_rows {
	struct relay_result *items;
	size_t count;
};

void locked_rows_fini(struct locked_rows *locked);
/* Keeps those of the results whose `locked` is set. FAULT_MEMORY: they may be sent again. */
int locked_rows_add(struct locked_rows *locked, const struct relay_result *results, size_t count,
	struct err *err);
/* Forgets those that are recorded: their `locked` is not set any more. */
void locked_rows_drop_recorded(struct locked_rows *locked);
bool locked_rows_has(const struct locked_rows *locked, int64_t seq);

#endif
