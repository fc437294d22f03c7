/*
 * The loop of the ingest thread. Each round joins or leaves the group, ends an outage, acquires
 * partitions, collects a batch, stores it, hands messages to dispatch and commits offsets. Every
 * step has a time limit, because the consumer must be polled at least every max.poll.interval.ms,
 * or the group removes this member.
 *
 * While PostgreSQL executes one batch, the thread only collects the next one (see store_batch.h).
 */
#include "ingest/ingest.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/batch/collect.h"
#include "ingest/batch/store_batch.h"
#include "ingest/handover_queue.h"
#include "ingest/kafka/commands/topic_retention.h"
#include "ingest/observe.h"
#include "ingest/partitions/audience.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/steps.h"
#include "ingest/state.h"
#include "report/meters.h"
#include "store/connection_options.h"

#define IDLE_POLL_US      100000LL
#define BLOCKED_POLL_US   20000LL
#define TAKING_POLL_US    1000LL
#define PEEK_EVERY_MS     4000
#define FINAL_COMMIT_MS   2000
#define FINAL_HANDOVER_MS 1000
#define LOG_EVERY_MS      10000
#define FETCH_LOG_MS      60000
#define OPEN_LOG_MS       60000
#define OPEN_LOG_LINES    10
/* ingest.batch_wait is divided by this: the maximum wait for one more record that is likely */
#define GAPS              5
/* batches are sent one behind the other for so long; then the other steps run */
#define FOLLOW_MS         200
#define AHEAD_CHECK       64 /* number of records between two checks for PostgreSQL's answer */

DEFINE_CLEANUP(struct ingest *, ingest_free);

static bool is_stopping(const struct ingest *ingest)
{
	return thread_is_stopping(&ingest->thread);
}

/* --- Events ------------------------------------------------------------------------------------ */

/* These run inside consumer_poll() and consumer_close(), perhaps while a batch is sent: its result must be known
 * before its partitions change. */

static void on_assigned(void *arg, const struct partition_offset *items, size_t count)
{
	struct ingest *ingest = arg;

	store_batch_finish(ingest);
	rebalance_assigned(ingest, items, count);
	observe_soon(ingest);
	ingest->round.changed = true;
}

static void on_revoked(void *arg, const struct partition_offset *items, size_t count, bool lost)
{
	struct ingest *ingest = arg;

	store_batch_finish(ingest);
	rebalance_revoked(ingest, items, count, lost);
	ingest->round.changed = true;
}

static void on_fatal(void *arg, const struct err *err)
{
	ingest_fault(arg, err);
}

static void on_ended(void *arg, const struct client_end *end)
{
	store_batch_finish(arg);
	group_membership_ended(arg, end);
}

static void on_committing(void *arg)
{
	commit_handover_begin(((const struct ingest *)arg)->options.commit_handover);
}

/* --- Creating ---------------------------------------------------------------------------------- */

static int open_store(struct ingest *ingest, struct err *err)
{
	const struct ingest_options *options = &ingest->options;
	struct batch_writer_options writer;
	struct db_options db;
	char name[32];
	int r;

	connection_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	db.stores = true;
	r = db_new(&ingest->db, &db, err);
	if (r != 0)
		return r;
	writer = (struct batch_writer_options){
		.db = ingest->db,
		.instance = options->instance,
		.first_low_seq = options->first_low_seq,
		.ordering = options->config->inbox.ordering,
		.committing = on_committing,
		.arg = ingest,
	};
	return batch_writer_new(&ingest->writer, &writer, err);
}

