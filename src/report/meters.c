/*
 * The table of metrics. Dashboards and alerts of users depend on the names and labels (docs/metrics.md), so a
 * metric is added here and in the enum, and never renamed. The lint reads this table: each metric must be explained
 * in the documentation.
 *
 * A label must have few values. Event ids, keys and error texts are therefore no labels; topics, handlers and
 * partitions are, because an instance has at most some thousands of them.
 */
#include "report/meters.h"

/* A transaction of a batch takes milliseconds. Above ten seconds the database is out of order. */
static const double transaction_bounds[] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
	0.25, 0.5, 1, 2.5, 5, 10, 0 };

/* From a handler that does nothing to one that extends its deadline repeatedly. */
static const double handler_bounds[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
	2.5, 5, 10, 30, 60, 300, 0 };

/* From Kafka's timestamp to the settled row. A backlog can be days old. */
static const double end_to_end_bounds[] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	30, 60, 300, 1800, 3600, 21600, 86400, 0 };

/* Of a quota: up to the window of the brokers, which is eleven seconds by default, or longer for large responses. */
static const double throttle_bounds[] = { 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 0 };

#define COUNTER(name, help, ...)                                                                   \
	{                                                                                          \
		name, METRIC_COUNTER, help, { __VA_ARGS__ }, NULL                                  \
	}
#define GAUGE(name, help, ...)                                                                     \
	{                                                                                          \
		name, METRIC_GAUGE, help, { __VA_ARGS__ }, NULL                                    \
	}
#define HISTOGRAM(name, help, bounds, ...)                                                         \
	{                                                                                          \
		name, METRIC_HISTOGRAM, help, { __VA_ARGS__ }, bounds                              \
	}

