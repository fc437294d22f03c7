/*
 * Implements check.h. A table of checks; each one reports what it found, or what is wrong and what
 * to do.
 */
#include "ops/check.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "dispatch/sessions/socket.h"
#include "http/check.h"
#include "ingest/ingest.h"
#include "ops/check_print.h"
#include "store/schema/binding.h"
#include "store/schema/migrate.h"
#include "store/schema/privileges.h"
#include "store/sidecar.h"

/* Fills `found` with useful facts. A fault says what is wrong and what to do. */
typedef int check_function(const struct config *config, struct buf *found, struct err *err);

static int open_db(const struct config *config, struct db **out, struct err *err)
{
	struct db_options options;
	char name[32];
	int r;

	sidecar_db_options(config, 0, name, &options);
	r = db_new(out, &options, err);
	return r != 0 ? r : db_open(*out, err);
}

static int check_postgres(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		buf_add_str(found, "reachable");
	return r;
}

static void report_version(const char *schema, int outcome, int version, struct err *err)
{
	if (outcome == SCHEMA_PRERELEASE) {
		(void)migrate_refuse_prerelease(schema, err);
		return;
	}
	if (outcome == SCHEMA_MISSING)
		(void)err_set(err, FAULT_CHECK, "there is no inbox in schema \"%s\"", schema);
	else
		(void)err_set(err, FAULT_CHECK,
			"schema \"%s\" has version %d, this inboxd needs %d", schema, version,
			migrate_latest());
	(void)err_advise(err, "%s",
		outcome == SCHEMA_NEWER ? "run a newer inboxd"
					: "run `inboxd migrate`, or correct inbox.schema");
}

static int check_schema(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int version = 0;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = migrate_check(db, &version, err);
	if (r < 0)
		return r == FAULT_DATABASE ? FAULT_CHECK : r;
	if (r > 0 && r != SCHEMA_AHEAD) {
		report_version(config->inbox.schema, r, version, err);
		return FAULT_CHECK;
	}
	buf_addf(found, "schema \"%s\" has version %d", config->inbox.schema, version);
	if (r == SCHEMA_AHEAD)
		buf_addf(
			found, ", newer than this inboxd (%d), which can use it", migrate_latest());
	return 0;
}

static int check_privileges(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = privileges_check(db, err);
	if (r == 0)
		buf_add_str(found, "this user has all privileges that inboxd needs");
	return r == FAULT_DATABASE ? FAULT_CHECK : r;
}

static int check_socket(const struct config *config, struct buf *found, struct err *err)
{
	int r = socket_check(config, err);

	if (r != 0)
		return FAULT_CHECK;
	buf_addf(found, "%s can be created", config->socket.path);
	return 0;
}

static int check_http(const struct config *config, struct buf *found, struct err *err)
{
	return http_check(config, found, err) == 0 ? 0 : FAULT_CHECK;
}

static int check_kafka(const struct config *config, struct buf *found, struct err *err)
{
	return ingest_check(config, found, err);
}

static int check_binding(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(freep) char *cluster = NULL;
	const char *group = NULL;
	bool bound = false;
	int r = ingest_identify(config, &cluster, &group, err);

	if (r == 0)
		r = open_db(config, &db, err);
	if (r == 0)
		r = schema_check_binding(db, cluster, group, &bound, err);
	if (r == 0)
		buf_addf(found,
			bound ? "the schema belongs to cluster \"%s\" and group.id \"%s\""
			      : "the schema is free for cluster \"%s\" and group.id \"%s\"",
			cluster, group);
	return r == 0 ? 0 : FAULT_CHECK;
}

enum check_id { KAFKA, POSTGRES, SCHEMA, PRIVILEGES, BINDING, SOCKET, HTTP, CHECKS };

#define NEEDS(id) (1u << (id))

static const struct {
	const char *name;
	check_function *function;
	unsigned needs;     /* checks that must succeed first */
	const char *advice; /* used when the fault itself has no advice */
} checks[CHECKS] = {
	[KAFKA] = { "kafka", check_kafka, 0, "correct the settings under kafka" },
	[POSTGRES] = { "postgres", check_postgres, 0,
		"start the server, or correct the settings under postgres" },
	[SCHEMA] = { "schema", check_schema, NEEDS(POSTGRES),
		"correct inbox.schema, or run `inboxd migrate`" },
	[PRIVILEGES] = { "privileges", check_privileges, NEEDS(POSTGRES) | NEEDS(SCHEMA),
		"grant this user the role inboxd_sidecar" },
	[BINDING] = { "binding", check_binding, NEEDS(KAFKA) | NEEDS(SCHEMA),
		"grant this user the role inboxd_sidecar" },
	[SOCKET] = { "socket", check_socket, 0, "correct the settings under socket" },
	[HTTP] = { "http", check_http, 0, "correct http.listen" },
};

/* The first required check that failed; CHECKS: none. */
static enum check_id missing(enum check_id id, unsigned failed)
{
	for (unsigned i = 0; i < CHECKS; i++) {
		if ((checks[id].needs & failed & NEEDS(i)) != 0)
			return (enum check_id)i;
	}
	return CHECKS;
}

/* The database has priority, then Kafka, then the rest: the exit code names what to correct first. */
static int worse(int a, int b)
{
	if (a == FAULT_DATABASE || b == FAULT_DATABASE)
		return FAULT_DATABASE;
	if (a == FAULT_KAFKA || b == FAULT_KAFKA)
		return FAULT_KAFKA;
	return a != 0 || b != 0 ? FAULT_CHECK : 0;
}

/* Combines the findings with the error, if there is one. The fault may keep `advice`. */
static int try_one(enum check_id id, const struct config *config, struct check_result *out)
{
	int r = checks[id].function(config, &out->found, &out->fault);

	out->outcome = r == 0 ? CHECK_OK : CHECK_FAILED;
	if (r != 0 && err_advice(&out->fault)[0] == '\0')
		(void)err_advise(&out->fault, "%s", checks[id].advice);
	return r;
}

static int try_all(const struct config *config, struct check_print *print)
{
	struct check_result result = { .found = BUF_INIT };
	unsigned failed = 0;
	int worst = 0;

	for (enum check_id i = 0; i < CHECKS; i++) {
		int r = 0;

		result.name = checks[i].name;
		result.fault = (struct err)ERR_INIT;
		buf_reset(&result.found);
		if (missing(i, failed) == CHECKS) {
			r = try_one(i, config, &result);
		} else {
			result.outcome = CHECK_SKIPPED;
			buf_addf(&result.found, "not tried: it needs %s",
				checks[missing(i, failed)].name);
		}
		failed |= result.outcome == CHECK_OK ? 0 : NEEDS(i);
		worst = worse(worst, r);
		check_print_result(print, &result);
	}
	buf_fini(&result.found);
	return worst;
}

int check_run(const struct config *config, bool json, struct err *err)
{
	struct check_print print = { .json = json };
	int r = check_print_config(&print, config, err);

	if (r == 0)
		r = try_all(config, &print);
	return check_print_end(&print, r, err);
}
