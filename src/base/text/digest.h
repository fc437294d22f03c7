/*
 * SHA-256 of libcrypto (FIPS 180-4). A digester is reused for all messages of one thread.
 */
#ifndef BASE_TEXT_DIGEST_H
#define BASE_TEXT_DIGEST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct digester;

int digester_new(struct digester **out, struct err *err);
void digester_free(struct digester *digester);
/* The SHA-256 of the bytes; absent counts as empty. Fails only if the library is broken: then the digest is all
 * zeroes and the result FAULT_INTERNAL. */
int digester_sha256(struct digester *digester, struct bytes bytes, unsigned char out[32]);
/* The first 8 bytes of the SHA-256, big-endian, like substr(sha256(key), 1, 8) in PostgreSQL. */
uint64_t digest_prefix(const unsigned char digest[32]);

/* Appends the version of libcrypto that is loaded. */
void digest_add_library_version(struct buf *out);

#endif
