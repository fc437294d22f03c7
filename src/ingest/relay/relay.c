/*
 * Implements relay.h. While this instance is elected, a round looks for events in five places, in this order:
 *
 *   parked     after a hold became free, and first of all after the election: a pass through the parked rows
 *   due        rows that are tried again
 *   late       rows in holes: their transactions committed after those of later seqs
 *   new        rows behind the tip
 *   low        rows up to the tip, where none should be
 *
 * What is found in one place is one flight (flight.h). Its results are recorded in one transaction, which fails when
 * another instance was elected meanwhile. Then the memory changes: the tip moves, holes are filled, holds become free.
 */
#include "ingest/relay/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/relay/cluster_binding.h"
#include "ingest/relay/flight.h"
#include "ingest/relay/held_heads.h"
#include "ingest/relay/low_sweep.h"
#include "ingest/relay/page_ahead.h"
#include "ingest/relay/parked_events.h"
#include "ingest/relay/recorder.h"
#include "ingest/relay/relay_gauges.h"
#include "model/outbox/holes.h"
#include "periodic/periodic.h"
#include "report/meters.h"

#define ELECT_MS        1000 /* between two tries to be elected */
#define RENEW_MS        5000
#define DUE_MS          1000 /* between two searches without holds: operators release events */
#define DUE_HELD_MS     100
#define HEADS_MS        5000
#define PASS_MS         60000 /* also without a free hold: finds rows that are parked for no reason */
#define BACKLOG_MS      5000 /* how long a stall may keep a backlog of its topics from being parked */
#define GAUGES_MS       10000
#define COUNT_CAP       10000
#define PARKED_PAGE     2000
#define STORE_EVERY     10000 /* seqs that a relay after a crash passes again, at most */
#define STORED_HOLES    1000

#define PAUSE_LEAST_MS  100
#define PAUSE_MOST_MS   5000
#define LOG_EVERY_MS    60000
#define LOCK_TIMEOUT_MS 1000
#define UNRECORDED_MS   1000 /* between two tries to record what was left out */
#define STATEMENT_MS    30000
#define STOP_MS         4000 /* the last answers take two seconds; then they are recorded */

/* All fields belong to the thread of `periodic`. */
struct relay {
	struct relay_options options;
	struct periodic periodic;
	struct flight flight;
	struct cluster_binding binding;
	bool elected;
	/* The memory of an election: */
	int64_t tip;        /* every row up to it was seen, except those in holes */
	int64_t stored_tip; /* at the last renewal */
	struct page_ahead ahead;
	struct holes holes;
	struct holds holds;
	struct recorder recorder;
	bool backlog_stalled; /* the last new page was full, and all its topics were in stalls */
	bool passing;
	bool pass_is_first; /* nothing new is read before its end */
	bool pass_again;    /* a row was parked behind its position */
	int64_t pass_after; /* position of the pass: a seq */
	struct low_sweep low;
	size_t head_at; /* position of the search for discarded heads, in the holds */
	/* When something was done last: */
	int64_t renewed_ms;
	int64_t due_ms;
	int64_t heads_ms;
	int64_t unrecorded_ms;
	int64_t passed_ms;
	int64_t counted_ms;
	int64_t period_ms; /* from the beginning of the next round to that of the one after it */
	bool found;        /* this round has found events */
	struct relay_gauges gauges;
	struct metric *failures;
};

static const struct config *config_of(const struct relay *relay)
{
	return relay->periodic.known;
}

static bool is_time(int64_t *last_ms, int64_t every_ms)
{
	int64_t now_ms = clock_now_ms();

	if (*last_ms != 0 && now_ms - *last_ms < every_ms)
		return false;
	*last_ms = now_ms;
	return true;
}

static struct relay_page page_of(const struct relay *relay)
{
	return (struct relay_page){
		.rows = (int)config_of(relay)->outbox.batch_messages,
		.bytes = config_of(relay)->outbox.batch_bytes,
	};
}

/* --- Memory ------------------------------------------------------------------------------------ */

static void show_memory(struct relay *relay)
{
	relay_gauges_show_memory(&relay->gauges, relay->elected, &relay->holes, &relay->holds,
		unrecorded_count(&relay->recorder.unrecorded, true, NULL));
}

/* After a fault. What was not recorded is read again. The backlog stays in the metrics: it does not shrink while the
 * brokers are away. */
