/*
 * The rules of one topic as identity.c reads them: locators taken apart, pointers compiled. Within
 * the layer only; the contract is identity.h. Read-only once made: any thread.
 */
#ifndef MODEL_IDENTITY_IDENTITY_RULES_H
#define MODEL_IDENTITY_IDENTITY_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "json/pointer.h"
#include "model/identity/identity.h"

enum locator_kind { LOCATE_HEADER, LOCATE_KEY, LOCATE_JSON, LOCATE_TOPIC, LOCATE_LITERAL };

struct locator {
	enum locator_kind kind;
	char *text;       /* as configured, for messages */
	const char *rest; /* behind the colon: header name or literal */
	size_t pointer;   /* LOCATE_JSON: index in the rules' pointers */
};

struct locators {
	struct locator *items;
	size_t count;
};

struct identity_rules {
	/* beginning with header:ce_id, as the next two with ce_type, ce_source */
	struct locators id;
	struct locators type;
	struct locators source;
	char **accept;
	size_t accept_count;
	bool missing_id_rejects;
	struct json_pointer pointers[JSON_POINTER_MAX];
	size_t pointer_count;
};

/* True when messages of this type ("" = none) are to be stored. */
bool identity_rules_accept(const struct identity_rules *rules, const char *type);

#endif
