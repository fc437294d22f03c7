/*
 * The lease of this sidecar: its row in inbox_instances, heartbeats on PostgreSQL's clock, and the
 * rescue of what dead instances held (rules R2 to R5). One thread: the heartbeat's.
 */
#ifndef STORE_INSTANCE_H
#define STORE_INSTANCE_H

#include <stdatomic.h>

#include "model/bounds.h"
#include "store/db.h"

struct instance {
	int32_t id;            /* random, 31 bits, never 0 */
	int64_t first_low_seq; /* nothing of ours is below it */
	int64_t sent_ms;       /* clock_now_ms() before it was sent: its lease counts from then */
};

/* Draws an id that is free and inserts the row. `place`: see socket lock; may be "". */
int instance_register(
	struct db *db, const char *name, const char *place, struct instance *out, struct err *err);

/* What a heartbeat tells the others. */
struct heartbeat_report {
	struct bounds bounds;  /* of the rows it was born holding */
	int64_t low_claim;     /* lower bound of the claim number of every other */
	struct bytes handlers; /* JSON array; NULL data: [] */
};
enum { HEARTBEAT_FENCED = 1 };
/* Renews the lease. `pg_now_ms` receives PostgreSQL's clock. HEARTBEAT_FENCED: our row is fenced or
 * gone: stop delivering, take a new id. */
int instance_heartbeat(struct db *db, int32_t id, const struct heartbeat_report *heartbeat,
	int64_t *pg_now_ms, struct err *err);

struct fencing {
	const char *place; /* whose earlier instances are gone; "" = of none */
	int32_t earlier;   /* of this process, and gone; 0 = none */
	int64_t lease_ms;
	bool fence_expired; /* our own heartbeats were on time for a whole lease (rule R4) */
	int64_t until_ms; /* clock_now_ms(): so long it waits for their sessions to be gone; 0 = not */
};
/* Ends the sessions of instances that are dead by `fencing`, fences them, takes their partitions
 * away. `fenced` receives how many. */
int instance_fence(
	struct db *db, int32_t own_id, const struct fencing *fencing, int *fenced, struct err *err);
struct rescue_bounds {
	const atomic_bool *stop;
	int64_t until_ms; /* clock_now_ms(): no new window of one kind is begun after it */
};
/* RESCUE_MORE: time was up before everything was looked at; how far it got is noted in the table. */
enum { RESCUE_MORE = 1 };
/* Gives back the rows of every fenced and not yet rescued instance, in bounded statements. `rescued`
 * receives the rows freed. A row that PostgreSQL refuses alone stays for the next time, the others are freed; `err` says
 * which although that is no fault. */
int instance_rescue(
	struct db *db, const struct rescue_bounds *bounds, int64_t *rescued, struct err *err);

struct absence_limits {
	int64_t lease_ms;
	int64_t absence_ms; /* -1: an instance never leaves for want of a handler */
};
struct absence {
	bool away;         /* to be out of the group */
	char lacking[256]; /* handlers that others have, separated by commas; "" = none */
};
/* Whether this instance has to be out of the group, for want of a handler that another one has (rule R16).
 * Marks it in its row. */
int instance_absence(struct db *db, int32_t id, const struct absence_limits *limits,
	struct absence *out, struct err *err);
/* Last step of a clean stop. */
int instance_stop(struct db *db, int32_t id, struct err *err);

#endif
