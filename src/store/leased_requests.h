/*
 * Leased requests of clients that have no connection to the database: the functions of sql/functions/requests.sql, called
 * for a client of the socket. Each call is a transaction of its own, which waits at most 100 ms for a lock, because
 * workers are shared. The parameters come as the JSON object that the client sent, and the result is the JSON object that
 * it gets. Blocking; one db, one thread: a worker's.
 */
#ifndef STORE_LEASED_REQUESTS_H
#define STORE_LEASED_REQUESTS_H

#include "base/bytes.h"
#include "base/err.h"

struct db;

enum leased_method {
	LEASED_BEGIN,
	LEASED_COMPLETE,
	LEASED_FAIL,
	LEASED_EXTEND,
	LEASED_RESULT, /* what became of a message */
};

/* `err` has the reason. Nothing has happened, except that LEASED_AGAIN may hide a commit. */
enum leased_outcome {
	LEASED_DONE,
	LEASED_WRONG,   /* an argument is wrong (IB010, or a value that PostgreSQL refuses) */
	LEASED_LOST,    /* the token is lost (IB011) */
	LEASED_AGAIN,   /* a timeout or a lock: the same call can succeed later */
	LEASED_REFUSED, /* PostgreSQL refuses the call, for example because a right is missing */
};

/* An enum leased_outcome. The caller frees `result`, a line without its LF; it is set only by LEASED_DONE. FAULT_DATABASE:
 * the connection failed, and it is unknown whether the call is committed. FAULT_MEMORY. */
int leased_requests_call(struct db *db, enum leased_method method, struct bytes params,
	char **result, struct err *err);

#endif
