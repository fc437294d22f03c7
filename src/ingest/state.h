/*
 * The state of the ingest thread, shared by the files of this folder and by nobody else. Everything
 * but `thread` belongs to that thread. Each part belongs to one file, which its comment names; other files
 * read it.
 *
 * Invariants:
 * - While `stops` is not 0, no partition flows. Nor does one flow before the pauses are known, or while its topic is
 *   paused with --ingest; these are no reasons in `stops`.
 * - While `outage.down`, the only statements sent are those that end the outage.
 * - Only the rows of `storing.sent` and of `storing.committing` use memory budget of the admission.
 * - While a batch is sent and its result is open, the thread only collects the next batch. Code that needs
 *   partitions, batches or the database for anything else calls store_batch_finish() first.
 */
#ifndef INGEST_STATE_H
#define INGEST_STATE_H

#include "base/outage_log.h"
#include "base/text/digest.h"
#include "base/threads/thread.h"
#include "base/time/rate.h"
#include "ingest/batch/refused_batches.h"
#include "ingest/fault_log_limit.h"
#include "ingest/ingest.h"
#include "ingest/kafka/background_query.h"
#include "ingest/kafka/consumer.h"
#include "ingest/partitions/partitions.h"
#include "model/admission/lane_set.h"
#include "model/identity/identity.h"
#include "model/message/batch.h"
#include "model/message/handover.h"
#include "store/batches/watermarks.h"

/* The reasons why nothing flows; several can apply at once. */
enum stop {
	STOP_DATABASE = 1, /* it does not answer, or a watermark must be read first */
	STOP_PENDING = 2,  /* ingest.max_pending is reached */
	STOP_HANDOVER = 4, /* dispatch's queue is full */
	STOP_HALTED = 8,   /* fenced, or a fault was reported: the instance ends */
	STOP_CLOSING = 16, /* the last batch is stored; the group is left */
};

/* ingest.c: the loop. */
struct round {
	bool changed; /* an event requests the next round now */
	bool idle;    /* no record arrived for a moment: the batch need not wait for more */
	bool closing; /* the last offsets are committed; the group is being left */
	unsigned resets_seen;
	int64_t peek_at_ms;
	int64_t collected;      /* records that are not in `rate` yet */
	struct rate rate;       /* of records, in waits of ingest.batch_wait */
	int64_t peeked_version; /* of the look before the last peek */
};

/* batch/collect.c: turns records into messages; scratch memory and prepared rules. */
struct collector {
	struct digester *digester;
	struct identity_finder *finder;
	struct identity_rules **rules; /* by index in config->topics */
	struct buf encoded;
	struct buf digested; /* scratch of log_digest_of() */
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
	int64_t since_us; /* storing.since_us of the batch before it was sent */
	int64_t began_us;
};

/* batch/store_batch.c */
struct storing {
	struct batch batch; /* is being collected */
	int64_t since_us;   /* time of its first record; 0 = nothing to store */
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
	struct lane_set parked; /* scratch: the lanes of a batch that were parked */
	struct metric *batch_seconds;
};

/* handover_queue.c: handovers that dispatch has not accepted yet, oldest first. */
struct handover_queue {
	STAILQ_HEAD(, handover) waiting;
};

/* partitions/db_outage.c: the database is unreachable, or a watermark must be read again. */
struct outage {
	bool down;
	struct outage_log log;
	uint64_t connections; /* opened so far */
	int attempt;          /* reset when a statement succeeds */
	int64_t retry_at_ms;
	struct metric *reconnects;
};

/* partitions/audience.c */
struct audiences {
	struct consumers
		known; /* those that messages are stored for; none until the table was read */
	bool defined;  /* the own definitions are in the table */
	/* an epoch was raised: the names must be compared before the next batch */
	bool doubtful;
	int64_t at_ms; /* when the table is read again, if a look does not say that nothing has changed */
	int64_t version; /* of the look before it was read */
};

/* partitions/acquire.c: in progress; they take turns, each for a slice of time. */
struct acquisition;
struct acquisitions {
	STAILQ_HEAD(, acquisition) list;
	uint64_t begun;
};

/* partitions/adoption.c */
struct adoption {
	int64_t at_ms; /* the next attempt */
	int64_t tried_ms;
	bool away; /* the partitions adopted before the instance became away are given up */
};

/* partitions/rebalance.c: the schema belongs to this cluster and group (rule R18). */
struct binding {
	bool done;
	int64_t retry_at_ms;
};

/* partitions/group_membership.c */
struct membership {
	bool joined; /* subscribed: in the group or joining it */
	/* since when the instance waits for an assignment while a broker is reachable; now, while
	 * it has one */
	int64_t waiting_since_ms;
	int64_t waiting_log_ms; /* after how much of this time group_waiting is logged next */
};

/* observe.c */
struct lost_broker {
	int faults;       /* without LOST_BROKER_MS between two of them */
	bool fresh;       /* one of them came after the last look */
	int64_t fault_ms; /* of the last one */
	const char *next;
	char error[256]; /* of the last fault; "" = none */
};

/* observe.c: the last fetch that failed at an offset. */
struct fetch_faults {
	struct fault_log_limit limit;
	int64_t at_ms;      /* 0 = never */
	int64_t refused_ms; /* a response was refused as a whole */
	char error[256];
};

struct observer {
	int64_t at_ms;      /* next update of lag, credentials and broker state */
	int64_t ends_at_ms; /* next request for the ends of paused partitions */
	int64_t doubt_ms;   /* when a broker failed last; 0 = one has answered since */
	struct background_queries queries;
	struct outage_log brokers;          /* one or all are unreachable */
	struct lost_broker lost;            /* what librdkafka reported last */
	struct rd_kafka_queue_s *retention; /* see topic_retention.h; NULL = answered */
	struct metric *paused;
	struct fetch_faults fetch;
	int64_t stalls_at_ms; /* the next request for the ends of partitions that do not move */
	struct metric *stalled;
	struct metric *open_transaction;
	struct fault_log_limit open_limit; /* of transaction_open */
};

struct ingest {
	struct ingest_options options;
	const struct config
		*_Atomic reloaded; /* the current configuration, for keys that can be reloaded */
	struct thread thread;
	struct consumer *consumer;
	struct db *db;
	struct batch_writer *writer;
	struct round round;
	struct collector collector;
	struct storing storing;
	struct handover_queue handovers;
	struct partitions partitions;
	struct audiences audiences;
	struct acquisitions acquisitions;
	struct background_queries queries; /* partitions/start_offset.c */
	struct adoption adoption;
	struct binding binding;
	struct membership membership;
	struct outage outage;
	struct observer observer;
	unsigned stops;               /* enum stop; partitions/flow.c */
	bool topics_stopped;          /* partitions of paused topics do not flow; flow.c */
	bool pauses_known;            /* before that none flows; flow.c */
	int64_t pauses_awaited_ms;    /* since when; -1 = it is logged */
	int64_t commit_offsets_at_ms; /* partitions/commit_offsets.c */
	int64_t topic_ids_at_ms;      /* not asked for earlier; partitions/start_offset.c */
	struct fault_log_limit start_log_limit; /* of start_unknown and partitions_wait */
};

#endif
