/* The table of every option. A new option is a row here and a field in config.h. */
#include "config/options.h"

#include <ctype.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"

#define AT(field)       .offset = offsetof(struct config, field)
#define AT_TOPIC(field) .offset = offsetof(struct topic_rules, field)

#define KIB             1024LL
#define MIB             (1024 * KIB)
#define GIB             (1024 * MIB)

#define SECOND          1000LL
#define MINUTE          (60 * SECOND)
#define HOUR            (60 * MINUTE)
#define DAY             (24 * HOUR)
#define YEAR            (365 * DAY)

static const char *const ordering_words[] = { "none", "key", "partition", NULL };
static const char *const missing_id_words[] = { "coordinates", "reject", NULL };
static const char *const level_words[] = { "debug", "info", "warn", "error", NULL };
static const char *const format_words[] = { "logfmt", "json", NULL };

_Static_assert(ORDERING_NONE == 0 && ORDERING_KEY == 1 && ORDERING_PARTITION == 2, "as the words");
_Static_assert(LOG_DEBUG == 0 && LOG_ERROR == 3, "as the words");
_Static_assert(sizeof(enum ordering) == sizeof(int) && sizeof(enum log_level) == sizeof(int),
	"enums are stored as int");

/* clang-format off */
const struct section option_sections[] = {
	{ "inbox", SECTION_FIXED, NULL, "What this instance is and how much it holds." },
	{ "kafka", SECTION_OPEN, "librdkafka",
		"Which topics to read. Every other key is a librdkafka configuration property "
			"and goes to librdkafka as it is written; `bootstrap.servers` and "
			"`group.id` are required." },
	{ "postgres", SECTION_OPEN, "libpq",
		"How to reach the service's database. Every key is a libpq connection keyword "
			"and goes to libpq as it is written; without any, libpq uses its own "
			"defaults and the `PG*` variables.", true },
	{ "ingest", SECTION_FIXED, NULL, "From Kafka into the table." },
	{ "topics", SECTION_PER_TOPIC, NULL,
		"Rules for one topic, under its name, or for all others, under `\"*\"`. A key "
			"not written for a topic is that of `\"*\"`, else the default. `--set "
			"topics.TOPIC.key=value` sets them, too (the topic is everything "
			"between the first and the last dot); environment variables cannot." },
	{ "retry", SECTION_FIXED, NULL,
		"What happens to a message its handler could not handle." },
	{ "worker", SECTION_FIXED, NULL, "From the table to the handlers and back." },
	{ "socket", SECTION_FIXED, NULL, "The Unix socket handlers connect to." },
	{ "http", SECTION_FIXED, NULL, "Metrics and health." },
	{ "otlp", SECTION_FIXED, NULL,
		"Spans of what happens to messages, for a collector of OpenTelemetry; see docs/operations.md." },
	{ "retention", SECTION_FIXED, NULL,
		"How long rows stay, by PostgreSQL's clock. A row neither processed nor dead is never deleted. "
			"One sidecar of a schema does it at a time; see docs/operations.md." },
	{ "log", SECTION_FIXED, NULL,
		"Log lines on stderr. Payloads and secrets never appear in them." },
	{ NULL },
};

