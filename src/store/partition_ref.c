/*
 * Implements partition_ref.h.
 */
#include "store/partition_ref.h"

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
