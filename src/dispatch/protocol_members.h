/*
 * The members of a line that this protocol knows: where they stand, of what kind they must be, whom
 * it concerns when they are not, and what is done with them. One table; the reader
 * (protocol_read.c) walks the line and asks it.
 */
#ifndef DISPATCH_PROTOCOL_MEMBERS_H
#define DISPATCH_PROTOCOL_MEMBERS_H

#include <stdint.h>

#include "dispatch/protocol_draft.h"

enum json_kind {
	KIND_NULL = 1,
	KIND_BOOL = 2,
	KIND_NUMBER = 4,
	KIND_STRING = 8,
	KIND_OBJECT = 16,
	KIND_ARRAY = 32,
};

enum json_context {
	NOWHERE,
	ROOT,
	PARAMS,
	PROTOCOLS,
	SUBSCRIBE,
	SUB,
	TYPES,
	BATCH,
	RESULT,
	ENTRIES,
	ENTRY,
	ERROR,
	ERROR_DATA,
};

struct value {
	enum json_kind kind;
	struct bytes text; /* strings: decoded; numbers: as written */
	struct bytes raw;  /* as written; of containers only where they are captured */
};

/* Where takers put what they take. */
struct draft_writer {
	struct line_memory *memory;
	struct draft *draft;
	struct draft_verdict *verdict; /* the one being read: the whole answer, or an entry of it */
};

struct member;
typedef void member_setter(
	struct draft_writer *writer, const struct member *member, const struct value *value);

struct member {
	enum json_context context;
	const char *key; /* NULL: the elements of an array */
	unsigned scopes; /* whom it concerns when it is wrong: a set of enum problem_scope */
	unsigned kinds;  /* what it must be; null counts as not given unless it is among them */
	enum json_context inner; /* containers: the place inside */
	member_setter *set; /* called when it is what it must be; of containers at their start */
	size_t field; /* where the general takers put it: in the draft, or the draft verdict */
	int64_t min;  /* numbers: their range; strings: bytes */
	int64_t max;
	bool lenient;  /* another kind is passed over */
	bool captured; /* taken as raw text, containers too */
};

/* The member of that name in an object, NULL when it is unknown. */
const struct member *member_find(enum json_context context, struct bytes key);
/* What an array at that place holds. */
const struct member *member_element(enum json_context context);

/* Notes the member in the set of those seen and says whether it may be taken; a complaint goes to
 * its owners. */
bool member_admit(struct draft_writer *writer, const struct member *member, enum json_kind kind,
	uint64_t *seen);
/* Complains of a member that no row of the table has, where a mistyped one would change what is asked for: in a
 * subscription, which without its topic is one to everything. Elsewhere such members are passed over. */
void member_unknown(struct draft_writer *writer, enum json_context context, const char *key);
/* To be called at the end of an object that was entered. */
void member_leave(struct draft_writer *writer, enum json_context context);

#endif
