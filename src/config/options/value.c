/*
 * First the setters, one a kind of value, then the table that finds them, then the checks of the option
 * table. A setter writes its field only when the text is good.
 */
#include "config/options/value.h"

#include <ctype.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "config/sources/strings.h"

enum { SCHEMA_MAX = 63, TOPIC_MAX = 249, PORT_MAX = 65535 };

struct unit {
	const char *name;
	int64_t factor;
};

/* Largest first: value_text() takes the first that divides the number. */
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

/* --- Numbers ---------------------------------------------------------------------------------------- */

/* False when the text is not digits and one of the units. A number that does not fit is the largest
 * there is; no option allows that one, so it is reported as too large. */
static bool parse_number(const char *text, const struct unit *units, int64_t *out)
{
	int64_t number = 0;
	const char *rest = text;

	for (; *rest >= '0' && *rest <= '9'; rest++) {
		if (number > (INT64_MAX - 9) / 10)
			number = INT64_MAX;
		else
			number = number * 10 + (*rest - '0');
	}
	while (units->name != NULL && strcmp(rest, units->name) != 0)
		units++;
	if (rest == text || units->name == NULL)
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
	/* The largest unit that leaves a whole number; 0 has the smallest. */
	while (unit->factor > 1 && (number == 0 || number % unit->factor != 0))
		unit++;
	(void)snprintf(out, VALUE_TEXT_BYTES, "%" PRId64 "%s", number / unit->factor, unit->name);
}

static int not_a_number(const struct option *option, const char *text, struct err *err)
{
	if (option->type == OPTION_INT)
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a whole number; write one such as %s", text, option->text);
	if (option->type == OPTION_SIZE)
		return err_set(err, FAULT_CONFIG,
			"\"%s\" is not a size; write a whole number with B, KiB, MiB or GiB, such "
			"as %s",
			text, option->text);
	if (strcmp(text, "never") == 0)
		return err_set(err, FAULT_CONFIG,
			"\"never\" is not possible here; write a duration such as %s",
			option->text);
	return err_set(err, FAULT_CONFIG,
		"\"%s\" is not a duration; write a whole number with " DURATION_UNITS
		", such as 30s%s",
		text, option->never ? ", or never" : "");
}

/* OPTION_INT, OPTION_SIZE, OPTION_DURATION. */
static int set_number(void *field, const struct option *option, const char *text, struct err *err)
{
	char limit[VALUE_TEXT_BYTES];
	int64_t number = 0;
	bool read;

	if (option->never && strcmp(text, "never") == 0) {
		*(int64_t *)field = CONFIG_NEVER;
		return 0;
	}
	if (option->type == OPTION_DURATION)
		read = duration_read(text, &number);
	else
		read = parse_number(text, no_units, &number) ||
		       (option->type == OPTION_SIZE && parse_number(text, size_units, &number));
	if (!read)
		return not_a_number(option, text, err);
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
	*(int64_t *)field = number;
	return 0;
}

/* --- Words, modes and texts ------------------------------------------------------------------------- */

/* OPTION_ENUM, OPTION_FLAG. The error lists all words, because there are at most four. */
static int set_word(void *field, const struct option *option, const char *text, struct err *err)
{
	char known[128] = "";
	size_t used = 0;

	for (int i = 0; option->words[i] != NULL; i++) {
		if (strcmp(option->words[i], text) != 0)
			continue;
		if (option->type == OPTION_FLAG)
			*(bool *)field = i == 1;
		else
			*(int *)field = i;
		return 0;
	}
	for (size_t i = 0; option->words[i] != NULL && used < sizeof(known); i++) {
		const char *between = i == 0 ? "" : option->words[i + 1] == NULL ? " or " : ", ";

		used += (size_t)snprintf(
			known + used, sizeof(known) - used, "%s%s", between, option->words[i]);
	}
	return err_set(err, FAULT_CONFIG, "\"%s\" is not known here; write %s", text, known);
}

/* Octal with or without a leading 0: YAML itself would read 0660 as a number. */
static int set_mode(void *field, const struct option *option, const char *text, struct err *err)
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

static int check_text(const struct option *option, const char *text, struct err *err)
{
	const char *wrong = option->check == NULL ? NULL : option->check(text);

	return wrong == NULL ? 0 : err_set(err, FAULT_CONFIG, "\"%s\" %s", text, wrong);
}

/* The check is before the upper limit: it knows better what is wrong with a long text. */
static int set_string(void *field, const struct option *option, const char *text, struct err *err)
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

/* --- User ids --------------------------------------------------------------------------------------- */

