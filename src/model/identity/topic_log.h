/*
 * Which log of a topic is read. A topic that is deleted and created again has another log under the same name: the next
 * generation (docs/adr/0037). Records of different generations can have the same partition, offset and timestamp. So the
 * generation is part of every name that is made of these: the ids of records without an id, and the coordinates in
 * inbox_rejects and inbox_conflicts. Pure.
 */
#ifndef MODEL_IDENTITY_TOPIC_LOG_H
#define MODEL_IDENTITY_TOPIC_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define TOPIC_ID_BYTES  32 /* Kafka's id as base64, and its NUL */
#define TOPIC_IDS_BYTES 128

struct topic_log {
	int32_t generation; /* 1 = the first */
	int64_t from;       /* records below this offset have the generation before */
	/* Kafka's id of the topic and behind it the ids of earlier generations, newest first, with spaces between;
	 * "" = unknown, "-" in place of an id that was never known */
	char ids[TOPIC_IDS_BYTES];
};

/* The first generation, with an unknown id. */
#define TOPIC_LOG_FIRST                                                                            \
	(struct topic_log)                                                                         \
	{                                                                                          \
		.generation = 1                                                                    \
	}

/* How an id that a broker has sent ("" = none) compares. An id of an earlier generation comes from a broker that is not
 * up to date, and proves nothing. */
enum topic_id_match {
	TOPIC_ID_UNPROVEN, /* no broker sent one, or none is known, or it is an earlier one */
	TOPIC_ID_SAME,
	TOPIC_ID_OTHER, /* the topic was created again */
};
enum topic_id_match topic_log_match(const struct topic_log *log, const char *id);
/* Begins the next generation at offset `from`; `id` "" = its id is unknown, NULL = the topic has kept its id. */
void topic_log_begin(struct topic_log *log, int64_t from, const char *id);
/* Notes the id of a log whose id is unknown, unless it is one of an earlier generation. True: noted. */
bool topic_log_note_id(struct topic_log *log, const char *id);
/* The generation of the record at this offset. */
int32_t topic_log_generation(const struct topic_log *log, int64_t offset);

#endif
