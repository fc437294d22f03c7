/*
 * The database work before an instance run. See registration.h. While the database is unreachable
 * the process counts as alive, because the ticks of its loops continue: a restart would not help.
 */
#include "daemon/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/outage_log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "daemon/migration.h"
#include "ingest/kafka/consumer_conf.h"
#include "store/batches/known_consumers.h"
#include "store/connection_options.h"
#include "store/schema/sequences.h"

#define RECONNECT_MS  200
#define RECONNECT_MAX 5000

/* True for wrong settings, user, password, database, version or privileges: no retry can cure that. */
static bool is_final(const struct err *err)
{
	return err->fault != FAULT_DATABASE || db_error_kind(err) == PG_ERROR_REFUSED;
}

/* No other thread runs yet. The main thread sets the ticks of both loops while it waits for the
 * database. */
static void tick(struct daemon *daemon)
{
	atomic_store(&daemon->health.ingest_tick_ms, clock_now_ms());
	atomic_store(&daemon->health.dispatch_tick_ms, clock_now_ms());
}

static bool migration_goes_on(void *arg)
{
	struct daemon *daemon = arg;

	tick(daemon);
	return !atomic_load(&daemon->stop);
}

static int migrate(struct daemon *daemon, bool *final, struct err *err)
{
	const struct migration_stop stop = { migration_goes_on, daemon };
	struct migrate_result result = { 0 };
	int r = migration_run(daemon->config, &stop, &result, err);

	*final = r < 0 && migrate_error_is_final(err);
	if (r == 0 && result.applied > 0)
		log_info("migrated", LOG_INT("applied", result.applied),
			LOG_INT("version", result.version));
	return r == MIGRATE_STOPPED ? REGISTRATION_STOPPED : r;
}

static int check_schema(struct db *db, struct daemon *daemon, bool *final, struct err *err)
{
	int found = 0;
	int r;

	r = migrate_check(db, &found, err);
	if (r == SCHEMA_AHEAD) {
		log_info("schema_newer", LOG_INT("version", found),
			LOG_INT("known", migrate_latest()),
			LOG_STR("next", "start: the schema says that this inboxd can use it"));
		return 0;
	}
	if (r <= 0)
		return r;
	if (r == SCHEMA_PRERELEASE)
		return migrate_refuse_prerelease(daemon->config->inbox.schema, err);
	if (daemon->options.migrate && r != SCHEMA_NEWER)
		return migrate(daemon, final, err);
	(void)err_set(err, FAULT_DATABASE,
		r == SCHEMA_NEWER ? "schema \"%s\" has version %d, newer than this inboxd knows "
				    "(%d): run a newer inboxd"
				  : "schema \"%s\" has version %d, this inboxd needs %d: run "
				    "`inboxd migrate`, or start with `inboxd run --migrate`",
		daemon->config->inbox.schema, found, migrate_latest());
	(void)snprintf(err->state, sizeof(err->state), "3F000");
	return FAULT_DATABASE;
}

/* Rows that were copied without their sequences have numbers that would be assigned again. */
static int check_sequences(struct db *db, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;
	int r = sequences_check(db, &words, err);

	if (r == SEQUENCES_UNKNOWN)
		log_warn("sequences_unknown", LOG_STR("error", err->text),
			LOG_STR("next", "continuing without comparing them; `inboxd migrate "
					"--roles` grants the privilege"));
	if (r == SEQUENCES_SET)
		log_error("sequences_set", LOG_STR("were", buf_str(&words)),
			LOG_STR("next", "continuing with numbers above the highest rows; find out "
					"what inserted rows without their sequences"));
	return r < 0 ? r : 0;
}

/* Once a process: the other connections find out the same. */
static void note_pooler(const struct daemon *daemon, const struct db *db)
{
	if (daemon->config->prepare == PREPARE_AUTO && !db_names_statements(db))
		log_info("statements_unprepared",
			LOG_STR("why", "a connection pooler is in between, and it does not rename "
				       "prepared statements"),
			LOG_STR("next", "PostgreSQL parses and plans each statement again"));
}

/* `final`: no retry can cure the fault. */
static int register_once(struct daemon *daemon, struct instance *instance, struct consumers *names,
	bool *final, struct err *err)
{
	const struct instance_names own = { daemon->config->inbox.instance, daemon->lock.host_id,
		consumer_conf_value(daemon->config, "group.instance.id", "") };
	struct db_options options;
	struct db *db = NULL;
	char name[32];
	int r;

	connection_options(daemon->config, 0, name, &options);
	r = db_new(&db, &options, err);
	if (r == 0)
		r = db_open(db, err);
	if (r == 0)
		r = check_schema(db, daemon, final, err);
	if (r == 0)
		r = check_sequences(db, err);
	if (r == 0)
		r = instance_register(db, &own, instance, err);
	consumers_fini(names);
	if (r == 0)
		r = known_consumers_read(db, names, err);
	if (r == 0)
		note_pooler(daemon, db);
	FAULT_POINT("after_register");
	db_free(db);
	*final = *final || (r < 0 && is_final(err));
	return r;
}

int registration_run(
	struct daemon *daemon, struct instance *out, struct consumers *names, struct err *err)
{
	struct outage_log outage = { .failures = 0 };
	struct outage_log ended;
	bool final = false;
	int r;

	while ((r = register_once(daemon, out, names, &final, err)) < 0) {
		int64_t delay = backoff_delay_ms(
			RECONNECT_MS, RECONNECT_MAX, (int)outage.failures, random_u64());

		if (final)
			return r;
		if (outage_log_failed(&outage, db_error_kind(err), clock_now_ms()))
			log_warn("database_unreachable", LOG_STR("error", err->text),
				LOG_STR("sqlstate", err->state),
				LOG_STR("class", db_error_class(err)),
				LOG_INT("retry_in_ms", delay), LOG_OUTAGE(&outage, clock_now_ms()));
		tick(daemon);
		(void)wake_wait(&daemon->supervision.wake, delay);
		if (atomic_load(&daemon->stop))
			return REGISTRATION_STOPPED;
	}
	if (outage_log_ended(&outage, &ended))
		log_info("database_back", LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	return r;
}
