/*
 * The connection settings that all threads of an instance share. Pure.
 */
#ifndef STORE_CONNECTION_OPTIONS_H
#define STORE_CONNECTION_OPTIONS_H

#include "store/pg/db.h"

/* Fills options for a session named inboxd/<instance> (fencing finds sessions by this name, rule
 * R5). The timeouts of locks and of idle transactions are below the lease; that of statements can be
 * longer. Borrows `config` and `name`, which must exist until db_new(). */
void connection_options(
	const struct config *config, int32_t instance, char name[32], struct db_options *out);

#endif