static void forget(struct relay *relay)
{
	relay->elected = false;
	page_ahead_drop(&relay->ahead);
	holes_clear(&relay->holes);
	holds_clear(&relay->holds);
	stalls_fini(&relay->flight.stalls);
	recorder_forget(&relay->recorder);
	show_memory(relay);
}

/* --- The election ------------------------------------------------------------------------------ */

static void begin_pass(struct relay *relay)
{
	holds_begin_pass(&relay->holds);
	relay->passing = true;
	relay->pass_again = false;
	relay->pass_after = 0;
	relay->passed_ms = clock_now_ms();
}

/* All that an earlier relay has parked comes before anything new. */
static int take_over(struct relay *relay, const struct relay_election *election,
	const struct holes *holes, struct err *err)
{
	int r;

	forget(relay);
	for (size_t i = 0; i < holes->count; i++) {
		if (holes_add(&relay->holes, holes->items[i].first, holes->items[i].last) < 0)
			return err_memory(err);
	}
	relay->tip = election->tip;
	relay->stored_tip = election->tip;
	low_sweep_begin(&relay->low);
	relay->due_ms = 0;
	relay->backlog_stalled = false;
	r = held_heads_load(&relay->flight, relay->periodic.db, err);
	if (r != 0)
		return r;
	begin_pass(relay);
	relay->pass_is_first = true;
	relay->elected = true;
	relay->renewed_ms = clock_now_ms();
	show_memory(relay);
	log_info("outbox_elected", LOG_INT("floor", election->floor), LOG_INT("tip", relay->tip),
		LOG_INT("held_keys", (int64_t)(relay->holds.count - relay->holds.topics)),
		LOG_INT("held_topics", (int64_t)relay->holds.topics));
	return 0;
}

static int bind_schema(struct relay *relay, struct err *err)
{
	int r = periodic_open_db(&relay->periodic, err);

	if (r == 0)
		r = cluster_binding_check(
			&relay->binding, relay->periodic.db, config_of(relay), err);
	if (r == FAULT_CONFIG)
		supervision_report_fault(relay->options.supervision, err);
	return r;
}

/* RELAY_ANOTHERS: this instance is not elected. */
static int be_elected(struct relay *relay, struct err *err)
{
	CLEANUP(holes_fini) struct holes holes = HOLES_INIT;
	struct relay_election election;
	int r = periodic_open_db(&relay->periodic, err);

	if (r != 0 || relay->elected)
		return r;
	r = relay_elect(relay->periodic.db, relay->options.instance, &election, &holes, err);
	return r != 0 ? r : take_over(relay, &election, &holes, err);
}

static void lose(struct relay *relay)
{
	log_warn("outbox_lost", LOG_STR("next", "another instance publishes the events, or this "
						"one has lost its lease"));
	flight_drop_producers(&relay->flight);
	forget(relay);
}

static int renew_now(struct relay *relay, struct relay_election *election, struct err *err)
{
	CLEANUP(holes_fini) struct holes open = { .items = NULL, .most = STORED_HOLES };
	int r = recorder_collect_open(&relay->recorder, relay->tip, &open, err);

	if (r == 0)
		r = relay_renew(relay->periodic.db, relay->options.instance,
			(struct relay_position){ relay->tip, &open }, election, err);
	relay->stored_tip = relay->tip;
	if (r == RELAY_ANOTHERS)
		lose(relay);
	if (r == 0)
		holes_bound(&relay->holes, election->transaction);
	return r;
}

/* The sequence is behind the tip after a restore or a failover: new events would have lower seqs. */
static int renew(struct relay *relay, struct err *err)
{
	const struct holes none = HOLES_INIT;
	struct relay_election election;
	int r;

	if (!is_time(&relay->renewed_ms, RENEW_MS) && relay->tip - relay->stored_tip < STORE_EVERY)
		return 0;
	r = renew_now(relay, &election, err);
	if (r != 0 || election.last_number >= relay->tip)
		return r;
	log_warn("outbox_sequence_behind", LOG_INT("last_number", election.last_number),
		LOG_INT("tip", relay->tip), LOG_STR("next", "the whole outbox is read again"));
	return take_over(relay, &election, &none, err);
}

/* A flight can take longer than an election lasts without a renewal. */
static int renew_in_flight(void *arg, struct err *err)
{
	struct relay *relay = arg;
	struct relay_election election;

	return is_time(&relay->renewed_ms, RENEW_MS) ? renew_now(relay, &election, err) : 0;
}

