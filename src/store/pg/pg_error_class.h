/*
 * The class of a PostgreSQL error. The class decides the reaction: retry on this connection or on a
 * new one, retry with fewer rows, or continue without the row. docs/failures.md explains to
 * operators what each class means. Pure; any thread.
 */
#ifndef STORE_PG_PG_ERROR_CLASS_H
#define STORE_PG_PG_ERROR_CLASS_H

enum pg_error_class {
	PG_ERROR_LOST, /* no answer, or a server that shuts down or starts: reconnect */
	PG_ERROR_BUSY, /* a lock, a deadlock, a serialization failure: retry soon */
	PG_ERROR_SLOW, /* statement_timeout, or a cancel by an operator: retry with fewer rows */
	PG_ERROR_RESOURCES, /* out of disk space, memory or connections: retry later */
	PG_ERROR_READ_ONLY, /* a standby: another connection may find the primary */
	/* user, database, privileges or missing tables: an operator must correct it */
	PG_ERROR_REFUSED,
	/* a named statement is not what the client prepared: repeat the transaction, unnamed now */
	PG_ERROR_STALE,
	PG_ERROR_DATA, /* values or limits of single rows: continue without the row */
	PG_ERROR_OTHER,
	PG_ERROR_KINDS
};

/* The class of an SQLSTATE; "" = the connection itself failed. */
enum pg_error_class pg_error_class_of(const char *state);
/* The name of the class as a label of inboxd_pg_errors_total. */
const char *pg_error_class_name(enum pg_error_class class);

#endif
