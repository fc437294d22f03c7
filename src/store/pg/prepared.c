/*
 * Implements prepared.h.
 */
#include "store/pg/prepared.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DIGEST_BYTES 8 /* of the digest in a name */

static bool is_same(
	const struct prepared_statement *statement, const char *sql, const struct params *params)
{
	int count = params == NULL ? 0 : params->count;

	return statement->sql == sql && statement->count == count &&
	       (count == 0 || memcmp(statement->types, params->types,
				      (size_t)count * sizeof(params->types[0])) == 0);
}

static bool write_name(struct prepared_statement *statement)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	struct buf text = BUF_INIT;
	int length = snprintf(statement->name, sizeof(statement->name), "inboxd_");
	bool ok;

	buf_add_str(&text, statement->sql);
	for (int i = 0; i < statement->count; i++)
		buf_addf(&text, " %u", statement->types[i]);
	ok = buf_ok(&text) &&
	     EVP_Digest(text.data, text.length, digest, NULL, EVP_sha256(), NULL) == 1;
	for (int i = 0; ok && i < DIGEST_BYTES; i++)
		length += snprintf(statement->name + length,
			sizeof(statement->name) - (size_t)length, "%02x", digest[i]);
	buf_fini(&text);
	return ok;
}

struct prepared_statement *prepared_find(
	struct prepared *prepared, const char *sql, const struct params *params)
{
	struct prepared_statement *fresh;

	for (size_t i = 0; i < prepared->count; i++) {
		if (is_same(&prepared->items[i], sql, params))
			return &prepared->items[i];
	}
	if (prepared->count == PREPARED_MOST)
		return NULL;
	fresh = &prepared->items[prepared->count];
	*fresh = (struct prepared_statement){ .sql = sql };
	if (params != NULL) {
		fresh->count = params->count;
		memcpy(fresh->types, params->types, sizeof(fresh->types));
	}
	if (!write_name(fresh))
		return NULL;
	prepared->count++;
	return fresh;
}

static void reset(struct prepared *prepared, enum prepared_state most)
{
	for (size_t i = 0; i < prepared->count; i++) {
		if (prepared->items[i].state <= most)
			prepared->items[i].state = PREPARED_NOT;
	}
}

void prepared_pipeline_ended(struct prepared *prepared)
{
	reset(prepared, PREPARED_SENT);
}

void prepared_forget(struct prepared *prepared)
{
	reset(prepared, PREPARED_DONE);
}
