/*
 * What kind of trouble a fault of PostgreSQL is. The kind decides what happens next: whether the same
 * is tried again on this connection or on another one, less at a time, or without the row at hand.
 * docs/failures.md tells what each means for the one who runs inboxd. Pure; any thread.
 */
#ifndef STORE_TROUBLE_H
#define STORE_TROUBLE_H

enum trouble {
	TROUBLE_LOST, /* no answer, or a server that ends or starts: connect again */
	TROUBLE_BUSY, /* a lock, a deadlock, a serialization failure: again soon */
	TROUBLE_SLOW, /* statement_timeout, or cancelled by an operator: again, less at a time */
	TROUBLE_RESOURCES, /* disk, memory or connections are used up: again later */
	TROUBLE_READ_ONLY, /* a standby: another connection may find the primary */
	TROUBLE_REFUSED,   /* user, database, rights, missing tables: a person has to mend it */
	TROUBLE_DATA,      /* values or limits of single rows: go on without the row */
	TROUBLE_OTHER,
	TROUBLE_KINDS
};

/* Of an SQLSTATE; "" = the connection itself failed. */
enum trouble trouble_of(const char *state);
/* Its name as label of inboxd_pg_errors_total. */
const char *trouble_name(enum trouble trouble);

#endif
