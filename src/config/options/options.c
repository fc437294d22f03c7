/*
 * The table of every option. A new option is a row here and a field in config.h; the readers, the
 * setters, `inboxd check`, a reload and docs/configuration.md take everything else from the row.
 */
#include "config/options/options.h"

#include <ctype.h>
#include <string.h>

#include "config/config.h"
#include "config/options/value.h"

#define AT(field)          .offset = offsetof(struct config, field)
#define AT_TOPIC(field)    .offset = offsetof(struct topic_rules, field)
#define AT_CONSUMER(field) .offset = offsetof(struct consumer_rules, field)
#define AT_HANDLER(field)  .offset = offsetof(struct sql_handler_rules, field)

#define KIB                1024LL
#define MIB                (1024 * KIB)
#define GIB                (1024 * MIB)

#define SECOND             1000LL
#define MINUTE             (60 * SECOND)
#define HOUR               (60 * MINUTE)
#define DAY                (24 * HOUR)
#define YEAR               (365 * DAY)

static const char *const ordering_words[] = { "none", "key", "partition", NULL };
static const char *const next_after_words[] = { "answer", "commit", NULL };
static const char *const missing_id_words[] = { "coordinates", "reject", NULL };
static const char *const no_yes_words[] = { "false", "true", NULL };
static const char *const outbox_format_words[] = { "cloudevents", "structured", "plain", NULL };
static const char *const outbox_producer_words[] = { "idempotent", "transactional", NULL };
static const char *const prepare_words[] = { "never", "auto", "always", NULL };
static const char *const level_words[] = { "debug", "info", "warn", "error", NULL };
static const char *const format_words[] = { "logfmt", "json", NULL };

_Static_assert(ORDERING_NONE == 0 && ORDERING_KEY == 1 && ORDERING_PARTITION == 2,
	"the order of the words");
_Static_assert(NEXT_AFTER_ANSWER == 0 && NEXT_AFTER_COMMIT == 1, "the order of the words");
_Static_assert(OUTBOX_CLOUDEVENTS == 0 && OUTBOX_STRUCTURED == 1 && OUTBOX_PLAIN == 2 &&
		       OUTBOX_IDEMPOTENT == 0 && OUTBOX_TRANSACTIONAL == 1,
	"the order of the words");
_Static_assert(LOG_DEBUG == 0 && LOG_ERROR == 3, "the order of the words");
_Static_assert(sizeof(enum ordering) == sizeof(int) && sizeof(enum next_after) == sizeof(int) &&
		       sizeof(enum log_level) == sizeof(int) &&
		       sizeof(enum outbox_format) == sizeof(int) &&
		       sizeof(enum outbox_producer) == sizeof(int) &&
		       sizeof(enum prepare) == sizeof(int),
	"enums are stored as int");