/* --- A flight ---------------------------------------------------------------------------------- */

/* RELAY_ANOTHERS ends the election. */
static int recorded(struct relay *relay, int r)
{
	if (r == RELAY_ANOTHERS && relay->elected)
		lose(relay);
	return r;
}

static int record(struct relay *relay, struct err *err)
{
	struct flight *flight = &relay->flight;
	struct relay_settle settle = {
		.keep = config_of(relay)->retention.outbox != 0,
		.results = flight->results,
		.count = flight->result_count,
	};
	int r;

	if (settle.count == 0)
		return 0;
	FAULT_POINT("outbox_before_record");
	r = recorded(relay, recorder_record(&relay->recorder, relay->periodic.db, &settle, err));
	if (r != 0)
		return r;
	FAULT_POINT("outbox_recorded");
	r = flight_recorded(flight, err);
	recorder_log_left_out(&relay->recorder);
	return r;
}

/* What earlier flights have left out. */
static int look_at_unrecorded(struct relay *relay, struct err *err)
{
	int r;

	if (relay->recorder.unrecorded.count == 0 || !is_time(&relay->unrecorded_ms, UNRECORDED_MS))
		return 0;
	r = recorded(relay, recorder_retry(&relay->recorder, relay->periodic.db,
				    config_of(relay)->retention.outbox != 0, err));
	recorder_log_left_out(&relay->recorder);
	return r;
}

static void note_flight(struct relay *relay)
{
	relay->found |= relay->flight.count > 0;
	for (size_t i = 0; relay->passing && i < relay->flight.result_count; i++) {
		const struct relay_result *result = &relay->flight.results[i];

		if (result->outcome == RELAY_PARK && result->seq <= relay->pass_after)
			relay->pass_again = true;
	}
}

/* Sends the rows and records the results, also those of a flight that failed. */
static int fly(struct relay *relay, const struct rows *rows, enum flight_kind kind, struct err *err)
{
	struct err later = ERR_INIT;
	int sent = relay->binding.done || rows_count(rows) == 0 ? 0 : bind_schema(relay, err);
	int r;

	if (sent != 0)
		return sent;
	sent = flight_run(&relay->flight, rows, kind, err);
	r = sent == RELAY_ANOTHERS ? sent : record(relay, sent == 0 ? err : &later);
	note_flight(relay);
	return sent != 0 ? sent : r;
}

/* Answers that came after their flight. */
static int look_at_stalled(struct relay *relay, struct err *err)
{
	int r = flight_take_answers(&relay->flight, err);

	if (r != 0 || relay->flight.count == 0)
		return r;
	relay->backlog_stalled = false;
	note_flight(relay);
	return record(relay, err);
}

/* --- The five places --------------------------------------------------------------------------- */

static int send_parked(struct relay *relay, const int64_t *seqs, size_t count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct relay_page page = page_of(relay);
	size_t from = 0;
	int r = 0;

	while (r == 0 && from < count) {
		r = relay_fetch(relay->periodic.db, &page,
			(struct relay_seqs){ seqs + from, count - from }, &rows, err);
		if (r != 0 || rows_count(rows) == 0)
			return r;
		r = fly(relay, rows, FLIGHT_PARKED, err);
		while (from < count &&
			seqs[from] <= rows_int(rows, rows_count(rows) - 1, RELAY_SEQ))
			from++;
	}
	return r;
}

static void end_pass(struct relay *relay)
{
	relay->pass_after = 0;
	if (relay->pass_again) {
		relay->pass_again = false;
		return;
	}
	holds_end_pass(&relay->holds);
	relay->passing = false;
	relay->pass_is_first = false;
}

static int look_at_parked(struct relay *relay, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(freep) int64_t *seqs = NULL;
	struct parked_page page;
	size_t count;
	int r;

	if (!relay->passing && (relay->holds.free > 0 || is_time(&relay->passed_ms, PASS_MS)))
		begin_pass(relay);
	if (!relay->passing)
		return 0;
	r = relay_parked(relay->periodic.db, PARKED_PAGE, relay->pass_after, &rows, err);
	if (r != 0)
		return r;
	page = (struct parked_page){ rows, relay->pass_after, rows_count(rows) < PARKED_PAGE };
	r = parked_events_list(&relay->flight, &page, &seqs, &count, err);
	if (r == 0)
		r = send_parked(relay, seqs, count, err);
	if (r != 0)
		return r;
	relay->found |= rows_count(rows) > 0;
	if (page.last)
		end_pass(relay);
	else
		relay->pass_after = rows_int(rows, PARKED_PAGE - 1, PLACE_SEQ);
	return 0;
}

