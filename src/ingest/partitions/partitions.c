/*
 * Implements partitions.h.
 */
#include "ingest/partitions/partitions.h"

#include <stdlib.h>
#include <string.h>

void partitions_fini(struct partitions *partitions)
{
	for (size_t i = 0; i < partitions->count; i++) {
		free(partitions->items[i]->audience.members);
		free(partitions->items[i]);
	}
	free(partitions->items);
	free(partitions->selected);
	free(partitions->refs);
	partition_index_fini(&partitions->index);
	*partitions = (struct partitions){ .items = NULL };
}

static bool is_latest(const struct partitions *partitions, const char *topic, int32_t partition)
{
	return partitions->latest != NULL && partitions->latest->partition == partition &&
	       strcmp(partitions->latest->topic, topic) == 0;
}

struct partition *partitions_find(
	struct partitions *partitions, const char *topic, int32_t partition)
{
	int number;

	if (is_latest(partitions, topic, partition))
		return partitions->latest;
	number = partition_index_find(&partitions->index, topic, partition);
	if (number < 0)
		return NULL;
	partitions->latest = partitions->items[number];
	return partitions->latest;
}

/* Each array that was widened is kept, also when a later one finds no memory. */
static int make_room(struct partitions *partitions)
{
	size_t room = partitions->room == 0 ? 16 : partitions->room * 2;
	struct partition **items;
	struct partition_offset *selected;
	struct partition_ref *refs;

	if (partitions->count < partitions->room)
		return 0;
	items = realloc(partitions->items, room * sizeof(struct partition *));
	if (items != NULL)
		partitions->items = items;
	selected = realloc(partitions->selected, room * sizeof(*selected));
	if (selected != NULL)
		partitions->selected = selected;
	refs = realloc(partitions->refs, room * sizeof(*refs));
	if (refs != NULL)
		partitions->refs = refs;
	if (items == NULL || selected == NULL || refs == NULL)
		return FAULT_MEMORY;
	partitions->room = room;
	return 0;
}

struct partition *partitions_get(
	struct partitions *partitions, const char *topic, int32_t number, bool *made)
{
	struct partition *partition = partitions_find(partitions, topic, number);

	*made = false;
	if (partition != NULL)
		return partition;
	if (make_room(partitions) < 0)
		return NULL;
	partition = calloc(1, sizeof(*partition));
	if (partition == NULL)
		return NULL;
	partition->topic =
		partition_index_add(&partitions->index, topic, number, (int)partitions->count);
	if (partition->topic == NULL) {
		free(partition);
		return NULL;
	}
	partition->partition = number;
	partition->leader = -1;
	partition_reset(partition, PARTITION_ABSENT);
	partitions->items[partitions->count++] = partition;
	*made = true;
	return partition;
}

void partitions_mark_none(struct partitions *partitions)
{
	for (size_t i = 0; i < partitions->count; i++)
		partitions->items[i]->due = false;
}

size_t partitions_number(const struct partitions *partitions, partition_test *test)
{
	size_t number = 0;

	for (size_t i = 0; i < partitions->count; i++)
		number += test(partitions->items[i]) ? 1 : 0;
	return number;
}

struct partition_offset *partitions_select(
	struct partitions *partitions, partition_test *test, size_t *count)
{
	*count = 0;
	for (size_t i = 0; i < partitions->count; i++) {
		const struct partition *partition = partitions->items[i];

		if (test(partition))
			partitions->selected[(*count)++] =
				(struct partition_offset){ partition->topic, partition->partition,
					-1, NULL };
	}
	return partitions->selected;
}

const struct partition_ref *partitions_refs(
	struct partitions *partitions, partition_test *test, size_t *count)
{
	*count = 0;
	for (size_t i = 0; i < partitions->count; i++) {
		const struct partition *partition = partitions->items[i];

		if (test(partition))
			partitions->refs[(*count)++] =
				(struct partition_ref){ partition->topic, partition->partition };
	}
	return partitions->refs;
}

void partition_reset(struct partition *partition, enum partition_state state)
{
	struct partition fresh = {
		.topic = partition->topic,
		.partition = partition->partition,
		.audience = partition->audience,
		.state = state,
		.leader = partition->leader,
		.table = { .next = -1, .last = { .offset = -1, .timestamp = -1 } },
		.read = { .next = -1, .last = { .offset = -1, .timestamp = -1 } },
		.verify = { .offset = -1 },
		.log = TOPIC_LOG_FIRST,
		.update = { .in_doubt = partition->update.in_doubt,
			.tried_next = -1,
			.may_hold = true },
		.offsets = { .group = -1, .stored = -1, .committed = -1 },
		.rules = partition->rules,
		.received = partition->received,
		.skipped = partition->skipped,
		.unwanted = partition->unwanted,
	};

	*partition = fresh;
}

void partition_keep(struct partition *partition)
{
	const struct table_row row = partition->table;

	partition_reset(partition, PARTITION_ADOPTED);
	partition->table = row;
}

void partition_note_row(struct partition *partition, const struct watermark *row)
{
	partition->table = (struct table_row){
		.next = row->next_offset,
		.last = { row->last_offset, row->last_timestamp, row->last_digest },
		.epoch = row->epoch,
		.forced = row->forced,
		.at_begin = row->at_begin,
	};
}

/* The last record of the table may be verified only while the row's offset is also the read
 * position. Otherwise a gap or another log may lie between them. */
void partition_verify_last(struct partition *partition)
{
	const struct last_record *table = &partition->table.last;
	bool read = partition->read.last.offset >= 0;
	struct last_record last = read ? partition->read.last : *table;

	if (partition->verify.offset >= 0 || last.offset < 0 || last.offset >= partition->read.next)
		return;
	if (!read && (partition->update.touched || partition->table.forced))
		return;
	last.digest = last.offset == table->offset ? table->digest : partition->read.last.digest;
	if (last.timestamp >= 0 || last.digest.known)
		partition->verify = last;
}

/* The update must repeat the last record of the table if none was read since. After a seek it waits for a record, because
 * the first update ends the effect of the seek. */
void partition_verified(struct partition *partition)
{
	partition->verify.offset = -1;
	if (!topic_log_note_id(&partition->log, partition->topic_id) || partition->table.next < 0 ||
		partition->table.forced)
		return;
	if (partition->read.last.offset < 0 && !partition->update.touched)
		partition->read.last = partition->table.last;
	partition->update.touched = true;
}

int64_t partition_seek_offset(const struct partition *partition)
{
	return partition->verify.offset >= 0 && partition->verify.offset < partition->read.next
		       ? partition->verify.offset
		       : partition->read.next;
}

bool partition_is_assigned(const struct partition *partition)
{
	return partition->state != PARTITION_ABSENT && partition->state != PARTITION_ADOPTED;
}

bool partition_is_new(const struct partition *partition)
{
	return partition->state == PARTITION_ASSIGNED && !partition_is_being_taken(partition);
}

bool partition_is_ours(const struct partition *partition)
{
	return partition->state == PARTITION_TAKEN || partition->state == PARTITION_READING ||
	       partition->state == PARTITION_ADOPTED;
}

bool partition_is_being_taken(const struct partition *partition)
{
	return partition->acquisition != 0;
}

bool partition_is_adopted(const struct partition *partition)
{
	return partition->state == PARTITION_ADOPTED;
}

bool partition_is_flowing(const struct partition *partition)
{
	return partition->flowing;
}

bool partition_is_due(const struct partition *partition)
{
	return partition->due;
}
