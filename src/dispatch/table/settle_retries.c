/*
 * Verdicts that are set aside: PostgreSQL refuses to update their rows while it updates others. The cause is a
 * trigger of the user that raises an error, or a damaged page. Such a verdict is tried again alone, with growing
 * pauses and without a limit. Meanwhile the others are settled.
 *
 * The message stays claimed, and the lane of its key does not continue: the next message must not be delivered before
 * the table has this verdict.
 */
#include "dispatch/table/settle_retries.h"

#include "base/clock.h"
#include "base/log.h"

#define FIRST_PAUSE_MS 1000
#define LAST_PAUSE_MS  60000
#define DOUBLINGS_MOST 16
#define PUT_OFF_MS     60000

static void mark_set_aside(struct dispatch *dispatch, struct entry *entry, bool set_aside)
{
	if (entry->set_aside == set_aside)
		return;
	entry->set_aside = set_aside;
	dispatch->set_aside_total += set_aside ? 1 : -1;
	metric_set(dispatch->set_aside_gauge, (double)dispatch->set_aside_total);
}

static int64_t pause_of(const struct entry *entry)
{
	int doublings =
		entry->set_aside_tries < DOUBLINGS_MOST ? entry->set_aside_tries : DOUBLINGS_MOST;
	int64_t pause = (int64_t)FIRST_PAUSE_MS << doublings;

	return pause < LAST_PAUSE_MS ? pause : LAST_PAUSE_MS;
}

static void log_set_aside(
	const struct entry *entry, const struct err *refusal, int64_t pause_ms, const char *next)
{
	const struct message *message = entry->message;

	log_warn("row_set_aside", LOG_INT("seq", message->seq),
		LOG_STR("event_id", message->event_id), LOG_STR("topic", message->topic),
		LOG_INT("partition", message->partition), LOG_INT("offset", message->offset),
		LOG_STR("error", refusal->text), LOG_STR("sqlstate", refusal->state),
		LOG_INT("retry_in_ms", pause_ms), LOG_STR("next", next));
}

void settle_retries_add(struct dispatch *dispatch, struct entry *entry, const struct err *refusal)
{
	struct settler *settler = &dispatch->settler;
	int64_t pause = pause_of(entry);
	struct entry *before = TAILQ_LAST(&settler->retries, entry_list);

	if (!entry->set_aside)
		log_set_aside(entry, refusal, pause,
			"its verdict is kept and retried alone; others are settled");
	mark_set_aside(dispatch, entry, true);
	entry->set_aside_tries++;
	entry->retry_at_ms = clock_now_ms() + pause;
	while (before != NULL && before->retry_at_ms > entry->retry_at_ms)
		before = TAILQ_PREV(before, entry_list, link);
	if (before == NULL)
		TAILQ_INSERT_HEAD(&settler->retries, entry, link);
	else
		TAILQ_INSERT_AFTER(&settler->retries, before, entry, link);
	settler->retries_count++;
}

bool settle_retries_is_due(const struct settler *settler, int64_t now_ms)
{
	const struct entry *first = TAILQ_FIRST(&settler->retries);

	return first != NULL && first->retry_at_ms <= now_ms;
}

bool settle_retries_give_due(struct dispatch *dispatch, int64_t now_ms)
{
	struct settler *settler = &dispatch->settler;
	struct entry *first = TAILQ_FIRST(&settler->retries);

	if (!settle_retries_is_due(settler, now_ms))
		return false;
	TAILQ_REMOVE(&settler->retries, first, link);
	settler->retries_count--;
	if (settler_give_alone(dispatch, first))
		return true;
	TAILQ_INSERT_HEAD(&settler->retries, first, link); /* no memory now */
	settler->retries_count++;
	return false;
}

void settle_retries_hurry(struct dispatch *dispatch)
{
	struct entry *entry;

	TAILQ_FOREACH (entry, &dispatch->settler.retries, link)
		entry->retry_at_ms = 0;
}

void settle_retries_end(struct dispatch *dispatch, struct entry *entry)
{
	if (!entry->set_aside)
		return;
	mark_set_aside(dispatch, entry, false);
	/* Perhaps the cause is gone, so the others are tried at once. */
	settle_retries_hurry(dispatch);
	log_info("row_taken_back", LOG_INT("seq", entry->message->seq),
		LOG_STR("event_id", entry->message->event_id),
		LOG_INT("tries", entry->set_aside_tries));
}

void settle_retries_put_off(
	struct dispatch *dispatch, struct entry *entry, const struct err *refusal)
{
	log_set_aside(entry, refusal, PUT_OFF_MS,
		"it is not delivered, because its crash count cannot be raised; it goes back to "
		"waiting");
	retry_policy_return(entry);
	entry->verdict.delay_ms = PUT_OFF_MS;
	if (entry->session != NULL)
		entry->session->suspect = NULL;
	entry->session = NULL;
	entry_settle(dispatch, entry);
}
