/*
 * See pointer.h. The pointers are followed while the text is read as a stream. For each pointer it is known how
 * many of its steps lead to the containers around the current token. No tree is built; each level of nesting needs
 * one counter.
 */
#include "json/pointer.h"

#include <stdlib.h>
#include <string.h>

#include "json/text.h"

void json_pointer_fini(struct json_pointer *pointer)
{
	for (size_t i = 0; i < pointer->count; i++)
		free(pointer->steps[i].name);
	free(pointer->steps);
	*pointer = (struct json_pointer){ NULL, 0 };
}

/* RFC 6901, section 4: digits without a leading zero. "-" is the element behind the last one, which never exists. */
static int64_t array_index(const char *name, size_t length)
{
	int64_t index = 0;

	if (length == 0 || length > 9 || (name[0] == '0' && length > 1))
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		index = index * 10 + (name[i] - '0');
	}
	return index;
}

/* Undoes ~0 and ~1 in place. */
static int unescape(struct json_step *step)
{
	char *to = step->name;
	const char *end = step->name + step->length;

	for (const char *from = step->name; from < end; from++) {
		if (*from != '~') {
			*to++ = *from;
			continue;
		}
		from++;
		if (from == end || (*from != '0' && *from != '1'))
			return JSON_POINTER_MALFORMED;
		*to++ = *from == '0' ? '~' : '/';
	}
	step->length = (size_t)(to - step->name);
	return 0;
}

static int add_step(struct json_pointer *pointer, const char *text, size_t length, struct err *err)
{
	struct json_step *step = &pointer->steps[pointer->count];

	step->name = strndup(text, length);
	if (step->name == NULL)
		return err_memory(err);
	pointer->count++;
	step->length = length;
	if (unescape(step) != 0)
		return JSON_POINTER_MALFORMED;
	step->index = array_index(step->name, step->length);
	return 0;
}

int json_pointer_init(struct json_pointer *pointer, const char *text, struct err *err)
{
	size_t steps = 0;

	*pointer = (struct json_pointer){ NULL, 0 };
	if (*text == '\0')
		return 0;
	if (*text != '/')
		return JSON_POINTER_MALFORMED;
	for (const char *at = text; *at != '\0'; at++)
		steps += *at == '/';
	pointer->steps = calloc(steps, sizeof(*pointer->steps));
	if (pointer->steps == NULL)
		return err_memory(err);
	while (*text == '/') {
		size_t length = strcspn(text + 1, "/");
		int r = add_step(pointer, text + 1, length, err);

		if (r != 0)
			return r;
		text += length + 1;
	}
	return 0;
}

struct follower {
	const struct json_search *search;
	size_t unmet;
	bool met[JSON_POINTER_MAX]; /* the place of the pointer was reached, with a value or without */
	bool here[JSON_POINTER_MAX];    /* the next value is on the path of the pointer */
	size_t taken[JSON_POINTER_MAX]; /* steps of the pointer that lead to the open containers */
	int64_t next[JSON_DEEPEST +
		     1]; /* by depth: index of the array element to come; -1 in an object */
	int fault;
	struct err *err;
};

/* True when the next step of the pointer is to be taken at this depth. */
static bool is_next(const struct follower *follower, size_t i, int depth)
{
	return !follower->met[i] && follower->taken[i] == (size_t)depth - 1 &&
	       follower->search->pointers[i].count >= (size_t)depth;
}

static const struct json_step *next_step(const struct follower *follower, size_t i)
{
	return &follower->search->pointers[i].steps[follower->taken[i]];
}

static bool on_key(struct follower *follower, const struct json_token *token)
{
	const struct json_search *search = follower->search;
	struct bytes name;
	int r;

	buf_reset(search->scratch);
	r = json_text_of(token->raw, search->scratch, &name, follower->err);
	follower->fault = r < 0 ? r : 0;
	for (size_t i = 0; i < search->count; i++) {
		const struct json_step *step =
			is_next(follower, i, token->depth) ? next_step(follower, i) : NULL;

		follower->here[i] = r == 0 && step != NULL && step->length == name.length &&
				    memcmp(step->name, name.data, name.length) == 0;
	}
	return r >= 0;
}

static void on_value(struct follower *follower, const struct json_token *token)
{
	const struct json_search *search = follower->search;
	const bool scalar = token->kind == JSON_STRING || token->kind == JSON_NUMBER ||
			    token->kind == JSON_BOOLEAN;
	size_t depth = (size_t)token->depth;

	/* Which pointers lead to this element of an array. In an object, on_key() has decided it. */
	if (depth > 0 && follower->next[depth - 1] >= 0) {
		for (size_t i = 0; i < search->count; i++)
			follower->here[i] =
				is_next(follower, i, token->depth) &&
				next_step(follower, i)->index == follower->next[depth - 1];
		follower->next[depth - 1]++;
	}
	for (size_t i = 0; i < search->count; i++) {
		if (!follower->here[i])
			continue;
		follower->here[i] = false;
		follower->taken[i] = depth;
		if (search->pointers[i].count > depth)
			continue;
		follower->met[i] = true;
		follower->unmet--;
		if (scalar)
			search->values[i] = (struct json_value){ token->kind, token->raw };
	}
}

static bool follow(void *arg, const struct json_token *token)
{
	struct follower *follower = arg;

	/* The rest is still read: a text with a mistake behind the values is no JSON. */
	if (follower->unmet == 0)
		return true;
	switch (token->kind) {
	case JSON_KEY:
		return on_key(follower, token);
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		/* The pointers that led into the container are one step back. */
		for (size_t i = 0; token->depth > 0 && i < follower->search->count; i++)
			follower->taken[i] -= follower->taken[i] == (size_t)token->depth;
		break;
	case JSON_OBJECT:
	case JSON_ARRAY:
		on_value(follower, token);
		follower->next[token->depth] = token->kind == JSON_ARRAY ? 0 : -1;
		break;
	default:
		on_value(follower, token);
	}
	return true;
}

int json_find(struct json_stream *stream, struct bytes text, const struct json_search *search,
	struct err *err)
{
	struct follower follower;
	int r;

	follower.search = search;
	follower.unmet = search->count;
	follower.fault = 0;
	follower.err = err;
	for (size_t i = 0; i < search->count; i++) {
		follower.met[i] = false;
		follower.here[i] = true; /* every pointer leads to the text's own value */
		follower.taken[i] = 0;
		search->values[i] = (struct json_value){ JSON_NULL, { NULL, 0 } };
	}
	r = json_stream_read(stream, text, follow, &follower, err);
	if (r < 0 || follower.fault < 0)
		return r < 0 ? r : follower.fault;
	if (r == JSON_BROKEN) {
		for (size_t i = 0; i < search->count; i++)
			search->values[i].raw = (struct bytes){ NULL, 0 };
	}
	return 0;
}