static int look_at_due(struct relay *relay, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(freep) int64_t *without = NULL;
	struct relay_page page = page_of(relay);
	size_t count = relay->recorder.unrecorded.count;
	int r;

	if (!is_time(&relay->due_ms, relay->holds.count > 0 ? DUE_HELD_MS : DUE_MS))
		return 0;
	without = malloc((count + 1) * sizeof(*without));
	if (without == NULL)
		return err_memory(err);
	for (size_t i = 0; i < count; i++)
		without[i] = relay->recorder.unrecorded.items[i].result.seq;
	r = relay_due(relay->periodic.db, &page, (struct relay_seqs){ without, count }, &rows, err);
	return r != 0 || rows_count(rows) == 0 ? r : fly(relay, rows, FLIGHT_DUE, err);
}

static int look_at_heads(struct relay *relay, struct err *err)
{
	if (relay->holds.count == 0 || !is_time(&relay->heads_ms, HEADS_MS))
		return 0;
	return held_heads_release_gone(&relay->flight, relay->periodic.db, &relay->head_at, err);
}

static void fill(struct relay *relay)
{
	for (size_t i = 0; i < relay->flight.count; i++)
		holes_fill(&relay->holes, relay->flight.events[i].seq);
}

/* RELAY_CUT: there were more rows than a page has. */
enum { RELAY_CUT = 2 };
static int send_late(struct relay *relay, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct relay_page page = page_of(relay);
	struct relay_ask ask = { .holes = &relay->holes };
	int64_t first;
	int64_t last;
	int r;

	if (relay->holes.count == 0)
		return 0;
	first = relay->holes.items[0].first;
	last = relay->holes.items[relay->holes.count - 1].last;
	r = relay_ask(relay->periodic.db, &page, &ask, &rows, err);
	if (r == 0)
		r = fly(relay, rows, FLIGHT_NEW, err);
	if (r != 0)
		return r;
	fill(relay);
	if (!ask.cut)
		holes_give_up(&relay->holes, ask.xmin, first, last);
	/* a row that waits for its lock must not be asked for without end */
	return ask.cut && relay->flight.count > 0 ? RELAY_CUT : 0;
}

/* Adds the seqs that are missing between the tip and the last row. */
static int find_holes(struct relay *relay, const struct rows *rows, struct err *err)
{
	int64_t before = relay->tip;

	for (int row = 0; row < rows_count(rows); row++) {
		int64_t seq = rows_int(rows, row, RELAY_SEQ);

		if (holes_add(&relay->holes, before + 1, seq - 1) < 0)
			return err_memory(err);
		before = seq;
	}
	return 0;
}

static bool is_full(const struct relay *relay, size_t count)
{
	return count >= (size_t)config_of(relay)->outbox.batch_messages / 2;
}

static int send_all_late(struct relay *relay, struct err *err)
{
	int r;

	do {
		r = send_late(relay, err);
	} while (r == RELAY_CUT);
	return r;
}

/* Behind a page of topics in stalls there are more events of them, as a rule. To read these means to park each row, and
 * to send it in a pass. Most stalls are over before that is worth it. */
static bool awaits_stalls(const struct relay *relay)
{
	return relay->backlog_stalled && stalls_age_ms(&relay->flight.stalls) < BACKLOG_MS;
}

static void read_ahead(void *arg)
{
	struct relay *relay = arg;

	page_ahead_read(&relay->ahead, relay->periodic.db, page_of(relay));
}

static int read_new(struct relay *relay, struct rows **rows, struct err *err)
{
	struct relay_page page = page_of(relay);

	*rows = page_ahead_take(&relay->ahead, relay->tip);
	if (*rows != NULL)
		return 0;
	page.after = relay->tip;
	return relay_read(relay->periodic.db, &page, rows, err);
}

