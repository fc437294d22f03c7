/*
 * From the command line to the function of the command. All commands share the configuration and
 * its sources. See commands.h.
 */
#include "ops/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/load.h"
#include "config/sources/strings.h"
#include "daemon/daemon.h"
#include "ingest/ingest.h"
#include "ops/op.h"
#include "store/pg/connect/connect.h"

extern char **environ;

/* A command is one of five kinds. `on_inbox` works on the tables alone. `run` does the whole command itself. `on_sources` makes
 * a configuration. `without_config` reads none: the commands that are handlers, and
 * `version`. COMMAND_RUN, the daemon, also needs the
 * sources, because it reads them again at SIGHUP. */
static const struct {
	op_function *on_inbox;
	int (*run)(const struct cli *cli, const struct config *config, struct err *err);
	int (*on_sources)(
		const struct cli *cli, const struct config_sources *sources, struct err *err);
	int (*without_config)(const struct cli *cli, struct err *err);
	/* instead of ending with the fault of a configuration that cannot be loaded */
	int (*unloaded)(
		const struct cli *cli, const struct config_sources *sources, struct err *err);
	bool needs_kafka; /* the settings of Kafka must be complete */
} commands[] = {
	[COMMAND_RUN] = { .needs_kafka = true },
	[COMMAND_MIGRATE] = { .run = command_migrate },
	[COMMAND_CHECK] = { .run = command_check, .needs_kafka = true },
	[COMMAND_CONFIG] = { .run = command_config, .unloaded = command_config_unloaded },
	[COMMAND_INIT] = { .on_sources = command_init, .needs_kafka = true },
	[COMMAND_STATUS] = { .on_inbox = op_status },
	[COMMAND_LIST] = { .on_inbox = op_list },
	[COMMAND_SHOW] = { .on_inbox = op_show },
	[COMMAND_EXPORT] = { .on_inbox = op_export },
	[COMMAND_REPLAY] = { .on_inbox = op_replay },
	[COMMAND_RETRY] = { .on_inbox = op_retry },
	[COMMAND_RESOLVE] = { .on_inbox = op_resolve },
	[COMMAND_DISCARD] = { .on_inbox = op_discard },
	[COMMAND_PURGE] = { .on_inbox = op_purge },
	[COMMAND_ADOPT] = { .run = command_adopt, .needs_kafka = true },
	[COMMAND_VERIFY] = { .run = command_verify, .needs_kafka = true },
	[COMMAND_SEEK] = { .run = command_seek, .needs_kafka = true },
	[COMMAND_HANDLERS] = { .on_inbox = op_handlers },
	[COMMAND_KEYS] = { .on_inbox = op_keys },
	[COMMAND_SKIP] = { .on_inbox = op_skip },
	[COMMAND_PAUSE] = { .on_inbox = op_pause },
	[COMMAND_RESUME] = { .on_inbox = op_resume },
	[COMMAND_AUDIT] = { .on_inbox = op_audit },
	[COMMAND_CONSUMERS] = { .on_inbox = op_consumers },
	[COMMAND_BACKFILL] = { .on_inbox = op_backfill },
	[COMMAND_OUTBOX] = { .on_inbox = op_outbox },
	[COMMAND_REQUESTS] = { .on_inbox = op_requests },
	[COMMAND_EXEC] = { .without_config = command_exec },
	[COMMAND_FORWARD] = { .without_config = command_forward },
	[COMMAND_VERSION] = { .without_config = command_version },
};

/* The options that librdkafka and libpq know, so that a misspelt one is an error. */
struct names {
	char **kafka;
	char **postgres;
};

static void names_fini(struct names *names)
{
	ingest_names_free(names->kafka);
	connect_keywords_free(names->postgres);
}

static int names_init(struct names *names, struct err *err)
{
	int r = ingest_option_names(&names->kafka, err);

	return r != 0 ? r : connect_keywords_new(&names->postgres, err);
}

static void log_warnings(const struct strings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		log_warn("config_warning", LOG_STR("what", warnings->items[i]));
}

/* Also logs what was passed over when the load fails, because that may be the reason. */
static int load(struct config **out, struct config_sources *sources, struct err *err)
{
	struct strings warnings = { NULL, 0 };
	int r;

	sources->warnings_on_failure = &warnings;
	r = config_load(out, sources, err);
	sources->warnings_on_failure = NULL;
	log_warnings(&warnings);
	strings_fini(&warnings);
	return r;
}

/* The names come first, because the configuration checks its options against them. */
static int with_config(const struct cli *cli, struct err *err)
{
	CLEANUP(names_fini) struct names names = { NULL, NULL };
	CLEANUP(config_freep) struct config *config = NULL;
	struct config_sources sources;
	int r = names_init(&names, err);

	if (r != 0)
		return r;
	sources = (struct config_sources){
		.file = cli_config_file(cli, getenv("INBOXD_CONFIG"), CLI_STANDARD_FILE),
		.environment = environ,
		.set = cli->set,
		.set_count = cli->set_count,
		.kafka_names = (const char *const *)names.kafka,
		.postgres_names = (const char *const *)names.postgres,
		.without_kafka = !commands[cli->command].needs_kafka,
	};
	if (commands[cli->command].on_sources != NULL)
		return commands[cli->command].on_sources(cli, &sources, err);
	r = load(&config, &sources, err);
	if (r != 0 && commands[cli->command].unloaded != NULL)
		return commands[cli->command].unloaded(cli, &sources, err);
	if (r != 0)
		return r;
	log_configure(config->log.level, config->log.json);
	log_warnings(&config->warnings);
	if (cli->command == COMMAND_RUN)
		return daemon_run(
			&(struct daemon_options){
				.config = config, .sources = &sources, .migrate = cli->migrate },
			err);
	if (commands[cli->command].on_inbox != NULL)
		return op_run(cli, config, commands[cli->command].on_inbox, err);
	return commands[cli->command].run(cli, config, err);
}

int command_execute(const struct cli *cli, struct err *err)
{
	CLEANUP(buf_fini) struct buf help = BUF_INIT;

	if (cli->help) {
		cli_add_help(&help, cli->command);
		(void)fputs(buf_str(&help), stdout);
		return 0;
	}
	if (commands[cli->command].without_config != NULL)
		return commands[cli->command].without_config(cli, err);
	return with_config(cli, err);
}
