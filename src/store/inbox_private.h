/* What the files of inbox.h share: inbox.c (batches), inbox_rows.c (their parameters) and
 * watermarks.c. */
#ifndef STORE_INBOX_PRIVATE_H
#define STORE_INBOX_PRIVATE_H

#include "store/inbox.h"

/* What the first flight of a batch brings. */
struct opening {
	struct rows *lease;
	struct rows *moved;
	struct rows *inserted;
};

struct inbox {
	struct db *db;
	int32_t instance;
	enum ordering ordering;
	void (*committing)(void *arg);
	void *arg;
	int64_t highest_seq;   /* of the rows whose COMMIT was answered (rule R3) */
	int64_t batch_highest; /* of the batch under way */
	struct params params;  /* scratch for the statement being queued; libpq copies */
	struct opening opening;
	size_t *items; /* of the rows that went with it */
	size_t item_count;
	bool unsendable; /* more than PostgreSQL takes at once: to be bisected */
};

/* Each resets and fills inbox->params. `items` are indexes into the rows or rejects of the batch. */
int fill_moves(struct inbox *inbox, const struct batch *batch, struct err *err);
void fill_messages(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
void fill_conflicts(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
/* `bare`: coordinates and reason only. */
void fill_rejects(struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count,
	bool bare);

#endif
