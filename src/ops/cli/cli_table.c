/*
 * The rows of cli_table.h. Each help text ends with a line break; its lines have at most 88
 * characters.
 */
#include "ops/cli/cli_table.h"

#include <stdint.h>

#define FOR(command) (1U << (command))
#define FOR_ALL      (~0U)
#define FOR_CONFIG   (~CLI_BRIDGES)
#define FOR_FILTER                                                                                 \
	(FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY) | FOR(COMMAND_RETRY) | FOR(COMMAND_DISCARD) |     \
		FOR(COMMAND_OUTBOX))
#define FOR_IDS                                                                                    \
	(FOR(COMMAND_SHOW) | FOR(COMMAND_EXPORT) | FOR(COMMAND_REPLAY) | FOR(COMMAND_RETRY) |      \
		FOR(COMMAND_RESOLVE) | FOR(COMMAND_DISCARD))
#define FOR_CHANGE                                                                                 \
	(FOR(COMMAND_REPLAY) | FOR(COMMAND_RETRY) | FOR(COMMAND_RESOLVE) | FOR(COMMAND_DISCARD) |  \
		FOR(COMMAND_PURGE) | FOR(COMMAND_ADOPT) | FOR(COMMAND_SEEK) | FOR(COMMAND_SKIP) |  \
		FOR(COMMAND_BACKFILL) | FOR(COMMAND_OUTBOX) | FOR(COMMAND_REQUESTS))
#define FOR_MANY                                                                                   \
	(FOR(COMMAND_REPLAY) | FOR(COMMAND_RETRY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_PURGE) |    \
		FOR(COMMAND_BACKFILL))
#define FOR_PAGES                                                                                  \
	(FOR(COMMAND_LIST) | FOR(COMMAND_KEYS) | FOR(COMMAND_AUDIT) | FOR(COMMAND_OUTBOX) |        \
		FOR(COMMAND_REQUESTS))
#define FOR_PAUSES (FOR(COMMAND_PAUSE) | FOR(COMMAND_RESUME))
#define FOR_LISTS  (FOR(COMMAND_HANDLERS) | FOR(COMMAND_CONSUMERS))

