/*
 * Implements topic_log.h.
 */
#include "model/identity/topic_log.h"

#include <stdio.h>
#include <string.h>

#define UNKNOWN "-"

/* The position of an id in the list; -1 = it is not there. */
static int position(const struct topic_log *log, const char *id)
{
	const size_t length = strlen(id);
	const char *at = log->ids;

	for (int i = 0; *at != '\0'; i++) {
		const size_t one = strcspn(at, " ");

		if (one == length && memcmp(at, id, length) == 0)
			return i;
		at += one;
		at += strspn(at, " ");
	}
	return -1;
}

static bool is_known(const struct topic_log *log)
{
	return log->ids[0] != '\0' && position(log, UNKNOWN) != 0;
}

enum topic_id_match topic_log_match(const struct topic_log *log, const char *id)
{
	const int at = position(log, id);

	if (id[0] == '\0' || !is_known(log) || at > 0)
		return TOPIC_ID_UNPROVEN;
	return at == 0 ? TOPIC_ID_SAME : TOPIC_ID_OTHER;
}

/* Puts `id` in front of `rest`. What does not fit is cut off, the oldest ids first. */
static void put_first(struct topic_log *log, const char *id, const char *rest)
{
	char ids[sizeof(log->ids)] = "";
	int length = snprintf(ids, sizeof(ids), "%s%s%s", id, rest[0] == '\0' ? "" : " ", rest);

	if (length >= (int)sizeof(ids) && strrchr(ids, ' ') != NULL)
		*strrchr(ids, ' ') = '\0';
	memcpy(log->ids, ids, sizeof(ids));
}

void topic_log_begin(struct topic_log *log, int64_t from, const char *id)
{
	log->generation++;
	log->from = from;
	if (id != NULL)
		put_first(log, id[0] == '\0' ? UNKNOWN : id, log->ids);
}

bool topic_log_note_id(struct topic_log *log, const char *id)
{
	const char *rest = log->ids;

	if (id[0] == '\0' || is_known(log) || position(log, id) > 0)
		return false;
	rest += strcspn(rest, " ");
	rest += strspn(rest, " ");
	put_first(log, id, rest);
	return true;
}

int32_t topic_log_generation(const struct topic_log *log, int64_t offset)
{
	return offset >= log->from || log->generation <= 1 ? log->generation : log->generation - 1;
}
