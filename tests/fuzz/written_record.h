/*
 * A record and the rules of its topic, written as lines, so that a corpus can be read and a mutation
 * stays one: a letter, what it says, LF. After an empty line, or the end, comes the payload.
 *
 *	i header:id      a locator of the id; t of the type, s of the source; a = a pattern of accept
 *	m                a missing id rejects
 *	T orders         the topic; P 3 the partition; O 17 the offset; W 1700000000000 the timestamp
 *	k c-17           the key
 *	h name=value     a header, n name = one whose value is null
 *	H [["a","b"]]    the headers as the table keeps them, for the event alone
 *	x                no payload: a tombstone
 */
#ifndef TESTS_FUZZ_WRITTEN_RECORD_H
#define TESTS_FUZZ_WRITTEN_RECORD_H

#include <stdint.h>

#include "model/identity/identity.h"
#include "model/message/record.h"

#define WRITTEN_MAX_LOCATORS 8
#define WRITTEN_MAX_HEADERS  80

struct written_record {
	char *text; /* a copy of the lines, cut into strings */
	struct record record;
	struct header headers[WRITTEN_MAX_HEADERS];
	const char *id[WRITTEN_MAX_LOCATORS];
	const char *type[WRITTEN_MAX_LOCATORS];
	const char *source[WRITTEN_MAX_LOCATORS];
	const char *accept[WRITTEN_MAX_LOCATORS];
	struct identity_spec spec;
	struct bytes stored_headers; /* of H; absent = none */
};

/* Reads what was written; what makes no sense is passed over. Keeps a copy. */
void written_record_init(struct written_record *written, const uint8_t *data, size_t size);
void written_record_fini(struct written_record *written);

#endif
