/*
 * Sends a page of events to Kafka and decides what becomes of each (rules O3, O4 and O5). It knows the rows, the
 * producers and the holds, but neither the table nor the schedule. Blocks for up to half a minute for each group while
 * no broker answers. If the brokers only lack the answers for some events, these become a stall (stalls.h), and the
 * flight goes on. One thread.
 *
 * Events are sent in the order of seq, in groups. The next group is sent when the brokers have answered for all of the
 * one before. A group ends before an event that might make the brokers refuse others: those of a topic fit into one
 * request that the topic accepts, or are one single event.
 *
 * When the brokers refuse an event that was sent with others, the producer ends (PRODUCER_OUTBOX). Events behind it
 * are not in the log then, and all that have no answer are sent again: the refused ones alone.
 */
#ifndef INGEST_RELAY_FLIGHT_H
#define INGEST_RELAY_FLIGHT_H

#include <stdatomic.h>

#include "base/text/digest.h"
#include "ingest/fault_log_limit.h"
#include "ingest/relay/relay_topics.h"
#include "ingest/relay/stalls.h"
#include "ingest/relay/unrecorded.h"
#include "json/stream.h"
#include "model/outbox/holds.h"
#include "report/metrics.h"
#include "store/outbox/relay_rows.h"

/* Code of the heads of held topics, in the table. */
#define RELAY_CODE_TOPIC "TOPIC"

/* Which events a page has. */
enum flight_kind {
	FLIGHT_NEW,   /* never tried: parked if their key or topic is held */
	FLIGHT_DUE,   /* deferred and due */
	FLIGHT_PARKED /* of a pass: left alone if their key or topic is held */
};

struct flight_event {
	int row;
	int64_t seq;
	struct relay_topic *topic; /* NULL: the event has no valid topic */
	uint64_t key_hash;         /* of topic and key; of no use without a key */
	int64_t created_ms;
	int32_t retries; /* so far */
	bool keyed;
	bool alone; /* no other event of its topic may be in its group */
	bool sent;  /* is in the present group */
	bool decided;
	bool has_result; /* decided, and `result` must be recorded */
	struct produce_result answer;
	struct relay_result result;
};

struct flight_options {
	const struct config *config;
	struct metrics *metrics;
	const atomic_bool *stop; /* when it is true, the waits are short */
	struct holds *holds;
	struct unrecorded *unrecorded; /* not sent again; flight_recorded() adds to them */
	/* Called again and again during a flight; keeps this instance elected. Its result ends the flight, if it is not
	 * 0. */
	int (*renew)(void *arg, struct err *err);
	/* Called after a group was sent, before the wait for its answers. It should take only a few milliseconds. */
	void (*sent)(void *arg);
	void *arg;
};

/* Memory of flight_run(), used again by the next one. */
struct flight {
	struct flight_options options;
	struct relay_topics topics;
	struct digester *digester;
	struct json_stream *json;
	struct producer *producer; /* NULL = none */
	struct producer *single;   /* for events that are sent alone; NULL = none */
	struct stalls stalls;
	struct buf name;
	struct buf scratch;
	const struct rows *rows;
	enum flight_kind kind;
	struct flight_event *events; /* by seq */
	size_t count;
	size_t room;
	int64_t group; /* number of the group */
	struct relay_result *results;
	size_t result_count;
	struct fault_log_limit refused_limit;
	struct fault_log_limit topic_limit;
	struct metric *published;
	struct metric *refused;
	struct metric *publish_seconds;
};

int flight_init(struct flight *flight, const struct flight_options *options, struct err *err);
void flight_fini(struct flight *flight);
/* Frees the producers, so that no answer arrives any more. The topics are checked again. */
void flight_drop_producers(struct flight *flight);

/* The hashes under which the holds have the topic, and the key of an event. False: the event has no valid topic. */
struct flight_place {
	const char *topic; /* columns of the row */
	const char *aggregate;
	const char *type;
	struct bytes key;
	uint64_t topic_hash; /* set */
	uint64_t key_hash;   /* set */
};
bool flight_find_place(struct flight *flight, struct flight_place *place);

/* Sends the fresh rows of the page. `results` has one entry for each event that must be recorded; it borrows from the
 * rows until the next call. A fault concerns the events without a decision; the others count. The result may also be one
 * of options.renew(). */
int flight_run(
	struct flight *flight, const struct rows *rows, enum flight_kind kind, struct err *err);
/* True when something was decided about every fresh row of the page. */
bool flight_is_complete(const struct flight *flight);
/* True when all events of the page are of topics in stalls. */
bool flight_was_stalled(const struct flight *flight);
/* Instead of flight_run(): `results` has what became of the events in stalls whose topic has all answers now. */
int flight_take_answers(struct flight *flight, struct err *err);
/* The results are recorded, except those that were left out. Holds whose head is published or dead are free. */
int flight_recorded(struct flight *flight, struct err *err);

#endif
