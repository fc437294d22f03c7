/*
 * The embedded statements for one schema. They are written for a schema called `inbox`; here each
 * `inbox.` becomes the configured name. Pure; read-only once made, so any thread may use it.
 */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

enum query;

struct statements;

int statements_new(struct statements **out, const char *schema, struct err *err);
void statements_free(struct statements *statements);
DEFINE_CLEANUP(struct statements *, statements_free);
/* Borrowed for the life of the statements. */
const char *statements_text(const struct statements *statements, enum query query);

/* Appends `name` as a quoted identifier. */
void schema_quote(struct buf *out, const char *name);
/* Appends `sql` with the schema's name for each `inbox.`, in string literals too ('inbox.inbox_messages'
 * as a regclass); but words for a person, such as 'inbox.complete: …', stay. */
void schema_apply(struct buf *out, const char *sql, const char *schema);

#endif
