/*
 * The answer of GET /status. See status_page.h. The HTTP thread asks while the main thread ends one
 * instance run and begins another one; the lock keeps the dispatch that is asked from being freed.
 */
#include "daemon/status_page.h"

#include "base/time/clock.h"
#include "dispatch/dispatch.h"
#include "json/text.h"
#include "report/meters.h"

void status_page_show(struct daemon *daemon, struct dispatch *dispatch)
{
	(void)pthread_mutex_lock(&daemon->shown_lock);
	daemon->shown = dispatch;
	(void)pthread_mutex_unlock(&daemon->shown_lock);
}

static void add_handlers(struct daemon *daemon, struct buf *json,
	void (*names)(struct dispatch *dispatch, struct buf *out))
{
	(void)pthread_mutex_lock(&daemon->shown_lock);
	if (daemon->shown != NULL)
		names(daemon->shown, json);
	else
		buf_add_str(json, "[]");
	(void)pthread_mutex_unlock(&daemon->shown_lock);
}

void status_page_add(struct buf *json, void *arg)
{
	struct daemon *daemon = arg;
	const struct health *health = &daemon->health;

	buf_addf(json, "{\"version\":\"%s\",\"socket\":", INBOXD_VERSION);
	json_add_string(json, bytes_of(daemon->options.config->socket.path));
	buf_addf(json, ",\"instance\":%d,\"uptime_s\":%lld", atomic_load(&daemon->instance),
		(long long)(clock_now_ms() - daemon->started_ms) / 1000);
	buf_addf(json,
		",\"database_ok\":%s,\"broker_ok\":%s,\"group_joined\":%s,\"away\":%s,\"stopping\":"
		"%s,\"sends_only\":%s",
		atomic_load(&health->database_ok) && !atomic_load(&health->storing_fails) ? "true"
											  : "false",
		atomic_load(&health->sends_only)  ? "null"
		: atomic_load(&health->broker_ok) ? "true"
						  : "false",
		atomic_load(&health->group_joined) ? "true" : "false",
		atomic_load(&health->away) ? "true" : "false",
		atomic_load(&health->stopping) ? "true" : "false",
		atomic_load(&health->sends_only) ? "true" : "false");
	buf_addf(json,
		",\"claimed\":%.0f,\"waiting\":%.0f,\"dead\":%.0f,\"unrouted\":%.0f,"
		"\"waiting_for_nobody\":%lld,\"handlers_lapsed\":%lld,\"handlers\":",
		metric_value(metrics_get(daemon->metrics, METER_CLAIMED, NULL, NULL)),
		metrics_sum(daemon->metrics, METER_WAITING),
		metric_value(metrics_get(daemon->metrics, METER_DEAD, NULL, NULL)),
		metrics_sum(daemon->metrics, METER_UNROUTED),
		(long long)atomic_load(&health->for_nobody),
		(long long)atomic_load(&health->lapsed));
	add_handlers(daemon, json, dispatch_handlers);
	buf_add_str(json, ",\"handlers_away\":");
	add_handlers(daemon, json, dispatch_handlers_away);
	buf_add_str(json, ",\"paused\":");
	add_handlers(daemon, json, dispatch_paused);
	buf_add_char(json, '}');
}