static void init_parts(struct ingest *ingest, const struct ingest_options *options)
{
	ingest->options = *options;
	atomic_init(&ingest->reloaded, options->config);
	ingest->start_log_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	ingest->storing.batch_seconds =
		metrics_get(options->metrics, METER_INGEST_BATCH, NULL, NULL);
	ingest->observer.paused =
		metrics_get(options->metrics, METER_PARTITIONS_PAUSED, NULL, NULL);
	ingest->observer.stalled =
		metrics_get(options->metrics, METER_PARTITIONS_STALLED, NULL, NULL);
	ingest->observer.open_transaction =
		metrics_get(options->metrics, METER_OPEN_TRANSACTION, NULL, NULL);
	ingest->observer.open_limit =
		(struct fault_log_limit)LIMIT_INIT(OPEN_LOG_LINES, OPEN_LOG_MS);
	ingest->observer.fetch.limit = (struct fault_log_limit)LIMIT_INIT(1, FETCH_LOG_MS);
	ingest->outage.reconnects = metrics_get(options->metrics, METER_PG_RECONNECTS, NULL, NULL);
	rate_init(&ingest->round.rate, options->config->ingest.batch_wait);
	handover_queue_init(&ingest->handovers);
	STAILQ_INIT(&ingest->acquisitions.list);
	background_queries_init(&ingest->queries);
	background_queries_init(&ingest->observer.queries);
	ingest->outage.down = true;
	ingest->stops = STOP_DATABASE;
}

int ingest_new(struct ingest **out, const struct ingest_options *options, struct err *err)
{
	CLEANUP(ingest_freep) struct ingest *ingest = calloc(1, sizeof(*ingest));
	const struct consumer_events events = {
		.assigned = on_assigned,
		.revoked = on_revoked,
		.not_committed = commit_offsets_failed,
		.fetch_failed = observe_fetch_failed,
		.broker_failed = observe_broker_failed,
		.fatal = on_fatal,
		.ended = on_ended,
		.arg = ingest,
	};
	int r;

	if (ingest == NULL)
		return err_memory(err);
	init_parts(ingest, options);
	r = thread_init(&ingest->thread, err);
	if (r == 0)
		r = collector_init(&ingest->collector, options->config, err);
	if (r == 0)
		r = open_store(ingest, err);
	if (r == 0)
		r = consumer_new(
			&ingest->consumer, options->config, &events, options->metrics, err);
	if (r < 0)
		return r;
	ingest->observer.retention =
		topic_retention_ask(consumer_handle(ingest->consumer), options->config);
	*out = ingest;
	ingest = NULL;
	return 0;
}

void ingest_free(struct ingest *ingest)
{
	if (ingest == NULL)
		return;
	topic_retention_forget(&ingest->observer.retention);
	consumer_free(ingest->consumer);
	batch_writer_free(ingest->writer);
	db_free(ingest->db);
	collector_fini(&ingest->collector, ingest->options.config);
	batch_fini(&ingest->storing.batch);
	batch_fini(&ingest->storing.sent.batch);
	batch_fini(&ingest->storing.committing.batch);
	batch_fini(&ingest->storing.rest);
	acquire_drop_all(ingest);
	partitions_fini(&ingest->partitions);
	audience_fini(&ingest->audiences);
	handover_queue_fini(&ingest->handovers);
	lane_set_fini(&ingest->storing.parked);
	free(ingest->storing.placing.messages);
	free(ingest->storing.placing.indexes);
	free(ingest->storing.placing.placements);
	thread_fini(&ingest->thread);
	free(ingest);
}

/* --- One round --------------------------------------------------------------------------------- */

static void backpressure(struct ingest *ingest)
{
	int64_t most = ingest->options.config->ingest.max_pending;
	int64_t pending = admission_pending(ingest->options.admission);
	bool stopped = (ingest->stops & STOP_PENDING) != 0;

	if (!stopped && pending > most) {
		log_warn("ingest_paused", LOG_INT("pending", pending), LOG_INT("max_pending", most),
			LOG_STR("next", "reading resumes below 90 %"));
		flow_stop_all(ingest, STOP_PENDING);
	} else if (stopped && pending < most - most / 10) {
		log_info("ingest_resumed", LOG_INT("pending", pending));
		flow_go_on(ingest, STOP_PENDING);
	}
}

