/*
 * Two tables of checks for /livez and /readyz. See health.h. A check writes the reason of its
 * failure, or nothing. All checks run, so that one request shows every reason.
 *
 * The rows of a table decide what an orchestrator does: a row in the first one restarts the process,
 * a row in the second one makes it not ready. Therefore nothing that a restart cannot cure is in the first.
 *
 * A sidecar that only publishes events has no ingest, which is the one that knows the brokers: those checks pass.
 */
#include "http/health.h"

#include <stddef.h>
#include <string.h>

#include "report/meters.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct check {
	const char *name;
	/* Appends the reason (plain ASCII without quotes, because it is copied into JSON
	 * unchanged). */
	void (*check)(const struct health_view *view, struct buf *detail);
};

static long long seconds(int64_t ms)
{
	return (long long)(ms / 1000);
}

/* A loop stores the time of each round. `since_ms` gives a new process time for the first round. */
static void check_tick(
	const struct health_view *view, int64_t tick_ms, const char *loop, struct buf *detail)
{
	int64_t last_ms = tick_ms > view->since_ms ? tick_ms : view->since_ms;

	if (view->now_ms - last_ms > HEALTH_STALL_MS)
		buf_addf(detail, "the %s loop has made no progress for %lld s", loop,
			seconds(view->now_ms - last_ms));
}

static void check_ingest(const struct health_view *view, struct buf *detail)
{
	if (!view->health->stopping && !view->health->sends_only)
		check_tick(view, view->health->ingest_tick_ms, "ingest", detail);
}

static void check_dispatch(const struct health_view *view, struct buf *detail)
{
	if (!view->health->stopping)
		check_tick(view, view->health->dispatch_tick_ms, "dispatch", detail);
}

static void check_running(const struct health_view *view, struct buf *detail)
{
	if (view->health->stopping)
		buf_add_str(detail, "stop requested: running deliveries are being finished");
}

static void check_database(const struct health_view *view, struct buf *detail)
{
	int64_t heartbeat_ms = view->health->heartbeat_ms;
	int64_t age_ms = view->now_ms - heartbeat_ms;

	if (heartbeat_ms == 0)
		buf_add_str(detail, "PostgreSQL has not confirmed a heartbeat yet");
	else if (age_ms > view->lease_ms)
		buf_addf(detail,
			"PostgreSQL last confirmed a heartbeat %lld s ago, the lease is %lld s",
			seconds(age_ms), seconds(view->lease_ms));
	else if (!view->health->database_ok || view->health->storing_fails)
		buf_add_str(detail, "PostgreSQL is unreachable or refuses to work, trying again");
}

static bool lease_is_held(const struct health_view *view)
{
	int64_t heartbeat_ms = view->health->heartbeat_ms;

	return heartbeat_ms != 0 && view->now_ms - heartbeat_ms <= view->lease_ms;
}

static void check_group(const struct health_view *view, struct buf *detail)
{
	/* An instance that is away has left its partitions to a member that can handle them, so
	 * nothing is wrong. */
	if (view->health->group_joined || view->health->away || view->health->sends_only)
		return;
	if (!lease_is_held(view))
		buf_add_str(detail, "out of the Kafka group until PostgreSQL confirms a heartbeat");
	else if (!view->health->broker_ok)
		buf_add_str(detail, "out of the Kafka group until a broker is reachable");
	else
		buf_add_str(detail,
			"joining the Kafka group: its broker has assigned no partitions "
			"yet, group_waiting in the log says why it may wait");
}

static void check_broker(const struct health_view *view, struct buf *detail)
{
	if (!view->health->broker_ok && !view->health->sends_only)
		buf_add_str(detail, "no Kafka broker is reachable");
}

/* The ticks are 0 until the loops run; check_tick() alone would call that progress. */
static void check_started(const struct health_view *view, struct buf *detail)
{
	bool ingest_runs = view->health->ingest_tick_ms != 0 || view->health->sends_only;

	if (!ingest_runs || view->health->dispatch_tick_ms == 0)
		buf_add_str(detail, "still starting");
}

/* Ingest sets stored_ms also when no record waits, so an old time means that records wait. */
static void check_stored(const struct health_view *view, struct buf *detail)
{
	int64_t stored_ms = view->health->stored_ms;
	int64_t last_ms = stored_ms > view->since_ms ? stored_ms : view->since_ms;

	if (!view->health->stopping && !view->health->sends_only &&
		view->now_ms - last_ms > HEALTH_STALL_MS)
		buf_addf(detail, "records are waiting, and none was stored for %lld s",
			seconds(view->now_ms - last_ms));
}

