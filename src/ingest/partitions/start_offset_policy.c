/*
 * Implements start_offset_policy.h.
 */
#include "ingest/partitions/start_offset_policy.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *value;
	enum reset_policy policy;
} policies[] = {
	{ "latest", RESET_LATEST },
	{ "largest", RESET_LATEST },
	{ "end", RESET_LATEST },
	{ "error", RESET_REFUSE },
};

enum reset_policy start_offset_policy(const char *value)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strcmp(policies[i].value, value) == 0)
			return policies[i].policy;
	}
	return RESET_EARLIEST;
}

/* Verification needs a stored record that is still in the log, and it must not cost more than
 * reading: the record is right before the start offset, or behind it anyway. */
static void plan_verification(const struct start_offset_facts *facts, struct start_offset *out)
{
	if (facts->watermark_only || facts->last_offset < facts->low ||
		facts->last_offset >= facts->high ||
		(facts->last_timestamp < 0 && !facts->last_digest))
		return;
	if (facts->last_offset >= out->start) {
		out->verify = true;
	} else if (out->start == facts->watermark) {
		out->verify = true;
		out->seek = facts->last_offset;
	}
}

int start_offset_decide(const struct start_offset_facts *facts, struct start_offset *out)
{
	bool by_group = facts->group >= 0 && !facts->watermark_only;
	int64_t known = facts->watermark >= 0 ? facts->watermark : facts->group;

	*out = (struct start_offset){ .gap_from = -1 };
	if (facts->watermark < 0 && !by_group) {
		out->start = facts->reset == RESET_LATEST ? facts->high : facts->low;
		out->seek = out->start;
		return facts->reset == RESET_REFUSE ? START_OFFSET_REFUSED : 0;
	}
	if (facts->recreated || known > facts->high) {
		out->recreated = true;
		out->start = facts->low;
		out->seek = facts->low;
		return 0;
	}
	out->start = by_group && facts->group < known ? facts->group : known;
	if (known < facts->low) {
		out->gap = true;
		out->gap_from = known;
	}
	/* when the group's offset is below the log and the watermark inside it, everything in
	 * between is stored already */
	if (out->start < facts->low)
		out->start = facts->low;
	out->seek = out->start;
	plan_verification(facts, out);
	return 0;
}
