/*
 * See partition_index.h. A hash table of topics; each has an array of numbers by partition. Numbers are stored plus
 * one, so that memory of zeros means "not added". A partition's number in Kafka is below 100,000 in practice, so an
 * array costs less than a second hash table.
 */
#include "model/admission/partition_index.h"

#include <stdlib.h>
#include <string.h>

/* Without these definitions uthash ends the process if there is no memory. Its default hash function has fallthrough
 * cases that clang warns about. */
#define HASH_NONFATAL_OOM              1
#define uthash_nonfatal_oom(element)   ((element)->refused = 1)
#define HASH_FUNCTION(key, size, hash) HASH_FNV(key, size, hash)
#include <uthash.h>

#include "base/cleanup.h"

#define FIRST_ROOM 8

struct partition_index_topic {
	char *name;   /* owned */
	int *numbers; /* number + 1 by partition; 0 = not added */
	size_t room;
	int refused; /* the hash had no memory for it */
	UT_hash_handle hh;
};

static void topic_free(struct partition_index_topic *topic)
{
	if (topic == NULL)
		return;
	free(topic->name);
	free(topic->numbers);
	free(topic);
}
DEFINE_CLEANUP(struct partition_index_topic *, topic_free);

void partition_index_fini(struct partition_index *index)
{
	struct partition_index_topic *topic;
	struct partition_index_topic *next;

	HASH_ITER (hh, index->topics, topic, next) {
		HASH_DEL(index->topics, topic);
		topic_free(topic);
	}
}

static struct partition_index_topic *find_topic(
	const struct partition_index *index, const char *name)
{
	struct partition_index_topic *topic = NULL;

	HASH_FIND_STR(index->topics, name, topic);
	return topic;
}

int partition_index_find(const struct partition_index *index, const char *name, int32_t partition)
{
	const struct partition_index_topic *topic = find_topic(index, name);

	if (topic == NULL || partition < 0 || (size_t)partition >= topic->room)
		return -1;
	return topic->numbers[partition] - 1;
}

static struct partition_index_topic *add_topic(struct partition_index *index, const char *name)
{
	CLEANUP(topic_freep) struct partition_index_topic *topic = calloc(1, sizeof(*topic));
	struct partition_index_topic *made;

	if (topic == NULL)
		return NULL;
	topic->name = strdup(name);
	if (topic->name == NULL)
		return NULL;
	HASH_ADD_KEYPTR(hh, index->topics, topic->name, strlen(topic->name), topic);
	if (topic->refused)
		return NULL;
	made = topic;
	topic = NULL;
	return made;
}

static int widen(struct partition_index_topic *topic, size_t partition)
{
	size_t room = topic->room == 0 ? FIRST_ROOM : topic->room;
	int *numbers;

	if (partition < topic->room)
		return 0;
	while (room <= partition)
		room *= 2;
	numbers = realloc(topic->numbers, room * sizeof(*numbers));
	if (numbers == NULL)
		return -1;
	memset(numbers + topic->room, 0, (room - topic->room) * sizeof(*numbers));
	topic->numbers = numbers;
	topic->room = room;
	return 0;
}

const char *partition_index_add(
	struct partition_index *index, const char *name, int32_t partition, int number)
{
	struct partition_index_topic *topic = find_topic(index, name);

	if (topic == NULL)
		topic = add_topic(index, name);
	if (topic == NULL || widen(topic, (size_t)partition) < 0)
		return NULL;
	topic->numbers[partition] = number + 1;
	return topic->name;
}
