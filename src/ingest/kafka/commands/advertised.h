/*
 * Tries each broker at the address that the cluster advertises. A client gets these addresses from the brokers of
 * bootstrap.servers, and uses them for everything else. For `inboxd check` and `inboxd init`.
 */
#ifndef INGEST_KAFKA_COMMANDS_ADVERTISED_H
#define INGEST_KAFKA_COMMANDS_ADVERTISED_H

#include "base/buf.h"
#include "base/err.h"
#include "ingest/kafka/commands/probe.h"

/* Waits up to 7.5 seconds. FAULT_KAFKA: the first broker that cannot be reached; the others are lines of the report. */
int advertised_check(struct probe *probe, const struct rd_kafka_metadata *metadata,
	struct buf *report, struct err *err);

#endif
