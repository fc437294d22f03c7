/*
 * Implements commands.h. A table from command to function. All commands share the configuration and
 * its sources.
 */
#include "ops/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/plural.h"
#include "config/load.h"
#include "config/show.h"
#include "daemon/daemon.h"
#include "daemon/migration.h"
#include "ingest/ingest.h"
#include "ops/check.h"
#include "ops/op.h"
#include "ops/operate.h"
#include "ops/seek.h"
#include "ops/verify.h"
#include "store/pg/keywords.h"

extern char **environ;

struct names {
	char **kafka;
	char **postgres;
};

static void names_fini(struct names *names)
{
	ingest_names_free(names->kafka);
	keywords_free(names->postgres);
}

static int names_init(struct names *names, struct err *err)
{
	int r = ingest_option_names(&names->kafka, err);

	return r != 0 ? r : keywords_new(&names->postgres, err);
}

static bool needs_kafka(enum command command)
{
	return command == COMMAND_RUN || command == COMMAND_CHECK || command == COMMAND_ADOPT ||
	       command == COMMAND_VERIFY || command == COMMAND_SEEK;
}

static struct config_sources sources_of(const struct cli *cli, const struct names *names)
{
	return (struct config_sources){
		.file = cli_config_file(cli, getenv("INBOXD_CONFIG"), CLI_STANDARD_FILE),
		.environment = environ,
		.set = cli->set,
		.set_count = cli->set_count,
		.kafka_names = (const char *const *)names->kafka,
		.postgres_names = (const char *const *)names->postgres,
		.without_kafka = !needs_kafka(cli->command),
	};
}

static int do_run(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	struct daemon_options options = {
		.config = config,
		.sources = sources,
		.migrate = cli->migrate,
	};

	return daemon_run(&options, err);
}

static bool is_uninterrupted(void *arg)
{
	(void)arg;
	return !op_interrupted();
}

static int do_migrate(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	const struct migration_stop stop = { is_uninterrupted, NULL };
	struct migrate_result result = { 0 };
	bool ahead;
	int r;

	(void)sources;
	op_interrupt_begin();
	r = migration_run(config, &stop, &result, err);
	ahead = result.version > migrate_latest();
	if (r == 0 && cli->roles && !ahead)
		r = migration_grant(config, &stop, err);
	if (r == MIGRATE_STOPPED)
		(void)fprintf(stderr,
			"inboxd: interrupted after %d migration%s; run it again to continue\n",
			result.applied, plural(result.applied));
	op_interrupt_obey();
	if (r == 0 && ahead)
		(void)printf(
			"schema \"%s\": version %d, newer than this inboxd (%d), which can use it; "
			"nothing changed\n",
			config->inbox.schema, result.version, migrate_latest());
	else if (r == 0)
		(void)printf("schema \"%s\": version %d, %d migration%s applied now\n",
			config->inbox.schema, result.version, result.applied,
			plural(result.applied));
	return op_explain(r, COMMAND_MIGRATE, err);
}

static int do_check(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	(void)sources;
	return check_run(config, cli->json, err);
}

static int do_operate(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	(void)sources;
	return operate(cli, config, err);
}

static int do_adopt(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	CLEANUP(freep) char *cluster = NULL;
	const char *group = NULL;
	int r = ingest_identify(config, &cluster, &group, err);

	(void)sources;
	return r != 0 ? r : operate_adopt(cli, config, cluster, group, err);
}

static int do_verify(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	(void)sources;
	return verify_run(cli, config, err);
}

static int do_seek(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err)
{
	(void)sources;
	return seek_run(cli, config, err);
}

typedef int command_function(const struct cli *cli, const struct config *config,
	const struct config_sources *sources, struct err *err);

static command_function *const functions[] = {
	[COMMAND_RUN] = do_run,
	[COMMAND_MIGRATE] = do_migrate,
	[COMMAND_CHECK] = do_check,
	[COMMAND_STATUS] = do_operate,
	[COMMAND_LIST] = do_operate,
	[COMMAND_SHOW] = do_operate,
	[COMMAND_REPLAY] = do_operate,
	[COMMAND_DISCARD] = do_operate,
	[COMMAND_PURGE] = do_operate,
	[COMMAND_HANDLERS] = do_operate,
	[COMMAND_ADOPT] = do_adopt,
	[COMMAND_VERIFY] = do_verify,
	[COMMAND_SEEK] = do_seek,
};

static void log_warnings(const struct strings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		log_warn("config_warning", LOG_STR("what", warnings->items[i]));
}

static int load(struct config **out, struct config_sources *sources, struct err *err)
{
	struct strings passed_over = { NULL, 0 };
	int r;

	sources->passed_over = &passed_over;
	r = config_load(out, sources, err);
	sources->passed_over = NULL;
	log_warnings(&passed_over);
	config_names_free(&passed_over);
	return r;
}

static int with_config(const struct cli *cli, struct err *err)
{
	CLEANUP(names_fini) struct names names = { NULL, NULL };
	CLEANUP(config_freep) struct config *config = NULL;
	struct config_sources sources;
	int r = names_init(&names, err);

	if (r != 0)
		return r;
	sources = sources_of(cli, &names);
	r = load(&config, &sources, err);
	if (r != 0)
		return r;
	log_configure(config->log.level, config->log.json);
	log_warnings(&config->warnings);
	return functions[cli->command](cli, config, &sources, err);
}

int command_execute(const struct cli *cli, struct err *err)
{
	CLEANUP(buf_fini) struct buf help = BUF_INIT;

	if (cli->help) {
		cli_add_help(&help, cli->command);
		(void)fputs(buf_str(&help), stdout);
		return 0;
	}
	if (cli->command == COMMAND_VERSION) {
		(void)printf(cli->json ? "{\"version\":\"%s\"}\n" : "inboxd %s\n", INBOXD_VERSION);
		return 0;
	}
	return with_config(cli, err);
}
