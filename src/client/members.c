/* See members.h. */
#include "client/members.h"

#include <string.h>

/* The most frequent members come first, because the search is linear. */
static const struct ih_member top_members[] = {
	{ "jsonrpc", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "id", IH_LINE_ID, IH_AS_RAW, IH_NODE_UNKNOWN },
	{ "method", IH_METHOD, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "params", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_PARAMS },
	{ "result", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_RESULT },
	{ "error", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_ERROR },
	{ NULL },
};
static const struct ih_member params_members[] = {
	{ "delivery", IH_CANCELLED_ID, IH_AS_RAW, IH_NODE_DELIVERY },
	{ "event", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_EVENT },
	{ "headers", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_HEADERS },
	{ "entries", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_ENTRIES },
	{ "reason", IH_CANCEL_REASON, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member result_members[] = {
	{ "max_line_bytes", IH_MAX_LINE_BYTES, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member error_members[] = {
	{ "code", IH_ERROR_CODE, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "message", IH_ERROR_MESSAGE, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member entry_members[] = {
	{ "id", IH_ID, IH_AS_RAW, IH_NODE_UNKNOWN },
	{ "delivery", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_DELIVERY },
	{ "event", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_EVENT },
	{ "headers", IH_NO_FIELD, IH_AS_TEXT, IH_NODE_HEADERS },
	{ NULL },
};
static const struct ih_member delivery_members[] = {
	{ "claim", IH_CLAIM, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "seq", IH_SEQ, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "attempt", IH_ATTEMPT, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "max_attempts", IH_MAX_ATTEMPTS, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "deadline", IH_DEADLINE, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "replay", IH_REPLAY, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member event_members[] = {
	{ "id", IH_EVENT_ID, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "source", IH_SOURCE, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "type", IH_TYPE, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "time", IH_TIME, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "partitionkey", IH_KEY, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "kafkatopic", IH_TOPIC, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "kafkapartition", IH_PARTITION, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "kafkaoffset", IH_OFFSET, IH_AS_TEXT, IH_NODE_UNKNOWN },
	{ "data", IH_DATA_JSON, IH_AS_RAW, IH_NODE_UNKNOWN },
	{ "data_base64", IH_DATA, IH_AS_BASE64, IH_NODE_UNKNOWN },
	{ "partitionkeybase64", IH_KEY, IH_AS_BASE64, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member header_members[] = {
	{ "base64", IH_NO_FIELD, IH_AS_BASE64, IH_NODE_UNKNOWN },
	{ NULL },
};
static const struct ih_member no_members[] = { { NULL } };

const struct ih_node_kind ih_nodes[IH_NODES] = {
	[IH_NODE_UNKNOWN] = { false, IH_NODE_UNKNOWN, no_members },
	[IH_NODE_TOP] = { true, IH_NODE_UNKNOWN, top_members },
	[IH_NODE_PARAMS] = { true, IH_NODE_UNKNOWN, params_members },
	[IH_NODE_RESULT] = { true, IH_NODE_UNKNOWN, result_members },
	[IH_NODE_ERROR] = { true, IH_NODE_UNKNOWN, error_members },
	[IH_NODE_ENTRIES] = { false, IH_NODE_ENTRY, no_members },
	[IH_NODE_ENTRY] = { true, IH_NODE_UNKNOWN, entry_members },
	[IH_NODE_DELIVERY] = { true, IH_NODE_UNKNOWN, delivery_members },
	[IH_NODE_EVENT] = { true, IH_NODE_UNKNOWN, event_members },
	[IH_NODE_HEADERS] = { false, IH_NODE_HEADER, no_members },
	[IH_NODE_HEADER] = { false, IH_NODE_HEADER_BYTES, no_members },
	[IH_NODE_HEADER_BYTES] = { true, IH_NODE_UNKNOWN, header_members },
};

const struct ih_member *ih_member_find(enum ih_node node, const char *name, size_t length)
{
	const struct ih_member *member = ih_nodes[node].members;

	for (; member->name != NULL; member++) {
		if (strlen(member->name) == length && memcmp(member->name, name, length) == 0)
			return member;
	}
	return NULL;
}