static int send_new(struct relay *relay, const struct rows *rows, struct err *err)
{
	int64_t last = rows_int(rows, rows_count(rows) - 1, RELAY_SEQ);
	bool full = is_full(relay, (size_t)rows_count(rows));
	int r = find_holes(relay, rows, err);

	relay->found = true;
	if (r != 0)
		return r;
	relay->ahead.after = full ? last : 0;
	r = fly(relay, rows, FLIGHT_NEW, err);
	if (r != 0)
		return r;
	relay->tip = last;
	relay->backlog_stalled = full && flight_was_stalled(&relay->flight);
	return 0;
}

/* New rows are read first, perhaps already during the previous flight, and late ones are sent first. The late rows that the first
 * read could see are among those that the second one sees. So no event overtakes one of its key that was committed
 * before it and has a lower seq. With the reads in the other order, an event could commit between them, and one behind
 * it would be found first. */
static int look_at_new(struct relay *relay, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	if (awaits_stalls(relay))
		return send_all_late(relay, err);
	r = read_new(relay, &rows, err);
	if (r != 0)
		return r;
	FAULT_POINT("outbox_read");
	r = send_all_late(relay, err);
	return r != 0 || rows_count(rows) == 0 ? r : send_new(relay, rows, err);
}

static int look_at_low(struct relay *relay, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t began_ms = clock_now_ms();
	int r = 0;

	if (!low_sweep_is_due(&relay->low, relay->tip))
		return 0;
	do {
		r = low_sweep_read(&relay->low, relay->periodic.db, page_of(relay), &rows, err);
		if (r == 0)
			r = fly(relay, rows, FLIGHT_NEW, err);
		if (r == 0)
			fill(relay);
	} while (r == 0 && low_sweep_goes_on(&relay->low, began_ms));
	return r;
}

/* --- A round ----------------------------------------------------------------------------------- */

static int count_backlog(struct relay *relay, struct err *err)
{
	struct relay_backlog backlog;
	int r;

	if (!is_time(&relay->counted_ms, GAUGES_MS))
		return 0;
	r = relay_backlog(relay->periodic.db, COUNT_CAP, &backlog, err);
	if (r == 0)
		relay_gauges_show_backlog(&relay->gauges, &backlog);
	return r;
}

static int look_everywhere(struct relay *relay, struct err *err)
{
	static const struct {
		int (*look)(struct relay *, struct err *);
		bool sends;       /* not while too much is unrecorded */
		bool after_first; /* not before the end of the first pass */
	} places[] = {
		{ renew, false, false },
		{ look_at_stalled, false, false },
		{ look_at_parked, true, false },
		{ look_at_due, true, false },
		{ look_at_heads, false, false },
		{ look_at_unrecorded, false, false },
		{ count_backlog, false, false },
		{ look_at_new, true, true },
		{ look_at_low, true, true },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		if ((places[i].sends && unrecorded_is_full(&relay->recorder.unrecorded)) ||
			(places[i].after_first && relay->pass_is_first))
			continue;
		r = places[i].look(relay, err);
	}
	show_memory(relay);
	return r;
}

/* From the beginning of this round to that of the next one: short while there are events, and twice as long after each
 * round without one. */
static int64_t next_period(struct relay *relay)
{
	const struct outbox_config *outbox = &config_of(relay)->outbox;
	int64_t period_ms = relay->period_ms;

	if (relay->found || period_ms < outbox->poll)
		period_ms = outbox->poll;
	relay->period_ms = 2 * period_ms < outbox->poll_idle ? 2 * period_ms : outbox->poll_idle;
	return period_ms;
}

/* Since the election, so after each fault, too: nothing that could fail again is left. */
static bool has_looked_everywhere(const struct relay *relay)
{
	return !relay->pass_is_first && relay->low.complete;
}

static int run_round(void *arg, int64_t *pause_ms, struct err *err)
{
	struct relay *relay = arg;
	int64_t began_ms = clock_now_ms();
	int r = relay->binding.done ? 0 : bind_schema(relay, err);

	if (r == 0 || r == FAULT_KAFKA)
		r = be_elected(relay, err);

	relay->found = false;
	if (r == 0)
		r = look_everywhere(relay, err);
	if (r == RELAY_ANOTHERS) {
		relay_gauges_show_backlog(&relay->gauges, &(struct relay_backlog){ .waiting = 0 });
		*pause_ms = ELECT_MS;
		return PERIODIC_IDLE;
	}
	if (r != 0)
		return r;
	*pause_ms = next_period(relay) - (clock_now_ms() - began_ms);
	if (*pause_ms < 0 ||
		(relay->found && (relay->passing || is_full(relay, relay->flight.count))))
		*pause_ms = 0;
	return relay->found || has_looked_everywhere(relay) ? 0 : PERIODIC_IDLE;
}