/* clang-format off */
const struct command_row cli_commands[] = {
	{ COMMAND_RUN, "run", "Read Kafka, store messages, and deliver them to the handlers", "",
		"Runs inboxd until SIGTERM or SIGINT. SIGHUP reads the configuration again. The schema\n"
		"must have the version of this program; `inboxd migrate` updates it.\n", 0 },
	{ COMMAND_MIGRATE, "migrate", "Create the database schema or update it", "",
		"Applies the missing migrations. Each one is a transaction, and only one process migrates\n"
		"at a time. The database user must be allowed to create the schema.\n", 0 },
	{ COMMAND_CHECK, "check", "Print the effective configuration and test it", "",
		"Prints every effective value and its origin, with secrets masked. Then it tests Kafka,\n"
		"PostgreSQL, the schema, the privileges, the socket with its directory, and the HTTP port.\n"
		"Run it as the database user of `run`, because an operator lacks its privileges. It\n"
		"changes nothing. With --json: one object. Exit code 3: PostgreSQL cannot be reached;\n"
		"otherwise 4: Kafka cannot be reached; otherwise 6: another check failed, also one for\n"
		"which `run` exits with 2, 3 or 5.\n", 0 },
	{ COMMAND_CONFIG, "config", "Print the configuration of the running sidecar", "",
		"Asks the inboxd that listens on http.listen for the configuration that it uses. Prints\n"
		"each value with secrets masked, where it is from, what a change of it needs (SIGHUP or\n"
		"restart), and what waits for a restart. If nobody listens there: the configuration that\n"
		"one would start with. With --json: as GET /config. Also works when the file cannot be\n"
		"loaded and a sidecar runs. Exit code 6: another program answers, or the sidecar refuses.\n", 0 },
	{ COMMAND_INIT, "init", "Write a configuration file for a topic, a broker and a database",
		"TOPIC BROKER DATABASE",
		"Connects to the broker (HOST:PORT) and to the database, says what is wrong, and writes a\n"
		"commented configuration file: --config, otherwise INBOXD_CONFIG, otherwise inboxd.yaml.\n"
		"TOPIC can be several, separated by commas. DATABASE is postgres://USER@HOST:PORT/NAME, or\n"
		"\"host=... user=... dbname=...\". The file has what was checked, also each --set. Secrets\n"
		"are not written. An existing file stays as it is. Exit code 3: PostgreSQL cannot be\n"
		"reached; otherwise 4: Kafka cannot be reached; otherwise 6: a topic is missing, or may not\n"
		"be read. No file is written then. With --force it is written, and the exit code is 0.\n", 3 },
	{ COMMAND_STATUS, "status", "Show waiting and dead messages, partitions and instances", "",
		"Counts stop at 10000, so that the command is equally fast for tables of any size.\n", 0 },
	{ COMMAND_LIST, "list", "List messages, rejects or conflicts", "",
		"Lists the messages that match all filters, oldest first; with --dead those that died last\n"
		"first, and --since and --until are about the time of death. For the next page give --after\n"
		"with the last seq of this page. With --dead --group: groups of messages with the same\n"
		"error, with counts. With --rejects or --conflicts: records that did not become messages;\n"
		"filters are topic, key, time, and --error for the reason of a reject. A page also ends\n"
		"after 100000 messages that do not match; stderr then names the seq to continue after.\n", 0 },
	{ COMMAND_SHOW, "show", "Show one message: payload, headers, timeline, errors", "EVENT_ID|SEQ|RECORD",
		"Shows everything about one message, which is named as `list` prints it: by its event id,\n"
		"its seq (1407) or its record (orders/0/389). If the name is an event id and also a seq or\n"
		"a record, the event id is taken, and stderr says so; --by selects another. If several\n"
		"sources have the event id, select one with --source. A message has a state for each of its\n"
		"consumers: --consumer selects one, and so does a seq.\n", 1 },
	{ COMMAND_EXPORT, "export", "Print a message as a test case for the handler libraries", "EVENT_ID|SEQ|RECORD",
		"Prints one JSON object: the params of a delivery of the message, as a handler gets them,\n"
		"with the claim \"exported\". The test kits of the libraries deliver it to a function. The\n"
		"argument is as for `show`. --redact replaces a value by an empty one of its kind; if a\n"
		"pointer fits nothing, the command prints nothing and ends with exit code 6.\n", 1 },
	{ COMMAND_REPLAY, "replay", "Process processed or dead messages again", "[EVENT_ID]...",
		"Processes messages again: those given by event id, or those that match the filters\n"
		"(--status dead by default). With --rejects: applies the present rules to the rejects.\n"
		"With --conflict: gives a dead message the payload of another record with its id.\n"
		"A message that is being processed is never changed.\n", SIZE_MAX },
	{ COMMAND_RETRY, "retry", "Make waiting retries due now", "[EVENT_ID]...",
		"Ends the wait of messages for their next attempt or for the end of a snooze: those given\n"
		"by event id, or those that match the filters (--status retrying by default). No attempt\n"
		"is spent, and none is given back. A message that waits for an earlier one of its key, or\n"
		"for a handler, does not change.\n", SIZE_MAX },
	{ COMMAND_RESOLVE, "resolve", "Make dead messages processed", "EVENT_ID...",
		"Sets dead messages to processed, because somebody has done their work by other means.\n"
		"--reason is required. It becomes the error of the message, with the code RESOLVED, and is\n"
		"in the audit table. `replay --status dead` does not process such a message again;\n"
		"`replay EVENT_ID` does.\n", SIZE_MAX },
	{ COMMAND_DISCARD, "discard", "Give waiting or dead messages up", "[EVENT_ID]...",
		"Gives waiting or dead messages up: those with the given event ids, or those that match the\n"
		"filters (--status waiting by default). A discarded message is dead, with the code DISCARDED.\n"
		"Counts and lists of dead messages leave it out. `list --status discarded` lists it, and\n"
		"`replay EVENT_ID` replays it.\n", SIZE_MAX },
	{ COMMAND_PURGE, "purge", "Delete messages that were processed long ago", "",
		"Deletes messages that were processed before --older-than, oldest first. If Kafka still\n"
		"has such a record and it is read again, it becomes a new message.\n", 0 },
	{ COMMAND_ADOPT, "adopt", "Bind the schema to this Kafka cluster and group", "",
		"A schema belongs to the Kafka cluster and group.id of its first run, and inboxd refuses\n"
		"to run with another pair. This command binds it to the configured cluster and group.\n"
		"Stop all instances first.\n", 0 },
	{ COMMAND_VERIFY, "verify", "Prove that records of Kafka are in the inbox", "",
		"Reads a range of a topic again, without joining the group and without committing, and\n"
		"looks up each record: stored, duplicate, conflict, rejected or not accepted. Lists the\n"
		"records that are in no table; the exit code is then 6. It identifies records by the\n"
		"present rules under `topics`, so a message is also missing if it was purged, or if other\n"
		"rules gave it another id.\n", 0 },
	{ COMMAND_SEEK, "seek", "Read a partition of Kafka again, or skip records",
		"TOPIC PARTITION OFFSET|--to-time TIME",
		"Moves the watermark of a partition. A running instance continues there within seconds.\n"
		"OFFSET is a number, beginning or end. Records that are read again are duplicates, unless\n"
		"their messages were deleted: those are processed again. Skipped records are never stored\n"
		"and never processed. --dry-run prints the number of both and changes nothing.\n", 3 },
	{ COMMAND_HANDLERS, "handlers", "List the known handlers, or remove one", "[forget NAME]",
		"Lists the handlers that are connected to any instance, or were connected within\n"
		"inbox.handler_memory. Messages for such a handler wait for it. `handlers forget NAME`\n"
		"removes a handler that will not come back: its messages go to the next handler that\n"
		"matches, or wait until one connects.\n", 2 },
	{ COMMAND_KEYS, "keys", "List blocked keys and the message that each waits for", "",
		"Lists the keys in which later messages wait until an earlier one is done. Prints this\n"
		"message, its state, error and next attempt, and the number of messages behind it. With\n"
		"`ordering: partition`, a line without a key is a whole partition. If there are more keys,\n"
		"stderr has the value of --after for the next page. `inboxd skip` gives a message up.\n", 0 },
	{ COMMAND_SKIP, "skip", "Give up the message that a key waits for", "[KEY]",
		"Sets the message to dead that the later messages of the key wait for. They are delivered\n"
		"within seconds. The message can be replayed. Write KEY as `inboxd keys` prints it. With\n"
		"`ordering: partition`, give --partition and no KEY. The command never changes a message\n"
		"that is being processed: it then ends with exit code 6.\n", 1 },
	{ COMMAND_PAUSE, "pause", "Stop delivery for a topic, a consumer or a handler", "",
		"Messages of the target wait, keep their order and spend no attempt. Those in flight\n"
		"finish. inboxd continues to store messages, unless --ingest is given for a topic. All\n"
		"sidecars of the schema apply the pause within two seconds, and after a restart.\n"
		"`inboxd status` lists the pauses.\n", 0 },
	{ COMMAND_RESUME, "resume", "Start delivery again after a pause", "",
		"Ends the pause of the topic, the consumer or the handler. If the pause also stopped\n"
		"reading, reading continues where it stopped.\n", 0 },
	{ COMMAND_AUDIT, "audit", "List what operators changed: who, when, what and why", "",
		"Lists the actions in the audit table, the newest first: those that commands and functions\n"
		"of the schema did. Searches the last 100000 actions. A plain UPDATE is not among them.\n", 0 },
	{ COMMAND_CONSUMERS, "consumers", "List the known consumers, rename or remove one",
		"[forget NAME | rename NAME NEW_NAME]",
		"Lists the known consumers: those that a running instance has in its configuration, or had\n"
		"within inbox.handler_memory. Messages are stored for all of them. Lapsed consumers, for\n"
		"which nothing more is stored, are listed, too. `consumers forget NAME` removes a consumer\n"
		"that will not come back; its rows stay. `consumers rename NAME NEW_NAME` gives a consumer\n"
		"and all its messages another name while the sidecars run. In configurations and handlers,\n"
		"the earlier name then means the same consumer. '' is the consumer without a name.\n", 3 },
	{ COMMAND_BACKFILL, "backfill", "Copy messages of other consumers to a new consumer", "NAME",
		"Copies the messages that the table still holds to a consumer that wants them and does not\n"
		"have them. The consumer gets the copies of a key in the order of Kafka, and before later\n"
		"messages of the key. Messages whose payload retention has dropped are left out and\n"
		"counted. No message is copied twice: to continue an interrupted backfill, run it again.\n", 1 },
	{ COMMAND_OUTBOX, "outbox", "Show the events of the outbox, publish them again, or discard them",
		"status|list|show|replay|discard [EVENT_ID]",
		"Works on the events that services and handlers have emitted. `status` counts them, `list`\n"
		"lists those that match the filters, `show` prints one (also by its seq). `replay` publishes dead (the\n"
		"default) or retrying events at once; with an event id, either. With --status published it\n"
		"sends copies of published events that were kept.\n"
		"`discard` gives events up that are not published, also dead ones. The filters are those of `list`,\n"
		"for events instead of messages; --since and --until compare the time of the emit.\n", 2 },
	{ COMMAND_REQUESTS, "requests", "Show requests with an idempotency key, or forget one",
		"list|show|forget [KEY]",
		"`list` prints the 100 requests that expire last. With --scope or --status it searches the\n"
		"last 100000. `show KEY` prints one request. With --body it also prints the response, which\n"
		"only the owner of the schema may read. `forget KEY` deletes a request, so that its next\n"
		"copy runs again. If several scopes have the key, select one with --scope.\n", 2 },
	{ COMMAND_EXEC, "exec", "Pass each message to a command: a handler without a library", "-- COMMAND [ARGUMENT]...",
		"Connects to the socket of inboxd as a handler, and runs COMMAND once for each message. The\n"
		"event is on stdin as JSON. Its attributes are in the environment: CE_ID, CE_TYPE and so\n"
		"on, and CE_INBOXCLAIM for inbox.complete(). The exit code is the verdict: 0 is done, 65\n"
		"dead, 75 and any other retry. With done, stdout is the result, if it is JSON. With retry\n"
		"and dead, the last line on stderr is the reason.\n"
		"\n"
		"With --lines, COMMAND goes on running. It reads each event as a line from stdin, and\n"
		"writes each answer as a line to stdout: `done`, `retry REASON`, `dead REASON`, `snooze 5s`,\n"
		"or a verdict as JSON.\n"
		"\n"
		"When the time for a message is over, the command is killed with its whole process group.\n"
		"SIGTERM lets running commands finish. A second SIGTERM kills them. exec reads no\n"
		"configuration file.\n", SIZE_MAX },
	{ COMMAND_FORWARD, "forward", "POST each message to a service: a handler without a library", "",
		"Connects to the socket of inboxd as a handler, and POSTs each message to --url as a\n"
		"CloudEvent over HTTP, with the header Idempotency-Key. The status of the response is the\n"
		"verdict. 2xx is done; a JSON body is then the result. 408, 409, 425, 3xx and 5xx are\n"
		"retry, after the time in Retry-After if it is given. 429, and 503 with Retry-After, are\n"
		"snooze: the message comes later and spends no attempt, and the service gets fewer messages\n"
		"for a while. Any other 4xx is dead. --status changes these verdicts. While the service\n"
		"cannot be reached, the messages wait and spend no attempt.\n"
		"\n"
		"SIGTERM lets open requests finish. forward reads no configuration file.\n", 0 },
	{ COMMAND_VERSION, "version", "Print the versions of the program and its libraries", "",
		"The line of librdkafka says whether it is in the program (static) or a library of the\n"
		"system (shared), and what it can do. `inboxd --version` does the same.\n", 0 },
};

