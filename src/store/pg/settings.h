/*
 * The statements that set the timeouts of a transaction, and how its statements are planned.
 */
#ifndef STORE_PG_SETTINGS_H
#define STORE_PG_SETTINGS_H

#include "store/pg/db.h"

/* How the statements of the transaction are planned (plan_cache_mode), as far as it is set. Named statements want generic
 * plans, which are made once a connection. All others are planned for their parameters. */
enum plans {
	PLANS_NONE,  /* there is no transaction */
	PLANS_UNSET, /* there is one, and its settings are not queued */
	PLANS_CUSTOM,
	PLANS_GENERIC,
	PLANS_KINDS,
};

struct transaction_settings {
	char of[2][PLANS_KINDS][512]; /* for a transaction; [true] for db_begin_reading() */
	char session[640];            /* the same for a session of our own */
};

void settings_write(struct transaction_settings *settings, const struct db_options *options);

#endif
