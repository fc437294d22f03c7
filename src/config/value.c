/* One parser a type, found by a table; units are tables too. */
#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "config/string_list.h"

typedef int store_fn(void *field, const struct option *option, const char *text, struct err *err);

struct unit {
	const char *name;
	int64_t factor;
};

/* Largest first: value_text() takes the first that divides. */
static const struct unit size_units[] = {
	{ "GiB", 1073741824 },
	{ "MiB", 1048576 },
	{ "KiB", 1024 },
	{ "B", 1 },
	{ NULL, 0 },
};
static const struct unit no_units[] = {
	{ "", 1 },
	{ NULL, 0 },
};

static void *at(void *base, size_t offset)
{
	return (char *)base + offset;
}

/* What follows the decimal digits, or NULL when there are none. Too large a number is the largest
 * there is, which no option allows. */
static const char *parse_digits(const char *text, int64_t *out)
{
	int64_t number = 0;
	const char *c = text;

	for (; *c >= '0' && *c <= '9'; c++) {
		if (number > (INT64_MAX - 9) / 10)
			number = INT64_MAX;
		else
			number = number * 10 + (*c - '0');
	}
	*out = number;
	return c == text ? NULL : c;
}

static bool parse_with_unit(const char *text, const struct unit *units, int64_t *out)
{
	int64_t number;
	const char *rest = parse_digits(text, &number);

	while (rest != NULL && units->name != NULL && strcmp(rest, units->name) != 0)
		units++;
	if (rest == NULL || units->name == NULL)
		return false;
	if (__builtin_mul_overflow(number, units->factor, out))
		*out = INT64_MAX;
	return true;
}

void value_text(const struct option *option, int64_t number, char out[VALUE_TEXT_BYTES])
{
	const struct unit *unit = option->type == OPTION_SIZE ? size_units : no_units;

	if (option->type == OPTION_DURATION) {
		duration_text(number, out);
		return;
	}
	while (unit->factor > 1 && (number == 0 || number % unit->factor != 0))
		unit++;
	(void)snprintf(out, VALUE_TEXT_BYTES, "%" PRId64 "%s", number / unit->factor, unit->name);
}

static int check_range(
	const struct option *option, int64_t number, const char *text, struct err *err)
{
	char limit[VALUE_TEXT_BYTES];

	if (number < option->min) {
		value_text(option, option->min, limit);
		return err_set(
			err, FAULT_CONFIG, "\"%s\" is too small; write at least %s", text, limit);
	}
	if (number > option->max) {
		value_text(option, option->max, limit);
		return err_set(
			err, FAULT_CONFIG, "\"%s\" is too large; write at most %s", text, limit);
	}
	return 0;
}

static int check_text(const struct option *option, const char *text, struct err *err)
{
	const char *wrong = option->check == NULL ? NULL : option->check(text);

	return wrong == NULL ? 0 : err_set(err, FAULT_CONFIG, "\"%s\" %s", text, wrong);
}

static int store_string(void *field, const struct option *option, const char *text, struct err *err)
{
	int64_t length = (int64_t)strlen(text);
	int r;

	if (length < option->min)
		return err_set(err, FAULT_CONFIG, "is empty; write a value or leave the key out");
	r = check_text(option, text, err);
	if (r < 0)
		return r;
	if (length > option->max)
		return err_set(err, FAULT_CONFIG,
			"\"%.40s…\" is too long; write at most %" PRId64 " bytes", text,
			option->max);
	return string_copy(field, text, (size_t)length, err);
}

static int store_number(void *field, const struct option *option, const char *text, struct err *err)
{
	int64_t number;
	int r;

	if (!parse_with_unit(text, no_units, &number))
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a whole number; write one such as %s", text, option->text);
	r = check_range(option, number, text, err);
	if (r == 0)
		*(int64_t *)field = number;
	return r;
}

static int store_size(void *field, const struct option *option, const char *text, struct err *err)
{
	int64_t bytes;
	int r;

	/* A bare number is bytes, as everywhere else. */
	if (!parse_with_unit(text, no_units, &bytes) && !parse_with_unit(text, size_units, &bytes))
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a size; write a whole number with B, KiB, MiB or GiB, such "
			"as %s",
			text, option->text);
	r = check_range(option, bytes, text, err);
	if (r == 0)
		*(int64_t *)field = bytes;
	return r;
}

static int parse_duration(
	const struct option *option, const char *text, int64_t *out, struct err *err)
{
	if (duration_read(text, out))
		return check_range(option, *out, text, err);
	if (strcmp(text, "never") == 0)
		return err_set(err, FAULT_CONFIG,
			"\"never\" is not possible here; write a duration such as %s",
			option->text);
	return err_set(err, FAULT_CONFIG,
		"\"%s\" is not a duration; write a whole number with " DURATION_UNITS
		", such as 30s%s",
		text, option->never ? ", or never" : "");
}

