/*
 * Builds the parameters that the statements of this room share: hashes, subscriptions and refused rows.
 * These functions only append to `params`. They do not use the connection. One thread.
 */
#ifndef STORE_CLAIMS_CLAIM_PARAMS_H
#define STORE_CLAIMS_CLAIM_PARAMS_H

#include "store/claims/claims.h"

/* NULL: appends an empty array. */
void add_seqs_without(struct params *params, const struct refused_seqs *without);
/* Appends five arrays: consumer, topic, type, kind, open. The most specific subscription comes first. With a
 * NULL routing the arrays are empty, so no message matches. FAULT_MEMORY. */
int add_subscriptions(struct params *params, const struct routing *routing, struct err *err);
/* The same, but `open` is true for every handler that is not away, also for those that accept
 * nothing at the moment; and a sixth array, with the names of the handlers. */
int add_connected(struct params *params, const struct routing *routing, struct err *err);
/* Appends the hash of a key as PostgreSQL stores it: 8 bytes, the most significant byte first. */
void add_hash(struct params *params, int array, uint64_t hash);
uint64_t hash_of(struct bytes bytes);

#endif
