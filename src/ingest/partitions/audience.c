/*
 * Implements audience.h. All instances of a schema store messages for all known consumers, also for those that only
 * another instance lists. Otherwise a message of a new consumer would be stored or not by chance during a rolling update:
 * by which instance reads its partition (ADR 0031).
 *
 * A consumer that becomes known gets streams of all partitions. Other instances may hold rows of these streams, so the
 * partitions are acquired again, with a search for such rows (rule R12; acquire.c). A consumer that is not known any more keeps its
 * streams, but nothing is stored for it.
 */
#include "ingest/partitions/audience.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ingest/partitions/flow.h"
#include "store/batches/batch_writer.h"
#include "store/batches/known_consumers.h"

static int add_own(struct consumers *own, const struct consumers *names,
	const struct consumer_rules *rules, struct err *err)
{
	struct consumer *made =
		consumers_add(own, consumers_present_name(names, rules->name), rules->ordering);
	int r = made == NULL ? err_memory(err) : 0;

	for (size_t i = 0; r == 0 && i < rules->topics.count; i++)
		r = consumer_add_topic(made, rules->topics.items[i], err);
	for (size_t i = 0; r == 0 && i < rules->types.count; i++)
		r = consumer_add_type(made, rules->types.items[i], err);
	return r;
}

int audience_init(struct audiences *audiences, const struct config *config,
	const struct consumers *names, struct err *err)
{
	int r = 0;

	if (config->consumer_count == 0 &&
		consumers_add(&audiences->own, consumers_present_name(names, ""),
			config->inbox.ordering) == NULL)
		return err_memory(err);
	for (size_t i = 0; r == 0 && i < config->consumer_count; i++)
		r = add_own(&audiences->own, names, &config->consumers[i], err);
	return r;
}

void audience_fini(struct audiences *audiences)
{
	consumers_fini(&audiences->own);
	consumers_fini(&audiences->known);
}

/* --- The streams of a partition ------------------------------------------------------------------ */

static struct audience_member *member_of(struct audience *audience, size_t stream)
{
	for (size_t i = 0; i < audience->count; i++) {
		if (audience->members[i].stream == stream)
			return &audience->members[i];
	}
	return NULL;
}

static int add_member(struct audience *audience, size_t stream, struct err *err)
{
	struct audience_member *members =
		realloc(audience->members, (audience->count + 1) * sizeof(*members));

	if (members == NULL)
		return err_memory(err);
	audience->members = members;
	members[audience->count++] = (struct audience_member){ .stream = stream };
	return 0;
}

static int include(struct ingest *ingest, struct partition *partition,
	const struct consumer *consumer, struct err *err)
{
	struct admission *admission = ingest->options.admission;
	struct audience *audience = &partition->audience;
	struct audience_member *member;
	int number = admission_consumer(admission, consumer->name, consumer->ordering, err);
	int stream;
	int r = 0;

	if (number < 0)
		return number;
	stream = admission_stream(
		admission, partition->topic, partition->partition, (size_t)number, err);
	if (stream < 0)
		return stream;
	member = member_of(audience, (size_t)stream);
	if (member == NULL) {
		r = add_member(audience, (size_t)stream, err);
		if (r < 0)
			return r;
		member = &audience->members[audience->count - 1];
	}
	member->name = admission_get(admission, (size_t)stream).consumer;
	member->consumer = consumer_wants_topic(consumer, partition->topic) ? consumer : NULL;
	return 0;
}

int audience_of(struct ingest *ingest, struct partition *partition, struct err *err)
{
	const struct consumers *known = &ingest->audiences.known;
	int r = 0;

	for (size_t i = 0; i < partition->audience.count; i++)
		partition->audience.members[i].consumer = NULL;
	for (size_t i = 0; r == 0 && i < known->count; i++)
		r = include(ingest, partition, &known->items[i], err);
	return r;
}

void audience_dirty(struct ingest *ingest, const struct partition *partition)
{
	for (size_t i = 0; i < partition->audience.count; i++)
		admission_dirty(ingest->options.admission, partition->audience.members[i].stream);
}

/* --- The known consumers -------------------------------------------------------------------------- */

static void log_consumer(const struct ingest *ingest, const char *name, bool known)
{
	if (!known)
		log_warn("consumer_ended", LOG_STR("consumer", name),
			LOG_STR("next", "no sidecar lists it any more: nothing is stored for it; "
					"its messages that wait stay in the table"));
	else if (consumers_find(&ingest->audiences.own, name) == NULL)
		log_warn("consumer_not_listed", LOG_STR("consumer", name),
			LOG_STR("why", "another sidecar lists it, or did within "
				       "inbox.handler_memory"),
			LOG_STR("next",
				"messages are stored for it here, too; to give it another name: "
				"`inboxd consumers rename`; to end it once no sidecar "
				"lists it: `inboxd consumers forget`"));
}

