/*
 * See token.h. librdkafka repeats a token with a character that it does not accept in the text of its error. So the texts are
 * checked here, by the rules of RFC 7628.
 */
#include "ingest/kafka/token.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "json/members.h"
#include "json/text.h"

#define STANDARD_PRINCIPAL "inboxd"
#define LATEST_MS          253402300800000.0 /* the year 10000 */
#define NUMBER_BYTES       32

void token_fini(struct token *token)
{
	free(token->value);
	free(token->principal);
	for (size_t i = 0; i < token->extension_texts; i++)
		free(token->extensions[i]);
	*token = (struct token){ .value = NULL };
}

static void stream_free(struct json_stream *stream)
{
	json_stream_free(stream);
}
DEFINE_CLEANUP(struct json_stream *, stream_free);

/* --- Members ----------------------------------------------------------------------------------- */

struct reading {
	struct token *token;
	const struct known *known; /* the members that are read, ended by NULL */
	const char *name;          /* of the last one that was read */
	const char *wrong;         /* with it; NULL: nothing */
	struct err *err;
	int fault;
};

struct known {
	const char *name;
	enum json_kind kind;
	const char *kind_words;
	void (*set)(struct reading *reading, const struct json_member *member);
};

/* A copy of the text; the first one counts. */
static void set_text(struct reading *reading, const struct json_member *member, char **out)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	struct bytes text;
	int r;

	if (*out != NULL)
		return;
	r = json_text_of(member->raw, &scratch, &text, reading->err);
	if (r > 0 || (r == 0 && memchr(text.data, '\0', text.length) != NULL)) {
		reading->wrong = "has a character that is not allowed";
		return;
	}
	*out = r < 0 ? NULL : strndup(text.data, text.length);
	if (*out == NULL)
		reading->fault = err_memory(reading->err);
}

static void set_value(struct reading *reading, const struct json_member *member)
{
	set_text(reading, member, &reading->token->value);
}

static void set_principal(struct reading *reading, const struct json_member *member)
{
	set_text(reading, member, &reading->token->principal);
}

/* Some issuers write a fraction. */
static void set_time(struct reading *reading, const struct json_member *member, double factor)
{
	char digits[NUMBER_BYTES] = "";
	double time;

	if (reading->token->expires_at_ms != 0)
		return;
	if (member->raw.length < sizeof(digits))
		memcpy(digits, member->raw.data, member->raw.length);
	time = strtod(digits, NULL) * factor;
	if (time < 1 || time > LATEST_MS)
		reading->wrong = "is no time";
	else
		reading->token->expires_at_ms = (int64_t)time;
}

static void set_expires_at_ms(struct reading *reading, const struct json_member *member)
{
	set_time(reading, member, 1);
}

static void set_exp(struct reading *reading, const struct json_member *member)
{
	set_time(reading, member, 1000);
}

static bool visit_extension(void *arg, const struct json_member *member)
{
	struct reading *reading = arg;
	struct token *token = reading->token;
	char *name;

	if (member->kind != JSON_STRING ||
		token->extension_texts ==
			sizeof(token->extensions) / sizeof(token->extensions[0])) {
		reading->wrong = "must be an object of at most 32 texts";
		return false;
	}
	name = strndup(member->name.data, member->name.length);
	if (name == NULL) {
		reading->fault = err_memory(reading->err);
		return false;
	}
	token->extensions[token->extension_texts++] = name;
	token->extensions[token->extension_texts] = NULL;
	set_text(reading, member, &token->extensions[token->extension_texts]);
	if (token->extensions[token->extension_texts] == NULL)
		return false;
	token->extension_texts++;
	return true;
}

static void set_extensions(struct reading *reading, const struct json_member *member)
{
	CLEANUP(stream_freep) struct json_stream *stream = NULL;

	if (reading->token->extension_texts > 0)
		return;
	reading->fault = json_stream_new(&stream, reading->err);
	if (reading->fault == 0 &&
		json_read_members(stream, member->raw, visit_extension, reading, reading->err) < 0)
		reading->fault = FAULT_MEMORY;
}

static const struct known of_output[] = {
	{ "token", JSON_STRING, "must be a text", set_value },
	{ "expires_at_ms", JSON_NUMBER, "must be a number", set_expires_at_ms },
	{ "principal", JSON_STRING, "must be a text", set_principal },
	{ "extensions", JSON_OBJECT, "must be an object of at most 32 texts", set_extensions },
	{ NULL, JSON_NULL, NULL, NULL },
};

static const struct known of_claims[] = {
	{ "exp", JSON_NUMBER, "must be a number", set_exp },
	{ "sub", JSON_STRING, "must be a text", set_principal },
	{ NULL, JSON_NULL, NULL, NULL },
};

/* Other members are passed over, and null is as if the member were not there. */
static bool visit(void *arg, const struct json_member *member)
{
	struct reading *reading = arg;

	for (const struct known *known = reading->known; known->name != NULL; known++) {
		if (!bytes_equal(member->name, bytes_of(known->name)) || member->kind == JSON_NULL)
			continue;
		reading->name = known->name;
		if (member->kind == known->kind)
			known->set(reading, member);
		else
			reading->wrong = known->kind_words;
	}
	return reading->wrong == NULL && reading->fault == 0;
}

static int read_object(struct bytes text, struct reading *reading)
{
	CLEANUP(stream_freep) struct json_stream *stream = NULL;
	int r = json_stream_new(&stream, reading->err);

	if (r == 0)
		r = json_read_members(stream, text, visit, reading, reading->err);
	if (reading->fault < 0)
		return reading->fault;
	if (r == JSON_BROKEN && reading->wrong == NULL) {
		reading->name = "it";
		reading->wrong = "is no valid JSON object";
	}
	return r < 0 ? r : 0;
}

