/*
 * Whether the schema belongs to the cluster to which the relay would publish (rule R18). Events must not reach another
 * cluster than before, also if nothing is consumed. One thread.
 */
#ifndef INGEST_RELAY_CLUSTER_BINDING_H
#define INGEST_RELAY_CLUSTER_BINDING_H

#include "config/config.h"
#include "store/pg/db.h"

struct producer;

struct cluster_binding {
	bool done;                 /* it belongs to this cluster and this group */
	struct producer *producer; /* asks the brokers, until it is done */
};

void cluster_binding_fini(struct cluster_binding *binding);
/* Asks the brokers for the id of the cluster, and waits at most one second. A schema that belongs to no cluster is bound to
 * this one. FAULT_CONFIG: it belongs to another cluster or group. FAULT_KAFKA: no broker answered; call again. */
int cluster_binding_check(struct cluster_binding *binding, struct db *db,
	const struct config *config, struct err *err);

#endif