const struct option_row cli_options[] = {
	{ 0, "migrate", NULL, FOR(COMMAND_RUN), KIND_FLAG, offsetof(struct cli, migrate),
		"update the schema first", NULL },
	{ 0, "roles", "PREFIX", FOR(COMMAND_MIGRATE), KIND_OPTIONAL, offsetof(struct cli, roles),
		"also create the roles PREFIX_sidecar, _handler, _service, _operator and _reader and grant their privileges; default: the prefix that the schema has, or inboxd", NULL },
	{ 0, "grant", "ROLE=USER", FOR(COMMAND_MIGRATE), KIND_TEXTS, offsetof(struct cli, grants),
		"with --roles: also grant the role (sidecar, handler, service, operator, reader) to an existing user; can be repeated", NULL },
	{ 0, "force", NULL, FOR(COMMAND_INIT), KIND_FLAG, offsetof(struct cli, force),
		"replace an existing file, and write the file even if a server cannot be reached", NULL },
	{ 0, "status", "STATUS", FOR(COMMAND_LIST), KIND_TEXT, offsetof(struct cli, filter.status),
		"only messages in this state; waiting includes retrying and parked",
		"waiting retrying parked claimed processed dead discarded" },
	{ 0, "status", "STATUS", FOR(COMMAND_REPLAY), KIND_TEXT, offsetof(struct cli, filter.status),
		"only messages in this state; default: dead", CLI_REPLAY_STATES },
	{ 0, "status", "STATUS", FOR(COMMAND_DISCARD), KIND_TEXT, offsetof(struct cli, filter.status),
		"only messages in this state; default: waiting, which includes retrying and parked",
		CLI_DISCARD_STATES },
	{ 0, "status", "STATUS", FOR(COMMAND_RETRY), KIND_TEXT, offsetof(struct cli, filter.status),
		"only messages in this state; default: retrying. waiting includes those that snooze", CLI_RETRY_STATES },
	{ 0, "status", "STATUS", FOR(COMMAND_OUTBOX), KIND_TEXT, offsetof(struct cli, filter.status),
		"only events in this state; waiting includes retrying and parked",
		"waiting retrying parked published dead discarded" },
	{ 0, "status", "STATUS", FOR(COMMAND_REQUESTS), KIND_TEXT, offsetof(struct cli, filter.status),
		"only requests in this state; lost: pending, and the lease is over",
		"pending completed failed lost" },
	{ 0, "scope", "SCOPE", FOR(COMMAND_REQUESTS), KIND_ANY_TEXT, offsetof(struct cli, filter.scope),
		"only requests of this scope; empty: those without one", NULL },
	{ 0, "body", NULL, FOR(COMMAND_REQUESTS), KIND_FLAG, offsetof(struct cli, body),
		"with show: print the headers and the body of the response, too", NULL },
	{ 0, "dead", NULL, FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY) | FOR(COMMAND_OUTBOX), KIND_FLAG, offsetof(struct cli, filter.dead),
		"the same as --status dead", NULL },
	{ 0, "group", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, filter.group),
		"with --dead or --status dead: groups with the same error, with counts", NULL },
	{ 0, "consumer", "NAME", (FOR_FILTER & ~FOR(COMMAND_OUTBOX)) | FOR(COMMAND_SHOW) | FOR(COMMAND_EXPORT) | FOR(COMMAND_RESOLVE) | FOR(COMMAND_KEYS), KIND_ANY_TEXT,
		offsetof(struct cli, filter.consumer), "only messages of this consumer; empty: of the one without a name", NULL },
	{ 0, "consumer", "NAME", FOR(COMMAND_HANDLERS), KIND_ANY_TEXT, offsetof(struct cli, filter.consumer),
		"with forget: only the handler of this consumer", NULL },
	{ 0, "consumer", "NAME", FOR(COMMAND_SKIP), KIND_ANY_TEXT, offsetof(struct cli, filter.consumer),
		"the consumer; '' is the consumer without a name; needed if messages of the key wait for several consumers", NULL },
	{ 0, "topic", "TOPIC", FOR_FILTER | FOR(COMMAND_KEYS) | FOR(COMMAND_BACKFILL), KIND_TEXT,
		offsetof(struct cli, filter.topic),
		"only messages of this topic", NULL },
	{ 0, "topic", "TOPIC", FOR(COMMAND_VERIFY), KIND_TEXT, offsetof(struct cli, filter.topic),
		"the topic to read again; required", NULL },
	{ 0, "topic", "TOPIC", FOR(COMMAND_SKIP), KIND_TEXT, offsetof(struct cli, filter.topic),
		"the topic of the key; needed if messages of the key wait in several topics", NULL },
	{ 0, "topic", "TOPIC", FOR_PAUSES, KIND_TEXT, offsetof(struct cli, filter.topic),
		"the topic", NULL },
	{ 0, "consumer", "NAME", FOR_PAUSES, KIND_ANY_TEXT, offsetof(struct cli, filter.consumer),
		"the consumer; empty: the one without a name", NULL },
	{ 0, "handler", "NAME", FOR_PAUSES, KIND_TEXT, offsetof(struct cli, bridge.handler),
		"the handlers of this name, of any consumer", NULL },
	{ 0, "ingest", NULL, FOR(COMMAND_PAUSE), KIND_FLAG, offsetof(struct cli, ingest),
		"with --topic: read nothing of the topic from Kafka either", NULL },
	{ 0, "partition", "P", FOR(COMMAND_SKIP), KIND_OFFSET, offsetof(struct cli, range.partition),
		"the partition; needed if messages of the key wait in several partitions, and with ordering: partition", NULL },
	{ 0, "partition", "P", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, range.partition),
		"only this partition", NULL },
	{ 0, "from", "OFFSET", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, range.from),
		"start at this offset; default: the first one in Kafka", NULL },
	{ 0, "from", "CONSUMER", FOR(COMMAND_BACKFILL), KIND_ANY_TEXT, offsetof(struct cli, range.from_consumer),
		"only messages that this consumer has; default: those of all consumers", NULL },
	{ 0, "to", "OFFSET", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, range.to),
		"end before this offset; default: as far as inboxd has read", NULL },
	{ 0, "type", "TYPE", FOR_FILTER, KIND_TEXT, offsetof(struct cli, filter.type),
		"only events of this type; * at the end = prefix", NULL },
	{ 0, "key", "KEY", FOR_FILTER, KIND_TEXT, offsetof(struct cli, filter.key),
		"only messages with this key", NULL },
	{ 0, "since", "TIME", FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY), KIND_TEXT, offsetof(struct cli, filter.since),
		"only messages received (dead messages: died) at this time or later: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "until", "TIME", FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY), KIND_TEXT, offsetof(struct cli, filter.until),
		"only messages received (dead messages: died) before this time", NULL },
	{ 0, "since", "TIME", FOR(COMMAND_RETRY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_BACKFILL), KIND_TEXT, offsetof(struct cli, filter.since),
		"only messages received at this time or later: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "until", "TIME", FOR(COMMAND_RETRY) | FOR(COMMAND_DISCARD), KIND_TEXT, offsetof(struct cli, filter.until),
		"only messages received before this time", NULL },
	{ 0, "since", "TIME", FOR(COMMAND_OUTBOX), KIND_TEXT, offsetof(struct cli, filter.since),
		"only events emitted at this time or later: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "until", "TIME", FOR(COMMAND_OUTBOX), KIND_TEXT, offsetof(struct cli, filter.until),
		"only events emitted before this time", NULL },
	{ 0, "since", "TIME", FOR(COMMAND_AUDIT), KIND_TEXT, offsetof(struct cli, filter.since),
		"only actions at this time or later: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "until", "TIME", FOR(COMMAND_AUDIT), KIND_TEXT, offsetof(struct cli, filter.until),
		"only actions before this time", NULL },
	{ 0, "who", "USER", FOR(COMMAND_AUDIT), KIND_TEXT, offsetof(struct cli, filter.who),
		"only actions of this user of PostgreSQL", NULL },
	{ 0, "action", "ACTION", FOR(COMMAND_AUDIT), KIND_TEXT, offsetof(struct cli, filter.action),
		"only this action, as the list prints it, or its first word: replay, seek, forget", NULL },
	{ 0, "error", "TEXT", FOR_FILTER, KIND_TEXT, offsetof(struct cli, filter.error),
		"only messages whose error contains this text", NULL },
	{ 0, "code", "CODE", FOR_FILTER, KIND_ANY_TEXT, offsetof(struct cli, filter.code),
		"only messages with exactly this error code; empty: those without one", NULL },
	{ 0, "trace", "ID", FOR_FILTER, KIND_TEXT, offsetof(struct cli, filter.trace),
		"only messages of this trace; ID is the id of the trace, or a traceparent; list begins with the last message", NULL },
	{ 0, "limit", "N", FOR_PAGES, KIND_COUNT, offsetof(struct cli, bounds.limit),
		"maximum number of lines; default 100", NULL },
	{ 0, "max", "N", FOR_PAGES, KIND_COUNT, offsetof(struct cli, bounds.limit),
		"the same as --limit", NULL },
	{ 0, "order", "ORDER", FOR(COMMAND_LIST), KIND_TEXT, offsetof(struct cli, bounds.order),
		"the order; default: seq, oldest first; with --dead: died, the last death first",
		"seq died" },
	{ 0, "reverse", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, bounds.reverse),
		"the opposite order", NULL },
	{ 0, "after", "SEQ", FOR_FILTER, KIND_OFFSET, offsetof(struct cli, bounds.after),
		"only messages after this seq", NULL },
	{ 0, "after", "SEQ", FOR(COMMAND_KEYS), KIND_OFFSET, offsetof(struct cli, bounds.after),
		"only keys after that of the message with this seq", NULL },
	{ 0, "source", "SOURCE", FOR_IDS, KIND_TEXT, offsetof(struct cli, source),
		"the source of the event", NULL },
	{ 0, "by", "NAME", FOR(COMMAND_SHOW) | FOR(COMMAND_EXPORT), KIND_TEXT, offsetof(struct cli, by),
		"what the argument is; default: the event id, otherwise the seq, otherwise the record",
		"id seq record" },
	{ 0, "redact", "POINTER", FOR(COMMAND_EXPORT), KIND_TEXTS, offsetof(struct cli, redact),
		"a JSON pointer to a value that is not printed, such as /payload/customer/email; a step * is each member and item; may be repeated", NULL },
	{ 0, "payload", "FORM", FOR(COMMAND_SHOW) | FOR(COMMAND_OUTBOX), KIND_TEXT, offsetof(struct cli, payload),
		"how to show the payload; raw prints its bytes and nothing else",
		"pretty hex raw" },
	{ 0, "rejects", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, filter.rejects),
		"records that were rejected, instead of messages", NULL },
	{ 0, "conflicts", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, filter.conflicts),
		"records with the id of a message and another payload, instead of messages", NULL },
	{ 0, "rejects", NULL, FOR(COMMAND_REPLAY), KIND_FLAG, offsetof(struct cli, filter.rejects),
		"apply the present rules to the rejected records", NULL },
	{ 0, "conflict", "SEQ", FOR(COMMAND_REPLAY), KIND_COUNT, offsetof(struct cli, filter.conflict),
		"replay a dead message with the payload of this conflict, as `list --conflicts` prints it", NULL },
	{ 0, "older-than", "AGE", FOR(COMMAND_PURGE), KIND_AGE, offsetof(struct cli, bounds.older_than),
		"minimum time since they were processed: 7d, 12h, 0s", NULL },
	{ 0, "to-time", "TIME", FOR(COMMAND_SEEK), KIND_TEXT, offsetof(struct cli, range.to_time),
		"the first record at this time or later, instead of an offset: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "reason", "TEXT", FOR(COMMAND_RESOLVE), KIND_TEXT, offsetof(struct cli, reason),
		"why it is done; required. It stays with the message and in the audit table", NULL },
	{ 0, "reason", "TEXT", FOR(COMMAND_REPLAY) | FOR(COMMAND_RETRY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_ADOPT) | FOR(COMMAND_SEEK) |
		FOR_LISTS | FOR_PAUSES | FOR(COMMAND_SKIP) | FOR(COMMAND_BACKFILL) | FOR(COMMAND_OUTBOX) | FOR(COMMAND_REQUESTS), KIND_TEXT, offsetof(struct cli, reason), "the reason, for the audit table", NULL },
	{ 0, "max", "N", FOR_MANY, KIND_COUNT, offsetof(struct cli, bounds.limit),
		"maximum number of messages", NULL },
	{ 0, "limit", "N", FOR_MANY, KIND_COUNT, offsetof(struct cli, bounds.limit),
		"the same as --max", NULL },
	{ 0, "again", NULL, FOR(COMMAND_BACKFILL), KIND_FLAG, offsetof(struct cli, again),
		"also copy messages that a handler of the consumer has processed for another consumer", NULL },
	{ 0, "dry-run", NULL, FOR_CHANGE, KIND_FLAG, offsetof(struct cli, dry_run),
		"print what would be done, and change nothing", NULL },
	{ 'y', "yes", NULL, FOR_CHANGE | FOR_LISTS, KIND_FLAG, offsetof(struct cli, yes),
		"do not ask for confirmation", NULL, FOR_LISTS },
	{ 0, "handler", "NAME", CLI_BRIDGES, KIND_TEXT, offsetof(struct cli, bridge.handler),
		"the name of the handler; required. Processes with one name share the work", NULL },
	{ 0, "topic", "TOPIC", CLI_BRIDGES, KIND_TEXTS, offsetof(struct cli, bridge.topics),
		"subscribe to this topic; may be repeated; default: all topics", NULL },
	{ 0, "type", "TYPE", CLI_BRIDGES, KIND_TEXTS, offsetof(struct cli, bridge.types),
		"subscribe to events of this type; * at the end = prefix; may be repeated; default: all types", NULL },
	{ 0, "consumer", "NAME", CLI_BRIDGES, KIND_TEXT, offsetof(struct cli, filter.consumer),
		"the consumer whose messages are processed; default: the one with the name of the handler, or else the one without a name", NULL },
	{ 'j', "jobs", "N", FOR(COMMAND_EXEC), KIND_COUNT, offsetof(struct cli, bridge.jobs),
		"how many commands run at a time, at most 1024; default 1", NULL },
	{ 'j', "jobs", "N", FOR(COMMAND_FORWARD), KIND_COUNT, offsetof(struct cli, bridge.jobs),
		"how many requests are open at a time, at most 1024; default 16", NULL },
	{ 0, "url", "URL", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, bridge.url),
		"where the messages are sent: http://localhost:8080/events; required", NULL },
	{ 0, "mode", "MODE", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, bridge.mode),
		"the mode of the HTTP binding of CloudEvents: attributes in headers (the default), or all as JSON",
		"binary structured" },
	{ 0, "status", "STATUS=VERDICT,...", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, filter.status),
		"change the verdict of a status: 404=retry,422=done,5xx=snooze", NULL },
	{ 0, "ca", "FILE", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, bridge.ca),
		"trust the authorities in this PEM file instead of those of the system", NULL },
	{ 0, "cert", "FILE", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, bridge.cert),
		"the client certificate, PEM", NULL },
	{ 0, "key", "FILE", FOR(COMMAND_FORWARD), KIND_TEXT, offsetof(struct cli, bridge.key),
		"the private key of the client certificate, PEM", NULL },
	{ 0, "header", "NAME: VALUE", FOR(COMMAND_FORWARD), KIND_TEXTS, offsetof(struct cli, bridge.headers),
		"add this header to each request; file:/path as value = the content of the file; may be repeated", NULL },
	{ 0, "h2c", NULL, FOR(COMMAND_FORWARD), KIND_FLAG, offsetof(struct cli, bridge.h2c),
		"use HTTP/2 without TLS; with https, HTTP/2 is used whenever the service offers it", NULL },
	{ 0, "connect-timeout", "TIME", FOR(COMMAND_FORWARD), KIND_SPAN, offsetof(struct cli, bridge.connect_timeout),
		"how long a new connection may take; default 5s", NULL },
	{ 0, "timeout", "TIME", CLI_BRIDGES, KIND_SPAN, offsetof(struct cli, bridge.timeout),
		"how long a message may take: 30s, 5m; default: the timeout of the consumer, otherwise 30s", NULL },
	{ 0, "extend", "TIME", FOR(COMMAND_EXEC), KIND_SPAN, offsetof(struct cli, bridge.extend),
		"extend the deadline while the command runs, up to this time in all: 2h", NULL },
	{ 0, "lines", NULL, FOR(COMMAND_EXEC), KIND_FLAG, offsetof(struct cli, bridge.lines),
		"keep the command running: each message is a line on stdin, each answer a line on stdout", NULL },
	{ 0, "settled", NULL, FOR(COMMAND_EXEC), KIND_FLAG, offsetof(struct cli, bridge.settled),
		"exit code 0 means that the command has called inbox.complete() in its transaction", NULL },
	{ 0, "settled", NULL, FOR(COMMAND_FORWARD), KIND_FLAG, offsetof(struct cli, bridge.settled),
		"done means that the service has called inbox.complete() in its transaction", NULL },
	{ 0, "socket", "PATH", CLI_BRIDGES, KIND_TEXT, offsetof(struct cli, bridge.socket),
		"the socket of inboxd; default: INBOXD_SOCKET_PATH, otherwise /run/inboxd/inbox.sock", NULL },
	{ 0, "json", NULL, CLI_BRIDGES, KIND_FLAG, offsetof(struct cli, json),
		"write the log as JSON", NULL },
	{ 'c', "config", "FILE", FOR(COMMAND_INIT), KIND_TEXT, offsetof(struct cli, config_file),
		"the file to write; default: INBOXD_CONFIG, otherwise inboxd.yaml", NULL },
	{ 'c', "config", "FILE", FOR_CONFIG & ~FOR(COMMAND_INIT), KIND_TEXT, offsetof(struct cli, config_file),
		"configuration file; default: INBOXD_CONFIG, otherwise " CLI_STANDARD_FILE, NULL },
	{ 0, "set", "SECTION.KEY=VALUE", FOR_CONFIG, KIND_SET, 0,
		"set one value, which overrides the file and the environment; may be repeated", NULL },
	{ 0, "json", NULL, FOR_CONFIG, KIND_FLAG, offsetof(struct cli, json),
		"print JSON: one object, or one per line for lists", NULL, FOR(COMMAND_RUN) | FOR(COMMAND_MIGRATE) },
	{ 'h', "help", NULL, FOR_ALL, KIND_FLAG, offsetof(struct cli, help),
		"print this help", NULL },
};

