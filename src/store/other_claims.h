/*
 * Claims of other instances on partitions that were just taken (rule R12). Who takes a partition may not
 * deliver a key of which somebody else still holds a row, be he alive, stopped, or dead and not
 * rescued. After the taking nobody else can claim more of it, so what is found here only becomes
 * less. Blocking; one db, one thread.
 */
#ifndef STORE_OTHER_CLAIMS_H
#define STORE_OTHER_CLAIMS_H

#include "model/ordering.h"
#include "store/inbox.h"

struct other_claim {
	size_t ref; /* which of the partitions asked for */
	int64_t seq;
	int64_t offset;
	uint64_t key_hash; /* 0 with ORDERING_PARTITION */
};
struct other_claims {
	struct other_claim *items;
	size_t count;
};

struct other_claims_request {
	int32_t instance; /* own id */
	enum ordering ordering;
	const struct partition_ref *refs;
	size_t count;
};

/* A search goes through windows of what others may hold, as long as it is told to at a time. Nothing of it rests on the
 * connection, but on the partitions' being ours all the time. */
struct other_claims_search;
/* `db` and what the request refers to are kept. Looks at the others' bounds and stragglers. */
int other_claims_begin(struct other_claims_search **out, struct db *db,
	const struct other_claims_request *request, struct err *err);
/* Looks at one window at least, and begins no other after until_ms (clock_now_ms()). 0: all is found.
 * OTHER_CLAIMS_MORE: to be gone on with. OTHER_CLAIMS_MANY: more than a sidecar should keep in mind; the holders give back what
 * they have not delivered, so ask again in a moment. After a fault the same again, in smaller windows. */
enum { OTHER_CLAIMS_MANY = 1, OTHER_CLAIMS_MORE = 2 };
int other_claims_go_on(struct other_claims_search *search, int64_t until_ms, struct err *err);
/* So far. Borrowed. */
const struct other_claims *other_claims_found(const struct other_claims_search *search);
void other_claims_search_free(struct other_claims_search *search);

/* What became of one of them. */
enum other_claims_state {
	OTHER_CLAIMS_HELD,    /* still another's */
	OTHER_CLAIMS_WAITING, /* in the table, to be claimed */
	OTHER_CLAIMS_OVER,    /* completed, dead, deleted, or ours */
};
struct other_claims_rows {
	const int64_t *seqs; /* rising */
	enum other_claims_state *states;
	size_t count;
};
/* Sets states[i] for seqs[i]. */
int other_claims_look(
	struct db *db, int32_t instance, const struct other_claims_rows *of, struct err *err);

#endif