/* The other partitions continue, so stored_ms does not show it. */
static void check_stalled(const struct health_view *view, struct buf *detail)
{
	long long stalled = (long long)view->health->stalled;

	if (!view->health->stopping && stalled > 0)
		buf_addf(detail,
			"%lld partition%s cannot be read further: see partition_stalled in the log",
			stalled, stalled == 1 ? "" : "s");
}

/* A restart helps a loop that hangs, and nothing else. */
static const struct check alive_checks[] = {
	{ "ingest", check_ingest },
	{ "dispatch", check_dispatch },
};

static const struct check ready_checks[] = {
	{ "running", check_running },
	{ "database", check_database },
	{ "group", check_group },
	{ "broker", check_broker },
	{ "progress", check_started },
	{ "progress", check_ingest },
	{ "progress", check_dispatch },
	{ "progress", check_stored },
	{ "progress", check_stalled },
};

/* Appends the failures as elements of a JSON array; nothing when all checks pass. */
static void add_reasons(const struct health_view *view, const struct check *checks, size_t count,
	struct buf *reasons)
{
	for (size_t i = 0; i < count; i++) {
		size_t before = reasons->length;
		size_t start;

		buf_addf(reasons, "%s{\"check\":\"%s\",\"detail\":\"", before > 0 ? "," : "",
			checks[i].name);
		start = reasons->length;
		checks[i].check(view, reasons);
		if (reasons->length == start)
			reasons->length = before;
		else
			buf_add_str(reasons, "\"}");
	}
}

/* Begins the object. The caller ends it. */
static bool check(const struct health_view *view, const char *word, const struct check *checks,
	size_t count, struct buf *json)
{
	struct buf reasons = BUF_INIT;
	bool good;

	add_reasons(view, checks, count, &reasons);
	/* without memory for the reasons, the result is still the safe one */
	good = buf_ok(&reasons) && reasons.length == 0;
	buf_addf(json, "{\"%s\":%s", word, good ? "true" : "false");
	if (!good) {
		buf_add_str(json, ",\"reasons\":[");
		buf_add(json, reasons.data, buf_ok(&reasons) ? reasons.length : 0);
		buf_add_str(json, "]");
	}
	buf_fini(&reasons);
	return good;
}

bool health_alive(const struct health_view *view, struct buf *json)
{
	bool good = check(view, "alive", alive_checks, COUNT(alive_checks), json);

	buf_add_str(json, "}\n");
	return good;
}

/* Checks with the same name are adjacent and count as one. */
void health_show(const struct health_view *view, struct metrics *metrics)
{
	bool good = true;

	for (size_t i = 0; i < COUNT(ready_checks); i++) {
		const char *name = ready_checks[i].name;
		struct buf detail = BUF_INIT;

		if (i > 0 && strcmp(ready_checks[i - 1].name, name) != 0)
			good = true;
		ready_checks[i].check(view, &detail);
		good = good && buf_ok(&detail) && detail.length == 0;
		buf_fini(&detail);
		metric_set(metrics_get(metrics, METER_READY, name, NULL), good ? 1 : 0);
	}
}

/* Adds what an operator should look at although the sidecar is ready. */
static void add_notes(const struct health *health, struct buf *json)
{
	const struct {
		const char *words;
		long long count;
	} notes[] = {
		{ "messages that wait for a consumer that no sidecar lists any more",
			health->for_nobody },
		{ "consumers that no running sidecar lists, although messages are stored for them",
			health->unlisted },
		{ "messages that wait and that no connected handler has subscribed to",
			health->unrouted },
		{ "connected handlers whose consumer no sidecar lists any more", health->lapsed },
		{ "topics, consumers and handlers that are paused", health->paused },
	};
	const char *before = ",\"notes\":[";

	for (size_t i = 0; i < COUNT(notes); i++) {
		if (notes[i].count == 0)
			continue;
		buf_addf(json, "%s\"%s: %lld\"", before, notes[i].words, notes[i].count);
		before = ",";
	}
	if (strcmp(before, ",") == 0)
		buf_add_char(json, ']');
}

bool health_ready(const struct health_view *view, struct buf *json)
{
	bool good = check(view, "ready", ready_checks, COUNT(ready_checks), json);

	add_notes(view->health, json);
	buf_add_str(json, "}\n");
	return good;
}
