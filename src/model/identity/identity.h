/*
 * The identity of a record: its event id, source and type, found by the rules of its topic. Pure: no I/O, and no state
 * between two calls except scratch memory. One thread for each struct.
 *
 * CloudEvents are recognised first: binary mode (ce_ headers, CloudEvents Kafka binding 1.0.2, section 3.2) and
 * structured mode (content-type application/cloudevents…, section 3.3). Then the locators of the topic are tried in
 * their order. JSON is read as a stream, never as a tree.
 */
#ifndef MODEL_IDENTITY_IDENTITY_H
#define MODEL_IDENTITY_IDENTITY_H

#include "base/err.h"
#include "model/message/message.h"
#include "model/message/record.h"

#define IDENTITY_MAX_BYTES 1024 /* of an id, a type or a source */

struct identity_rules;
struct identity_finder;

/* The result: NUL-terminated UTF-8, borrowed from the finder until the next call. */
struct identity {
	const char *event_id;
	const char *source;
	const char *type;   /* NULL: no locator found one */
	const char *reject; /* the reason as a metric label, e.g. "id_empty"; NULL: not rejected */
	char words[256];    /* the reason as a text for an operator */
};

enum { IDENTITY_REJECT = 1, IDENTITY_SKIP = 2 };

/* Compiles the rules of a topic once. FAULT_CONFIG for an unknown locator or a malformed JSON pointer (RFC 6901); the
 * error text names it. Copies what it needs. */
struct identity_spec {
	const char *const *id; /* locators in order of preference */
	size_t id_count;
	const char *const *type;
	size_t type_count;
	const char *const *source;
	size_t source_count;
	const char *const *accept; /* event types to store, '*' at the end = prefix */
	size_t accept_count;
	bool missing_id_rejects;
};
int identity_rules_new(
	struct identity_rules **out, const struct identity_spec *spec, struct err *err);
void identity_rules_free(struct identity_rules *rules);

int identity_finder_new(struct identity_finder **out, struct err *err);
void identity_finder_free(struct identity_finder *finder);

/* 0: `out` is filled. IDENTITY_REJECT: `reject` and `words` have the reason. IDENTITY_SKIP: the rules do not accept
 * its type (a record without a type has the type "" for the patterns). The type is checked before the id, so a
 * skipped record is never rejected for its id. FAULT_MEMORY.  Reasons: id_missing, id_conflict, cloudevent_malformed,
 * and X_empty, X_too_long, X_nul, X_not_utf8 for X = id, type, source. An empty type or source counts as not found. A
 * record without a source has its topic as source. A record without an id gets `topic/partition/offset@timestamp_ms`
 * (the timestamp is -1 if there is none), with `#generation` behind it from the second generation on, unless the rules
 * reject it. */
int identity_find(struct identity_finder *finder, const struct identity_rules *rules,
	const struct record *record, struct identity *out, struct err *err);

/* Appends the id that a record without an id has: of the coordinates of its message. */
void identity_add_coordinates(struct buf *out, const struct message *message);
/* True if the message has that id. Without memory: false. */
bool identity_is_of_coordinates(const struct message *message);

#endif