static int set_uids(
	void *base, const struct option *option, const struct strings *texts, struct err *err)
{
	CLEANUP(freep) uint32_t *uids = NULL;

	if (texts->count == 0)
		return 0;
	uids = calloc(texts->count, sizeof(*uids));
	if (uids == NULL)
		return err_memory(err);
	for (size_t i = 0; i < texts->count; i++) {
		int64_t number;

		/* To the kernel (uid_t)-1 means "no change"; no user has it. */
		if (!parse_number(texts->items[i], no_units, &number) || number >= UINT32_MAX)
			return err_set(err, FAULT_CONFIG,
				"\"%s\" is not a user id; write its number, as `id -u NAME` "
				"prints it",
				texts->items[i]);
		uids[i] = (uint32_t)number;
	}
	*(uint32_t **)((char *)base + option->offset) = uids;
	*(size_t *)((char *)base + option->count_offset) = texts->count;
	uids = NULL;
	return 0;
}

/* --- Each option's setter --------------------------------------------------------------------------- */

typedef int setter(void *field, const struct option *option, const char *text, struct err *err);

static setter *const setters[] = {
	[OPTION_STRING] = set_string,
	[OPTION_INT] = set_number,
	[OPTION_SIZE] = set_number,
	[OPTION_DURATION] = set_number,
	[OPTION_ENUM] = set_word,
	[OPTION_FLAG] = set_word,
	[OPTION_MODE] = set_mode,
};

/* The limits of a list are numbers of items; its items are texts, each with the option's check. */
int value_store(
	void *base, const struct option *option, const struct strings *texts, struct err *err)
{
	void *field = (char *)base + option->offset;
	int r = 0;

	if (!option_is_list(option)) {
		if (texts->count != 1)
			return err_set(
				err, FAULT_CONFIG, "is one value, not a list; write it without []");
		return setters[option->type](field, option, texts->items[0], err);
	}
	if ((int64_t)texts->count < option->min)
		return err_set(err, FAULT_CONFIG, "the list is empty; name at least one");
	if ((int64_t)texts->count > option->max)
		return err_set(err, FAULT_CONFIG, "the list has %zu items; write at most %" PRId64,
			texts->count, option->max);
	if (option->type == OPTION_UIDS)
		return set_uids(base, option, texts, err);
	for (size_t i = 0; i < texts->count && r == 0; i++)
		r = check_text(option, texts->items[i], err);
	return r < 0 ? r : strings_add_all(field, texts, err);
}

/* Numbers, words and modes own no memory. */
void value_release(void *base, const struct option *option)
{
	void *field = (char *)base + option->offset;

	if (option->type == OPTION_LIST) {
		strings_fini(field);
	} else if (option->type == OPTION_STRING || option->type == OPTION_UIDS) {
		free(*(char **)field);
		*(char **)field = NULL;
	}
}

/* --- Checks of the option table --------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Only names that need no quotes, because operators type them in SQL. */
const char *check_schema(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	size_t length = strlen(text);

	if (length == 0 || length > SCHEMA_MAX || strspn(text, letters) != length ||
		strspn(text, "0123456789") > 0)
		return "is not a schema name; write 1 to 63 lower-case letters, digits and "
		       "underscores, no digit first";
	if (starts_with(text, "pg_") || strcmp(text, "information_schema") == 0)
		return "is a schema name that PostgreSQL reserves; choose another name";
	return NULL;
}

/* The name is printed in log lines and tables. */
const char *check_instance(const char *text)
{
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "contains a control character; write a plain name, such as the "
			       "pod's";
	}
	return NULL;
}

static const char not_a_topic[] =
	"is not a topic name; Kafka allows 1 to 249 letters, digits, dots, underscores and hyphens";

static bool is_topic(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t length = strlen(text);

	return length > 0 && length <= TOPIC_MAX && strspn(text, letters) == length &&
	       strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

const char *check_topic_pattern(const char *text)
{
	regex_t regex;

	if (text[0] != '^')
		return is_topic(text) ? NULL : not_a_topic;
	if (regcomp(&regex, text, REG_EXTENDED | REG_NOSUB) != 0)
		return "is not a regular expression (POSIX extended); correct it, or drop the ^ to "
		       "name one topic";
	regfree(&regex);
	return NULL;
}

const char *check_topic_or_none(const char *text)
{
	return text[0] == '\0' || is_topic(text) ? NULL : not_a_topic;
}

/* What is left without the placeholders must be characters of a topic's name. */
const char *check_outbox_topic(const char *text)
{
	static const char *const placeholders[] = { "{aggregate}", "{type}" };
	size_t length;

	while (*text != '\0') {
		length = 1;
		for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++) {
			if (strncmp(text, placeholders[i], strlen(placeholders[i])) == 0)
				length = strlen(placeholders[i]);
		}
		if (length == 1 && !isalnum((unsigned char)*text) && strchr("._-", *text) == NULL)
			return "is not a topic: write letters, digits, '.', '_' and '-', "
			       "{aggregate} and {type}";
		text += length;
	}
	return NULL;
}

/* Rules are found by the topic's name for each record, so that a regular expression would be slow, and two
 * could match. */
const char *check_topic_rules(const char *text)
{
	if (text[0] == '^')
		return "is a regular expression; rules are written for a topic by its name, or for "
		       "all others under \"*\"";
	return strcmp(text, "*") == 0 || is_topic(text) ? NULL : not_a_topic;
}