/* clang-format off */
const struct section option_sections[] = {
	{ "inbox", SECTION_FIXED, NULL,
		"Schema, name, ordering and limits of this instance." },
	{ "kafka", SECTION_OPEN, "librdkafka",
		"Topics and the connection to Kafka. Every other key is a librdkafka "
		"configuration property and is passed to librdkafka as it is written, numbers "
		"without a unit; "
		"`bootstrap.servers` and `group.id` are required." },
	{ "postgres", SECTION_OPEN, "libpq",
		"Connection to the service's database. Every other key is a libpq connection "
		"keyword and is passed to libpq as it is written. Without keys, libpq uses "
		"its own defaults and the `PG*` variables.", true },
	{ "ingest", SECTION_FIXED, NULL,
		"Reading from Kafka and storing in the table." },
	{ "topics", SECTION_PER_TOPIC, NULL,
		"Rules for one topic, under its name, or for all other topics, under "
		"`\"*\"`. A key that is not written for a topic has the value of `\"*\"`, "
		"else the default. `--set topics.TOPIC.key=value` sets a rule, too; the "
		"topic is the text between the first and the last dot. Environment "
		"variables cannot set rules." },
	{ "consumers", SECTION_PER_CONSUMER, NULL,
		"Consumers of the messages, each under its name: lower-case letters, digits, "
		"`.`, `_` and `-`, at most 63 characters. Each message is stored once for "
		"each consumer that wants it, and each consumer has its own order, attempts "
		"and handlers. Without this section there is one consumer, which has no name "
		"and wants all messages. `--set consumers.NAME.key=value` sets a key, too; "
		"environment variables cannot. See docs/concepts.md." },
	{ "handlers", SECTION_PER_HANDLER, NULL,
		"SQL handlers, each under its name: functions of the service's database that "
		"inboxd calls itself, in the transaction that marks the message processed. "
		"Handlers that connect to the socket are not listed here. "
		"`--set handlers.NAME.key=value` sets a key, too; environment variables "
		"cannot. See docs/handlers.md." },
	{ "retry", SECTION_FIXED, NULL,
		"Attempts and delays for messages that a handler could not process, and the "
		"dead topic." },
	{ "outbox", SECTION_FIXED, NULL,
		"Publishing events that the service and its handlers emit; see docs/outbox.md. One "
		"instance of a schema publishes at a time." },
	{ "worker", SECTION_FIXED, NULL,
		"Claiming and settling messages in the table, and the lease of this "
		"instance." },
	{ "socket", SECTION_FIXED, NULL,
		"The Unix socket to which handlers connect." },
	{ "requests", SECTION_FIXED, NULL,
		"Requests with an idempotency key; see docs/idempotency-keys.md. The functions in "
		"the database need no configuration." },
	{ "http", SECTION_FIXED, NULL,
		"The HTTP server for metrics and health." },
	{ "otlp", SECTION_FIXED, NULL,
		"Spans of the processing of messages, for an OpenTelemetry collector; see "
		"docs/administration.md." },
	{ "retention", SECTION_FIXED, NULL,
		"How long rows are kept, measured on PostgreSQL's clock. A row that is "
		"neither processed nor dead is never deleted. One instance of a schema "
		"deletes at a time; see docs/administration.md." },
	{ "log", SECTION_FIXED, NULL,
		"Log lines on stderr. They never contain payloads or secrets." },
	{ NULL },
};

/* In the order of the sections above. Each default, limit and word is a promise to those who have written
 * a configuration. */
