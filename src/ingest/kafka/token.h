/*
 * A token for SASL OAUTHBEARER, as a file or a command gives it. Pure; no error text contains any part of what was read. One
 * thread.
 *
 * The text is the token alone, or a JSON object: `token`, `expires_at_ms` (milliseconds since 1970), `principal` and
 * `extensions`, an object of texts. A JSON Web Token says itself when it ends (`exp`) and whose it is (`sub`); then these members are
 * not needed. inboxd does not check signatures: the brokers do.
 */
#ifndef INGEST_KAFKA_TOKEN_H
#define INGEST_KAFKA_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define TOKEN_TEXT_MAX       65536
#define TOKEN_LIFE_MIN_MS    30000 /* a token that ends earlier is not accepted */
#define TOKEN_EXTENSIONS_MAX 32

struct token {
	char *value;
	char *principal;
	char *extensions[2 * TOKEN_EXTENSIONS_MAX]; /* each name is followed by its value */
	size_t extension_texts;
	int64_t expires_at_ms; /* since 1970 */
};

void token_fini(struct token *token);
/* `now_ms` is the wall clock. FAULT_KAFKA: it is no token that can be used, and why. FAULT_MEMORY. */
int token_read(struct token *out, struct bytes text, int64_t now_ms, struct err *err);

#endif