const struct metric_family meters[METER_COUNT] = {
	[METER_MESSAGES_RECEIVED] = COUNTER("inboxd_messages_received_total",
		"Records read from Kafka, duplicates, rejects and skipped ones included.", "topic"),
	[METER_DUPLICATES] = COUNTER("inboxd_duplicates_total",
		"Messages that were in the inbox already, with the same payload.", "topic"),
	[METER_CONFLICTS] = COUNTER("inboxd_conflicts_total",
		"Messages with a known id and another payload; kept whole in inbox_conflicts.",
		"topic"),
	[METER_REJECTS] = COUNTER("inboxd_rejects_total",
		"Records that could not be stored as messages; kept raw in inbox_rejects.", "topic",
		"reason"),
	[METER_SKIPPED] = COUNTER("inboxd_skipped_total",
		"Records whose event type the topic's accept list leaves out.", "topic"),
	[METER_UNWANTED] = COUNTER("inboxd_unwanted_total",
		"Records that no consumer wants. They are not stored.", "topic"),
	[METER_TOPIC_RECREATED] = COUNTER("inboxd_topic_recreated_total",
		"Partitions found to belong to a topic that was deleted and created again.",
		"topic"),
	[METER_OFFSET_GAPS] = COUNTER("inboxd_offset_gaps_total",
		"Times Kafka had deleted records before they were read.", "topic"),
	[METER_DELIVERIES] = COUNTER("inboxd_deliveries_total",
		"Deliveries to handlers that ended, by how they ended: done, retry, dead, snooze, "
		"settled, timeout, crash.",
		"handler", "outcome", "consumer"),
	[METER_IN_FLIGHT] = GAUGE("inboxd_in_flight",
		"Messages delivered to the handler and not settled yet.", "handler", "consumer"),
	[METER_HANDLERS_CONNECTED] = GAUGE(
		"inboxd_handlers_connected", "Connections of the handler.", "handler", "consumer"),
	[METER_HANDLERS_LAPSED] = GAUGE("inboxd_handlers_lapsed",
		"Connections of a handler whose consumer no sidecar lists any more.", "handler",
		"consumer"),
	[METER_UNKNOWN_ANSWERS] = COUNTER("inboxd_unknown_answers_total",
		"Answers and extensions for deliveries that are not open."),
	[METER_PROTOCOL_ERRORS] = COUNTER(
		"inboxd_protocol_errors_total", "Lines from handlers that violate the protocol."),
	[METER_ORDER_VIOLATIONS] = COUNTER("inboxd_order_violations_total",
		"Messages of ordered batches that a handler finished behind one of the same key "
		"that "
		"it did not finish."),
	[METER_WAITING] = GAUGE("inboxd_waiting",
		"Messages in the table that wait to be claimed, retries and parked ones included.",
		"consumer"),
	[METER_WAITING_FOR_NOBODY] = GAUGE("inboxd_waiting_for_nobody",
		"Messages in the table that wait for a consumer that no sidecar lists any more.",
		"consumer"),
	[METER_PAUSED] = GAUGE("inboxd_paused",
		"1 for each topic, consumer or handler that an operator has paused.", "kind",
		"target"),
	[METER_DEAD] = GAUGE("inboxd_dead",
		"Messages in the table that were given up and wait for an operator."),
	[METER_UNROUTED] = GAUGE(
		"inboxd_unrouted", "Messages no connected handler has subscribed to.", "consumer"),
	[METER_OLDEST_WAITING] = GAUGE("inboxd_oldest_waiting_seconds",
		"Age of the oldest message that is due and waits to be claimed.", "consumer"),
	[METER_CLAIMED] = GAUGE("inboxd_claimed",
		"Messages this sidecar holds claimed in memory, delivered ones included."),
	[METER_CLAIMED_BYTES] = GAUGE(
		"inboxd_claimed_bytes", "Memory taken by the messages this sidecar holds claimed."),
	[METER_KAFKA_LAG] = GAUGE("inboxd_kafka_lag",
		"Records in the partition that are not in the inbox yet.", "topic", "partition"),
	[METER_PARTITIONS_PAUSED] = GAUGE("inboxd_partitions_paused",
		"Assigned partitions that are not read now, for want of room or of the database."),
	[METER_PARTITIONS_STALLED] = GAUGE("inboxd_partitions_stalled",
		"Partitions that stand still at an offset that cannot be fetched."),
	[METER_OPEN_TRANSACTION] = GAUGE("inboxd_open_transaction_seconds",
		"How long a partition has waited for the end of an open transaction; the longest "
		"wait."),
	[METER_KAFKA_THROTTLE] = HISTOGRAM("inboxd_kafka_throttle_seconds",
		"Delays of this client by quotas of the brokers, as they report them.",
		throttle_bounds, "client"),
	[METER_RESCUED] = COUNTER("inboxd_rescued_total",
		"Messages returned to waiting from sidecars that died or from lost statements."),
	[METER_CLAIM_LOST] = COUNTER("inboxd_claim_lost_total",
		"Verdicts that changed nothing because the claim of the message was lost."),
	[METER_PG_ERRORS] = COUNTER("inboxd_pg_errors_total",
		"Statements PostgreSQL refused and lost connections, by class of error.", "class"),
	[METER_PG_RECONNECTS] = COUNTER("inboxd_pg_reconnects_total",
		"Connections to PostgreSQL made again after one was lost."),
	[METER_SET_ASIDE] = GAUGE("inboxd_rows_set_aside",
		"Rows that PostgreSQL refuses although it takes others, and that are tried alone "
		"now, by what is done with them: settle, claim, record.",
		"operation"),
	[METER_PURGED] =
		COUNTER("inboxd_purged_total", "Rows deleted because their retention was over."),
	[METER_RETENTION_REFUSED] = COUNTER("inboxd_retention_refused_total",
		"Rows that PostgreSQL refused to delete, counted each time.", "what"),
	[METER_PAYLOADS_DROPPED] = COUNTER("inboxd_payloads_dropped_total",
		"Processed messages whose payload and headers were dropped by retention."),
	[METER_DEAD_TOPIC_WAITING] = GAUGE("inboxd_dead_topic_waiting",
		"Dead messages that are not in the dead topic yet; at most 10000."),
	[METER_DEAD_TOPIC_PRODUCED] = COUNTER("inboxd_dead_topic_produced_total",
		"Dead messages the brokers confirmed in the dead topic."),
	[METER_DEAD_TOPIC_FAILURES] = COUNTER("inboxd_dead_topic_failures_total",
		"Batches for the dead topic that failed, wholly or in part, or could not begin."),
	[METER_EVENTS_DROPPED] = COUNTER("inboxd_events_dropped_total",
		"Answers whose events were not stored, because inbox.complete() had completed the "
		"message."),
	[METER_OUTBOX_UNATTENDED] = GAUGE("inboxd_outbox_unattended",
		"Events that wait although no instance was elected to publish them for half a "
		"minute; the same in all instances."),
	[METER_OUTBOX_LEADER] = GAUGE("inboxd_outbox_leader",
		"1 if this instance is elected to publish events. Other instances report 0 in the "
		"gauges that follow."),
	[METER_OUTBOX_WAITING] = GAUGE("inboxd_outbox_waiting",
		"Events that are not published yet, deferred ones included; about 10000 at most."),
	[METER_OUTBOX_OLDEST] =
		GAUGE("inboxd_outbox_oldest_seconds", "Age of the oldest event that waits."),
	[METER_OUTBOX_HOLES] = GAUGE(
		"inboxd_outbox_holes", "Ranges of numbers whose transactions may still commit."),
	[METER_OUTBOX_HELD_KEYS] =
		GAUGE("inboxd_outbox_held_keys", "Keys whose events wait behind a refused event."),
	[METER_OUTBOX_HELD_TOPICS] =
		GAUGE("inboxd_outbox_held_topics", "Topics that cannot be used at present."),
	[METER_OUTBOX_DEAD] = GAUGE("inboxd_outbox_dead", "Dead events; at most 10000."),
	[METER_OUTBOX_PUBLISHED] =
		COUNTER("inboxd_outbox_published_total", "Events that the brokers have confirmed."),
	[METER_OUTBOX_REFUSED] = COUNTER("inboxd_outbox_refused_total",
		"Attempts to publish an event that its topic has refused."),
	[METER_OUTBOX_FAILURES] = COUNTER(
		"inboxd_outbox_failures_total", "Rounds of the relay that failed; it tries again."),
	[METER_OUTBOX_PUBLISH_SECONDS] = HISTOGRAM("inboxd_outbox_publish_seconds",
		"Time from the creation of an event to its confirmation by the brokers.",
		end_to_end_bounds),
	[METER_REQUESTS] = GAUGE("inboxd_requests",
		"Requests with an idempotency key, by state: COMPLETED, PENDING, FAILED. Above "
		"10000, "
		"completed ones are estimated. Only the instance that runs retention has this "
		"gauge.",
		"state"),
	[METER_REQUESTS_LOST] = GAUGE("inboxd_requests_lost",
		"Requests whose lease is over and that have no result; at most 10000."),
	[METER_REQUESTS_EXPIRED] = COUNTER(
		"inboxd_requests_expired_total", "Requests deleted because they had expired."),
	[METER_OTLP_EXPORTED] =
		COUNTER("inboxd_otlp_spans_exported_total", "Spans the collector has taken."),
	[METER_OTLP_DROPPED] = COUNTER("inboxd_otlp_spans_dropped_total",
		"Spans that were given up: no room while the "
		"collector was away, or it refused them."),
	[METER_OTLP_FAILURES] = COUNTER("inboxd_otlp_failures_total",
		"Requests to the collector that failed, repeated ones included."),
	[METER_LOG_DROPPED] = COUNTER("inboxd_log_lines_dropped_total",
		"Lines of the log that were dropped, because stderr could not be written to."),
	[METER_OLDEST_XMIN] =
		GAUGE("inboxd_oldest_xmin_seconds", "Age of the oldest snapshot in the database, "
						    "which keeps VACUUM from removing dead rows."),
	[METER_PG_CONNECTIONS] = GAUGE("inboxd_pg_connections",
		"Connections to PostgreSQL this sidecar keeps, by state: closed, idle, busy, "
		"transaction.",
		"state"),
	[METER_READY] = GAUGE("inboxd_ready",
		"1 when this check of /readyz passes, else 0; running passes until it is asked to "
		"stop.",
		"check"),
	[METER_BUILD_INFO] = GAUGE("inboxd_build_info",
		"Always 1; the version of the running program is the label.", "version"),
	[METER_INGEST_BATCH] = HISTOGRAM("inboxd_ingest_batch_seconds",
		"Time to store a batch, from its first statement to COMMIT.", transaction_bounds),
	[METER_CLAIM] = HISTOGRAM("inboxd_claim_seconds",
		"Time of a statement that claims waiting messages.", transaction_bounds),
	[METER_SETTLE] = HISTOGRAM(
		"inboxd_settle_seconds", "Time to settle a batch of verdicts.", transaction_bounds),
	[METER_HANDLER] = HISTOGRAM("inboxd_handler_seconds", "Time from a delivery to its answer.",
		handler_bounds, "handler", "consumer"),
	[METER_END_TO_END] = HISTOGRAM("inboxd_end_to_end_seconds",
		"Time from Kafka's timestamp of a message to its settled row.", end_to_end_bounds,
		"consumer"),
	[METER_PROCESS_CPU] = COUNTER(
		"process_cpu_seconds_total", "User and system CPU time of the process in seconds."),
	[METER_PROCESS_RESIDENT] =
		GAUGE("process_resident_memory_bytes", "Resident memory of the process."),
	[METER_PROCESS_VIRTUAL] =
		GAUGE("process_virtual_memory_bytes", "Virtual memory of the process."),
	[METER_PROCESS_FDS] = GAUGE("process_open_fds", "File descriptors in use."),
	[METER_PROCESS_MAX_FDS] = GAUGE("process_max_fds", "File descriptors it may use."),
	[METER_PROCESS_START] =
		GAUGE("process_start_time_seconds", "Start of the process, in seconds since 1970."),
};
