/*
 * Implements cluster_binding.h.
 */
#include "ingest/relay/cluster_binding.h"

#include "ingest/kafka/consumer_conf.h"
#include "ingest/kafka/producer.h"
#include "store/schema/binding.h"

void cluster_binding_fini(struct cluster_binding *binding)
{
	producer_free(binding->producer);
	binding->producer = NULL;
}

/* A producer with transactions would end those of the relay that is elected. This one sends no records, so that no quota delays
 * it. */
static int ask_cluster_id(
	struct cluster_binding *binding, const struct config *config, char **out, struct err *err)
{
	int r = 0;

	if (binding->producer == NULL)
		r = producer_new(&binding->producer, config, PRODUCER_OUTBOX_SINGLE, NULL, err);
	return r == 0 ? producer_cluster_id(binding->producer, out, err) : r;
}

int cluster_binding_check(struct cluster_binding *binding, struct db *db,
	const struct config *config, struct err *err)
{
	CLEANUP(freep) char *cluster = NULL;
	int r = ask_cluster_id(binding, config, &cluster, err);

	if (r == 0)
		r = schema_bind(db, cluster, consumer_conf_value(config, "group.id", ""), err);
	if (r == 0)
		cluster_binding_fini(binding);
	binding->done = r == 0;
	return r;
}