/* No batch is stored while a handover waits. Otherwise the number of claimed messages outside of
 * dispatch would have no limit. */
static bool may_store(const struct ingest *ingest)
{
	return store_batch_has_work(ingest) && !ingest->outage.down && !flow_is_halted(ingest) &&
	       handover_queue_is_empty(ingest);
}

static int64_t collect_until(const struct ingest *ingest, int64_t began_us)
{
	if (!store_batch_has_work(ingest))
		return began_us + (acquire_is_under_way(ingest) ? TAKING_POLL_US : IDLE_POLL_US);
	if (!may_store(ingest))
		return began_us + BLOCKED_POLL_US;
	return ingest->storing.since_us + ingest->options.config->ingest.batch_wait * 1000;
}

static void on_failed_fetch(void *arg, const char *topic, int32_t number)
{
	struct ingest *ingest = arg;
	struct partition *partition = partitions_find(&ingest->partitions, topic, number);

	store_batch_finish(ingest);
	if (partition != NULL)
		flow_recheck(ingest, partition);
}

/* Called before each record is added. librdkafka reports a reset or a failed fetch before it
 * fetches the next record, so no record after the event is added without verification. */
static void recheck_partitions(struct ingest *ingest)
{
	unsigned resets = consumer_resets(ingest->consumer);

	if (resets != ingest->round.resets_seen) {
		ingest->round.resets_seen = resets;
		store_batch_finish(ingest);
		for (size_t i = 0; i < ingest->partitions.count; i++)
			flow_recheck(ingest, ingest->partitions.items[i]);
	}
	consumer_failed_fetches(ingest->consumer, on_failed_fetch, ingest);
}

/* Polls once, and adds the record to the batch. False: nothing arrived. */
static bool collect_one(struct ingest *ingest, int timeout_ms)
{
	const struct record *record = NULL;
	struct err err = ERR_INIT;
	int polled = consumer_poll(ingest->consumer, timeout_ms, &record, &err);
	int r = polled;

	if (polled == CONSUMER_NOTHING)
		return false;
	FAULT_POINT("after_poll");
	recheck_partitions(ingest);
	if (polled == CONSUMER_PARTITION_END)
		collect_partition_end(ingest, record);
	else if (polled == CONSUMER_RECORD)
		r = collect_record(ingest, record, &err);
	ingest->round.collected += polled == CONSUMER_RECORD;
	/* the log is not the one that was stored: its start offset must be decided again */
	if (polled == CONSUMER_RECORD && r == COLLECT_RECREATED)
		flow_stop(ingest,
			partitions_find(&ingest->partitions, record->topic, record->partition),
			PARTITION_TAKEN);
	else if (r < 0)
		ingest_fault(ingest, &err);
	return true;
}

static bool needs_others(const struct ingest *ingest)
{
	return refused_batches_need_others(
		&ingest->storing.refused, ingest->storing.batch.row_count);
}

/* The maximum wait for one more record of a batch that can be stored. It is a part of batch_wait, so that the last record
 * of several is not delayed by records that do not come. Where not even one record is expected within batch_wait, the
 * batch takes only what is fetched already. */
static int64_t gap_us(const struct ingest *ingest, int64_t now_us)
{
	int64_t wait_ms = ingest->options.config->ingest.batch_wait;

	if (rate_expected(&ingest->round.rate, now_us / 1000, wait_ms) == 0)
		return 0;
	return wait_ms * 1000 / GAPS;
}

/* How long to wait for one more record, in ms. Rounded up: rounding down would poll in a busy loop during the last
 * millisecond. */
static int poll_ms(const struct ingest *ingest, int64_t began_us, int64_t now_us)
{
	int64_t left_us = collect_until(ingest, began_us) - now_us;
	int64_t most_us = left_us;

	if (may_store(ingest) && !needs_others(ingest))
		most_us = gap_us(ingest, now_us);
	if (most_us < left_us)
		left_us = most_us;
	return left_us <= 0 ? 0 : (int)((left_us + 999) / 1000);
}

