/*
 * The named statements of one connection. A statement that is prepared under a name is parsed once and planned once; an
 * unnamed one each time (docs/adr/0042).
 *
 * The name is a digest of the text and of the types of the parameters. Two clients of a pooler that share a session can
 * therefore never execute each other's statement under the same name. Pure. One thread.
 */
#ifndef STORE_PG_PREPARED_H
#define STORE_PG_PREPARED_H

#include <stddef.h>

#include "store/pg/params.h"

#define PREPARED_MOST 32

enum prepared_state {
	PREPARED_NOT,
	PREPARED_SENT, /* its Parse is in the pipeline that is being built or awaited */
	PREPARED_DONE, /* the server has confirmed the Parse on this connection */
};

struct prepared_statement {
	const char *sql;
	unsigned types[PARAMS_MAX];
	int count;
	char name[24]; /* inboxd_ and 16 hexadecimal digits */
	enum prepared_state state;
};

struct prepared {
	struct prepared_statement items[PREPARED_MOST];
	size_t count;
};

/* The entry of this text with parameters of these types; it is added when it is new. Keeps `sql`, which is compared as an
 * address. `params` may be NULL. NULL: the table is full, so the statement stays unnamed. */
struct prepared_statement *prepared_find(
	struct prepared *prepared, const char *sql, const struct params *params);
/* The pipeline has ended. A Parse in it that was not confirmed was not executed, because an error came before it. */
void prepared_pipeline_ended(struct prepared *prepared);
/* The connection is closed, and its statements with it. */
void prepared_forget(struct prepared *prepared);

#endif
