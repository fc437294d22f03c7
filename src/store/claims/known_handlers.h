/*
 * The table inbox_handlers: every handler that connected to any instance of the schema, its
 * subscriptions and the time it was last seen. A message for a known handler that is away waits for
 * it (rule R15). Times are PostgreSQL's. Blocking; one db, one thread: a worker's.
 */
#ifndef STORE_CLAIMS_KNOWN_HANDLERS_H
#define STORE_CLAIMS_KNOWN_HANDLERS_H

#include "model/admission/pauses.h"
#include "model/routing/consumers.h"
#include "model/routing/routing.h"
#include "store/pg/db.h"

/* A handler of this instance. */
struct known_own {
	char *name;
	char *consumer;
	char *subscriptions;  /* JSON, as in the hello */
	int64_t hello_age_ms; /* age of its newest hello */
	int64_t gone_ms;      /* time since its last connection ended; 0 = it is connected */
	bool fresh;           /* the hello is not recorded in the table yet */
};
void known_own_free(struct known_own *own, size_t count);

struct known_request {
	int32_t instance;
	int64_t memory_ms; /* 0: only handlers connected to this instance are known */
	int64_t lease_ms;
	const struct known_own *own;
	size_t count;
	const struct consumers *consumers; /* those that this instance lists */
};

struct known_handler {
	bool known; /* false: its memory time has ended and only the row is left */
	struct remembered remembered;
};
struct known {
	struct known_handler *items; /* the newest hello first */
	size_t count;
	struct subscription *subs; /* the subscriptions that the items point to */
	struct rows *rows;         /* owns the texts */
	struct pauses pauses;      /* what operators have paused */
	bool pauses_read;          /* `pauses` is set, also after a fault */
};
void known_fini(struct known *known);

/* Reads all pauses; then notes that the consumers of this instance are still listed, records its handlers, and reads all handlers. Handlers connected here have no
 * subscriptions in `out`. A row of a handler that somebody has locked is a fault; the pauses are read before it. */
int known_exchange(
	struct db *db, const struct known_request *request, struct known *out, struct err *err);

#endif
