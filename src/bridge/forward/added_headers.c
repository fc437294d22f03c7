/* See added_headers.h. */
#include "bridge/forward/added_headers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "bridge/forward/file_value.h"

/* What inboxd or libcurl sends. A name that ends with '-' is a prefix. */
static const char *const own_names[] = {
	"ce-",
	"Connection",
	"Content-Length",
	"Content-Type",
	"Expect",
	"Idempotency-Key",
	"traceparent",
	"tracestate",
	"Transfer-Encoding",
};

static bool is_own(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
		const size_t own_length = strlen(own_names[i]);
		const bool prefix = own_names[i][own_length - 1] == '-';

		if ((prefix ? length >= own_length : length == own_length) &&
			strncasecmp(name, own_names[i], own_length) == 0)
			return true;
	}
	return false;
}

/* The length of the token that begins the text; RFC 9110. */
static size_t token_length(const char *text)
{
	return strspn(text, "!#$%&'*+-.^_`|~0123456789"
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* Replaces the value. After a fault the former one stays. */
static int read_value(struct added_header *header, struct err *err)
{
	struct buf value = BUF_INIT;
	int r = file_value_read(header->value, &value, err);

	if (r == 0 && value.length == 0)
		r = err_set(err, FAULT_USAGE, "the value is empty");
	if (r == 0) {
		buf_cut(&header->line, header->name_length);
		buf_add_str(&header->line, ": ");
		buf_add(&header->line, value.data, value.length);
		r = buf_ok(&header->line) ? 0 : err_memory(err);
	}
	buf_fini(&value);
	return r;
}

static int init_one(struct added_header *header, const char *text, struct err *err)
{
	int r;

	*header = (struct added_header){ .name_length = token_length(text) };
	if (header->name_length == 0 || text[header->name_length] != ':')
		return err_set(err, FAULT_USAGE,
			"--header: the text is not \"Name: value\", or the name is not one of a "
			"header");
	if (is_own(text, header->name_length))
		return err_set(err, FAULT_USAGE,
			"--header: %.*s cannot be changed: forward sends its own",
			(int)header->name_length, text);
	header->value = text + header->name_length + 1;
	header->value += strspn(header->value, " \t");
	buf_add(&header->line, text, header->name_length);
	r = read_value(header, err);
	if (r == FAULT_USAGE)
		(void)err_prefix(err, "--header: %.*s", (int)header->name_length, text);
	return r;
}

int added_headers_init(
	struct added_headers *headers, const char *const *texts, size_t count, struct err *err)
{
	int r = 0;

	*headers = (struct added_headers){ .items = calloc(count + 1, sizeof(*headers->items)) };
	if (headers->items == NULL)
		return err_memory(err);
	while (r == 0 && headers->count < count) {
		r = init_one(&headers->items[headers->count], texts[headers->count], err);
		headers->count++;
	}
	return r;
}

void added_headers_fini(struct added_headers *headers)
{
	for (size_t i = 0; i < headers->count; i++)
		buf_fini(&headers->items[i].line);
	free(headers->items);
	*headers = (struct added_headers){ .items = NULL };
}

bool added_headers_have_files(const struct added_headers *headers)
{
	for (size_t i = 0; i < headers->count; i++) {
		if (file_value_path(headers->items[i].value) != NULL)
			return true;
	}
	return false;
}

int added_headers_refresh(struct added_headers *headers, struct err *err)
{
	for (size_t i = 0; i < headers->count; i++) {
		struct added_header *header = &headers->items[i];
		struct err failed = ERR_INIT;
		int r;

		if (file_value_path(header->value) == NULL)
			continue;
		r = read_value(header, &failed);
		if (r == FAULT_MEMORY)
			return err_memory(err);
		if (r != 0 && !header->failed)
			log_warn("header_not_read", LOG_STR("error", failed.text),
				LOG_STR("next", "the value that was read before is sent"));
		header->failed = r != 0;
	}
	return 0;
}
