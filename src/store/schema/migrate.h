/*
 * Migrations: numbered files embedded in the binary, applied in order, one inboxd at a time for each schema.
 * Most are a transaction. One that makes or drops indexes of a table in use is a list of statements outside any
 * transaction (CREATE INDEX CONCURRENTLY): others read and write meanwhile, and what a crash left half done is
 * made again by the next run.
 *
 * Nothing bounds how long a statement may run. Only the wait for a lock is bounded, for whatever comes behind
 * such a wait waits, too; it is repeated after a pause. A thread of its own (migrate_watch.c) asks whether to
 * go on and tells how far it is. No correctness rests on session state (rule R19).
 */
#ifndef STORE_SCHEMA_MIGRATE_H
#define STORE_SCHEMA_MIGRATE_H

#include "store/pg/db.h"

/* A schema that is newer may say that this inboxd can use it (docs/adr/0020). One made before the first release says
 * nothing of that, and has no way to the first release. */
enum {
	SCHEMA_OLDER = 1,
	SCHEMA_NEWER = 2, /* and this inboxd cannot use it */
	SCHEMA_MISSING = 3,
	SCHEMA_AHEAD = 4, /* newer, and this inboxd can use it */
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

/* What is not said of an event is 0 or NULL. */
struct migrate_report {
	enum migrate_event event;
	const char *migration;
	const char *index; /* that the statement makes or drops */
	const char *phase;
	int64_t percent;       /* -1 = unknown */
	const char *waits_for; /* sessions */
	const char *error;
	int64_t elapsed_ms;
	int64_t retry_in_ms;
};

/* Both are called from the caller's thread and another one, never at the same time. */
struct migrate_watch {
	bool (*goes_on)(void *arg); /* several times a second; false = stop */
	void (*report)(const struct migrate_report *report, void *arg);
	void *arg;
};

struct migrate_result {
	int applied; /* migrations, now */
	int version; /* of the schema; 0 = not known */
};

/* Creates the schema if need be, applies what is missing, and the functions again. Connects by itself, as `options` say
 * but for the timeouts; `watch` may be NULL. Blocks as long as it takes. A newer schema that this binary can use stays
 * as it is; any other newer one is FAULT_DATABASE. MIGRATE_STOPPED: asked to stop; what was applied stays. */
enum { MIGRATE_STOPPED = 1 };
int migrate_run(const struct db_options *options, const struct migrate_watch *watch,
	struct migrate_result *result, struct err *err);
/* False when the same may go well later: the connection was lost, the server is busy, full or a standby. */
bool migrate_error_is_final(const struct err *err);

/* Creates the four roles unless they are there, and grants each what it needs in this schema. In one
 * transaction, behind the migrations' lock; as migrate_run() otherwise. */
int migrate_roles(
	const struct db_options *options, const struct migrate_watch *watch, struct err *err);

#endif
