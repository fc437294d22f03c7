/*
 * SHA-256 by libcrypto. See digest.h. The context and the algorithm are kept, because libcrypto 3 takes locks to fetch
 * an algorithm by its name.
 */
#include "base/text/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct digester {
	EVP_MD_CTX *context;
	EVP_MD *sha256; /* fetched once: to fetch it for each message costs more than the hash */
};

int digester_new(struct digester **out, struct err *err)
{
	struct digester *digester = calloc(1, sizeof(*digester));

	if (digester == NULL)
		return err_memory(err);
	digester->context = EVP_MD_CTX_new();
	digester->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (digester->context == NULL || digester->sha256 == NULL) {
		digester_free(digester);
		return err_set(err, FAULT_INTERNAL, "libcrypto offers no SHA-256");
	}
	*out = digester;
	return 0;
}

void digester_free(struct digester *digester)
{
	if (digester == NULL)
		return;
	EVP_MD_CTX_free(digester->context);
	EVP_MD_free(digester->sha256);
	free(digester);
}

int digester_sha256(struct digester *digester, struct bytes bytes, unsigned char out[32])
{
	unsigned int length = 32;

	if (EVP_DigestInit_ex(digester->context, digester->sha256, NULL) == 1 &&
		EVP_DigestUpdate(digester->context, bytes.data, bytes.length) == 1 &&
		EVP_DigestFinal_ex(digester->context, out, &length) == 1)
		return 0;
	memset(out, 0, 32);
	return FAULT_INTERNAL;
}

uint64_t digest_prefix(const unsigned char digest[32])
{
	uint64_t prefix = 0;

	for (int i = 0; i < 8; i++)
		prefix = prefix << 8 | digest[i];
	return prefix;
}

void digest_add_library_version(struct buf *out)
{
	buf_add_str(out, OpenSSL_version(OPENSSL_VERSION_STRING));
}
