/*
 * The state of the ingest thread, shared by the files of this folder and by nobody else. Everything
 * but `thread` belongs to that thread.
 *
 * Invariants: `holds` is not 0 exactly when no partition may flow; while `outage.down` no statement is
 * sent but those that end the outage; only rows of the flight, or of one that has landed, carry budget of the
 * admission; while it is on its way nothing happens but collecting the next batch: whoever wants anything else of
 * partitions, batches or the database calls store_batch_finish() first.
 */
#ifndef INGEST_STATE_H
#define INGEST_STATE_H

#include <stdatomic.h>

#include "base/digest.h"
#include "base/thread.h"
#include "ingest/consumer.h"
#include "ingest/fault_log_limit.h"
#include "ingest/ingest.h"
#include "ingest/partitions.h"
#include "ingest/refused_batches.h"
#include "model/batch.h"
#include "model/handover.h"
#include "model/identity.h"
#include "model/lane_set.h"
#include "store/inbox.h"

/* Why nothing flows; any number at once. */
enum hold {
	HOLD_DATABASE = 1, /* it does not answer, or a watermark has to be read first */
	HOLD_PENDING = 2,  /* ingest.max_pending is reached */
	HOLD_OUTBOX = 4,   /* dispatch does not take what is stored */
	HOLD_HALTED = 8,   /* fenced, or a fault was reported: waits for its end */
};

/* The database is away, or a watermark is in doubt. */
struct outage {
	bool down;
	bool announced;     /* database_lost was logged and database_back was not */
	bool was_connected; /* the next connection is a reconnect */
	int attempt;        /* grows until a statement of ours succeeds again */
	int64_t retry_at_ms;
};

/* Turns records into messages; scratch memory and what is looked up once. */
struct collector {
	struct digester *digester;
	struct identity_finder *finder;
	struct identity_rules **rules; /* by index in config->topics */
	struct header *headers;
	size_t header_room;
	struct buf encoded;
	struct buf digested; /* scratch of log_digest_of() */
};

/* What dispatch has not taken yet, oldest first. */
struct handover_queue {
	STAILQ_HEAD(, handover) waiting;
};

/* Arrays for admission_place(). */
struct places {
	struct message **messages;
	size_t *indexes;
	struct placement *placements;
	size_t room;
};

/* A batch on its way into the table. */
struct flight {
	struct batch batch;
	struct handover *
		handover; /* made before it leaves: after COMMIT nothing may stop its way to dispatch */
	int64_t since_us; /* batch_since_us of what it was */
	int64_t began_us;
};

/* See acquire.h. */
struct acquisition;
STAILQ_HEAD(acquisition_list, acquisition);

struct ingest {
	struct ingest_options options;
	struct consumer *consumer;
	struct consumer_events events;
	rd_kafka_queue_t *retention; /* see retention.h; NULL = answered */
	struct db *db;
	struct inbox *inbox;
	struct partitions partitions;
	struct acquisition_list acquisitions; /* under way; each has a slice of time in turn */
	uint64_t acquisitions_begun;
	struct collector collector;
	struct batch batch;
	int64_t batch_since_us; /* when its first record came */
	struct flight
		flight; /* sent; empty outside of store_batch_start() … store_batch_finish() */
	bool flying;    /* its end is not known */
	struct flight landed; /* its COMMIT is on the way; empty outside of store_batch_follow() */
	struct batch rest;    /* what the flight leaves for the next; empty outside of it */
	struct refused_batches refused;
	size_t part_most; /* rows to be stored at a time after a failure; 0 = no limit */
	struct places places;
	bool store_unheard; /* COMMIT of the last batch was not answered, and no resync was made since */
	struct lane_set parked;
	struct handover_queue handovers;
	struct outage outage;
	unsigned holds;
	unsigned resets_seen;
	bool changed; /* an event wants the next round now */
	bool alone;   /* no record came for a while: the batch need not wait for more */
	bool bound;   /* the schema is known to belong to this cluster and group */
	bool member;  /* subscribed: in the group, or on the way into it */
	bool waited;  /* group_waiting was logged since it was last joined */
	bool away;    /* what was adopted before it became away is given up */
	bool closing;
	int64_t waits_since_ms; /* for its group, with a broker there; now, while it has it */
	int64_t bind_at_ms;
	int64_t adopt_at_ms;
	int64_t commit_at_ms;
	int64_t peek_at_ms;
	int64_t look_at_ms; /* lag, broker */
	int64_t ends_at_ms; /* of partitions that are paused */
	bool broker_doubted;
	int unanswered; /* questions to brokers, in a row */
	struct fault_log_limit place_limit;
	struct metric *batch_seconds;
	struct metric *paused;
	struct metric *reconnects;

	struct thread thread;
};

/* Stops the flow for a reason; lets it go on when no reason is left (ownership_flow()). */
void ingest_hold(struct ingest *ingest, enum hold reason);
void ingest_unhold(struct ingest *ingest, enum hold reason);
/* Ends consuming: fenced, or a fault that no retry mends. The caller of ingest_start() hears of it. */
void ingest_fenced(struct ingest *ingest);
void ingest_fault(struct ingest *ingest, const struct err *err);

#endif
