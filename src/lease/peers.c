/*
 * Implements peers.h. A round fences dead instances, checks for missing handlers and rescues rows. A fault of one of
 * these does not keep the others from their turn.
 *
 * A round does what the heartbeat has found (heartbeat_is_due). While there is nothing, there is no connection.
 *
 * A round begins a moment after a heartbeat, because only recent heartbeats allow fencing (rule R4): after an outage of the
 * database every instance is late, and none of them is dead.
 */
#include "lease/peers.h"

#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "lease/lease_clock.h"
#include "periodic/periodic.h"
#include "report/meters.h"

#define LOCK_TIMEOUT_MS 2000
#define STATEMENT_MS    5000
#define PART_MOST_MS    5000
#define FAULT_LEAST_MS  100
#define FAULT_MOST_MS   5000
#define BEHIND_MS       100 /* from the sending of a heartbeat to the round behind it */
#define WHEN_LATE_MS    500 /* pause while the heartbeat is late */

struct peers {
	struct peers_options options;
	struct periodic periodic;
	struct absence absence;
	struct rescue rescue;
	bool is_first_round; /* true only in the first round */
	bool unfinished;     /* the last round failed, or more rows are left to rescue */
};

static int64_t interval_ms(const struct peers *peers)
{
	return peers->options.config->worker.lease / HEARTBEATS_A_LEASE;
}

/* How long one part of a round may take, however long the lease is. */
static int64_t part_ms(const struct peers *peers)
{
	return interval_ms(peers) < PART_MOST_MS ? interval_ms(peers) : PART_MOST_MS;
}

static int fence(struct peers *peers, struct err *err)
{
	const struct fencing fencing = {
		.host_id = peers->is_first_round ? peers->options.host_id : "",
		.earlier = peers->is_first_round ? peers->options.earlier : 0,
		.until_ms = peers->is_first_round ? clock_now_ms() + part_ms(peers) : 0,
		.lease_ms = peers->options.config->worker.lease,
		.steady_ms = heartbeat_steady_ms(peers->options.heartbeat),
	};
	int fenced = 0;
	int r;

	r = instance_fence(peers->periodic.db, peers->options.instance, &fencing, &fenced, err);
	if (r != 0)
		return r;
	if (fenced > 0) {
		FAULT_POINT("after_fence");
		log_warn("instances_fenced", LOG_INT("count", fenced),
			LOG_STR("next", "their messages are set to waiting"));
	}
	return 0;
}

/* Decides whether this instance must leave the group because its messages need a handler that is missing here (rule R16);
 * ingest acts on it. */
static int check_handlers(struct peers *peers, struct err *err)
{
	const struct config *config = peers->options.config;
	const struct absence_limits limits = {
		.lease_ms = config->worker.lease,
		.absence_ms = config->inbox.handler_absence,
	};
	struct absence *absence = &peers->absence;
	int r;

	if (config->inbox.handler_absence == CONFIG_NEVER)
		return 0;
	r = instance_absence(peers->periodic.db, peers->options.instance, &limits, absence, err);
	if (r != 0)
		return r;
	if (absence->away != atomic_exchange(&peers->options.health->away, absence->away)) {
		if (absence->away)
			log_warn("handler_lacking", LOG_STR("handlers", absence->missing),
				LOG_STR("next",
					"this instance leaves the group to members that have these "
					"handlers; connect them here to join again"));
		else
			log_info("handler_missing_resolved");
	}
	return 0;
}

/* Rescues rows for a limited time, because the other work of a round waits for it. The rest follows in the next round,
 * without a pause. */
static int rescue(struct peers *peers, struct err *err)
{
	struct rescue *rescue = &peers->rescue;
	struct err said = ERR_INIT;
	int r;

	rescue->db = peers->periodic.db;
	rescue->stop = &peers->periodic.thread.stop;
	rescue->until_ms = clock_now_ms() + part_ms(peers);
	r = instance_rescue(rescue, &said);
	if (rescue->freed > 0) {
		metric_add(metrics_get(peers->options.metrics, METER_RESCUED, NULL, NULL),
			rescue->freed);
		log_info("messages_rescued", LOG_INT("rows", rescue->freed));
	}
	if (r >= 0 && said.fault != 0)
		log_warn("rescue_refused", LOG_STR("error", said.text),
			LOG_STR("sqlstate", said.state),
			LOG_STR("next",
				"the other rows are given back; this one is tried again later"));
	if (r < 0)
		*err = said;
	return r;
}

/* Until a moment after the next heartbeat that is due. If its answer takes longer, the rounds come often until it is there:
 * the one before is too old to fence by then. */
