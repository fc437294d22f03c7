/* See check.h. A table of tests; each says what it found or what to do. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/show.h"
#include "dispatch/socket.h"
#include "ingest/ingest.h"
#include "store/inbox.h"
#include "store/migrate.h"
#include "store/privileges.h"
#include "store/sidecar.h"

/* Fills `found` with what is good to know. A fault says what is wrong and what to do. */
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

static int check_schema(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int version = 0;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = migrate_check(db, &version, err);
	if (r < 0)
		return r == FAULT_DATABASE ? FAULT_CHECK : r;
	if (r > 0)
		return err_set(err, FAULT_CHECK,
			"schema \"%s\" has version %d, this inboxd needs %d: %s",
			config->inbox.schema, version, migrate_latest(),
			r == SCHEMA_NEWER ? "run a newer inboxd" : "run `inboxd migrate`");
	buf_addf(found, "schema \"%s\" has version %d", config->inbox.schema, version);
	return 0;
}

static int check_privileges(const struct config *config, struct buf *found, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = privileges_check(db, err);
	if (r == 0)
		buf_add_str(found, "this user may do all that a sidecar does");
	return r == FAULT_DATABASE ? FAULT_CHECK : r;
}

static int check_socket(const struct config *config, struct buf *found, struct err *err)
{
	int r = socket_check(config, err);

	if (r != 0)
		return FAULT_CHECK;
	buf_addf(found, "%s can be made", config->socket.path);
	return 0;
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
		r = inbox_check_binding(db, cluster, group, &bound, err);
	if (r == 0)
		buf_addf(found,
			bound ? "the schema belongs to cluster \"%s\" and group.id \"%s\""
			      : "the schema is free for cluster \"%s\" and group.id \"%s\"",
			cluster, group);
	return r == 0 ? 0 : FAULT_CHECK;
}

enum check_id { KAFKA, POSTGRES, SCHEMA, PRIVILEGES, BINDING, SOCKET, CHECKS };

#define NEEDS(id) (1u << (id))

static const struct {
	const char *name;
	check_function *function;
	unsigned needs; /* checks that must be well before it is tried */
} checks[CHECKS] = {
	[KAFKA] = { "kafka", check_kafka, 0 },
	[POSTGRES] = { "postgres", check_postgres, 0 },
	[SCHEMA] = { "schema", check_schema, NEEDS(POSTGRES) },
	[PRIVILEGES] = { "privileges", check_privileges, NEEDS(POSTGRES) },
	[BINDING] = { "binding", check_binding, NEEDS(KAFKA) | NEEDS(SCHEMA) },
	[SOCKET] = { "socket", check_socket, 0 },
};

/* The first of those it needs that is not well; CHECKS: none. */
static enum check_id missing(enum check_id id, unsigned failed)
{
	for (unsigned i = 0; i < CHECKS; i++) {
		if ((checks[id].needs & failed & NEEDS(i)) != 0)
			return (enum check_id)i;
	}
	return CHECKS;
}

/* The database counts first, then Kafka, then the rest: the exit code names what to mend first. */
static int worse(int a, int b)
{
	if (a == FAULT_DATABASE || b == FAULT_DATABASE)
		return FAULT_DATABASE;
	if (a == FAULT_KAFKA || b == FAULT_KAFKA)
		return FAULT_KAFKA;
	return a != 0 || b != 0 ? FAULT_CHECK : 0;
}

/* A report of several lines ends with one. */
static int without_newline(struct buf *text)
{
	const char *words = buf_str(text);
	size_t length = strlen(words);

	return (int)(length > 0 && words[length - 1] == '\n' ? length - 1 : length);
}

int check_run(const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	unsigned failed = 0;
	int worst = 0;

	worst = config_dump(config, &text, err);
	if (worst != 0)
		return worst;
	(void)printf("%s\n", buf_str(&text));
	for (enum check_id i = 0; i < CHECKS; i++) {
		struct err fault = ERR_INIT;
		int r;

		if (missing(i, failed) != CHECKS) {
			(void)printf("%-6s %-11s not tried: it needs %s\n", "-", checks[i].name,
				checks[missing(i, failed)].name);
			failed |= NEEDS(i);
			continue;
		}
		buf_reset(&text);
		r = checks[i].function(config, &text, &fault);
		(void)printf("%-6s %-11s %.*s\n", r == 0 ? "ok" : "FAILED", checks[i].name,
			r == 0 ? without_newline(&text) : (int)sizeof(fault.text),
			r == 0 ? buf_str(&text) : fault.text);
		failed |= r == 0 ? 0 : NEEDS(i);
		worst = worse(worst, r);
	}
	return worst;
}