/* A paragraph an option, in the order of the sections above. */
const struct option option_table[] = {
	{ "inbox", "schema", OPTION_STRING, .text = "inbox", .check = check_schema, .min = 1,
		.max = 63, AT(inbox.schema),
		.help = "PostgreSQL schema that holds everything." },
	{ "inbox", "instance", OPTION_STRING, .text = "", .hostname = true,
		.check = check_instance, .min = 1, .max = 255, AT(inbox.instance),
		.help = "Name of this instance in tables, logs and sessions." },
	{ "inbox", "ordering", OPTION_ENUM, .text = "key", .words = ordering_words,
		AT(inbox.ordering),
		.help = "What waits for what: nothing, messages of the same key, or of the "
			"same partition." },
	{ "inbox", "max_in_flight", OPTION_INT, .text = "1000", .min = 1, .max = 1000000,
		.reloadable = true, AT(inbox.max_in_flight),
		.help = "Messages delivered and not yet settled, all handlers together." },
	{ "inbox", "max_claimed", OPTION_INT, .text = "20000", .min = 1, .max = 10000000,
		.reloadable = true, AT(inbox.max_claimed),
		.help = "Messages this instance holds claimed, queued in memory or delivered; "
			"above it, rows are stored waiting." },
	{ "inbox", "max_claimed_bytes", OPTION_SIZE, .text = "32MiB", .min = KIB,
		.max = 1024 * GIB, .reloadable = true, AT(inbox.max_claimed_bytes),
		.help = "Memory for those messages. A single larger message is still "
			"delivered, alone." },
	{ "inbox", "handler_memory", OPTION_DURATION, .text = "10m", .min = 0, .max = 30 * DAY,
		.reloadable = true, AT(inbox.handler_memory),
		.help = "A handler's subscriptions count so long after its last connection: what is "
			"for it waits for it. 0: only connected handlers count." },
	{ "inbox", "handler_absence", OPTION_DURATION, .text = "30s", .min = SECOND, .max = DAY,
		.never = true, AT(inbox.handler_absence),
		.help = "An instance without a handler that another instance has leaves the "
			"consumer group after this long, and comes back with the handler." },
	{ "inbox", "shutdown_timeout", OPTION_DURATION, .text = "25s", .min = 0, .max = HOUR,
		AT(inbox.shutdown_timeout),
		.help = "How long a stop may take, running deliveries included. Keep it below "
			"the grace period of whatever stops the process." },

	{ "kafka", "topics", OPTION_LIST, .text = "", .check = check_topic_pattern, .min = 0,
		.max = 10000, AT(kafka_topics),
		.help = "Topics to read; a name starting with ^ is a regular expression. "
			"Required." },

	{ "ingest", "batch_messages", OPTION_INT, .text = "2000", .min = 1, .max = 100000,
		AT(ingest.batch_messages),
		.help = "Messages stored in one transaction, at most." },
	{ "ingest", "batch_bytes", OPTION_SIZE, .text = "8MiB", .min = KIB, .max = 512 * MIB,
		AT(ingest.batch_bytes),
		.help = "Bytes stored in one transaction, at most; a larger message goes "
			"alone." },
	{ "ingest", "batch_wait", OPTION_DURATION, .text = "5ms", .min = 0, .max = MINUTE,
		AT(ingest.batch_wait),
		.help = "How long a partial batch may wait for more; no longer than until "
			"nothing comes for a fifth of it." },
	{ "ingest", "max_pending", OPTION_INT, .text = "1000000", .min = 1, .max = 1000000000000,
		AT(ingest.max_pending),
		.help = "Messages waiting, claimed or unrouted (an estimate; rows parked "
			"behind a failing one do not count); above it partitions are paused, "
			"below 90 % they are resumed." },
	{ "ingest", "max_payload", OPTION_SIZE, .text = "16MiB", .min = 1, .max = 512 * MIB,
		AT(ingest.max_payload),
		.help = "A message with a larger payload is rejected." },

	{ "topics", "accept", OPTION_LIST, .text = "*", .check = check_type_pattern, .min = 1,
		.max = 1000, AT_TOPIC(accept),
		.help = "Event types to store, * at the end = prefix; others are counted and "
			"skipped." },
	{ "topics", "id", OPTION_LIST,
		.text = "header:ce_id,header:id,header:event-id,header:eventId,"
			"header:idempotency-key,header:message-id",
		.check = check_id_locator, .min = 0, .max = 100, AT_TOPIC(id),
		.help = "Where the event id is, the first that is there: header:NAME, key or "
			"json:/POINTER. A body's id is often the entity's, and its second "
			"update would be lost: name it only when each event has its own." },
	{ "topics", "missing_id", OPTION_FLAG, .text = "coordinates", .words = missing_id_words,
		AT_TOPIC(missing_id_rejects),
		.help = "What to do without an id: take topic/partition/offset@timestamp, or "
			"reject the message." },
	{ "topics", "type", OPTION_LIST,
		.text = "header:ce_type,header:eventType,header:event-type,header:type,topic",
		.check = check_name_locator, .min = 0, .max = 100, AT_TOPIC(type),
		.help = "Where the event type is: header:NAME, json:/POINTER, topic or "
			"literal:TEXT." },
	{ "topics", "source", OPTION_LIST, .text = "header:ce_source,topic",
		.check = check_name_locator, .min = 1, .max = 100, AT_TOPIC(source),
		.help = "Where the source is: header:NAME, json:/POINTER, topic or "
			"literal:TEXT. An id is unique within its source." },

	{ "retry", "max_attempts", OPTION_INT, .text = "10", .min = 1, .max = 1000000,
		.reloadable = true, AT(retry.max_attempts),
		.help = "Attempts before a message is dead." },
	{ "retry", "backoff", OPTION_DURATION, .text = "1s", .min = 0, .max = YEAR,
		.reloadable = true, AT(retry.backoff),
		.help = "First delay; it doubles at each attempt, with full jitter." },
	{ "retry", "backoff_max", OPTION_DURATION, .text = "5m", .min = 0, .max = YEAR,
		.reloadable = true, AT(retry.backoff_max),
		.help = "Longest delay." },
	{ "retry", "max_crashes", OPTION_INT, .text = "3", .min = 1, .max = 1000000,
		.reloadable = true, AT(retry.max_crashes),
		.help = "A message that ended its handler process this often, delivered alone, "
			"is dead." },
	{ "retry", "dead_topic", OPTION_STRING, .text = "", .check = check_topic_or_none,
		.min = 0, .max = 249, .reloadable = true, AT(retry.dead_topic),
		.help = "Messages that died in a delivery are also produced to this topic, from the table and at "
			"least once; empty = to none. What is dead already when it is set is produced, too; see "
			"docs/operations.md." },

	{ "worker", "connections", OPTION_INT, .text = "2", .min = 1, .max = 64,
		AT(worker.connections),
		.help = "Database connections that claim and settle. With more than two and "
			"`inbox.ordering: none` several claims go side by side while much is due; where "
			"there is an order one is made at a time. Four more are ingest's, the heartbeat's, "
			"one that listens for replays, and one for retention; with `retry.dead_topic` a "
			"fifth is for that." },
	{ "worker", "claim_batch", OPTION_INT, .text = "500", .min = 1, .max = 100000,
		AT(worker.claim_batch),
		.help = "Rows claimed by one statement, at most." },
	{ "worker", "poll", OPTION_DURATION, .text = "1s", .min = 10, .max = HOUR,
		AT(worker.poll),
		.help = "How often to look for rows that became due; half as often when there are "
			"none." },
	{ "worker", "lease", OPTION_DURATION, .text = "15s", .min = 3 * SECOND, .max = HOUR,
		AT(worker.lease),
		.help = "An instance whose heartbeat is older is dead, and its rows are "
			"rescued." },

	{ "socket", "path", OPTION_STRING, .text = "/run/inboxd/inbox.sock",
		.check = check_socket_path, .min = 1, .max = 4096, AT(socket.path),
		.help = "Where the socket is made." },
	{ "socket", "mode", OPTION_MODE, .text = "0660", .min = 0, .max = 0777, AT(socket.mode),
		.help = "File mode of the socket, octal." },
	{ "socket", "group", OPTION_STRING, .text = "", .min = 0, .max = 255, AT(socket.group),
		.help = "Group of the socket; empty = that of the process." },
	{ "socket", "allow_uid", OPTION_UIDS, .text = "", .min = 0, .max = 1000,
		AT(socket.allow_uid),
		.count_offset = offsetof(struct config, socket.allow_uid_count),
		.help = "Numeric user ids that may connect; empty = whoever the file mode lets "
			"in." },

	{ "http", "listen", OPTION_STRING, .text = "127.0.0.1:9464", .check = check_listen,
		.min = 0, .max = 255, AT(http.listen),
		.help = "Address of /metrics, /livez, /readyz, /status and /log-level (to be changed from this "
			"host only); empty = off." },

	{ "otlp", "endpoint", OPTION_STRING, .text = "", .check = check_otlp_endpoint, .min = 0,
		.max = 1024, AT(otlp.endpoint),
		.help = "Where spans are sent by OTLP/HTTP as JSON: http://host:4318; without a path to "
			"/v1/traces. No TLS. Empty = off." },
	{ "otlp", "service_name", OPTION_STRING, .text = "", .min = 0, .max = 255,
		AT(otlp.service_name),
		.help = "`service.name` of the spans; empty = `kafka.group.id`." },
	{ "otlp", "sample", OPTION_INT, .text = "1", .min = 1, .max = 1000000, AT(otlp.sample),
		.help = "One in so many traces is sent; the trace id decides which. Messages whose "
			"`traceparent` is not sampled are never sent." },

	{ "retention", "processed", OPTION_DURATION, .text = "14d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.processed),
		.help = "Processed rows are deleted after this. Stay above the retention of "
			"the topics (Kafka's default: 7 days plus the active segment), or a "
			"re-read finds duplicates forgotten." },
	{ "retention", "payload", OPTION_DURATION, .text = "7d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.payload),
		.help = "Payload and headers of processed rows are dropped after this; the id "
			"stays as long as `processed` says. Without its payload a message cannot "
			"be replayed." },
	{ "retention", "dead", OPTION_DURATION, .text = "never", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.dead),
		.help = "Dead rows are deleted after this." },
	{ "retention", "rejects", OPTION_DURATION, .text = "30d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.rejects),
		.help = "Rejected messages are deleted after this." },
	{ "retention", "conflicts", OPTION_DURATION, .text = "30d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.conflicts),
		.help = "Conflicting copies are deleted after this." },
	{ "retention", "audit", OPTION_DURATION, .text = "1y", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.audit),
		.help = "Audit lines are deleted after this." },

	{ "log", "level", OPTION_ENUM, .text = "info", .words = level_words, .reloadable = true,
		AT(log.level),
		.help = "Lines below this level are not written. PUT /log-level changes it until the next SIGHUP "
			"or start." },
	{ "log", "format", OPTION_FLAG, .text = "logfmt", .words = format_words,
		.reloadable = true, AT(log.json),
		.help = "Shape of a line." },

	{ NULL },
};
/* clang-format on */

const struct section *options_section(const char *name)
{
	for (const struct section *section = option_sections; section->name != NULL; section++) {
		if (strcmp(section->name, name) == 0)
			return section;
	}
	return NULL;
}

const struct option *options_find(const char *section, const char *key)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section) == 0 && strcmp(option->key, key) == 0)
			return option;
	}
	return NULL;
}

bool option_is_list(const struct option *option)
{
	return option->type == OPTION_LIST || option->type == OPTION_UIDS;
}

static char as_in_variable(char c)
{
	return isalnum((unsigned char)c) ? (char)toupper((unsigned char)c) : '_';
}

bool options_same_variable(const char *key, const char *suffix)
{
	while (*key != '\0' && as_in_variable(*key) == *suffix) {
		key++;
		suffix++;
	}
	return *key == '\0' && *suffix == '\0';
}

void options_add_variable(struct buf *out, const char *section, const char *key)
{
	buf_add_str(out, "INBOXD_");
	for (; *section != '\0'; section++)
		buf_add_char(out, as_in_variable(*section));
	buf_add_char(out, '_');
	for (; *key != '\0'; key++)
		buf_add_char(out, as_in_variable(*key));
}
