/*
 * The migration with a log line for each step. See migration.h. The index of a large table can take
 * hours; without progress in the log an operator would stop it.
 */
#include "daemon/migration.h"

#include "base/log.h"
#include "base/log_output.h"
#include "store/connection_options.h"

static void log_progress(const struct migrate_report *report)
{
	log_info("migration_progress", LOG_STR("migration", report->migration),
		LOG_STR("index", report->index), LOG_STR("phase", report->phase),
		LOG_INT("percent", report->percent), LOG_STR("waits_for", report->waits_for),
		LOG_INT("elapsed_ms", report->elapsed_ms));
}

static void log_report(const struct migrate_report *report, void *arg)
{
	(void)arg;
	switch (report->event) {
	case MIGRATE_BEGINS:
		log_info("migration_begun", LOG_STR("migration", report->migration));
		break;
	case MIGRATE_BUSY:
		log_warn("migration_busy", LOG_STR("error", report->error),
			LOG_INT("retry_in_ms", report->retry_in_ms));
		break;
	case MIGRATE_BEHIND:
		log_info("migration_elsewhere", LOG_INT("elapsed_ms", report->elapsed_ms),
			LOG_STR("next",
				"another inboxd process migrates this schema: waiting for it"));
		break;
	case MIGRATE_GOES_ON:
		log_progress(report);
		break;
	case MIGRATE_APPLIED:
		log_info("migration_applied", LOG_STR("migration", report->migration),
			LOG_INT("elapsed_ms", report->elapsed_ms));
		break;
	}
}

static struct migrate_watch watch_of(const struct migration_stop *stop)
{
	return (struct migrate_watch){ stop->goes_on, log_report, stop->arg };
}

int migration_run(const struct config *config, const struct migration_stop *stop,
	struct migrate_result *result, struct err *err)
{
	struct migrate_watch watch = watch_of(stop);
	struct db_options options;
	char name[32];
	/* A migration that waited for the reader of stderr would hold its locks. */
	int r = log_output_start(err);

	if (r != 0)
		return r;
	connection_options(config, 0, name, &options);
	return migrate_run(&options, &watch, result, err);
}

int migration_grant(const struct config *config, const struct migration_stop *stop,
	const char *prefix, struct err *err)
{
	struct migrate_watch watch = watch_of(stop);
	struct db_options options;
	char name[32];

	connection_options(config, 0, name, &options);
	return migrate_roles(&options, &watch, prefix, err);
}