const struct option option_table[] = {
	/* PostgreSQL cuts longer names to 63 bytes, so that two of them could be the same. */
	{ "inbox", "schema", OPTION_STRING, .text = "inbox", .check = check_schema, .min = 1,
		.max = 63, AT(inbox.schema),
		.help = "PostgreSQL schema for all tables, views and functions of inboxd." },
	/* No default text: it is the name of the host, which fits into 255 bytes. */
	{ "inbox", "instance", OPTION_STRING, .text = "", .hostname = true,
		.check = check_instance, .min = 1, .max = 255, AT(inbox.instance),
		.help = "Name of this instance in tables, logs and spans. Its database sessions are "
			"named `inboxd/ID` after its instance id." },
	{ "inbox", "ordering", OPTION_ENUM, .text = "key", .words = ordering_words,
		AT(inbox.ordering),
		.help = "Ordering guarantee: per key, per partition, or none. Messages of "
			"one key (or of one partition) are processed one after the other, "
			"in the order of Kafka. With `key`, messages without a key have no "
			"order." },
	{ "inbox", "next_after", OPTION_ENUM, .text = "answer", .words = next_after_words,
		AT(inbox.next_after),
		.help = "When the next message of a key (or of a partition) is delivered: after "
			"the handler has answered `done`, or after that answer is committed. "
			"With `answer`, a handler can see the last messages of a key again, in "
			"their order, after a crash, a lost lease or a failover. With `commit` it "
			"sees at most one again, and each message of a key costs one commit." },
	{ "inbox", "max_unsettled_per_key", OPTION_INT, .text = "256", .min = 1, .max = 100000,
		AT(inbox.max_unsettled_per_key),
		.help = "Maximum number of messages of one key (or of one partition) whose "
			"answers are not committed yet. When a key reaches it, inboxd delivers no "
			"further message of this key until an answer is committed. It limits what "
			"a handler can see again after a crash. With one hot key and slow commits it also "
			"limits the rate." },
	{ "inbox", "max_in_flight", OPTION_INT, .text = "1000", .min = 1, .max = 1000000,
		.reloadable = true, AT(inbox.max_in_flight),
		.help = "Maximum number of messages in flight, that is, delivered and not "
			"yet settled, for all handlers together. Verdicts that wait for the "
			"commit of an earlier one of their key do not count. Each connected "
			"handler has a share of it, so it should be at least the number of handlers "
			"(see *What handlers share* in `concepts.md`)." },
	/* validate.c keeps this one above max_in_flight and worker.claim_batch. */
	{ "inbox", "max_claimed", OPTION_INT, .text = "20000", .min = 1, .max = 10000000,
		.reloadable = true, AT(inbox.max_claimed),
		.help = "Maximum number of messages that this instance holds: those that wait "
			"in memory, and those that are delivered and not settled. When it is "
			"reached, ingest waits up to two seconds for room; then it stores new "
			"rows as waiting. Each connected handler has a share of it, and of "
			"`inbox.max_claimed_bytes`." },
	{ "inbox", "max_claimed_bytes", OPTION_SIZE, .text = "32MiB", .min = KIB,
		.max = 1024 * GIB, .reloadable = true, AT(inbox.max_claimed_bytes),
		.help = "Maximum size of the claimed messages in memory. A message that is "
			"larger than this is claimed alone." },
	{ "inbox", "handler_memory", OPTION_DURATION, .text = "10m", .min = 0, .max = 30 * DAY,
		.reloadable = true, AT(inbox.handler_memory),
		.help = "How long a handler stays known after its last connection. Messages "
			"for a known handler that is not connected wait for it. With `0`, "
			"only connected handlers are known." },
	{ "inbox", "handler_absence", OPTION_DURATION, .text = "30s", .min = SECOND, .max = DAY,
		.never = true, AT(inbox.handler_absence),
		.help = "How long messages of this instance may need a handler that is "
			"missing here and that another instance has connected. Then this "
			"instance leaves the consumer group, unless half of the instances "
			"have left it. It joins again when the handler connects, or when "
			"the other instance is gone." },
	{ "inbox", "shutdown_timeout", OPTION_DURATION, .text = "25s", .min = 0, .max = HOUR,
		AT(inbox.shutdown_timeout),
		.help = "Maximum duration of a stop, including the deliveries in progress. "
			"Set it below the grace period of the service manager or "
			"orchestrator." },

	/* Empty by default, and checked in validate.c: `inboxd migrate` needs no topics, and neither does the outbox. */
	{ "kafka", "topics", OPTION_LIST, .text = "", .check = check_topic_pattern, .min = 0,
		.max = 10000, AT(kafka_topics),
		.help = "Topics to read. A name that starts with `^` is a regular "
			"expression. Required, except with `outbox.enabled`: without topics the "
			"sidecar only publishes events." },
	/* validate.c wants an absolute path of both. */
	{ "kafka", "oauth_token_file", OPTION_STRING, .text = "", .min = 0, .max = 4095,
		AT(kafka_oauth_token_file),
		.help = "File with the token for `sasl.mechanism: OAUTHBEARER`, an absolute path. "
			"inboxd reads it again within two seconds after it was replaced. The content is the "
			"token, or the JSON object of `oauth_token_command`. See *Logins at clouds* in "
			"`deployment.md`." },
	{ "kafka", "oauth_token_command", OPTION_LIST, .text = "", .min = 0, .max = 64,
		.command = true, AT(kafka_oauth_token_command),
		.help = "Program that prints the token for `sasl.mechanism: OAUTHBEARER`, as an "
			"absolute path, and its arguments. Only root and the user of inboxd may be able "
			"to write the program, links to it, and the directories above them. It prints "
			"`{\"token\": TEXT, \"expires_at_ms\": NUMBER, \"principal\": TEXT, "
			"\"extensions\": {NAME: TEXT}}` and ends with exit code 0 within 20 seconds. "
			"For a JSON Web Token, `token` alone will do. See *Logins at clouds* in "
			"`deployment.md`." },

	{ "kafka", "certificate_spread", OPTION_DURATION, .text = "5m", .min = 0, .max = DAY,
		.reloadable = true, AT(kafka_certificate_spread),
		.help = "After a change of a certificate or key file (`ssl.*`), the sidecar makes its "
			"clients again at a random time within this duration, so that many sidecars "
			"do not do it at once. If no broker answers, it does not wait. See "
			"*Renewed certificates* in `deployment.md`." },

	{ "postgres", "prepare", OPTION_ENUM, .text = "auto", .words = prepare_words, AT(prepare),
		.help = "Whether inboxd prepares its most frequent statements under names, so that "
			"PostgreSQL parses and plans them once a connection. `auto`: unless there is a "
			"connection pooler that does not support it (see *Connection poolers* in "
			"`deployment.md`). `always`: without asking." },

	{ "ingest", "batch_messages", OPTION_INT, .text = "2000", .min = 1, .max = 100000,
		AT(ingest.batch_messages),
		.help = "Maximum number of messages that one transaction stores." },
	/* validate.c bounds the sum of batch_bytes and max_payload: both go into one statement. */
	{ "ingest", "batch_bytes", OPTION_SIZE, .text = "8MiB", .min = KIB, .max = 512 * MIB,
		AT(ingest.batch_bytes),
		.help = "Maximum number of bytes that one transaction stores. A message "
			"that is larger than this is stored alone." },
	{ "ingest", "batch_wait", OPTION_DURATION, .text = "5ms", .min = 0, .max = MINUTE,
		AT(ingest.batch_wait),
		.help = "How long a batch that is not full waits for more messages. It is "
			"stored earlier when no message arrives for a fifth of this time, and at "
			"once when less than one message is expected within this time, from the "
			"rate of the last messages." },
	{ "ingest", "max_pending", OPTION_INT, .text = "1000000", .min = 1, .max = 1000000000000,
		AT(ingest.max_pending),
		.help = "Maximum number of messages that are waiting, claimed or unrouted, of all "
			"consumers together. "
			"The number is an estimate and does not include rows that are "
			"parked behind a failing message. Above it, partitions are paused; "
			"below 90 % of it, they are resumed." },
	{ "ingest", "max_payload", OPTION_SIZE, .text = "16MiB", .min = 1, .max = 512 * MIB,
		AT(ingest.max_payload),
		.help = "Maximum size of a payload. A record with a larger payload is "
			"rejected. The reject keeps a payload of at most twice this size, "
			"and otherwise its first 64 KiB. A key with headers of more than "
			"16 MiB is rejected, too." },

	{ "topics", "accept", OPTION_LIST, .text = "*", .check = check_type_pattern, .min = 1,
		.max = 1000, AT_TOPIC(accept),
		.help = "Event types to store. A `*` at the end makes a prefix. Messages of "
			"other types are counted and skipped." },
	/* No member of the body is a default: many bodies have an `id` that is not the event's. */
	{ "topics", "id", OPTION_LIST,
		.text = "header:ce_id,header:id,header:event-id,header:eventId,"
			"header:idempotency-key,header:message-id",
		.check = check_id_locator, .min = 0, .max = 100, AT_TOPIC(id),
		.help = "Where to find the event id: a list of locations, tried in order. A "
			"location is `header:NAME`, `key` or `json:/POINTER`. Do not name a "
			"field that identifies an entity: the second event of the entity "
			"would be taken for a duplicate and lost. The value must be "
			"different for each event." },
	{ "topics", "missing_id", OPTION_FLAG, .text = "coordinates", .words = missing_id_words,
		AT_TOPIC(missing_id_rejects),
		.help = "What to do with a message without an id: use its coordinates, "
			"`topic/partition/offset@timestamp`, as the id, or reject it. If the topic "
			"was created again, `#` and the generation follow." },
	{ "topics", "type", OPTION_LIST,
		.text = "header:ce_type,header:eventType,header:event-type,header:type,topic",
		.check = check_name_locator, .min = 0, .max = 100, AT_TOPIC(type),
		.help = "Where to find the event type: a list of locations, tried in order. A "
			"location is `header:NAME`, `json:/POINTER`, `topic` or "
			"`literal:TEXT`." },
	{ "topics", "source", OPTION_LIST, .text = "header:ce_source,topic",
		.check = check_name_locator, .min = 1, .max = 100, AT_TOPIC(source),
		.help = "Where to find the source: a list of locations, tried in order. A "
			"location is `header:NAME`, `json:/POINTER`, `topic` or "
			"`literal:TEXT`. An event id is unique within its source." },

	{ "consumers", "topics", OPTION_LIST, .text = "", .check = check_topic_pattern,
		.min = 0, .max = 1000, AT_CONSUMER(topics),
		.help = "Topics whose messages the consumer wants. A name that starts with `^` "
			"is a regular expression." },
	{ "consumers", "types", OPTION_LIST, .text = "", .check = check_type_pattern, .min = 0,
		.max = 1000, AT_CONSUMER(types),
		.help = "Event types that the consumer wants. A `*` at the end makes a prefix. "
			"A record that no consumer wants is counted "
			"(`inboxd_unwanted_total`) and not stored." },
	{ "consumers", "ordering", OPTION_ENUM, .text = "key", .words = ordering_words,
		.general = "inbox", AT_CONSUMER(ordering),
		.help = "Ordering guarantee for this consumer." },
	{ "consumers", "max_attempts", OPTION_INT, .text = "10", .min = 1, .max = 1000000,
		.general = "retry", AT_CONSUMER(max_attempts),
		.help = "Number of attempts after which a message is dead for this consumer." },
	{ "consumers", "backoff", OPTION_DURATION, .text = "1s", .min = 0, .max = YEAR,
		.general = "retry", AT_CONSUMER(backoff),
		.help = "Delay before the second attempt for this consumer." },
	{ "consumers", "backoff_max", OPTION_DURATION, .text = "5m", .min = 0, .max = YEAR,
		.general = "retry", AT_CONSUMER(backoff_max),
		.help = "Maximum delay between two attempts for this consumer." },
	{ "consumers", "timeout", OPTION_DURATION, .text = "30s", .min = 1, .max = YEAR,
		AT_CONSUMER(timeout),
		.help = "How long a delivery may take, if the hello of the handler does not "
			"say it (`timeout_ms`)." },

	{ "handlers", "call", OPTION_STRING, .text = "", .check = check_function, .min = 0,
		.max = 200, AT_HANDLER(call),
		.help = "The function, with its schema: `orders.on_event`. It has one parameter, a "
			"row of the view `inbox.messages`, and returns `void`, or `jsonb`, which "
			"becomes the result of the message. Required." },
	{ "handlers", "topics", OPTION_LIST, .text = "", .check = check_topic_or_none, .min = 0,
		.max = 1000, AT_HANDLER(topics),
		.help = "Topics whose messages the handler gets." },
	{ "handlers", "types", OPTION_LIST, .text = "", .check = check_type_pattern, .min = 0,
		.max = 1000, AT_HANDLER(types),
		.help = "Event types that the handler gets. A `*` at the end makes a prefix." },
	{ "handlers", "consumer", OPTION_STRING, .text = "", .check = check_consumer_or_none,
		.min = 0, .max = 63, AT_HANDLER(consumer),
		.help = "Consumer whose messages the handler gets. If it is not written: the "
			"consumer that is called like the handler, else the one without a name." },
	{ "handlers", "role", OPTION_STRING, .text = "", .min = 0, .max = 63, AT_HANDLER(role),
		.help = "Role with whose rights the function runs (`SET LOCAL ROLE`). If it is not "
			"written, it runs with the rights of the sidecar." },
	{ "handlers", "timeout", OPTION_DURATION, .text = "30s", .min = 10, .max = DAY,
		AT_HANDLER(timeout),
		.help = "How long one call may take (`statement_timeout`). A call that takes longer "
			"is rolled back and counts as a failed attempt with the code `TIMEOUT`." },
	{ "handlers", "batch", OPTION_INT, .text = "50", .min = 1, .max = 1000, AT_HANDLER(batch),
		.help = "Maximum number of messages in one transaction. Each has a savepoint of its "
			"own." },
	{ "handlers", "connections", OPTION_INT, .text = "1", .min = 1, .max = 64,
		AT_HANDLER(connections),
		.help = "Connections to PostgreSQL, that is, how many transactions of the handler "
			"run at the same time." },

	{ "retry", "max_attempts", OPTION_INT, .text = "10", .min = 1, .max = 1000000,
		.reloadable = true, AT(retry.max_attempts),
		.help = "Number of attempts after which a message is dead." },
	{ "retry", "backoff", OPTION_DURATION, .text = "1s", .min = 0, .max = YEAR,
		.reloadable = true, AT(retry.backoff),
		.help = "Delay before the second attempt. It doubles with each attempt, "
			"with full jitter." },
	{ "retry", "backoff_max", OPTION_DURATION, .text = "5m", .min = 0, .max = YEAR,
		.reloadable = true, AT(retry.backoff_max),
		.help = "Maximum delay between two attempts." },
	{ "retry", "max_crashes", OPTION_INT, .text = "3", .min = 1, .max = 1000000,
		.reloadable = true, AT(retry.max_crashes),
		.help = "Number of crashes after which a message is dead. A crash is the end "
			"of a handler's connection while the handler processed that message "
			"alone." },
	/* 249 bytes are Kafka's limit. */
	{ "retry", "dead_topic", OPTION_STRING, .text = "", .check = check_topic_or_none,
		.min = 0, .max = 249, .reloadable = true, AT(retry.dead_topic),
		.help = "Topic to which inboxd also produces dead messages, each at least "
			"once. This includes messages that are dead already when the key is "
			"set, and excludes discarded ones; see docs/administration.md. Empty: "
			"none." },

	{ "outbox", "enabled", OPTION_FLAG, .text = "false", .words = no_yes_words,
		AT(outbox.enabled),
		.help = "Whether this instance can be elected to publish events. With `false`, it runs "
			"neither the relay nor the retention of the outbox." },
	{ "outbox", "topic", OPTION_STRING, .text = "{aggregate}", .min = 1, .max = 249,
		.check = check_outbox_topic, .reloadable = true, AT(outbox.topic),
		.help = "Topic of events that were emitted without a topic. inboxd replaces "
			"`{aggregate}` and `{type}` by the values of the event." },
	{ "outbox", "source", OPTION_STRING, .text = "", .min = 0, .max = 1024,
		.reloadable = true, AT(outbox.source),
		.help = "CloudEvents source of events that were emitted without a source. Empty: "
			"`/` and the value of `kafka.group.id`." },
	{ "outbox", "format", OPTION_ENUM, .text = "cloudevents", .words = outbox_format_words,
		.reloadable = true, AT(outbox.format),
		.help = "Form of the records: CloudEvents attributes in headers (`cloudevents`), the "
			"whole event as JSON in the value (`structured`), or the value with the "
			"headers `event-id` and `content-type` (`plain`)." },
	{ "outbox", "batch_messages", OPTION_INT, .text = "2000", .min = 1, .max = 100000,
		.reloadable = true, AT(outbox.batch_messages),
		.help = "Maximum number of events that are sent and recorded together." },
	{ "outbox", "batch_bytes", OPTION_SIZE, .text = "4MiB", .min = KIB, .max = GIB,
		.reloadable = true, AT(outbox.batch_bytes),
		.help = "Size of the events that are sent and recorded together. The event that "
			"reaches this size is the last one of them." },
	{ "outbox", "poll", OPTION_DURATION, .text = "10ms", .min = 1, .max = MINUTE,
		.reloadable = true, AT(outbox.poll),
		.help = "Time from one read of the table to the next after events were found. Each "
			"read that finds nothing doubles it, up to `poll_idle`." },
	{ "outbox", "poll_idle", OPTION_DURATION, .text = "100ms", .min = 1, .max = MINUTE,
		.reloadable = true, AT(outbox.poll_idle),
		.help = "Longest time from one read of the table to the next." },
	{ "outbox", "max_attempts", OPTION_INT, .text = "10", .min = 1, .max = 1000,
		.reloadable = true, AT(outbox.max_attempts),
		.help = "How often an event that its topic refuses is sent before it is dead. The "
			"delays are those of `retry.backoff` and `retry.backoff_max`. Failures of "
			"brokers and topics do not count." },
	{ "outbox", "producer", OPTION_ENUM, .text = "idempotent", .words = outbox_producer_words,
		AT(outbox.producer),
		.help = "`transactional` sends each batch in a Kafka transaction. When another "
			"instance is elected and publishes its first event, the brokers refuse "
			"the transactions of the earlier one. Receivers that read only committed "
			"records get fewer copies, but can still get some. See docs/outbox.md." },

	{ "worker", "connections", OPTION_INT, .text = "2", .min = 1, .max = 64,
		AT(worker.connections),
		.help = "Number of database connections that claim and settle. With more "
			"than two, and with `inbox.ordering: none`, several claims run in "
			"parallel while many messages are due; with an order, claims run "
			"one at a time. All but the first are opened when several "
			"statements run at the same time, and closed after a minute without "
			"one. Each instance has at most four more connections: for ingest, "
			"for the heartbeat, for retention, and, while there is such work, "
			"for fencing and rescue. `retry.dead_topic` and "
			"`outbox.enabled` add one each." },
	{ "worker", "claim_batch", OPTION_INT, .text = "500", .min = 1, .max = 100000,
		AT(worker.claim_batch),
		.help = "Maximum number of rows that one statement claims." },
	{ "worker", "poll", OPTION_DURATION, .text = "5s", .min = 10, .max = HOUR,
		AT(worker.poll),
		.help = "Interval between two searches for due rows. It is twice as long "
			"when the last search found none. Every five seconds, or every "
			"third of `worker.lease` if that is shorter, inboxd reads when "
			"the next row is due. With the default, it searches at that time "
			"only. A shorter or longer interval is kept." },
	/* There are three heartbeats a lease; below 3s a short pause of PostgreSQL would end it. */
	{ "worker", "lease", OPTION_DURATION, .text = "15s", .min = 3 * SECOND, .max = HOUR,
		AT(worker.lease),
		.help = "An instance whose last heartbeat is older than this is dead: it is "
			"fenced, and its rows are rescued." },

	/* 4096 is only a bound: check_socket_path() allows what the kernel does. */
	{ "socket", "path", OPTION_STRING, .text = "/run/inboxd/inbox.sock",
		.check = check_socket_path, .min = 1, .max = 4096, AT(socket.path),
		.help = "Path of the socket." },
	{ "socket", "mode", OPTION_MODE, .text = "0660", .min = 0, .max = 0777, AT(socket.mode),
		.help = "File mode of the socket, in octal." },
	{ "socket", "group", OPTION_STRING, .text = "", .min = 0, .max = 255, AT(socket.group),
		.help = "Group of the socket. Empty: the group of the process." },
	{ "socket", "allow_uid", OPTION_UIDS, .text = "", .min = 0, .max = 1000,
		AT(socket.allow_uid),
		.count_offset = offsetof(struct config, socket.allow_uid_count),
		.help = "Numeric ids of the users that may connect. Empty: every user that "
			"the file mode allows." },

	{ "requests", "socket", OPTION_FLAG, .text = "false", .words = no_yes_words,
		AT(requests.socket),
		.help = "Whether clients of the socket can begin and complete requests with an "
			"idempotency key. Every user that may connect to the socket can then read "
			"the results of all messages, and each stored response whose key and "
			"fingerprint it knows." },

	{ "http", "listen", OPTION_STRING, .text = "127.0.0.1:9464", .check = check_listen,
		.min = 0, .max = 255, AT(http.listen),
		.help = "Address of /metrics, /livez, /readyz, /status, /config and /log-level. "
			"/config can be read, and /log-level can be changed, from this host only, and not through a proxy. Empty: off." },

	{ "otlp", "endpoint", OPTION_STRING, .text = "", .check = check_otlp_endpoint, .min = 0,
		.max = 1024, AT(otlp.endpoint),
		.help = "Address to which spans are sent, with OTLP/HTTP as JSON: "
			"http://host:4318. Without a path, /v1/traces is used. TLS is not "
			"supported. Empty: off." },
	{ "otlp", "service_name", OPTION_STRING, .text = "", .min = 0, .max = 255,
		AT(otlp.service_name),
		.help = "`service.name` of the spans. Empty: `kafka.group.id`." },
	{ "otlp", "sample", OPTION_INT, .text = "1", .min = 1, .max = 1000000, AT(otlp.sample),
		.help = "One in this many traces is sent; the trace id decides which. "
			"Messages whose `traceparent` is not sampled are never sent." },

	{ "retention", "processed", OPTION_DURATION, .text = "14d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.processed),
		.help = "How long processed rows are kept. Choose more than the retention "
			"of the topics (Kafka's default: 7 days and the active segment). "
			"Otherwise duplicates are not recognised when the topics are read "
			"again." },
	{ "retention", "payload", OPTION_DURATION, .text = "7d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.payload),
		.help = "How long payload and headers of processed rows are kept. The id is "
			"kept for as long as `processed` says. A message without its "
			"payload cannot be replayed." },
	/* Dead rows are kept until an operator decides, because each of them is a message that had no effect. */
	{ "retention", "dead", OPTION_DURATION, .text = "never", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.dead),
		.help = "How long dead rows are kept." },
	{ "retention", "rejects", OPTION_DURATION, .text = "30d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.rejects),
		.help = "How long rejects are kept." },
	{ "retention", "conflicts", OPTION_DURATION, .text = "30d", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.conflicts),
		.help = "How long conflicts are kept." },
	{ "retention", "audit", OPTION_DURATION, .text = "1y", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.audit),
		.help = "How long audit lines are kept." },
	{ "retention", "outbox", OPTION_DURATION, .text = "0", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.outbox),
		.help = "How long published events are kept, so that they can be published again. "
			"With `0` they are deleted as soon as the brokers have confirmed them." },
	{ "retention", "outbox_dead", OPTION_DURATION, .text = "never", .min = 0, .max = 100 * YEAR,
		.never = true, .reloadable = true, AT(retention.outbox_dead),
		.help = "How long dead events are kept." },

	{ "log", "level", OPTION_ENUM, .text = "info", .words = level_words, .reloadable = true,
		AT(log.level),
		.help = "Lowest level of the lines that are written. PUT /log-level changes it until the "
			"next SIGHUP or start." },
	{ "log", "format", OPTION_FLAG, .text = "logfmt", .words = format_words,
		.reloadable = true, AT(log.json),
		.help = "Format of a log line." },

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

bool section_has_scopes(const struct section *section)
{
	return section->kind == SECTION_PER_TOPIC || section->kind == SECTION_PER_CONSUMER ||
	       section->kind == SECTION_PER_HANDLER;
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
