/*
 * Migrations: numbered files that are embedded in the binary. They are applied in order, by one
 * inboxd at a time for each schema. Most are one transaction. A migration that creates or drops
 * indexes of a table in use is a list of statements outside of any transaction (CREATE INDEX
 * CONCURRENTLY): others read and write meanwhile, and the next run repeats a statement that a crash
 * interrupted.
 *
 * A statement has no time limit. Only its wait for a lock has one, because every later statement of
 * others waits behind it; the statement is tried again after a pause. A thread (migrate_watch.c)
 * asks whether to continue and reports the progress. Correctness never depends on session state (rule
 * R19).
 */
#ifndef STORE_SCHEMA_MIGRATE_H
#define STORE_SCHEMA_MIGRATE_H

#include "store/pg/db.h"

/* A newer schema can say that this inboxd may use it (docs/adr/0020). A schema of a pre-release does
 * not say that, and cannot be migrated. */
enum {
	SCHEMA_OLDER = 1,
	SCHEMA_NEWER = 2, /* this inboxd cannot use it */
	SCHEMA_MISSING = 3,
	SCHEMA_AHEAD = 4, /* newer, but this inboxd can use it */
	SCHEMA_PRERELEASE = 5
};

/* The newest version this binary knows. */
int migrate_latest(void);
/* Compares the schema with this binary: 0 when they match, else an outcome above; `found` receives
 * the version there (0 = none, or a pre-release's). */
int migrate_check(struct db *db, int *found, struct err *err);
/* Sets the error for SCHEMA_PRERELEASE. */
int migrate_refuse_prerelease(const char *schema, struct err *err);

enum migrate_event {
	MIGRATE_BEGINS,  /* this migration, now */
	MIGRATE_BUSY,    /* a lock was not to be had: error, retry_in_ms */
	MIGRATE_BEHIND,  /* another inboxd migrates this schema; since elapsed_ms */
	MIGRATE_GOES_ON, /* a statement runs since elapsed_ms: phase, percent, waits_for */
	MIGRATE_APPLIED, /* this migration, after elapsed_ms */
};

/* A member that does not belong to the event is 0 or NULL. */
struct migrate_report {
	enum migrate_event event;
	const char *migration;
	const char *index; /* the one that the statement creates or drops */
	const char *phase;
	int64_t percent;       /* -1 = unknown */
	const char *waits_for; /* sessions */
	const char *error;
	int64_t elapsed_ms;
	int64_t retry_in_ms;
};

/* Both functions are called by the caller's thread and by the watching thread, never at the same time. */
struct migrate_watch {
	bool (*goes_on)(void *arg); /* several times a second; false = stop */
	void (*report)(const struct migrate_report *report, void *arg);
	void *arg;
};

struct migrate_result {
	int applied; /* migrations, now */
	int version; /* of the schema; 0 = not known */
};

/* Creates the schema if it does not exist, applies the missing migrations, and applies the functions
 * again. Opens its own connections, with `options` except for the timeouts; `watch` may be NULL.
 * Blocks without a limit. A newer schema that this binary can use stays unchanged; any other newer
 * one is FAULT_DATABASE. MIGRATE_STOPPED: a stop was requested; migrations that were applied stay. */
enum { MIGRATE_STOPPED = 1 };
int migrate_run(const struct db_options *options, const struct migrate_watch *watch,
	struct migrate_result *result, struct err *err);
/* False when a retry may succeed: the connection was lost, or the server is busy, full or a standby. */
bool migrate_error_is_final(const struct err *err);

/* Creates the five roles that do not exist yet, and grants each of them its privileges in this schema. `prefix`: how
 * their names begin, of letters, digits and underscores; NULL: for those that may use the schema already, or inboxd.
 * One transaction, under the lock of migrations; otherwise like migrate_run(). */
#define ROLES_PREFIX "inboxd"
int migrate_roles(const struct db_options *options, const struct migrate_watch *watch,
	const char *prefix, struct err *err);

#endif
