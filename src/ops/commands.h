/*
 * The commands of the program: each is in the file of its name. main() calls one, on the main
 * thread; it blocks.
 */
#ifndef OPS_COMMANDS_H
#define OPS_COMMANDS_H

#include "config/load.h"
#include "ops/cli/cli.h"

/* Executes the command. Returns 0, or a fault whose text in `err` main() prints to stderr; "" when
 * everything was already printed to stdout. */
int command_execute(const struct cli *cli, struct err *err);

/* The commands that need more than the connection to the inbox; op.h lists the others. */

/* Binds the schema to the configured Kafka cluster and group, after a confirmation. */
int command_adopt(const struct cli *cli, const struct config *config, struct err *err);
/* Prints every effective value and its origin with secrets masked, then one line per check; or
 * everything as one JSON object. All checks run even if one fails. Returns 0 or the fault of the
 * most important failed check, which is already printed, so that `err` has no text: FAULT_DATABASE
 * when PostgreSQL cannot be reached, FAULT_KAFKA when Kafka cannot, FAULT_CHECK for anything else. */
int command_check(const struct cli *cli, const struct config *config, struct err *err);
/* Two of these checks, for `inboxd init`: prints whether Kafka, with its topics, and PostgreSQL can be reached. */
int check_servers(const struct config *config);
/* Writes a configuration file for a topic, a broker and a database, after it has connected to both. Of the sources it reads the
 * environment, for what the arguments do not say. */
int command_init(const struct cli *cli, const struct config_sources *sources, struct err *err);
/* Prints the configuration of the sidecar that runs on this host, or, if there is none, the one that it would start with.
 * FAULT_CHECK: what answers on http.listen is no inboxd, or it refuses. */
int command_config(const struct cli *cli, const struct config *config, struct err *err);
/* The same after config_load() has failed with `err`, which stays the result if no sidecar answers. */
int command_config_unloaded(
	const struct cli *cli, const struct config_sources *sources, struct err *err);
/* Passes each message to a command, until a signal: see bridge/exec/exec.h. */
int command_exec(const struct cli *cli, struct err *err);
/* Sends each message to a service, until a signal: see bridge/forward/forward.h. */
int command_forward(const struct cli *cli, struct err *err);
/* Applies the missing migrations; with --roles also grants the privileges of the roles. */
int command_migrate(const struct cli *cli, const struct config *config, struct err *err);
/* Moves the watermark of a partition, after it has compared the arguments with Kafka's log. Returns
 * 0, also when the answer was no. FAULT_CHECK: the topic or partition does not exist, no instance
 * has ever read it, or the offset is not in the log. */
int command_seek(const struct cli *cli, const struct config *config, struct err *err);
/* Proves that a range of records is in the table. 0: every record was found. FAULT_CHECK: the gaps
 * were printed. */
int command_verify(const struct cli *cli, const struct config *config, struct err *err);

/* Prints the versions of the program and of its libraries, and what librdkafka can do. */
int command_version(const struct cli *cli, struct err *err);

#endif
