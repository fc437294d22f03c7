/*
 * The schema belongs to one Kafka cluster and one group.id: two groups in one schema would own each
 * other's partitions (rule R18). Blocking; one db, one thread.
 */
#ifndef STORE_SCHEMA_BINDING_H
#define STORE_SCHEMA_BINDING_H

#include "store/pg/db.h"

/* Binds the schema to (cluster id, group id) at the first run. FAULT_CONFIG names both when the
 * schema belongs to another pair. */
int schema_bind(struct db *db, const char *cluster_id, const char *group_id, struct err *err);
/* The same check without binding. `bound` receives whether the schema already belongs to this pair;
 * false: it belongs to none. */
int schema_check_binding(
	struct db *db, const char *cluster_id, const char *group_id, bool *bound, struct err *err);

#endif
