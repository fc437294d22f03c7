/*
 * The memory of handlers: who connected to any sidecar of the schema, with which subscriptions, and when it
 * was seen last (inbox_handlers). Times are PostgreSQL's. Blocking; one db, one thread: a worker's.
 */
#ifndef STORE_KNOWN_HANDLERS_H
#define STORE_KNOWN_HANDLERS_H

#include "model/routing.h"
#include "store/db.h"

/* A handler of this sidecar. */
struct known_own {
	char *name;
	char *subscriptions; /* JSON, as in a hello */
	int64_t said_ms;     /* ago: its newest hello */
	int64_t gone_ms;     /* ago: its last connection ended; 0 = it is connected */
	bool fresh;          /* the hello is not recorded yet */
};
void known_own_free(struct known_own *own, size_t count);

struct known_request {
	int32_t instance;
	int64_t memory_ms; /* 0: nobody is known but those connected here */
	int64_t lease_ms;
	const struct known_own *own;
	size_t count;
};

struct known_handler {
	bool known; /* false: its memory is over, only the row is left */
	struct remembered remembered;
};
struct known {
	struct known_handler *items; /* the newest hello first */
	size_t count;
	struct subscription *subs; /* behind the items */
	struct rows *rows;         /* holds the texts */
};
void known_fini(struct known *known);

/* Records the handlers of this sidecar, and reads all there are. Those connected here have no subscriptions
 * in `out`. */
int known_exchange(
	struct db *db, const struct known_request *request, struct known *out, struct err *err);

#endif