const char *check_consumer(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.-");

	if (length == 0 || text[length] != '\0' || length > 63 || strchr("_.-", text[0]) != NULL)
		return "is not the name of a consumer; write at most 63 lower-case letters, "
		       "digits, "
		       "\".\", \"_\" and \"-\", the first a letter or digit";
	return NULL;
}

const char *check_consumer_or_none(const char *text)
{
	return text[0] == '\0' ? NULL : check_consumer(text);
}

const char *check_handler(const char *text)
{
	size_t length = strlen(text);

	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "is not the name of a handler; it contains a control character";
	}
	return length > 0 && length <= 255 ? NULL
					   : "is not the name of a handler; write 1 to 255 bytes";
}

const char *check_function(const char *text)
{
	if (text[0] == '\0')
		return NULL;
	if (strchr(text, '(') != NULL)
		return "names parameters; write only schema.function";
	return strchr(text, '.') != NULL ? NULL : "has no schema; write schema.function";
}

const char *check_type_pattern(const char *text)
{
	const char *star = strchr(text, '*');

	if (text[0] == '\0')
		return "is not an event type; write one, or \"*\" for all";
	if (star != NULL && star[1] != '\0')
		return "has a * before its end; only a * at the end is a wildcard";
	return NULL;
}

/* Whether a text has one of the forms (ended by NULL). A form that ends in ':' needs more text behind
 * it; one that ends in '/' does not, because "json:/" is the member named "". */
static bool has_form(const char *text, const char *const *forms)
{
	for (; *forms != NULL; forms++) {
		size_t length = strlen(*forms);
		char last = (*forms)[length - 1];

		if (!starts_with(text, *forms))
			continue;
		if (last == '/' || (last == ':') == (text[length] != '\0'))
			return true;
	}
	return false;
}

const char *check_id_locator(const char *text)
{
	static const char *const forms[] = { "header:", "json:/", "key", NULL };

	return has_form(text, forms)
		       ? NULL
		       : "is not a location of an id; write header:NAME, key or json:/POINTER";
}

const char *check_name_locator(const char *text)
{
	static const char *const forms[] = { "header:", "json:/", "literal:", "topic", NULL };

	return has_form(text, forms) ? NULL
				     : "is not known; write header:NAME, json:/POINTER, topic or "
				       "literal:TEXT";
}

const char *check_socket_path(const char *text)
{
	if (strlen(text) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return "is too long for a Unix socket; write a path of at most 107 bytes";
	return NULL;
}

static bool is_port(const char *text, size_t length)
{
	int port = 0;

	if (length == 0 || length > 5 || strspn(text, "0123456789") < length)
		return false;
	for (size_t i = 0; i < length; i++)
		port = port * 10 + (text[i] - '0');
	return port <= PORT_MAX;
}

/* Without brackets the colons of an IPv6 address could not be told from the one before the port. */
const char *check_listen(const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *bracket = strchr(text, ']');

	if (text[0] == '\0')
		return NULL;
	if (colon == NULL || !is_port(colon + 1, strlen(colon + 1)) ||
		(text[0] == '[') != (bracket != NULL) ||
		(bracket != NULL && bracket + 1 != colon) ||
		(bracket == NULL && strchr(text, ':') != colon))
		return "is not an address to listen on; write host:port, [ipv6]:port, or \"\" for "
		       "none";
	return NULL;
}

static bool is_host(const char *text, size_t length)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	if (length > 2 && text[0] == '[' && text[length - 1] == ']')
		return strspn(text + 1, "0123456789abcdefABCDEF:.") == length - 2;
	return length > 0 && length < 256 && strspn(text, letters) >= length;
}

/* host, host:port, [ipv6]:port; port 0 is none to connect to. */
static bool is_authority(const char *text, size_t length)
{
	const char *bracket = memchr(text, ']', length);
	const char *from = bracket == NULL ? text : bracket;
	const char *colon = memchr(from, ':', length - (size_t)(from - text));
	size_t port;

	if (colon == NULL)
		return is_host(text, length);
	port = length - (size_t)(colon + 1 - text);
	return is_host(text, (size_t)(colon - text)) && is_port(colon + 1, port) &&
	       strspn(colon + 1, "0") < port;
}

/* Stricter than a URL: the parts are written into an HTTP request as they are. */
const char *check_otlp_endpoint(const char *text)
{
	size_t length;

	if (text[0] == '\0')
		return NULL;
	if (starts_with(text, "https://"))
		return "needs TLS, which is not supported; write http:// and the address of a "
		       "collector on this host or in this network, which can forward with TLS";
	if (!starts_with(text, "http://"))
		return "is not the address of a collector; write http://host:4318, or \"\" for "
		       "none";
	text += strlen("http://");
	length = strcspn(text, "/");
	for (const char *c = text + length; *c != '\0'; c++) {
		if (*c <= ' ' || *c > '~' || strchr("?#\"\\<>", *c) != NULL)
			length = 0;
	}
	if (!is_authority(text, length))
		return "is not the address of a collector; write http://host:port or "
		       "http://host:port/path, or \"\" for none";
	return NULL;
}
