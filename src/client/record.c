/* See record.h. */
#include "client/record.h"

#include <stdlib.h>
#include <string.h>

#include "client/base64.h"

void ih_record_fini(struct ih_record *record)
{
	ih_buffer_fini(&record->bag);
}

void ih_record_clear(struct ih_record *record, size_t keep)
{
	ih_buffer_trim(&record->bag, keep);
	ih_buffer_cut(&record->bag, 0);
	memset(record->fields, 0, sizeof(record->fields));
}

/* Where the next text will start. */
static uint32_t begin(struct ih_record *record)
{
	if (record->bag.length == 0)
		ih_buffer_add(&record->bag, "", 1);
	return (uint32_t)record->bag.length;
}

static struct ih_slice finish(struct ih_record *record, uint32_t start)
{
	const struct ih_slice slice = { start, (uint32_t)record->bag.length - start };

	ih_buffer_add(&record->bag, "", 1);
	return record->bag.broken ? (struct ih_slice){ 0, 0 } : slice;
}

struct ih_slice ih_record_add(struct ih_record *record, const char *text, size_t length)
{
	const uint32_t start = begin(record);

	ih_buffer_add(&record->bag, text, length);
	return finish(record, start);
}

bool ih_record_add_base64(
	struct ih_record *record, const char *text, size_t length, struct ih_slice *out)
{
	const uint32_t start = begin(record);

	if (!ih_base64_decode(&record->bag, text, length))
		return false;
	*out = finish(record, start);
	return true;
}

struct inbox_bytes ih_record_bytes(const struct ih_record *record, struct ih_slice slice)
{
	if (slice.start == 0)
		return (struct inbox_bytes){ NULL, 0 };
	return (struct inbox_bytes){ record->bag.data + slice.start, slice.length };
}

const char *ih_record_text(const struct ih_record *record, enum ih_field field)
{
	const struct ih_slice slice = record->fields[field];

	return slice.start == 0 ? "" : record->bag.data + slice.start;
}

int64_t ih_record_number(const struct ih_record *record, enum ih_field field)
{
	return strtoll(ih_record_text(record, field), NULL, 10);
}
