/*
 * Implements statements.h.
 */
#include "store/pg/statements.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "queries.h"

#define TOKEN "inbox."

struct statements {
	char *texts[QUERY_COUNT];
};

void schema_quote(struct buf *out, const char *name)
{
	buf_add_char(out, '"');
	for (const char *c = name; *c != '\0'; c++) {
		if (*c == '"')
			buf_add_char(out, '"');
		buf_add_char(out, *c);
	}
	buf_add_char(out, '"');
}

/* Appends the quoted name inside a string literal. */
static void quote_in_literal(struct buf *out, const char *name)
{
	struct buf quoted = BUF_INIT;

	schema_quote(&quoted, name);
	for (size_t i = 0; i < quoted.length; i++) {
		if (quoted.data[i] == '\'')
			buf_add_char(out, '\'');
		buf_add_char(out, quoted.data[i]);
	}
	out->broken = out->broken || quoted.broken;
	buf_fini(&quoted);
}

/* True when `inbox` starts a word: not in "x.inbox." or "my_inbox.". */
static bool starts_word(const char *sql, const char *at)
{
	unsigned char before = at == sql ? ' ' : (unsigned char)at[-1];

	return !isalnum(before) && before < 0x80 && strchr("_.\"$", before) == NULL;
}

/* True for a message text such as 'inbox.complete: claim is lost', which keeps its wording. */
static bool is_words(const char *at)
{
	const char *end = at + strlen(TOKEN);

	while (isalnum((unsigned char)*end) || *end == '_')
		end++;
	return end[0] == ':' && end[1] == ' ';
}

void schema_apply(struct buf *out, const char *sql, const char *schema)
{
	bool literal = false;
	const char *at = sql;

	while (*at != '\0') {
		if (!literal && strncmp(at, "--", 2) == 0) {
			size_t length = strcspn(at, "\n");

			buf_add(out, at, length);
			at += length;
			continue;
		}
		if (strncmp(at, TOKEN, strlen(TOKEN)) == 0 && starts_word(sql, at) &&
			!(literal && is_words(at))) {
			if (literal)
				quote_in_literal(out, schema);
			else
				schema_quote(out, schema);
			at += strlen(TOKEN) - 1;
		}
		literal = literal != (*at == '\'');
		buf_add_char(out, *at++);
	}
}

int statements_new(struct statements **out, const char *schema, struct err *err)
{
	CLEANUP(statements_freep) struct statements *statements = calloc(1, sizeof(*statements));

	if (statements == NULL)
		return err_memory(err);
	for (int i = 0; i < QUERY_COUNT; i++) {
		struct buf text = BUF_INIT;

		schema_apply(&text, query_texts[i].sql, schema);
		buf_add_char(&text, '\0');
		statements->texts[i] = text.data;
		if (!buf_ok(&text))
			return err_memory(err);
	}
	*out = statements;
	statements = NULL;
	return 0;
}

void statements_free(struct statements *statements)
{
	if (statements == NULL)
		return;
	for (int i = 0; i < QUERY_COUNT; i++)
		free(statements->texts[i]);
	free(statements);
}

const char *statements_text(const struct statements *statements, enum query query)
{
	return statements->texts[query];
}

bool statements_may_be_named(enum query query)
{
	return query_texts[query].named;
}
