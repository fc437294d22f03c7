/*
 * Claims of other instances on partitions that were just taken (rule R12). Who takes a partition may not
 * deliver a key of which somebody else still holds a row, be he alive, stopped, or dead and not
 * rescued. After the taking nobody else can claim more of it, so what is found here only becomes
 * less. Blocking; one db, one thread.
 */
#ifndef STORE_FOREIGN_H
#define STORE_FOREIGN_H

#include "model/ordering.h"
#include "store/inbox.h"

struct foreign_claim {
	size_t ref; /* which of the partitions asked for */
	int64_t seq;
	int64_t offset;
	uint64_t key_hash; /* 0 with ORDERING_PARTITION */
};
struct foreign_claims {
	struct foreign_claim *items;
	size_t count;
};

struct foreign_request {
	int32_t instance; /* own id */
	enum ordering ordering;
	const struct partition_ref *refs;
	size_t count;
};

/* A search goes through windows of what others may hold, as long as it is told to at a time. Nothing of it rests on the
 * connection, but on the partitions' being ours all the time. */
struct foreign_search;
/* `db` and what the request refers to are kept. Looks at the others' bounds and stragglers. */
int foreign_begin(struct foreign_search **out, struct db *db, const struct foreign_request *request,
	struct err *err);
/* Looks at one window at least, and begins no other after until_ms (clock_now_ms()). 0: all is found.
 * FOREIGN_MORE: to be gone on with. FOREIGN_MANY: more than a sidecar should keep in mind; the holders give back what
 * they have not delivered, so ask again in a moment. After a fault the same again, in smaller windows. */
enum { FOREIGN_MANY = 1, FOREIGN_MORE = 2 };
int foreign_go_on(struct foreign_search *search, int64_t until_ms, struct err *err);
/* So far. Borrowed. */
const struct foreign_claims *foreign_found(const struct foreign_search *search);
void foreign_search_free(struct foreign_search *search);

/* What became of one of them. */
enum foreign_state {
	FOREIGN_HELD,    /* still another's */
	FOREIGN_WAITING, /* in the table, to be claimed */
	FOREIGN_OVER,    /* completed, dead, deleted, or ours */
};
struct foreign_rows {
	const int64_t *seqs; /* rising */
	enum foreign_state *states;
	size_t count;
};
/* Sets states[i] for seqs[i]. */
int foreign_look(struct db *db, int32_t instance, const struct foreign_rows *of, struct err *err);

#endif
