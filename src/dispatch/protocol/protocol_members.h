/*
 * The JSON members of the protocol. One table says for each: in which object it can be, of which types it may be,
 * which kinds of lines a wrong value makes invalid, and which function stores the value. protocol_read.c walks
 * through a line and looks up each member here. A member that the table does not have is ignored, so that later
 * versions can add some.
 */
#ifndef DISPATCH_PROTOCOL_PROTOCOL_MEMBERS_H
#define DISPATCH_PROTOCOL_PROTOCOL_MEMBERS_H

#include <stdint.h>

#include "dispatch/protocol/protocol_draft.h"

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
	struct bytes raw;  /* as written; of objects and arrays only if the member is captured */
};

/* Where the setters store values. */
struct draft_writer {
	struct line_memory *memory;
	struct draft *draft;
	struct draft_verdict *verdict; /* the whole answer, or the entry of it that is being read */
};

struct member;
typedef void member_setter(
	struct draft_writer *writer, const struct member *member, const struct value *value);

struct member {
	enum json_context context;
	const char *key; /* NULL: an element of an array */
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

/* The member of that name in this context. NULL: it is unknown. */
const struct member *member_find(enum json_context context, struct bytes key);
/* The element of the array of this context. NULL: the context is an object. */
const struct member *member_element(enum json_context context);

/* Adds the member to the set of those seen. True: its value may be stored. False: it was given twice or has the wrong
 * type; the problem is noted in the draft, unless the member is lenient. */
bool member_admit(struct draft_writer *writer, const struct member *member, enum json_kind kind,
	uint64_t *seen);
/* An unknown member. In a subscription this is a problem: with `topic` mistyped it would subscribe to every topic. In
 * other contexts the member is ignored. */
void member_unknown(struct draft_writer *writer, enum json_context context, const char *key);
/* The end of an object or array that was entered. */
void member_leave(struct draft_writer *writer, enum json_context context);

#endif
