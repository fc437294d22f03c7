/*
 * The structure of the protocol as tables: the objects and arrays of a line, and which of their members are kept. Pure.
 */
#ifndef CLIENT_MEMBERS_H
#define CLIENT_MEMBERS_H

#include "client/record.h"

enum ih_node {
	IH_NODE_UNKNOWN,
	IH_NODE_TOP,
	IH_NODE_PARAMS,
	IH_NODE_RESULT,
	IH_NODE_ERROR,
	IH_NODE_ENTRIES,
	IH_NODE_ENTRY,
	IH_NODE_DELIVERY,
	IH_NODE_EVENT,
	IH_NODE_HEADERS,
	IH_NODE_HEADER,
	IH_NODE_HEADER_BYTES,
	IH_NODES
};

enum ih_how { IH_AS_TEXT, IH_AS_RAW, IH_AS_BASE64 };

struct ih_member {
	const char *name;
	enum ih_field field; /* where the value is kept, unless it is a known object or array */
	enum ih_how how;
	enum ih_node child; /* the node of an object or array here */
};

struct ih_node_kind {
	bool map;
	enum ih_node item;               /* the node of an object or array in this array */
	const struct ih_member *members; /* ended by a NULL name */
};

extern const struct ih_node_kind ih_nodes[IH_NODES];

/* The member of this name in that object. NULL: it is unknown. */
const struct ih_member *ih_member_find(enum ih_node node, const char *name, size_t length);

#endif
