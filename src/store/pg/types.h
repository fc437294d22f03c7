/*
 * Object ids of PostgreSQL's built-in types (pg_type.dat; they never change) and constants of their
 * binary format.
 */
#ifndef STORE_PG_TYPES_H
#define STORE_PG_TYPES_H

enum {
	TYPE_BOOL = 16,
	TYPE_BYTEA = 17,
	TYPE_INT8 = 20,
	TYPE_INT2 = 21,
	TYPE_INT4 = 23,
	TYPE_TEXT = 25,
	TYPE_BOOL_ARRAY = 1000,
	TYPE_BYTEA_ARRAY = 1001,
	TYPE_INT2_ARRAY = 1005,
	TYPE_INT4_ARRAY = 1007,
	TYPE_TEXT_ARRAY = 1009,
	TYPE_INT8_ARRAY = 1016,
	TYPE_TIMESTAMPTZ = 1184,
	TYPE_TIMESTAMPTZ_ARRAY = 1185,
	TYPE_JSONB = 3802,
	TYPE_JSONB_ARRAY = 3807,
};

/* The version byte before the text of a jsonb value. */
#define JSONB_VERSION 1

#endif
