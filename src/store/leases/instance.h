/*
 * The lease of this instance: its row in inbox_instances, the heartbeats, and the fencing and
 * rescue of dead instances (rules R2 to R5). All times are compared with PostgreSQL's clock, never
 * with the clocks of other hosts. Blocking. The heartbeat thread and the thread of peers.h, each with a
 * connection of its own.
 */
#ifndef STORE_LEASES_INSTANCE_H
#define STORE_LEASES_INSTANCE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "store/pg/db.h"

/* What makes the tags of claims (inbox.parse_claim() in the schema). Handlers must not know it. */
struct claim_secret {
	unsigned char bytes[16];
};

struct instance {
	int32_t id;            /* random, 31 bits, never 0 */
	int64_t first_low_seq; /* no row of this instance has a lower seq */
	struct claim_secret claim_secret;
	/* clock_now_ms() before the statement was sent; the lease counts from this time */
	int64_t sent_ms;
};

struct instance_names {
	const char *name;
	const char *host_id; /* identifies the socket lock (host and path); may be "" */
	const char *
		group_instance_id; /* of a static member of the consumer group; NULL or "" = it is none */
};
/* Draws a free id and inserts the row. */
int instance_register(
	struct db *db, const struct instance_names *names, struct instance *out, struct err *err);
/* The names of the other running sidecars with the same group_instance_id, separated by commas, cut at `size`; "" = there is none. */
int instance_same_member(struct db *db, int32_t id, char *out, size_t size, struct err *err);

/*
 * The bounds of the born-claimed rows that an instance may still hold (rule R3). The heartbeat writes them to
 * inbox_instances. After the death of the instance a rescue reads only rows within them.
 *
 * The oldest open messages are listed as stragglers. Otherwise one message that stays open for long would keep the
 * bound low, and the rescue would read all rows that were stored after it.
 *
 * Bounds that were true once stay true: an instance only settles rows below them, and new rows have higher seqs.
 */
#define BOUNDS_STRAGGLERS 32

struct bounds {
	int64_t low_seq;  /* no held row has a lower seq */
	int64_t low_rest; /* no held row except the stragglers has a lower seq */
	int64_t stragglers[BOUNDS_STRAGGLERS];
	size_t straggler_count;
};

/* The values that a heartbeat writes for other instances. */
struct heartbeat_report {
	struct bounds bounds;  /* of the rows that were born claimed */
	int64_t low_claim;     /* lower bound of the claim numbers of all other rows */
	struct bytes handlers; /* JSON array; NULL data: [] */
	int64_t lease_ms;
};
/* What it reads: the clock of PostgreSQL, and the work for other instances that is due. */
struct heartbeat_answer {
	int64_t pg_now_ms;
	bool dead;    /* the lease of another instance has ended, or its rows are not given back */
	bool lacking; /* instance_absence() may have something to decide */
};
enum { HEARTBEAT_FENCED = 1 };
/* Renews the lease. HEARTBEAT_FENCED: the row of this
 * instance is fenced or missing. The caller must stop delivering and register with a new id. */
int instance_heartbeat(struct db *db, int32_t id, const struct heartbeat_report *heartbeat,
	struct heartbeat_answer *answer, struct err *err);

struct fencing {
	const char *host_id; /* earlier instances with this host_id have ended; "" = unknown */
	int32_t earlier; /* id of the previous instance of this process, which has ended; 0 = none */
	int64_t lease_ms;
	/* Fence expired leases too (rule R4): the time of the latest own heartbeat on PostgreSQL's clock, in ms, if the own
	 * heartbeats were on time for a whole lease; otherwise 0. */
	int64_t steady_ms;
	/* clock_now_ms(): deadline of the wait for the end of their sessions; 0 = no wait */
	int64_t until_ms;
};
/*
 * Terminates the sessions of the instances that are dead according to `fencing`, fences the
 * instances and removes them as owners of partitions. The sessions end first, because a session
 * that is still running could otherwise commit a claim after the rescue. `fenced` receives the
 * number of instances.
 */
int instance_fence(
	struct db *db, int32_t own_id, const struct fencing *fencing, int *fenced, struct err *err);
/* What is walked of a dead instance, in this order. */
enum rescue_range { RESCUE_STRAGGLERS, RESCUE_CLAIMS, RESCUE_BORN, RESCUE_RANGES };

struct rescue {
	struct db *db;
	const atomic_bool *stop;
	int64_t until_ms; /* clock_now_ms(): after this time no further instance and no further window is begun */
	/* the width of the next window, by the time that the last ones took; 0 before the first call, and kept between calls */
	int64_t windows[RESCUE_RANGES];
	/* Where the next call continues a walk whose time ended behind rows that stay. When the walk has come to its end, the call
	 * after it begins again at the first of these rows. Without this position, a row that takes all the time of a call would
	 * hide the later ones. Kept between calls */
	struct {
		int32_t id; /* of the dead instance; 0: there is none */
		int range;
		int64_t at;
	} ahead;
	int64_t freed; /* result: the number of rows */
};
/* RESCUE_MORE: the time ended before all rows were examined. The progress is recorded in the table after each window. */
enum { RESCUE_MORE = 1 };
/* Gives back the rows of every instance that is fenced and not yet rescued, in bounded statements. A row that PostgreSQL
 * refuses stays for the next call and the others are freed; `err` then names it, although the result is not a fault. A fault
 * with one instance does not keep the others from being rescued, unless it ended the connection. */
int instance_rescue(struct rescue *rescue, struct err *err);

struct absence_limits {
	int64_t lease_ms;
	int64_t absence_ms;
};
/* Kept between calls. Zeroed: a new instance. */
struct absence {
	bool away;         /* it must be out of the group */
	bool noted;        /* its row may say that a handler is missing */
	struct buf needed; /* JSON: handlers that its messages need and others have; empty: none */
	char missing[256]; /* the names of those that others still have, separated by commas */
};
/* Decides whether this instance must leave the group, because messages of its partitions need a handler that only another
 * instance has (rule R16). Records the decision in its row. The caller frees absence->needed. */
int instance_absence(struct db *db, int32_t id, const struct absence_limits *limits,
	struct absence *absence, struct err *err);
/* The last step of a clean stop: marks the row as stopped. */
int instance_stop(struct db *db, int32_t id, struct err *err);

#endif
