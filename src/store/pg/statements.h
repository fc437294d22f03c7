/*
 * The embedded SQL statements for one schema. The files use the schema name `inbox`;
 * statements_new() replaces each `inbox.` by the configured name. Pure. Read-only after creation,
 * so any thread may use it.
 */
#ifndef STORE_PG_STATEMENTS_H
#define STORE_PG_STATEMENTS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

enum query;

struct statements;

int statements_new(struct statements **out, const char *schema, struct err *err);
void statements_free(struct statements *statements);
DEFINE_CLEANUP(struct statements *, statements_free);
/* Borrowed as long as the statements exist. */
const char *statements_text(const struct statements *statements, enum query query);
/* True when its file says `-- Named:`, because no generic plan of it can become bad (docs/adr/0042). */
bool statements_may_be_named(enum query query);

/* Appends `name` as a quoted identifier. */
void schema_quote(struct buf *out, const char *name);
/* Appends `sql` with the name of the schema in place of each `inbox.`, also in string literals
 * ('inbox.inbox_messages' as a regclass). Message texts, such as 'inbox.complete: …', stay
 * unchanged. */
void schema_apply(struct buf *out, const char *sql, const char *schema);

#endif