static int store_duration(
	void *field, const struct option *option, const char *text, struct err *err)
{
	int64_t ms = CONFIG_NEVER;
	int r = 0;

	if (!option->never || strcmp(text, "never") != 0)
		r = parse_duration(option, text, &ms, err);
	if (r == 0)
		*(int64_t *)field = ms;
	return r;
}

static int index_of(const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], word) == 0)
			return i;
	}
	return -1;
}

static int unknown_word(const struct option *option, const char *text, struct err *err)
{
	char known[128] = "";
	size_t used = 0;

	for (size_t i = 0; option->words[i] != NULL && used < sizeof(known); i++) {
		const char *between = i == 0 ? "" : option->words[i + 1] == NULL ? " or " : ", ";

		used += (size_t)snprintf(
			known + used, sizeof(known) - used, "%s%s", between, option->words[i]);
	}
	return err_set(err, FAULT_CONFIG, "\"%s\" is not known here; write %s", text, known);
}

static int store_enum(void *field, const struct option *option, const char *text, struct err *err)
{
	int index = index_of(option->words, text);

	if (index < 0)
		return unknown_word(option, text, err);
	*(int *)field = index;
	return 0;
}

static int store_flag(void *field, const struct option *option, const char *text, struct err *err)
{
	int index = index_of(option->words, text);

	if (index < 0)
		return unknown_word(option, text, err);
	*(bool *)field = index == 1;
	return 0;
}

static int store_mode(void *field, const struct option *option, const char *text, struct err *err)
{
	unsigned mode = 0;

	for (const char *c = text; *c >= '0' && *c <= '7' && mode <= (unsigned)option->max; c++)
		mode = mode * 8 + (unsigned)(*c - '0');
	if (text[0] == '\0' || strspn(text, "01234567") != strlen(text) ||
		mode > (unsigned)option->max)
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a file mode; write octal digits such as %s", text,
			option->text);
	*(unsigned *)field = mode;
	return 0;
}

static int check_count(const struct option *option, size_t count, struct err *err)
{
	if ((int64_t)count < option->min)
		return err_set(err, FAULT_CONFIG, "the list is empty; name at least one");
	if ((int64_t)count > option->max)
		return err_set(err, FAULT_CONFIG, "the list has %zu items; write at most %" PRId64,
			count, option->max);
	return 0;
}

static int store_list(
	void *field, const struct option *option, const struct strings *texts, struct err *err)
{
	int r = check_count(option, texts->count, err);

	for (size_t i = 0; i < texts->count && r == 0; i++)
		r = check_text(option, texts->items[i], err);
	return r < 0 ? r : strings_add_all(field, texts, err);
}

static int parse_uid(const char *text, uint32_t *out, struct err *err)
{
	int64_t number;

	/* (uid_t)-1 means "no change" to the kernel: nobody has it. */
	if (!parse_with_unit(text, no_units, &number) || number >= UINT32_MAX)
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a user id; write its number, as `id -u NAME` says it", text);
	*out = (uint32_t)number;
	return 0;
}

static int store_uids(
	void *base, const struct option *option, const struct strings *texts, struct err *err)
{
	CLEANUP(freep) uint32_t *uids = NULL;
	int r = check_count(option, texts->count, err);

	if (r < 0 || texts->count == 0)
		return r;
	uids = calloc(texts->count, sizeof(*uids));
	if (uids == NULL)
		return err_memory(err);
	for (size_t i = 0; i < texts->count && r == 0; i++)
		r = parse_uid(texts->items[i], &uids[i], err);
	if (r < 0)
		return r;
	*(uint32_t **)at(base, option->offset) = uids;
	*(size_t *)at(base, option->count_offset) = texts->count;
	uids = NULL;
	return 0;
}

static store_fn *const scalar_stores[] = {
	[OPTION_STRING] = store_string,
	[OPTION_INT] = store_number,
	[OPTION_SIZE] = store_size,
	[OPTION_DURATION] = store_duration,
	[OPTION_ENUM] = store_enum,
	[OPTION_FLAG] = store_flag,
	[OPTION_MODE] = store_mode,
};

int value_store(
	void *base, const struct option *option, const struct strings *texts, struct err *err)
{
	void *field = at(base, option->offset);

	if (option->type == OPTION_LIST)
		return store_list(field, option, texts, err);
	if (option->type == OPTION_UIDS)
		return store_uids(base, option, texts, err);
	if (texts->count != 1)
		return err_set(err, FAULT_CONFIG, "is one value, not a list; write it without []");
	return scalar_stores[option->type](field, option, texts->items[0], err);
}

void value_release(void *base, const struct option *option)
{
	void *field = at(base, option->offset);

	if (option->type == OPTION_LIST) {
		strings_fini(field);
	} else if (option->type == OPTION_STRING || option->type == OPTION_UIDS) {
		free(*(char **)field);
		*(char **)field = NULL;
	}
}

bool value_is_list(const struct option *option)
{
	return option->type == OPTION_LIST || option->type == OPTION_UIDS;
}
