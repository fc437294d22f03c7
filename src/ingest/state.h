/*
 * The state of the ingest thread, shared by the files of this folder and by nobody else. Everything
 * but `thread` belongs to that thread.
 *
 * Invariants:
 * - `holds` is not 0 exactly when no partition may flow.
 * - While `outage.down`, the only statements sent are those that end the outage.
 * - Only the rows of `sent` and of `committing` use memory budget of the admission.
 * - While a batch is sent and its result is open, the thread only collects the next batch. Code that needs
 *   partitions, batches or the database for anything else calls store_batch_finish() first.
 */
#ifndef INGEST_STATE_H
#define INGEST_STATE_H

#include <stdatomic.h>

#include "base/digest.h"
#include "base/thread.h"
#include "ingest/fault_log_limit.h"
#include "ingest/ingest.h"
#include "ingest/kafka/consumer.h"
#include "ingest/partitions/partitions.h"
#include "ingest/refused_batches.h"
#include "model/admission/lane_set.h"
#include "model/identity/identity.h"
#include "model/message/batch.h"
#include "model/message/handover.h"
#include "store/batches/watermarks.h"

/* The reasons why nothing flows; several can apply at once. */
enum hold {
	HOLD_DATABASE = 1, /* it does not answer, or a watermark must be read first */
	HOLD_PENDING = 2,  /* ingest.max_pending is reached */
	HOLD_OUTBOX = 4,   /* dispatch's queue is full */
	HOLD_HALTED = 8,   /* fenced, or a fault was reported: the instance ends */
};

/* The database is unreachable, or a watermark must be read again. */
struct outage {
	bool down;
	bool announced;     /* database_lost was logged, database_back was not */
	bool was_connected; /* the next connection is a reconnect */
	int attempt;        /* reset when a statement succeeds */
	int64_t retry_at_ms;
};

/* Turns records into messages: scratch memory and prepared rules. */
struct collector {
	struct digester *digester;
	struct identity_finder *finder;
	struct identity_rules **rules; /* by index in config->topics */
	struct buf encoded;
	struct buf digested; /* scratch of log_digest_of() */
};

/* Handovers that dispatch has not accepted yet, oldest first. */
struct handover_queue {
	STAILQ_HEAD(, handover) waiting;
};

/* Scratch arrays for admission_place(). */
struct placing {
	struct message **messages;
	size_t *indexes;
	struct placement *placements;
	size_t room;
};

/* A batch that was sent to the database. */
struct sent_batch {
	struct batch batch;
	/* allocated before the batch is sent: after the COMMIT no failure may keep its messages
	 * from dispatch */
	struct handover *handover;
	int64_t since_us; /* batch_since_us of the batch before it was sent */
	int64_t began_us;
};

/* See acquire.h. */
struct acquisition;
STAILQ_HEAD(acquisition_list, acquisition);

struct ingest {
	struct ingest_options options;
	struct consumer *consumer;
	struct rd_kafka_queue_s *retention; /* see topic_retention.h; NULL = answered */
	struct db *db;
	struct batch_writer *writer;
	struct partitions partitions;
	/* in progress; they take turns, each for a slice of time */
	struct acquisition_list acquisitions;
	uint64_t acquisitions_begun;
	struct collector collector;
	struct batch batch;
	int64_t batch_since_us; /* time of its first record; 0 = nothing to store */
	/* sent to the database; empty except between store_batch_start() and store_batch_finish() */
	struct sent_batch sent;
	bool is_sent; /* the result of `sent` is open */
	/* its COMMIT is not answered yet; empty except in store_batch_follow() */
	struct sent_batch committing;
	struct batch rest; /* the rows that `sent` leaves for the next batch; otherwise empty */
	struct refused_batches refused;
	size_t max_part_rows; /* after a failure: the maximum number of rows per batch; 0 = no limit */
	struct placing placing;
	/* the COMMIT of the last batch was not answered, and no resync followed yet */
	bool commit_unknown;
	struct lane_set parked;
	struct handover_queue handovers;
	struct outage outage;
	unsigned holds;
	unsigned resets_seen;
	bool changed;        /* an event requests the next round now */
	bool idle;           /* no record arrived for a moment: the batch need not wait for more */
	bool bound;          /* the schema is bound to this cluster and group */
	bool member;         /* subscribed: in the group or joining it */
	bool waiting_logged; /* group_waiting was logged since the last join */
	bool away; /* the partitions adopted before the instance became away are given up */
	bool closing;
	/* since when the instance waits for an assignment while a broker is reachable; now, while
	 * it has one */
	int64_t waiting_since_ms;
	int64_t bind_at_ms;
	int64_t adopt_at_ms;
	int64_t commit_at_ms;
	int64_t peek_at_ms;
	int64_t observe_at_ms; /* next update of lag, credentials and broker state */
	int64_t ends_at_ms;    /* next request for the ends of paused partitions */
	bool broker_doubted;
	int unanswered; /* consecutive broker requests without an answer */
	struct fault_log_limit start_log_limit;
	struct metric *batch_seconds;
	struct metric *paused;
	struct metric *reconnects;

	struct thread thread;
};

/* Sets a hold, which pauses all partitions; clears it. assignment_flow() resumes them when no hold
 * is left. */
void ingest_hold(struct ingest *ingest, enum hold reason);
void ingest_unhold(struct ingest *ingest, enum hold reason);
/* End consuming: the instance is fenced, or a fault occurred that no retry can cure. The
 * supervision receives the reason. */
void ingest_fenced(struct ingest *ingest);
void ingest_fault(struct ingest *ingest, const struct err *err);

#endif
