/*
 * Implements throttle.h. A client that a quota limits gets responses with and without a delay by turns, and librdkafka does
 * not say which broker has stopped delaying it. Therefore the end is a time without delays.
 */
#include "ingest/kafka/throttle.h"

#include "base/log.h"
#include "base/time/clock.h"
#include "report/meters.h"

#define END_MS 30000

void throttle_init(struct throttle *throttle, const char *client, struct metrics *metrics)
{
	*throttle = (struct throttle){
		.client = client,
	};
	if (metrics != NULL)
		throttle->seconds = metrics_get(metrics, METER_KAFKA_THROTTLE, client, NULL);
}

void throttle_note(struct throttle *throttle, const char *broker, int delay_ms)
{
	struct outage_log *log = &throttle->log;
	int64_t now_ms = clock_now_ms();

	if (delay_ms <= 0)
		return;
	if (throttle->seconds != NULL)
		metric_observe(throttle->seconds, delay_ms / 1000.0);
	if (outage_log_failed(log, 0, now_ms))
		log_warn("kafka_throttled", LOG_STR("client", throttle->client),
			LOG_STR("broker", broker), LOG_INT("delay_ms", delay_ms),
			LOG_INT("responses", log->failures),
			LOG_INT("since_s", (now_ms - log->since_ms) / 1000),
			LOG_STR("next", "the broker delays this client because of a quota: raise "
					"the quota of its user or client.id"));
}

void throttle_look(struct throttle *throttle)
{
	struct outage_log ended;

	if (throttle->log.failures == 0 || clock_now_ms() - throttle->log.failed_ms < END_MS)
		return;
	if (outage_log_ended(&throttle->log, &ended))
		log_info("kafka_throttle_ended", LOG_STR("client", throttle->client),
			LOG_INT("responses", ended.failures),
			LOG_INT("for_ms", ended.failed_ms - ended.since_ms));
}
