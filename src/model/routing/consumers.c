/*
 * See consumers.h. There are few consumers, so a list is searched from its start. Topics are compared once for each
 * partition (ingest/partitions/audience.c), types for each record.
 */
#include "model/routing/consumers.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

static void texts_fini(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->items[i]);
	free(texts->items);
}

static int texts_add(struct texts *texts, const char *text, struct err *err)
{
	char **items = realloc(texts->items, (texts->count + 1) * sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	texts->items = items;
	items[texts->count] = strdup(text);
	if (items[texts->count] == NULL)
		return err_memory(err);
	texts->count++;
	return 0;
}

static bool texts_equal(const struct texts *a, const struct texts *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	}
	return true;
}

void consumers_fini(struct consumers *consumers)
{
	for (size_t i = 0; i < consumers->count; i++) {
		free(consumers->items[i].name);
		texts_fini(&consumers->items[i].topics);
		texts_fini(&consumers->items[i].types);
	}
	for (size_t i = 0; i < consumers->rename_count; i++) {
		free(consumers->renames[i].from);
		free(consumers->renames[i].to);
	}
	free(consumers->items);
	free(consumers->renames);
	texts_fini(&consumers->unnamed);
	*consumers = (struct consumers)CONSUMERS_INIT;
}

struct consumer *consumers_find(const struct consumers *consumers, const char *name)
{
	for (size_t i = 0; i < consumers->count; i++) {
		if (strcmp(consumers->items[i].name, name) == 0)
			return &consumers->items[i];
	}
	return NULL;
}

struct consumer *consumers_add(
	struct consumers *consumers, const char *name, enum ordering ordering)
{
	struct consumer *items = realloc(consumers->items, (consumers->count + 1) * sizeof(*items));
	struct consumer *made;

	if (items == NULL)
		return NULL;
	consumers->items = items;
	made = &items[consumers->count];
	*made = (struct consumer){ .name = strdup(name), .ordering = ordering };
	if (made->name == NULL)
		return NULL;
	consumers->count++;
	return made;
}

int consumer_add_topic(struct consumer *consumer, const char *topic, struct err *err)
{
	return texts_add(&consumer->topics, topic, err);
}

int consumer_add_type(struct consumer *consumer, const char *type, struct err *err)
{
	return texts_add(&consumer->types, type, err);
}

int consumers_add_rename(
	struct consumers *consumers, const char *from, const char *to, bool moving, struct err *err)
{
	struct consumer_rename *renames =
		realloc(consumers->renames, (consumers->rename_count + 1) * sizeof(*renames));
	struct consumer_rename *made;

	if (renames == NULL)
		return err_memory(err);
	consumers->renames = renames;
	made = &renames[consumers->rename_count++];
	*made = (struct consumer_rename){ strdup(from), strdup(to), moving };
	return made->from == NULL || made->to == NULL ? err_memory(err) : 0;
}

int consumers_add_unnamed(struct consumers *consumers, const char *handler, struct err *err)
{
	return texts_add(&consumers->unnamed, handler, err);
}

int consumers_copy_names(struct consumers *consumers, const struct consumers *from, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->rename_count; i++)
		r = consumers_add_rename(consumers, from->renames[i].from, from->renames[i].to,
			from->renames[i].moving, err);
	for (size_t i = 0; r == 0 && i < from->unnamed.count; i++)
		r = consumers_add_unnamed(consumers, from->unnamed.items[i], err);
	return r;
}

const char *consumers_present_name(const struct consumers *consumers, const char *name)
{
	for (size_t i = 0; i < consumers->rename_count; i++) {
		if (strcmp(consumers->renames[i].from, name) == 0)
			return consumers->renames[i].to;
	}
	return name;
}

bool consumers_are_moving(const struct consumers *consumers)
{
	bool moving = false;

	for (size_t i = 0; i < consumers->rename_count; i++)
		moving |= consumers->renames[i].moving;
	return moving;
}

bool consumers_have_same_names(const struct consumers *a, const struct consumers *b)
{
	bool same = a->rename_count == b->rename_count;

	for (size_t i = 0; same && i < a->rename_count; i++)
		same = strcmp(a->renames[i].to, consumers_present_name(b, a->renames[i].from)) == 0;
	return same;
}

const char *consumers_of_handler(const struct consumers *consumers, const char *handler,
	const char *named, const char *(*is_known)(void *arg, const char *name), void *arg)
{
	const char *found = NULL;

	if (named != NULL)
		return is_known(arg, consumers_present_name(consumers, named));
	for (size_t i = 0; found == NULL && i < consumers->unnamed.count; i++) {
		if (strcmp(consumers->unnamed.items[i], handler) == 0)
			found = is_known(arg, "");
	}
	if (found == NULL)
		found = is_known(arg, consumers_present_name(consumers, handler));
	return found != NULL ? found : is_known(arg, consumers_present_name(consumers, ""));
}

int consumers_copy(struct consumers *consumers, const struct consumer *from, struct err *err)
{
	struct consumer *made = consumers_add(consumers, from->name, from->ordering);
	int r = made == NULL ? err_memory(err) : 0;

	for (size_t i = 0; r == 0 && i < from->topics.count; i++)
		r = consumer_add_topic(made, from->topics.items[i], err);
	for (size_t i = 0; r == 0 && i < from->types.count; i++)
		r = consumer_add_type(made, from->types.items[i], err);
	return r;
}

/* The configuration has checked the expression, here or in the sidecar that listed the consumer. */
static bool matches(const char *expression, const char *topic)
{
	regex_t regex;
	bool found;

	if (regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	found = regexec(&regex, topic, 0, NULL, 0) == 0;
	regfree(&regex);
	return found;
}

bool topic_fits(const char *entry, const char *topic)
{
	return entry[0] == '^' ? matches(entry, topic) : strcmp(entry, topic) == 0;
}

bool consumer_wants_topic(const struct consumer *consumer, const char *topic)
{
	for (size_t i = 0; i < consumer->topics.count; i++) {
		if (topic_fits(consumer->topics.items[i], topic))
			return true;
	}
	return consumer->topics.count == 0;
}

bool consumer_wants_type(const struct consumer *consumer, const char *type)
{
	for (size_t i = 0; i < consumer->types.count; i++) {
		const char *pattern = consumer->types.items[i];
		size_t length = strlen(pattern);
		bool prefix = length > 0 && pattern[length - 1] == '*';

		if (prefix && length == 1)
			return true;
		if (type != NULL && (prefix ? strncmp(pattern, type, length - 1) == 0
					    : strcmp(pattern, type) == 0))
			return true;
	}
	return consumer->types.count == 0;
}

bool consumer_equals(const struct consumer *a, const struct consumer *b)
{
	return a->ordering == b->ordering && a->unlisted == b->unlisted &&
	       texts_equal(&a->topics, &b->topics) && texts_equal(&a->types, &b->types);
}
