/*
 * What the store's tests share: a schema of the test's own in the PostgreSQL that PG* variables name,
 * a registered instance with an acquired partition, and short helpers for rows and queries.
 */
#ifndef TESTS_SQL_WORLD_H
#define TESTS_SQL_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/message/batch.h"
#include "store/batches/watermarks.h"
#include "store/claims/claims.h"
#include "store/claims/settle.h"
#include "store/leases/instance.h"

struct pg_conn;

struct world {
	char schema[64];
	struct db *db;        /* the sidecar's */
	struct pg_conn *psql; /* an operator's, or a handler's transaction */
	struct pg_conn *other;
	struct instance me;
	struct batch_writer *writer;
	enum ordering ordering;
	struct batch batch;
	struct watermark mark; /* of orders/0, as it was taken; topic is NULL */
	int64_t next;          /* where the watermark is */
};

/* Sets up and tears down per test; fresh schema, migrated, orders/0 taken, order by key. */
int world_setup(void **state);
int world_setup_unordered(void **state);
int world_setup_by_partition(void **state);
int world_teardown(void **state);

/* The instances give claims without a tag, as those of an earlier sidecar do: '9001.1.17'. */
void world_without_tags(struct world *world);
/* SQL with `inbox.` for the schema. */
void run_sql(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t ask(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Borrowed until the next ask. "(null)" for NULL. */
const char *ask_text(struct world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* As run_sql on the second connection; returns SQLSTATE, "" when it went well, "lost"
 * when the connection is gone. */
const char *run_other(struct world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* From now on, an update of a message is refused in a transaction that locks the row of this instance: a heartbeat would
 * wait for it. */
void refuse_behind_the_lease(struct world *world);

struct a_row {
	const char *id;
	const char *key; /* NULL = none */
	const char *type;
	const char *payload; /* NULL = {} */
	const char *headers;
	const char *consumer; /* NULL = the one without a name */
	int64_t offset;
	enum placement_kind place;
	enum placement_asks asks;
};

/* Adds a row of orders/0 to the batch; without an offset it gets the next one. */
void add(struct world *world, struct a_row row);
#define ADD(world, ...) add((world), (struct a_row){ __VA_ARGS__ })
/* Gives the batch its watermark update; returns the new offset. */
int64_t plan_move(struct world *world);
/* Stores the batch. */
int store_batch(struct world *world);
/* Adds the watermark update and stores the batch. The batch is kept, so that its results can be
 * read. */
int store(struct world *world);
/* store() that must succeed. */
void must_store(struct world *world);
/* A batch of one row that is stored; returns its seq. */
int64_t stored(struct world *world, struct a_row row);
#define STORED(world, ...) stored((world), (struct a_row){ __VA_ARGS__ })
enum insert_result result_of(const struct world *world, size_t row);

/* Claims. NULL routing means a subscription to everything. */
struct claimed claim(struct world *world, size_t max_rows, struct routing *routing);
struct claimed claim_key(struct world *world, const char *key, size_t max_rows);
uint64_t hash_of_key(struct world *world, const char *key);
struct routing *wants(const char *type);
/* "a1 a2 b1": the ids of what was claimed, in order. */
void assert_claimed(const struct claimed *claimed, const char *ids);

struct settle_row verdict(int64_t seq, int delivery_count, enum settle_outcome outcome);
void must_settle(struct world *world, struct settle_row *row);

/* The last fault. */
extern struct err err;
void must(int r, const char *what);
#define OK(expression) must((expression), #expression)

#endif
