/*
 * The class of an error of PostgreSQL. It decides what happens next: whether the same
 * is tried again on this connection or on another one, less at a time, or without the row at hand.
 * docs/failures.md tells what each means for the one who runs inboxd. Pure; any thread.
 */
#ifndef STORE_PG_ERROR_CLASS_H
#define STORE_PG_ERROR_CLASS_H

enum pg_error_class {
	PG_ERROR_LOST, /* no answer, or a server that ends or starts: connect again */
	PG_ERROR_BUSY, /* a lock, a deadlock, a serialization failure: again soon */
	PG_ERROR_SLOW, /* statement_timeout, or cancelled by an operator: again, less at a time */
	PG_ERROR_RESOURCES, /* disk, memory or connections are used up: again later */
	PG_ERROR_READ_ONLY, /* a standby: another connection may find the primary */
	PG_ERROR_REFUSED,   /* user, database, rights, missing tables: a person has to mend it */
	PG_ERROR_DATA,      /* values or limits of single rows: go on without the row */
	PG_ERROR_OTHER,
	PG_ERROR_KINDS
};

/* Of an SQLSTATE; "" = the connection itself failed. */
enum pg_error_class pg_error_class_of(const char *state);
/* Its name as label of inboxd_pg_errors_total. */
const char *pg_error_class_name(enum pg_error_class class);

#endif