static void note_rate(struct ingest *ingest, int64_t now_us)
{
	rate_add(&ingest->round.rate, now_us / 1000, ingest->round.collected);
	ingest->round.collected = 0;
}

/* Polls until the batch is full or due. It also polls while nothing may flow, because polling keeps
 * the membership. */
static void collect(struct ingest *ingest)
{
	int64_t began_us = clock_now_us();
	int64_t now_us = began_us;
	bool arrived;

	ingest->round.changed = false;
	ingest->round.idle = false;
	do {
		arrived = collect_one(ingest, poll_ms(ingest, began_us, now_us));
		ingest->round.idle = !arrived && may_store(ingest) && !needs_others(ingest);
		now_us = clock_now_us();
		note_rate(ingest, now_us);
	} while (!ingest->round.changed && !ingest->round.idle && !is_stopping(ingest) &&
		 !collect_is_full(ingest) && now_us < collect_until(ingest, began_us));
	recheck_partitions(ingest);
}

/* Collects the next batch while PostgreSQL executes the current one, from records that are already
 * fetched. */
static void collect_ahead(struct ingest *ingest)
{
	size_t count = 0;

	ingest->round.changed = false;
	while (!ingest->round.changed && !is_stopping(ingest) && !collect_is_full(ingest)) {
		if (++count % AHEAD_CHECK == 0 && !store_batch_is_waiting(ingest))
			break;
		if (!collect_one(ingest, 0))
			break;
	}
}

/* Stores a batch. While the log has more records, further batches follow directly, for at most
 * FOLLOW_MS. */
static void store(struct ingest *ingest)
{
	int64_t until_ms = clock_now_ms() + FOLLOW_MS;
	bool sent = store_batch_start(ingest);

	while (sent) {
		if (store_batch_may_collect_ahead(ingest))
			collect_ahead(ingest);
		/* any other step of the round has to run before the next batch is sent */
		if (!ingest->storing.is_sent || clock_now_ms() >= until_ms ||
			ingest->round.changed || is_stopping(ingest) || ingest->stops != 0)
			break;
		if (!collect_is_full(ingest) || !store_batch_may_follow(ingest))
			break;
		sent = store_batch_follow(ingest);
		handover_queue_hand_over(ingest, collect_is_full(ingest));
	}
	store_batch_finish(ingest);
}

static bool is_due(const struct ingest *ingest)
{
	return may_store(ingest) &&
	       (ingest->round.idle || collect_is_full(ingest) || is_stopping(ingest) ||
		       clock_now_us() >= collect_until(ingest, 0));
}

/* Acquires and adopts partitions, one step after the other as long as the database answers. */
static void advance_partitions(struct ingest *ingest)
{
	if (!rebalance_step(ingest))
		return;
	acquire_step(ingest);
	if (!ingest->outage.down)
		adoption_step(ingest);
}

/* When a look has found that something is different. Without a look, and while names are in doubt, every few seconds. */
static bool is_peek_due(const struct ingest *ingest, int64_t now_ms)
{
	struct admission_look look = admission_look(ingest->options.admission);

	if (look.at_ms != 0 && !ingest->audiences.doubtful)
		return look.version != ingest->round.peeked_version;
	return now_ms >= ingest->round.peek_at_ms;
}

static void peek(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();

	if (!is_peek_due(ingest, now_ms) || ingest->outage.down || flow_is_halted(ingest) ||
		store_batch_has_work(ingest))
		return;
	ingest->round.peek_at_ms = now_ms + PEEK_EVERY_MS;
	ingest->round.peeked_version = admission_look(ingest->options.admission).version;
	if (partitions_number(&ingest->partitions, partition_is_ours) > 0)
		db_outage_peek(ingest);
}

