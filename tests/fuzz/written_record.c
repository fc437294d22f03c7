#include "written_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#define TOPIC_MAX 249 /* bytes: Kafka's own limit */

static void add_locator(const char **list, size_t *count, const char *text)
{
	if (*count < WRITTEN_MAX_LOCATORS)
		list[(*count)++] = text;
}

/* "name=value"; no '=': an empty value. A NUL ends a name only, as in the struct. */
static void add_header(struct written_record *written, char *text, size_t length, bool null)
{
	struct record *record = &written->record;
	char *equals = memchr(text, '=', length);
	struct header *header;

	if (record->header_count == WRITTEN_MAX_HEADERS)
		return;
	header = &written->headers[record->header_count++];
	header->name = text;
	header->value = null ? (struct bytes){ NULL, 0 } : (struct bytes){ "", 0 };
	if (null || equals == NULL)
		return;
	*equals = '\0';
	header->value = (struct bytes){ equals + 1, length - (size_t)(equals + 1 - text) };
}

static void set_topic(struct record *record, char *text, size_t length)
{
	if (length > TOPIC_MAX)
		text[TOPIC_MAX] = '\0';
	if (*text != '\0' && utf8_is_valid(bytes_of(text)))
		record->topic = text;
}

/* What Kafka can give: no negative partition or offset, no timestamp below -1 that counts. */
static void set_number(struct record *record, char what, const char *text)
{
	long long number = strtoll(text, NULL, 10);

	if (what == 'P' && number >= 0 && number <= INT32_MAX)
		record->partition = (int32_t)number;
	else if (what == 'O' && number >= 0)
		record->offset = number;
	else if (what == 'W' && number >= -1)
		record->timestamp_ms = number;
}

static void take_line(struct written_record *written, char what, char *text, size_t length)
{
	struct identity_spec *spec = &written->spec;

	switch (what) {
	case 'i':
		add_locator(written->id, &spec->id_count, text);
		break;
	case 't':
		add_locator(written->type, &spec->type_count, text);
		break;
	case 's':
		add_locator(written->source, &spec->source_count, text);
		break;
	case 'a':
		add_locator(written->accept, &spec->accept_count, text);
		break;
	case 'm':
		spec->missing_id_rejects = true;
		break;
	case 'T':
		set_topic(&written->record, text, length);
		break;
	case 'k':
		written->record.key = (struct bytes){ text, length };
		break;
	case 'h':
	case 'n':
		add_header(written, text, length, what == 'n');
		break;
	case 'H': /* the text of a jsonb has no line breaks */
		if (memchr(text, '\r', length) == NULL)
			written->stored_headers = (struct bytes){ text, length };
		break;
	case 'x':
		written->record.payload = (struct bytes){ NULL, 0 };
		break;
	default:
		set_number(&written->record, what, text);
	}
}

static void begin(struct written_record *written, const uint8_t *data, size_t size)
{
	*written = (struct written_record){
		.text = malloc(size + 1),
		.record = { .topic = "orders", .timestamp_ms = -1 },
	};
	if (written->text == NULL)
		abort();
	if (size > 0)
		memcpy(written->text, data, size);
	written->text[size] = '\0';
	written->record.headers = written->headers;
	written->record.payload = (struct bytes){ "", 0 };
	written->spec.id = written->id;
	written->spec.type = written->type;
	written->spec.source = written->source;
	written->spec.accept = written->accept;
}

void written_record_init(struct written_record *written, const uint8_t *data, size_t size)
{
	char *at;
	char *end;

	begin(written, data, size);
	at = written->text;
	end = at + size;
	while (at < end && *at != '\n') {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		char *start = at + (at + 1 < end && at[1] == ' ' ? 2 : 1);

		if (stop == NULL)
			stop = end;
		*stop = '\0';
		if (start <= stop)
			take_line(written, *at, start, (size_t)(stop - start));
		at = stop + 1;
	}
	if (at < end && written->record.payload.data != NULL)
		written->record.payload = (struct bytes){ at + 1, (size_t)(end - at - 1) };
	if (written->spec.accept_count == 0)
		add_locator(written->accept, &written->spec.accept_count, "*");
}

void written_record_fini(struct written_record *written)
{
	free(written->text);
}
