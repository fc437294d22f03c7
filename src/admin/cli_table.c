#include "admin/cli_table.h"

#include <stdint.h>

#define FOR(command) (1U << (command))
#define FOR_ALL      (~0U)
#define FOR_FILTER   (FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY) | FOR(COMMAND_DISCARD))
#define FOR_IDS      (FOR(COMMAND_SHOW) | FOR(COMMAND_REPLAY) | FOR(COMMAND_DISCARD))
#define FOR_CHANGE                                                                                 \
	(FOR(COMMAND_REPLAY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_PURGE) | FOR(COMMAND_ADOPT) |    \
		FOR(COMMAND_SEEK))
#define FOR_MANY (FOR(COMMAND_REPLAY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_PURGE))

/* clang-format off */
const struct command_row cli_commands[] = {
	{ COMMAND_RUN, "run", "Read Kafka, store, and hand messages to the handlers", "",
		"Runs the sidecar until SIGTERM or SIGINT. SIGHUP reads the configuration again.\n"
		"The database schema must be of this version; `inboxd migrate` makes it so.\n", 0 },
	{ COMMAND_MIGRATE, "migrate", "Create the database schema or bring it up to date", "",
		"Applies the migrations that are missing, each in its own transaction, one process\n"
		"at a time. Needs a role that may create the schema.\n", 0 },
	{ COMMAND_CHECK, "check", "Print the effective configuration and try what it names", "",
		"Prints every effective value and where it came from, with secrets masked, then\n"
		"tries Kafka, PostgreSQL, the schema, the rights, the socket's directory and the HTTP\n"
		"port, as the user that `run` has: an operator lacks its rights. Changes nothing. With\n"
		"--json: one object for all of it. Exit code 3: PostgreSQL is out of reach; else 4:\n"
		"Kafka is; else 6: another check failed, also one that `run` calls 2, 3 or 5.\n", 0 },
	{ COMMAND_STATUS, "status", "Say what waits, what is dead, and who is at work", "",
		"Counts stop at 10000, so that it costs the same at any size.\n", 0 },
	{ COMMAND_LIST, "list", "List messages, rejects or conflicts", "",
		"Lists messages that fit all filters, oldest first; the next page begins --after the\n"
		"last seq of this one. With --dead --group: what died of the same, with counts. With\n"
		"--rejects or --conflicts: records that did not become messages, by topic, key, time,\n"
		"and --error for the reason of a reject. A page ends when 100000 messages did not fit;\n"
		"then stderr says where to look on.\n", 0 },
	{ COMMAND_SHOW, "show", "Show one message: payload, headers, timeline, errors", "EVENT_ID",
		"Shows all there is to know of a message. An event id may be there from several\n"
		"sources; then --source says which.\n", 1 },
	{ COMMAND_REPLAY, "replay", "Run processed or dead messages again", "[EVENT_ID]...",
		"Runs messages again: those named, or those that fit the filters (--status dead\n"
		"unless it says processed), or with --rejects the records that were rejected, by the\n"
		"rules of the configuration as it is now. Never touches one that is being handled.\n", SIZE_MAX },
	{ COMMAND_DISCARD, "discard", "Give up messages that wait", "[EVENT_ID]...",
		"Makes messages dead that wait, are to be retried or are parked: those named, or\n"
		"those that fit the filters (--status waiting unless it says retrying or parked). What\n"
		"is dead already is none of them; docs/operations.md says how to call it done.\n", SIZE_MAX },
	{ COMMAND_PURGE, "purge", "Delete messages processed long ago", "",
		"Deletes processed messages that were processed before --older-than, oldest first.\n"
		"A copy that Kafka still has and that is read again would be a new message then.\n", 0 },
	{ COMMAND_ADOPT, "adopt", "Bind the schema to this Kafka cluster and group", "",
		"A schema belongs to the Kafka cluster and group.id of its first run, and a sidecar\n"
		"refuses another. This gives it to those of the configuration. Stop all sidecars first.\n", 0 },
	{ COMMAND_VERIFY, "verify", "Prove that records of Kafka are in the inbox", "",
		"Reads a range of a topic again, without the group and without committing, and says of\n"
		"every record whether it is stored, a duplicate, a conflict, rejected or not accepted.\n"
		"Lists what has no trace; then the exit code is 6. A message purged since is one, and one\n"
		"that other rules under `topics` gave another id: it looks by those there are now.\n", 0 },
	{ COMMAND_SEEK, "seek", "Read a partition of Kafka again, or skip records of it",
		"TOPIC PARTITION OFFSET|--to-time TIME",
		"Moves the watermark of a partition; a running sidecar reads on from there within seconds.\n"
		"OFFSET is a number, beginning or end. Records read again are duplicates, unless their\n"
		"messages were deleted: then they are handled again. Records that are skipped are never\n"
		"stored and never handled. --dry-run says how many of both there are, and changes nothing.\n", 3 },
	{ COMMAND_HANDLERS, "handlers", "List the handlers that are known, or forget one", "[forget NAME]",
		"Lists who is connected to any sidecar, and who was within inbox.handler_memory: what is\n"
		"for such a one waits for it. `handlers forget NAME` ends that at once, for a handler that\n"
		"does not come back: its messages go to the next specific handler, or wait for any.\n", 2 },
	{ COMMAND_VERSION, "version", "Print the version", "",
		"`inboxd --version` does the same.\n", 0 },
};

