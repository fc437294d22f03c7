/*
 * Finds claims of other instances on partitions that this instance has just acquired (rule R12).
 * The new owner must not deliver a key while another instance holds a row of it, whether that
 * instance is running, stopped, or dead and not rescued. After the epoch was raised, other
 * instances can claim no more rows of the partition, so the set found here can only shrink.
 * Blocking; one db, one thread.
 */
#ifndef STORE_CLAIMS_OTHER_CLAIMS_H
#define STORE_CLAIMS_OTHER_CLAIMS_H

#include "model/message/ordering.h"
#include "store/partition_ref.h"
#include "store/pg/db.h"

struct other_claim {
	size_t ref; /* index of the stream in the request */
	int64_t seq;
	int64_t offset;
	uint64_t key_hash; /* 0 with ORDERING_PARTITION */
};
struct other_claims {
	struct other_claim *items;
	size_t count;
};

struct other_claims_request {
	int32_t instance;              /* the id of this instance */
	const struct stream_ref *refs; /* of those with ORDERING_NONE nothing is searched */
	size_t count;
};

/* A search reads the range of rows that others may hold in windows, and can be interrupted after
 * each window. It does not depend on the connection. It is valid only while this instance owns the
 * partitions. */
struct other_claims_search;
/* Keeps `db` and the memory that the request points to. Reads the bounds and stragglers of the
 * other instances. */
int other_claims_begin(struct other_claims_search **out, struct db *db,
	const struct other_claims_request *request, struct err *err);
/*
 * Reads at least one window and starts no other after until_ms (clock_now_ms()). 0: the search is
 * complete. OTHER_CLAIMS_MORE: call again. OTHER_CLAIMS_MANY: there are more claims than an
 * instance should keep in memory; the holders give back what they have not delivered, so start a
 * new search later. After a fault the next call repeats the window with a smaller size.
 */
enum { OTHER_CLAIMS_MANY = 1, OTHER_CLAIMS_MORE = 2 };
int other_claims_continue(struct other_claims_search *search, int64_t until_ms, struct err *err);
/* The claims found until now. Borrowed. */
const struct other_claims *other_claims_found(const struct other_claims_search *search);
void other_claims_search_free(struct other_claims_search *search);

/* The present state of a claim that was found. */
enum other_claims_state {
	OTHER_CLAIMS_HELD,    /* still held by another instance */
	OTHER_CLAIMS_WAITING, /* waiting in the table */
	OTHER_CLAIMS_OVER,    /* completed, dead, deleted, or claimed by this instance */
};
struct other_claims_rows {
	const int64_t *seqs; /* ascending */
	enum other_claims_state *states;
	size_t count;
};
/* Sets states[i] for seqs[i]. */
int other_claims_look(
	struct db *db, int32_t instance, const struct other_claims_rows *of, struct err *err);

#endif
