/*
 * What operators have paused: topics, consumers and handlers to which nothing is delivered (rule R29). A list has each
 * of them once, in the order of the table. Pure. One thread.
 */
#ifndef MODEL_ADMISSION_PAUSES_H
#define MODEL_ADMISSION_PAUSES_H

#include <stdbool.h>
#include <stddef.h>

enum pause_kind { PAUSE_TOPIC, PAUSE_CONSUMER, PAUSE_HANDLER, PAUSE_KINDS };

struct pause {
	enum pause_kind kind;
	char *name;
	bool ingest; /* the topic is not read from Kafka either */
};

struct pauses {
	struct pause *items;
	size_t count;
};

/* "topic" and so on. */
const char *pause_kind_name(enum pause_kind kind);
/* PAUSE_KINDS: there is no such kind. */
enum pause_kind pause_kind_of(const char *name);

void pauses_fini(struct pauses *pauses);
/* False: no memory. */
bool pauses_add(struct pauses *pauses, enum pause_kind kind, const char *name, bool ingest);
/* False: no memory, and `out` is empty. */
bool pauses_copy(struct pauses *out, const struct pauses *from);
/* NULL: it is not paused. */
const struct pause *pauses_find(
	const struct pauses *pauses, enum pause_kind kind, const char *name);
bool pauses_equal(const struct pauses *a, const struct pauses *b);

#endif