static void resign(struct relay *relay)
{
	struct relay_election election;
	struct err err = ERR_INIT;

	/* what was read and recorded counts, also after a fault */
	if (relay->elected && relay->periodic.db != NULL && db_is_open(relay->periodic.db) &&
		renew_now(relay, &election, &err) == 0)
		(void)relay_resign(relay->periodic.db, relay->options.instance, &err);
	forget(relay);
}

static void failed(
	void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line)
{
	struct relay *relay = arg;

	metric_add(relay->failures, 1);
	flight_drop_producers(&relay->flight);
	resign(relay);
	if (line != NULL)
		log_warn("outbox_failed", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state), LOG_INT("retry_in_ms", retry_ms),
			LOG_STR("next", "events stay in the table; nothing else is affected"),
			LOG_OUTAGE(line, clock_now_ms()));
}

static void recovered(void *arg, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_info("outbox_back", LOG_INT("failures", line->failures),
			LOG_OUTAGE_ENDED(line, clock_now_ms()));
}

/* Another topic or format may change where the events belong: the holds are made again. */
static void configured(void *arg, const struct config *config)
{
	struct relay *relay = arg;

	relay->flight.options.config = config;
	if (relay->elected)
		resign(relay);
}

static void end(void *arg)
{
	struct relay *relay = arg;

	flight_drop_producers(&relay->flight);
	resign(relay);
}

static const struct periodic_task task = {
	.thread = "outbox relay",
	.lock_timeout_ms = LOCK_TIMEOUT_MS,
	.statement_timeout_ms = STATEMENT_MS,
	.fault_pause_least_ms = PAUSE_LEAST_MS,
	.fault_pause_most_ms = PAUSE_MOST_MS,
	.stop_grace_ms = STOP_MS,
	.round = run_round,
	.failed = failed,
	.recovered = recovered,
	.configured = configured,
	.end = end,
};

/* --- Start and end ----------------------------------------------------------------------------- */

int relay_new(struct relay **out, const struct relay_options *options, struct err *err)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	const struct periodic_options periodic = { &task, options->config, options->metrics,
		options->instance, relay };
	int r;

	if (relay == NULL)
		return err_memory(err);
	relay->options = *options;
	relay->holes = (struct holes)HOLES_INIT;
	relay->holds = (struct holds)HOLDS_INIT;
	relay_gauges_init(&relay->gauges, options->metrics);
	relay->failures = metrics_get(options->metrics, METER_OUTBOX_FAILURES, NULL, NULL);
	recorder_init(&relay->recorder,
		&(struct recorder_options){ options->instance, &relay->periodic.thread.stop,
			&relay->holes, renew_in_flight, relay });
	r = periodic_init(&relay->periodic, &periodic, err);
	if (r == 0) {
		const struct flight_options flight = { options->config, options->metrics,
			&relay->periodic.thread.stop, &relay->holds, &relay->recorder.unrecorded,
			renew_in_flight, read_ahead, relay };

		r = flight_init(&relay->flight, &flight, err);
	}
	if (r != 0) {
		relay_free(relay);
		return r;
	}
	*out = relay;
	return 0;
}

int relay_start(struct relay *relay, struct err *err)
{
	return periodic_start(&relay->periodic, err);
}

void relay_reload(struct relay *relay, const struct config *config)
{
	if (relay != NULL)
		periodic_reload(&relay->periodic, config);
}

struct wake *relay_wake(struct relay *relay)
{
	return relay == NULL ? NULL : &relay->periodic.thread.wake;
}

void relay_begin_stop(struct relay *relay)
{
	if (relay != NULL)
		periodic_request_stop(&relay->periodic);
}

void relay_stop(struct relay *relay)
{
	if (relay != NULL)
		periodic_stop(&relay->periodic);
}

void relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	page_ahead_drop(&relay->ahead);
	cluster_binding_fini(&relay->binding);
	flight_fini(&relay->flight);
	periodic_fini(&relay->periodic);
	holes_fini(&relay->holes);
	holds_fini(&relay->holds);
	unrecorded_fini(&relay->recorder.unrecorded);
	free(relay);
}