/* A connection that rests is no lost one: what memory holds stays true, and the next statement connects. As after any pause
 * between two batches, the next one finds out by the lease and the watermarks whether the database has lost commits meanwhile
 * (rules R1, R2). No search of acquire.c may continue on another connection, and an outcome in doubt needs a resync. */
static void rest(struct ingest *ingest)
{
	if (!ingest->outage.down && !store_batch_has_work(ingest) && !acquire_is_under_way(ingest))
		db_rest_unused(ingest->db);
}

static void run_round(struct ingest *ingest)
{
	atomic_store(&ingest->options.health->ingest_tick_ms, clock_now_ms());
	progress_note(0);
	group_membership_step(ingest);
	db_outage_step(ingest);
	advance_partitions(ingest);
	backpressure(ingest);
	flow_recheck_stopped(ingest);
	start_offset_step(ingest);
	flow_step(ingest);
	collect(ingest);
	handover_queue_hand_over(ingest, collect_is_full(ingest));
	if (is_due(ingest))
		store(ingest);
	handover_queue_hand_over(ingest, collect_is_full(ingest));
	commit_offsets_step(ingest);
	peek(ingest);
	observe_step(ingest);
	rest(ingest);
}

/* --- Start and stop ---------------------------------------------------------------------------- */

/* Stores the current batch once, commits offsets and leaves the group. Closing the consumer calls
 * `revoked`, which releases the partitions. */
static void finish(struct ingest *ingest)
{
	(void)handover_queue_push(ingest, FINAL_HANDOVER_MS);
	if (may_store(ingest) && store_batch_start(ingest))
		store_batch_finish(ingest);
	(void)handover_queue_push(ingest, FINAL_HANDOVER_MS);
	flow_stop_all(ingest, STOP_CLOSING);
	/* The request would wait for a broker, and so would the end of the client. The table has the offsets. */
	if (atomic_load(&ingest->options.health->broker_ok))
		commit_offsets_all(ingest, FINAL_COMMIT_MS);
	ingest->round.closing = true;
	background_queries_stop(&ingest->queries);
	background_queries_stop(&ingest->observer.queries);
	FAULT_POINT("before_leave_group");
	consumer_close(ingest->consumer);
	FAULT_POINT("after_leave_group");
	adoption_end(ingest);
	(void)handover_queue_push(ingest, FINAL_HANDOVER_MS);
	/* here, because the calls may hang, and ingest_stop() waits for this thread only with a time
	 * limit; the queries and the queue of a client must end before the client */
	background_queries_end(&ingest->queries);
	background_queries_end(&ingest->observer.queries);
	topic_retention_forget(&ingest->observer.retention);
	consumer_free(ingest->consumer);
	ingest->consumer = NULL;
	db_close(ingest->db);
}

static void run(void *arg)
{
	struct ingest *ingest = arg;

	while (!is_stopping(ingest))
		run_round(ingest);
	finish(ingest);
}

int ingest_start(struct ingest *ingest, struct err *err)
{
	thread_watch(&ingest->thread);
	return thread_start(&ingest->thread, "ingest", run, ingest, err);
}

void ingest_reload(struct ingest *ingest, const struct config *config)
{
	if (ingest != NULL)
		atomic_store(&ingest->reloaded, config);
}

/* Half of the time is for an orderly stop. Then the connection is interrupted, in case the database
 * does not answer. */
int ingest_stop(struct ingest *ingest, int64_t timeout_ms)
{
	if (ingest == NULL)
		return 0;
	thread_request_stop(&ingest->thread);
	if (!thread_wait(&ingest->thread, timeout_ms / 2)) {
		db_interrupt(ingest->db);
		if (!thread_wait(&ingest->thread, timeout_ms - timeout_ms / 2))
			return 1;
	}
	thread_join(&ingest->thread);
	return 0;
}
