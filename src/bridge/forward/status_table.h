/* The verdict of each HTTP status. Pure. */
#ifndef BRIDGE_FORWARD_STATUS_TABLE_H
#define BRIDGE_FORWARD_STATUS_TABLE_H

#include <stdbool.h>

#include "bridge/verdict.h"

#define STATUS_TABLE_END 600

/* The verdict of each status from 100 to 599. */
struct status_table {
	unsigned char verdicts[STATUS_TABLE_END]; /* enum bridge_status */
	bool changed[STATUS_TABLE_END];           /* by the user */
};

/* 2xx done; 408, 409, 425, 429, 3xx and 5xx retry; other 4xx dead. */
void status_table_init(struct status_table *table);
/* Changes rows: "404=retry,5xx=dead". A later one replaces an earlier one. Verdicts: done, retry, dead, snooze.
 * FAULT_USAGE: the text names the mistake. */
int status_table_change(struct status_table *table, const char *rows, struct err *err);
/* Credentials can expire and be renewed: 401 and 403 are a snooze, unless the user has changed them. */
void status_table_renews_credentials(struct status_table *table);
/* A status outside of the table is a retry. */
enum bridge_status status_table_find(const struct status_table *table, long status);

/* True when the status asks to come later, and does not blame the message: 429, and 503 with a Retry-After, unless the user
 * has changed its verdict. */
bool status_table_is_busy(const struct status_table *table, long status, bool retry_after);

#endif