/* --- JSON Web Tokens --------------------------------------------------------------------------- */

/* Appends the bytes of a base64url text without padding. False: it is none. */
static bool decode_url(struct buf *out, const char *text, size_t length)
{
	CLEANUP(buf_fini) struct buf standard = BUF_INIT;

	buf_add(&standard, text, length);
	while (standard.length % 4 != 0 && !standard.broken)
		buf_add_char(&standard, '=');
	for (size_t i = 0; buf_ok(&standard) && i < length; i++) {
		if (standard.data[i] == '-')
			standard.data[i] = '+';
		else if (standard.data[i] == '_')
			standard.data[i] = '/';
	}
	return buf_ok(&standard) &&
	       base64_decode(out, (struct bytes){ standard.data, standard.length });
}

/* A token that is not of this form has no claims, and neither has one whose claims cannot be read. */
static int read_claims(struct token *token, struct err *err)
{
	CLEANUP(buf_fini) struct buf claims = BUF_INIT;
	struct reading reading = { .token = token, .known = of_claims, .err = err };
	const char *begin = strchr(token->value, '.');
	const char *end = begin == NULL ? NULL : strchr(begin + 1, '.');
	bool found = end != NULL && decode_url(&claims, begin + 1, (size_t)(end - begin - 1));

	return found ? read_object((struct bytes){ claims.data, claims.length }, &reading) : 0;
}

/* --- The token --------------------------------------------------------------------------------- */

static int unusable(struct err *err, const char *why)
{
	return err_set(err, FAULT_KAFKA, "the token cannot be used: %s", why);
}

static bool is_visible(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text < '!' || *text > '~')
			return false;
	}
	return true;
}

static bool is_extension_name(const char *name)
{
	for (const char *c = name; *c != '\0'; c++) {
		if (!((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z')))
			return false;
	}
	return *name != '\0' && strcmp(name, "auth") != 0;
}

static bool is_extension_value(const char *text)
{
	for (; *text != '\0'; text++) {
		if ((*text < ' ' || *text > '~') && strchr("\t\r\n", *text) == NULL)
			return false;
	}
	return true;
}

static int check_texts(const struct token *token, struct err *err)
{
	if (token->value == NULL)
		return unusable(err, "the object has no member \"token\"");
	if (token->value[0] == '\0')
		return unusable(err, "there is none");
	if (!is_visible(token->value))
		return unusable(err, "it has a space, a line break or another character that is "
				     "not allowed; nothing else may be beside the token");
	for (size_t i = 0; i < token->extension_texts; i += 2) {
		if (!is_extension_name(token->extensions[i]))
			return unusable(err,
				"the name of an extension must consist of letters, and "
				"must not be \"auth\"");
		if (!is_extension_value(token->extensions[i + 1]))
			return unusable(err, "the value of an extension has a character that is "
					     "not allowed");
	}
	return 0;
}

static int check_time(const struct token *token, int64_t now_ms, struct err *err)
{
	const int64_t left_ms = token->expires_at_ms - now_ms;

	if (token->expires_at_ms == 0)
		return unusable(err, "nothing says when it ends: it needs expires_at_ms, or has to "
				     "be a JSON Web Token with the claim exp, in seconds");
	if (left_ms >= TOKEN_LIFE_MIN_MS)
		return 0;
	if (left_ms > 0)
		return err_set(err, FAULT_KAFKA,
			"the token cannot be used: it ends in %lld s, and must be valid for 30 s",
			(long long)left_ms / 1000);
	return err_set(err, FAULT_KAFKA,
		"the token cannot be used: it ended %lld s ago (expires_at_ms is in milliseconds; "
		"check the clocks)",
		(long long)-left_ms / 1000);
}

static struct bytes trimmed(struct bytes text)
{
	static const char blanks[] = " \t\r\n";
	const char *data = text.data;
	size_t length = text.length;

	while (length > 0 && memchr(blanks, data[length - 1], sizeof(blanks) - 1) != NULL)
		length--;
	while (length > 0 && memchr(blanks, *data, sizeof(blanks) - 1) != NULL) {
		data++;
		length--;
	}
	return (struct bytes){ data, length };
}

static int read_text(struct token *token, struct bytes text, struct err *err)
{
	struct reading reading = { .token = token, .known = of_output, .err = err };
	int r;

	if (text.length > TOKEN_TEXT_MAX)
		return unusable(err, "it is longer than 64 KiB");
	if (text.length == 0 || memchr(text.data, '\0', text.length) != NULL)
		return unusable(err, text.length == 0 ? "there is none" : "it has a NUL byte");
	if (*(const char *)text.data == '{') {
		r = read_object(text, &reading);
		return r < 0 || reading.wrong == NULL
			       ? r
			       : err_set(err, FAULT_KAFKA, "the token cannot be used: %s %s",
					 reading.name, reading.wrong);
	}
	token->value = strndup(text.data, text.length);
	return token->value == NULL ? err_memory(err) : 0;
}

int token_read(struct token *out, struct bytes text, int64_t now_ms, struct err *err)
{
	int r;

	*out = (struct token){ .value = NULL };
	r = read_text(out, trimmed(text), err);
	if (r == 0)
		r = check_texts(out, err);
	if (r == 0)
		r = read_claims(out, err);
	if (r == 0)
		r = check_time(out, now_ms, err);
	if (r == 0 && out->principal == NULL) {
		out->principal = strdup(STANDARD_PRINCIPAL);
		r = out->principal == NULL ? err_memory(err) : 0;
	}
	if (r < 0)
		token_fini(out);
	return r;
}