const struct near_word cli_near_words[] = {
	{ "dead failed failures errors dlq deadletter dead-letter dead-letters", "list --dead" },
	{ "rejects rejected", "list --rejects" },
	{ "conflicts", "list --conflicts" },
	{ "messages ls inbox queue", "list" },
	{ "get inspect describe view cat message", "show EVENT_ID" },
	{ "requeue redrive reprocess redeliver", "replay" },
	{ "ack acknowledge complete done close fix", "resolve EVENT_ID" },
	{ "kick now run-now retry-now", "retry EVENT_ID" },
	{ "drop cancel reject kill", "discard" },
	{ "delete remove clean cleanup prune vacuum", "purge" },
	{ "log logs history events who", "audit" },
	{ "lag health info stats state top partitions instances", "status" },
	{ "blocked stuck locks", "keys" },
	{ "stop hold freeze suspend disable", "pause" },
	{ "unpause continue unfreeze enable", "resume" },
	{ "reset rewind offset offsets", "seek" },
	{ "validate test doctor", "check" },
	{ "setup upgrade install schema", "migrate" },
	{ "start serve daemon up", "run" },
	{ "subscribers workers connections", "handlers" },
	{ "emit publish produce relay", "outbox" },
	{ "idempotency", "requests" },
};
/* clang-format on */

const size_t cli_near_word_count = sizeof(cli_near_words) / sizeof(cli_near_words[0]);
const size_t cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);
const size_t cli_option_count = sizeof(cli_options) / sizeof(cli_options[0]);