static int64_t pause_ms(const struct peers *peers, int64_t began_ms)
{
	int64_t due_ms = atomic_load(&peers->options.health->heartbeat_ms) + BEHIND_MS;

	if (due_ms <= began_ms)
		due_ms += interval_ms(peers);
	return due_ms > clock_now_ms() ? due_ms - clock_now_ms() : WHEN_LATE_MS;
}

static const struct duty {
	int (*run)(struct peers *peers, struct err *err);
	enum heartbeat_duty kind;
} duties[] = {
	{ fence, DUTY_DEAD },
	{ check_handlers, DUTY_LACKING },
	{ rescue, DUTY_DEAD },
};
#define DUTIES (sizeof(duties) / sizeof(duties[0]))

/* All duties in the first round, and after one that did not end. The decision to be away is in memory, too. */
static bool is_due(const struct peers *peers, const struct duty *duty)
{
	return peers->is_first_round || peers->unfinished ||
	       heartbeat_is_due(peers->options.heartbeat, duty->kind) ||
	       (duty->kind == DUTY_LACKING && peers->absence.noted);
}

static bool any_is_due(const struct peers *peers)
{
	bool any = false;

	for (size_t i = 0; i < DUTIES; i++)
		any = any || is_due(peers, &duties[i]);
	return any;
}

static int run_duties(struct peers *peers, bool *more, struct err *err)
{
	int fault = 0;

	for (size_t i = 0; i < DUTIES && db_is_open(peers->periodic.db); i++) {
		struct err said = ERR_INIT;
		int r = is_due(peers, &duties[i]) ? duties[i].run(peers, &said) : 0;

		*more |= r == RESCUE_MORE;
		if (r < 0 && fault == 0) {
			fault = r;
			*err = said;
		}
	}
	return fault;
}

static int run_round(void *arg, int64_t *pause, struct err *err)
{
	struct peers *peers = arg;
	int64_t began_ms = clock_now_ms();
	bool more = false;
	int fault;

	if (!any_is_due(peers)) {
		periodic_rest(&peers->periodic);
		*pause = pause_ms(peers, began_ms);
		return 0;
	}
	fault = periodic_open_db(&peers->periodic, err);
	if (fault == 0)
		fault = run_duties(peers, &more, err);
	peers->unfinished = fault != 0 || more;
	*pause = more ? 0 : pause_ms(peers, began_ms);
	return fault;
}

static void failed(
	void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_warn("peers_failed", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state), LOG_INT("retry_in_ms", retry_ms),
			LOG_STR("next", "the lease of this instance is not affected; fencing, the "
					"search for missing handlers and the rescue are tried "
					"again"),
			LOG_OUTAGE(line, clock_now_ms()));
}

static void recovered(void *arg, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_info("peers_back", LOG_INT("failures", line->failures),
			LOG_OUTAGE_ENDED(line, clock_now_ms()));
}

static const struct periodic_task task = {
	.thread = "peers",
	.lock_timeout_ms = LOCK_TIMEOUT_MS,
	.statement_timeout_ms = STATEMENT_MS,
	.fault_pause_least_ms = FAULT_LEAST_MS,
	.fault_pause_most_ms = FAULT_MOST_MS,
	.round = run_round,
	.failed = failed,
	.recovered = recovered,
};

int peers_new(struct peers **out, const struct peers_options *options, struct err *err)
{
	struct peers *peers = calloc(1, sizeof(*peers));
	const struct periodic_options periodic = { &task, options->config, options->metrics,
		options->instance, peers };
	int r;

	if (peers == NULL)
		return err_memory(err);
	peers->options = *options;
	atomic_store(&options->health->away, false);
	r = periodic_init(&peers->periodic, &periodic, err);
	if (r != 0) {
		peers_free(peers);
		return r;
	}
	*out = peers;
	return 0;
}

void peers_fence_earlier(struct peers *peers)
{
	peers->is_first_round = true;
	periodic_run_round(&peers->periodic);
	peers->is_first_round = false;
}

int peers_start(struct peers *peers, struct err *err)
{
	return periodic_start(&peers->periodic, err);
}

void peers_begin_stop(struct peers *peers)
{
	if (peers != NULL)
		periodic_request_stop(&peers->periodic);
}

void peers_stop(struct peers *peers)
{
	if (peers != NULL)
		periodic_stop(&peers->periodic);
}

void peers_free(struct peers *peers)
{
	if (peers == NULL)
		return;
	periodic_fini(&peers->periodic);
	buf_fini(&peers->absence.needed);
	free(peers);
}