const struct option_row cli_options[] = {
	{ 0, "migrate", NULL, FOR(COMMAND_RUN), KIND_FLAG, offsetof(struct cli, migrate),
		"bring the schema up to date first", NULL },
	{ 0, "roles", NULL, FOR(COMMAND_MIGRATE), KIND_FLAG, offsetof(struct cli, roles),
		"also create the roles inboxd_sidecar, _handler, _operator and _reader, and grant", NULL },
	{ 0, "status", "STATUS", FOR(COMMAND_LIST), KIND_TEXT, offsetof(struct cli, status),
		"only messages in this state; waiting means retrying and parked ones, too",
		"waiting retrying parked claimed processed dead" },
	{ 0, "status", "STATUS", FOR(COMMAND_REPLAY), KIND_TEXT, offsetof(struct cli, status),
		"only messages in this state; default: dead", CLI_REPLAY_STATES },
	{ 0, "status", "STATUS", FOR(COMMAND_DISCARD), KIND_TEXT, offsetof(struct cli, status),
		"only messages in this state; default: waiting, which means retrying and parked ones, too",
		CLI_DISCARD_STATES },
	{ 0, "dead", NULL, FOR(COMMAND_LIST) | FOR(COMMAND_REPLAY), KIND_FLAG, offsetof(struct cli, dead),
		"the same as --status dead", NULL },
	{ 0, "group", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, group),
		"with --dead or --status dead: what died of the same, with counts", NULL },
	{ 0, "topic", "TOPIC", FOR_FILTER, KIND_TEXT, offsetof(struct cli, topic),
		"only messages of this topic", NULL },
	{ 0, "topic", "TOPIC", FOR(COMMAND_VERIFY), KIND_TEXT, offsetof(struct cli, topic),
		"the topic to read again; must be given", NULL },
	{ 0, "partition", "P", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, partition),
		"only this partition", NULL },
	{ 0, "from", "OFFSET", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, from),
		"begin at this offset; default: the first that Kafka has", NULL },
	{ 0, "to", "OFFSET", FOR(COMMAND_VERIFY), KIND_OFFSET, offsetof(struct cli, to),
		"end before this offset; default: as far as the sidecars have read", NULL },
	{ 0, "type", "TYPE", FOR_FILTER, KIND_TEXT, offsetof(struct cli, type),
		"only events of this type; * at the end = prefix", NULL },
	{ 0, "key", "KEY", FOR_FILTER, KIND_TEXT, offsetof(struct cli, key),
		"only messages with this key", NULL },
	{ 0, "since", "TIME", FOR_FILTER, KIND_TEXT, offsetof(struct cli, since),
		"only what was received from then on: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "until", "TIME", FOR_FILTER, KIND_TEXT, offsetof(struct cli, until),
		"only what was received before then", NULL },
	{ 0, "error", "TEXT", FOR_FILTER, KIND_TEXT, offsetof(struct cli, error),
		"only messages whose error contains this", NULL },
	{ 0, "code", "CODE", FOR_FILTER, KIND_ANY_TEXT, offsetof(struct cli, code),
		"only messages with this error code, exactly; empty: those without one", NULL },
	{ 0, "limit", "N", FOR(COMMAND_LIST), KIND_COUNT, offsetof(struct cli, limit),
		"at most so many; default 100", NULL },
	{ 0, "after", "SEQ", FOR_FILTER, KIND_OFFSET, offsetof(struct cli, after),
		"only messages behind this seq", NULL },
	{ 0, "source", "SOURCE", FOR_IDS, KIND_TEXT, offsetof(struct cli, source),
		"the source of the event", NULL },
	{ 0, "payload", "FORM", FOR(COMMAND_SHOW), KIND_TEXT, offsetof(struct cli, payload),
		"how to show the payload; raw prints its bytes and nothing else",
		"pretty hex raw" },
	{ 0, "rejects", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, rejects),
		"records that were rejected, instead of messages", NULL },
	{ 0, "conflicts", NULL, FOR(COMMAND_LIST), KIND_FLAG, offsetof(struct cli, conflicts),
		"records with the id of a message and another payload, instead of messages", NULL },
	{ 0, "rejects", NULL, FOR(COMMAND_REPLAY), KIND_FLAG, offsetof(struct cli, rejects),
		"records that were rejected, by the rules as they are now", NULL },
	{ 0, "older-than", "AGE", FOR(COMMAND_PURGE), KIND_AGE, offsetof(struct cli, older_than),
		"processed longer ago than this: 7d, 12h, 0s", NULL },
	{ 0, "to-time", "TIME", FOR(COMMAND_SEEK), KIND_TEXT, offsetof(struct cli, to_time),
		"the first record from then on, instead of an offset: 2026-11-21T05:00Z, or an age: 2h", NULL },
	{ 0, "reason", "TEXT", FOR(COMMAND_REPLAY) | FOR(COMMAND_DISCARD) | FOR(COMMAND_ADOPT) | FOR(COMMAND_SEEK) |
		FOR(COMMAND_HANDLERS), KIND_TEXT, offsetof(struct cli, reason), "why, for the audit", NULL },
	{ 0, "max", "N", FOR_MANY, KIND_COUNT, offsetof(struct cli, max),
		"at most so many messages", NULL },
	{ 0, "dry-run", NULL, FOR_CHANGE, KIND_FLAG, offsetof(struct cli, dry_run),
		"say what would be done, and do nothing", NULL },
	{ 'y', "yes", NULL, FOR_CHANGE | FOR(COMMAND_HANDLERS), KIND_FLAG, offsetof(struct cli, yes),
		"do not ask", NULL, FOR(COMMAND_HANDLERS) },
	{ 'c', "config", "FILE", FOR_ALL, KIND_TEXT, offsetof(struct cli, config_file),
		"configuration file; default: INBOXD_CONFIG, else " CLI_STANDARD_FILE, NULL },
	{ 0, "set", "SECTION.KEY=VALUE", FOR_ALL, KIND_SET, 0,
		"set one value, over the file and the environment; may be repeated", NULL },
	{ 0, "json", NULL, FOR_ALL, KIND_FLAG, offsetof(struct cli, json),
		"print JSON: an object, or one a line for list and handlers", NULL, FOR(COMMAND_RUN) | FOR(COMMAND_MIGRATE) },
	{ 'h', "help", NULL, FOR_ALL, KIND_FLAG, offsetof(struct cli, help),
		"print this help", NULL },
};
/* clang-format on */

const size_t cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);
const size_t cli_option_count = sizeof(cli_options) / sizeof(cli_options[0]);
