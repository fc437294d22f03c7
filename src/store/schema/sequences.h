/*
 * The sequences of the schema. Rows that were copied without their sequences (by logical
 * replication, or a restore of the data alone) have numbers that would be assigned again. An INSERT
 * then fails, or its row lies below the range that a rescue searches. Blocking; one db, one thread.
 */
#ifndef STORE_SCHEMA_SEQUENCES_H
#define STORE_SCHEMA_SEQUENCES_H

#include "base/buf.h"
#include "store/pg/db.h"

/* SEQUENCES_UNKNOWN: this user may not compare them. SEQUENCES_SET: some were behind and have been
 * set, under a lock of their tables; `words` names them for an operator. FAULT_DATABASE: some are
 * behind and this user may not set them; `err` contains the statements to run. */
enum { SEQUENCES_UNKNOWN = 1, SEQUENCES_SET = 2 };
int sequences_check(struct db *db, struct buf *words, struct err *err);

#endif
