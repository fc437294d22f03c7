/*
 * Implements partition_ref.h.
 */
#include "store/partition_ref.h"

#include <string.h>

void add_partitions(struct params *params, const struct partition_ref *refs, size_t count)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);

	for (size_t i = 0; i < count; i++) {
		array_text(params, topic, refs[i].topic);
		array_int(params, partition, refs[i].partition);
	}
}

void add_streams(struct params *params, const struct stream_ref *refs, size_t count)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);
	int consumer = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < count; i++) {
		array_text(params, topic, refs[i].topic);
		array_int(params, partition, refs[i].partition);
		array_text(params, consumer, refs[i].consumer);
	}
}

static const char *const ordering_names[] = {
	[ORDERING_NONE] = "none",
	[ORDERING_KEY] = "key",
	[ORDERING_PARTITION] = "partition",
};

const char *ordering_name(enum ordering ordering)
{
	return ordering_names[ordering];
}

/* A check of the table refuses every other word. */
enum ordering ordering_of(const char *name)
{
	enum ordering ordering = ORDERING_PARTITION;

	while (ordering > ORDERING_NONE && strcmp(ordering_names[ordering], name) != 0)
		ordering--;
	return ordering;
}
