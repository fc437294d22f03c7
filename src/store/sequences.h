/*
 * The sequences behind the rows. Rows that came without their sequences (logical replication, a restore of data alone)
 * have numbers that would be given again: an INSERT then fails, or lies below what a rescue looks through. Blocking;
 * one db, one thread.
 */
#ifndef STORE_SEQUENCES_H
#define STORE_SEQUENCES_H

#include "base/buf.h"
#include "store/db.h"

/* SEQUENCES_UNKNOWN: this user may not compare them. SEQUENCES_SET: some were behind and are set now, under a lock of
 * their tables; `words` says which, for a person. FAULT_DATABASE: some are behind and this user may not set them; `err`
 * has the statements to run. */
enum { SEQUENCES_UNKNOWN = 1, SEQUENCES_SET = 2 };
int sequences_check(struct db *db, struct buf *words, struct err *err);

#endif
