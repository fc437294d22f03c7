/* Parameters the statements of claims.h share: partitions, keys, and who wants what. One thread. */
#ifndef STORE_CLAIM_PARAMS_H
#define STORE_CLAIM_PARAMS_H

#include "store/claims.h"

void add_partitions(struct params *params, const struct claim_partition *partitions, size_t count);
void add_lanes(struct params *params, const struct claim_lanes *lanes);
/* NULL: none. */
void add_seqs_without(struct params *params, const struct refused_seqs *without);
/* Four arrays: topic, type, kind, open; the most specific subscription first. NULL routing: nobody
 * wants anything. FAULT_MEMORY. */
int add_subscriptions(struct params *params, const struct routing *routing, struct err *err);
/* The same, but `open` are all handlers that are not away, also the closed ones. */
int add_connected(struct params *params, const struct routing *routing, struct err *err);
/* A key's hash as PostgreSQL has it: 8 bytes, the highest first. */
void add_hash(struct params *params, int array, uint64_t hash);
uint64_t hash_of(struct bytes bytes);

#endif
