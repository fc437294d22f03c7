/* See refused_verdicts.h. The list is in the order of the next tries; the pause of a verdict doubles with each try. */
#include "dispatch/table/settle/refused_verdicts.h"

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"

#define FIRST_PAUSE_MS 1000
#define LAST_PAUSE_MS  60000
#define DOUBLINGS_MOST 16
#define PUT_OFF_MS     60000

static void mark_set_aside(struct table *table, struct entry *entry, bool set_aside)
{
	if (entry->settling.set_aside == set_aside)
		return;
	entry->settling.set_aside = set_aside;
	table->settler.set_aside_total += set_aside ? 1 : -1;
	metric_set(table->set_aside_gauge, (double)table->settler.set_aside_total);
}

static int64_t pause_of(const struct entry *entry)
{
	int doublings = entry->settling.set_aside_tries < DOUBLINGS_MOST
				? entry->settling.set_aside_tries
				: DOUBLINGS_MOST;
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

void refused_verdicts_add(struct table *table, struct entry *entry, const struct err *refusal)
{
	struct settler *settler = &table->settler;
	int64_t pause = pause_of(entry);
	struct entry *before = TAILQ_LAST(&settler->refused, entry_list);

	if (!entry->settling.set_aside)
		log_set_aside(entry, refusal, pause,
			"its verdict is kept and retried alone; others are settled");
	mark_set_aside(table, entry, true);
	entry->settling.set_aside_tries++;
	entry->settling.retry_at_ms = clock_now_ms() + pause;
	while (before != NULL && before->settling.retry_at_ms > entry->settling.retry_at_ms)
		before = TAILQ_PREV(before, entry_list, link);
	if (before == NULL)
		TAILQ_INSERT_HEAD(&settler->refused, entry, link);
	else
		TAILQ_INSERT_AFTER(&settler->refused, before, entry, link);
	settler->refused_count++;
}

bool refused_verdicts_is_due(const struct settler *settler, int64_t now_ms)
{
	const struct entry *first = TAILQ_FIRST(&settler->refused);

	return first != NULL && first->settling.retry_at_ms <= now_ms;
}

struct entry *refused_verdicts_take_due(struct settler *settler, int64_t now_ms)
{
	struct entry *first = TAILQ_FIRST(&settler->refused);

	if (!refused_verdicts_is_due(settler, now_ms))
		return NULL;
	TAILQ_REMOVE(&settler->refused, first, link);
	settler->refused_count--;
	return first;
}

void refused_verdicts_put_back(struct settler *settler, struct entry *entry)
{
	TAILQ_INSERT_HEAD(&settler->refused, entry, link);
	settler->refused_count++;
}

void refused_verdicts_hurry(struct settler *settler)
{
	struct entry *entry;

	TAILQ_FOREACH (entry, &settler->refused, link)
		entry->settling.retry_at_ms = 0;
}

void refused_verdicts_end(struct table *table, struct entry *entry)
{
	if (!entry->settling.set_aside)
		return;
	mark_set_aside(table, entry, false);
	/* Perhaps the cause is gone, so the others are tried at once. */
	refused_verdicts_hurry(&table->settler);
	log_info("row_taken_back", LOG_INT("seq", entry->message->seq),
		LOG_STR("event_id", entry->message->event_id),
		LOG_INT("tries", entry->settling.set_aside_tries));
}

void refused_verdicts_put_off(struct table *table, struct entry *entry, const struct err *refusal)
{
	log_set_aside(entry, refusal, PUT_OFF_MS,
		"it is not delivered, because its crash count cannot be raised; it goes back to "
		"waiting");
	retry_policy_return(entry);
	entry->verdict.delay_ms = PUT_OFF_MS;
	entry_unreserve(entry);
	entry_settle(table->order, entry);
}