/* Own consumers are known even if their rows are locked or were deleted a moment ago. */
static int complete(const struct audiences *audiences, struct consumers *known, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < audiences->own.count; i++) {
		if (consumers_find(known, audiences->own.items[i].name) == NULL)
			r = consumers_copy(known, &audiences->own.items[i], err);
	}
	return r;
}

static bool is_equal(const struct consumers *a, const struct consumers *b)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++) {
		const struct consumer *other = consumers_find(b, a->items[i].name);

		equal = other != NULL && consumer_equals(&a->items[i], other);
	}
	return equal;
}

/* Replaces the known consumers. Every pointer to an earlier one is replaced, too. A rename ends this instance run, whose own
 * consumers have the earlier names; so the next run logs which consumers are not listed. */
static int change(struct ingest *ingest, struct consumers *known, struct err *err)
{
	struct audiences *audiences = &ingest->audiences;
	struct consumers before = audiences->known;
	bool logs = consumers_have_same_names(known, ingest->options.names);
	bool grown = false;
	int r = 0;

	audiences->known = *known;
	*known = (struct consumers)CONSUMERS_INIT;
	for (size_t i = 0; i < audiences->known.count; i++) {
		const struct consumer *consumer = &audiences->known.items[i];

		if (consumers_find(&before, consumer->name) != NULL)
			continue;
		grown = true;
		if (logs)
			log_consumer(ingest, consumer->name, true);
	}
	for (size_t i = 0; i < before.count; i++) {
		if (logs && consumers_find(&audiences->known, before.items[i].name) == NULL)
			log_consumer(ingest, before.items[i].name, false);
	}
	for (size_t i = 0; r == 0 && i < ingest->partitions.count; i++)
		r = audience_of(ingest, ingest->partitions.items[i], err);
	consumers_fini(&before);
	return r == 0 && grown ? AUDIENCE_GROWN : r;
}

/* A consumer has another name than at the start of this instance run. Messages in memory and sessions have the earlier one, so the
 * run ends in order, and another one begins with the new name. Until then nothing is stored (ADR 40). */
static void note_names(struct ingest *ingest, const struct consumers *known)
{
	batch_writer_set_moving(ingest->writer, consumers_are_moving(known));
	if (consumers_have_same_names(known, ingest->options.names))
		ingest->audiences.doubtful = false;
	else
		ingest_renamed(ingest);
}

int audience_check_names(struct ingest *ingest, struct err *err)
{
	CLEANUP(consumers_fini) struct consumers known = CONSUMERS_INIT;
	int r = ingest->audiences.doubtful ? known_consumers_read(ingest->db, &known, err) : 0;

	if (r == 0 && ingest->audiences.doubtful)
		note_names(ingest, &known);
	return r;
}

int audience_read(struct ingest *ingest, struct err *err)
{
	CLEANUP(consumers_fini) struct consumers known = CONSUMERS_INIT;
	int r = known_consumers_read(ingest->db, &known, err);

	if (r == 0)
		note_names(ingest, &known);
	if (r == 0)
		r = complete(&ingest->audiences, &known, err);
	if (r == 0)
		r = admission_keep_known(ingest->options.admission, &known, err);
	if (r == 0 && !is_equal(&known, &ingest->audiences.known))
		r = change(ingest, &known, err);
	return r;
}

static void log_replaced(void *arg, const char *name, const char *before, const char *after)
{
	(void)arg;
	log_warn("consumer_redefined", LOG_STR("consumer", name), LOG_STR("before", before),
		LOG_STR("after", after),
		LOG_STR("why",
			"the configuration of this sidecar defines it otherwise, and the newest "
			"registration decides"),
		LOG_STR("next", "all sidecars of the schema use its new topics and types"));
}

int audience_keep(struct ingest *ingest, struct err *err)
{
	struct audiences *audiences = &ingest->audiences;
	const struct config *config = atomic_load(&ingest->reloaded);
	const struct consumers_listing listing = {
		.own = &audiences->own,
		.memory_ms = config->inbox.handler_memory + config->worker.lease,
		.define = !audiences->defined,
		.replaced = log_replaced,
	};
	int r = known_consumers_keep(ingest->db, &listing, err);

	audiences->defined |= r == 0;
	return r < 0 ? r : 0;
}
