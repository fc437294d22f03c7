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

void audience_fini(struct audiences *audiences)
{
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

static void log_ended(const char *name)
{
	log_warn("consumer_ended", LOG_STR("consumer", name),
		LOG_STR("next", "no sidecar lists it any more: nothing is stored for it; "
				"its messages that wait stay in the table"));
}

/* The consumer without a name is listed only by a configuration without consumers. So beside consumers with names it is usually
 * one that nobody has renamed. */
static void log_not_listed(const struct consumer *consumer)
{
	log_warn("consumer_not_listed", LOG_STR("consumer", consumer->name),
		LOG_STR("why",
			consumer->unlisted
				? "no running sidecar lists it, and messages are stored for it"
				: "a sidecar has listed it within the last minute, but not "
				  "this one, which stores messages for it, too"),
		LOG_STR("next",
			*consumer->name == '\0'
				? "if the section consumers is new: this is the consumer that "
				  "the service had before; give it its name with `inboxd "
				  "consumers rename '' NAME`, or end it with `inboxd consumers "
				  "forget ''` once no sidecar lists it"
				: "to give it another name: `inboxd consumers rename`; to end it "
				  "once no sidecar lists it: `inboxd consumers forget`"));
}

/* Own consumers are known, and this sidecar lists them, even if their rows are locked or were deleted a moment ago. */
static int complete(const struct consumers *own, struct consumers *known, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < own->count; i++) {
		struct consumer *consumer = consumers_find(known, own->items[i].name);

		if (consumer != NULL)
			consumer->unlisted = false;
		else
			r = consumers_copy(known, &own->items[i], err);
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

/* Logs which consumers begin or end, and which ones no running sidecar lists from now on. Returns whether any begins. */
static bool compare(const struct consumers *own, const struct consumers *before,
	const struct consumers *known, bool logs)
{
	bool grown = false;

	for (size_t i = 0; i < known->count; i++) {
		const struct consumer *consumer = &known->items[i];
		const struct consumer *earlier = consumers_find(before, consumer->name);

		grown |= earlier == NULL;
		if (logs && consumers_find(own, consumer->name) == NULL &&
			(earlier == NULL || (consumer->unlisted && !earlier->unlisted)))
			log_not_listed(consumer);
	}
	for (size_t i = 0; logs && i < before->count; i++) {
		if (consumers_find(known, before->items[i].name) == NULL)
			log_ended(before->items[i].name);
	}
	return grown;
}

static int64_t count_unlisted(const struct consumers *known)
{
	int64_t count = 0;

	for (size_t i = 0; i < known->count; i++)
		count += known->items[i].unlisted ? 1 : 0;
	return count;
}

/* Replaces the known consumers. Every pointer to an earlier one is replaced, too. A rename ends this instance run, whose own
 * consumers have the earlier names; so the next run logs which consumers are not listed. */
static int change(struct ingest *ingest, struct consumers *known, struct err *err)
{
	struct audiences *audiences = &ingest->audiences;
	struct consumers before = audiences->known;
	bool grown;
	int r = 0;

	audiences->known = *known;
	*known = (struct consumers)CONSUMERS_INIT;
	grown = compare(ingest->options.own, &before, &audiences->known,
		consumers_have_same_names(&audiences->known, ingest->options.names));
	atomic_store(&ingest->options.health->unlisted, count_unlisted(&audiences->known));
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
		r = complete(ingest->options.own, &known, err);
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
		.own = ingest->options.own,
		.memory_ms = known_consumers_memory_ms(
			config->inbox.handler_memory, config->worker.lease),
		.define = !audiences->defined,
		.replaced = log_replaced,
	};
	int r = known_consumers_keep(ingest->db, &listing, err);

	audiences->defined |= r == 0;
	return r < 0 ? r : 0;
}
