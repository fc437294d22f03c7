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
void foreign_claims_fini(struct foreign_claims *claims);

struct foreign_request {
	int32_t instance; /* own id */
	enum ordering ordering;
	const struct partition_ref *refs;
	size_t count;
};

/* FOREIGN_MANY: more than a sidecar should keep in mind; the holders give back what they have not
 * delivered, so ask again in a moment. */
enum { FOREIGN_MANY = 1 };
int foreign_find(struct db *db, const struct foreign_request *request, struct foreign_claims *out,
	struct err *err);

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
