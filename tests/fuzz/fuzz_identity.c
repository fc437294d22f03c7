/*
 * Whatever a producer sends and a person configures: rules compile or are refused with words, and
 * every record ends in an identity that the table can hold, a skip, or a reject with a reason. What
 * was read before makes no difference.
 */
#include "demand.h"
#include "model/identity/identity_rules.h"
#include "written_record.h"

static const char *const reasons[] = { "id_missing", "id_conflict", "cloudevent_malformed",
	"id_empty", "id_too_long", "id_nul", "id_not_utf8", "type_empty", "type_too_long",
	"type_nul", "type_not_utf8", "source_empty", "source_too_long", "source_nul",
	"source_not_utf8" };

static bool is_a_reason(const char *reason)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(reasons[i], reason) == 0)
			return true;
	}
	return false;
}

static void demand_storable(const char *text)
{
	demand(text[0] != '\0' && strlen(text) <= IDENTITY_MAX_BYTES);
	demand(utf8_is_valid(bytes_of(text)));
}

static void check_found(const struct identity_rules *rules, const struct identity *found)
{
	demand(found->reject == NULL);
	demand_storable(found->event_id);
	demand_storable(found->source);
	if (found->type != NULL)
		demand_storable(found->type);
	demand(identity_rules_accept(rules, found->type == NULL ? "" : found->type));
}

static void check(int result, const struct identity_rules *rules, const struct identity *found)
{
	switch (result) {
	case 0:
		check_found(rules, found);
		break;
	case IDENTITY_REJECT:
		demand(is_a_reason(found->reject));
		demand(found->words[0] != '\0' && is_plain_text(found->words));
		break;
	default:
		demand(result == IDENTITY_SKIP);
		demand(!identity_rules_accept(rules, found->type == NULL ? "" : found->type));
	}
}

static void check_again(int result, const struct identity_rules *rules, const struct record *record,
	const struct identity *found)
{
	struct identity_finder *fresh = NULL;
	struct identity again;

	demand(identity_finder_new(&fresh, NULL) == 0);
	demand(identity_find(fresh, rules, record, &again, NULL) == result);
	demand(same_text(found->reject, again.reject) && same_text(found->words, again.words));
	if (result == 0) {
		demand(same_text(found->event_id, again.event_id));
		demand(same_text(found->source, again.source));
		demand(same_text(found->type, again.type));
	}
	identity_finder_free(fresh);
}

static void check_record(const struct identity_rules *rules, const struct record *record)
{
	static struct identity_finder *finder;
	struct identity found;
	int result;

	if (finder == NULL && identity_finder_new(&finder, NULL) != 0)
		abort();
	result = identity_find(finder, rules, record, &found, NULL);
	check(result, rules, &found);
	check_again(result, rules, record, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct written_record written;
	struct identity_rules *rules = NULL;
	struct err err = ERR_INIT;
	int r;

	written_record_init(&written, data, size);
	r = identity_rules_new(&rules, &written.spec, &err);
	if (r == 0) {
		check_record(rules, &written.record);
		identity_rules_free(rules);
	} else {
		demand(r == FAULT_CONFIG && rules == NULL);
		demand(err.text[0] != '\0' && strpbrk(err.text, "\n\r") == NULL);
	}
	written_record_fini(&written);
	return 0;
}
