/*
 * Reads an object by a table. One rule of the table says for each member: in which object or array it is, of which
 * kinds its value may be, what is inside of it, and which function stores it. A member without a rule is passed over,
 * with everything in it, so that later versions of a protocol can add some. Pure. One thread for each stream.
 *
 * The owner of a table numbers the objects and arrays, which are called places here. Places must not contain
 * themselves.
 */
#ifndef JSON_TABLE_H
#define JSON_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "json/stream.h"

#define JSON_TABLE_RULES 64 /* the most rules of a table */
#define JSON_TABLE_DEPTH 8  /* the most places in each other */

#define JSON_IS(kind)    (1u << (kind))

struct json_rule;

/* Stores a value. Of an object or array with a place inside, `value` is the opening bracket. Of one without, it is the
 * whole as it was written. */
typedef void json_setter(
	void *target, const struct json_rule *rule, const struct json_token *value);

struct json_rule {
	int place;
	const char *name; /* NULL: every element of the array */
	unsigned scopes;  /* for the owner of the table */
	unsigned kinds;   /* JSON_IS() of the kinds that the value may have */
	int inner;        /* the place inside; 0 = none */
	json_setter *set; /* NULL: nothing is stored */
	size_t field;     /* for the setter, as the next two: where it stores the value, */
	int64_t min;      /* and its limits */
	int64_t max;
	bool lenient; /* for the owner: a value of another kind is passed over */
};

struct json_table {
	const struct json_rule *rules; /* those of one place stand together */
	size_t count;
	int root; /* the place of the text's own members */
	/* Each of these functions may be NULL. */
	/* A member is given again; its value is passed over. NULL: it is stored again. */
	void (*repeated)(void *target, const struct json_rule *rule);
	/* A value is of no kind that the rule allows. */
	void (*mistyped)(void *target, const struct json_rule *rule, enum json_kind kind);
	/* A member without a rule, and its value. The name is borrowed until the function returns. */
	void (*unknown_name)(void *target, int place, struct bytes name);
	void (*unknown_value)(void *target, int place, const struct json_token *value);
	/* The end of a place that was entered, and the whole as it was written. */
	void (*ended)(void *target, int place, struct bytes raw);
	/* True: the reading stops with JSON_STOPPED. Asked after the functions above. */
	bool (*stopped)(const void *target);
};

/* The text is JSON, as far as it was read, but an array or a scalar. */
enum { JSON_ARRAY_TEXT = 3, JSON_SCALAR_TEXT = 4 };

/* 0, JSON_BROKEN, JSON_STOPPED, JSON_ARRAY_TEXT, JSON_SCALAR_TEXT. FAULT_MEMORY. */
int json_table_read(struct json_stream *stream, struct bytes text, const struct json_table *table,
	void *target, struct err *err);

/* The rule of the elements of an array. NULL: there is none. */
const struct json_rule *json_table_element(const struct json_table *table, int place);

#endif
