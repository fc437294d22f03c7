/*
 * Compiles the locators of a topic. Every mistake in the configuration of locators is found and named here, at the
 * start, so identity.c only has to deal with valid rules.
 *
 * The header of CloudEvents is the first locator of each list, whatever is configured: CloudEvents are recognised
 * without configuration. All json: locators of a topic share one list of pointers, so that one pass over the payload
 * finds the values of all of them.
 */
#include "model/identity/identity_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

/* A property of a record that locators find: its key in the configuration, and its CloudEvents header. */
struct subject {
	const char *key;
	const char *cloudevent; /* the header of CloudEvents, which is tried before the list */
	bool is_id;
};

static const struct subject id_subject = { "id", "header:ce_id", true };
static const struct subject type_subject = { "type", "header:ce_type", false };
static const struct subject source_subject = { "source", "header:ce_source", false };

struct texts {
	const char *const *items;
	size_t count;
};

struct form {
	const char *word;
	enum locator_kind kind;
	bool has_rest; /* a name, pointer or text follows the word */
	bool may_be_empty;
	bool for_id;
	bool for_others;
};

static const struct form forms[] = {
	{ "header:", LOCATE_HEADER, true, false, true, true },
	{ "json:", LOCATE_JSON, true, true, true, true },
	{ "literal:", LOCATE_LITERAL, true, false, false, true },
	{ "key", LOCATE_KEY, false, true, true, false },
	{ "topic", LOCATE_TOPIC, false, true, false, true },
};

/* A word without a rest must be the whole text: "keys" is not "key". */
static const struct form *form_of(const char *text)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t length = strlen(forms[i].word);

		if (strncmp(text, forms[i].word, length) == 0 &&
			(forms[i].has_rest || text[length] == '\0'))
			return &forms[i];
	}
	return NULL;
}

static int refuse(const struct subject *subject, const char *text, const char *why, struct err *err)
{
	return err_set(err, FAULT_CONFIG, "%s: locator '%s' %s", subject->key, text, why);
}

static int compile_pointer(struct identity_rules *rules, struct locator *locator,
	const struct subject *subject, struct err *err)
{
	int r;

	if (rules->pointer_count == JSON_POINTER_MAX)
		return refuse(subject, locator->text,
			"is one json: locator too many: a topic may have 64", err);
	locator->pointer = rules->pointer_count++;
	r = json_pointer_init(&rules->pointers[locator->pointer], locator->rest, err);
	if (r == JSON_POINTER_MALFORMED)
		return refuse(subject, locator->text,
			"is no JSON pointer: write it as json:/name/name, ~0 for '~' and ~1 for "
			"'/' within a name",
			err);
	return r;
}

/* The locator owns its text, also on failure. A literal is not quoted in an error: it can be long or not UTF-8. */
static int compile(struct identity_rules *rules, struct locator *locator, const char *text,
	const struct subject *subject, struct err *err)
{
	const struct form *form = form_of(text);

	if (form == NULL || !(subject->is_id ? form->for_id : form->for_others))
		return refuse(subject, text,
			subject->is_id
				? "is unknown here: use header:NAME, key or json:/POINTER"
				: "is unknown here: use header:NAME, json:/POINTER, topic or "
				  "literal:TEXT",
			err);
	if (!form->may_be_empty && text[strlen(form->word)] == '\0')
		return refuse(subject, text, "has nothing behind the colon", err);
	locator->kind = form->kind;
	locator->text = strdup(text);
	if (locator->text == NULL)
		return err_memory(err);
	locator->rest = locator->text + strlen(form->word);
	if (form->kind == LOCATE_JSON)
		return compile_pointer(rules, locator, subject, err);
	if (form->kind != LOCATE_LITERAL)
		return 0;
	if (strlen(locator->rest) > IDENTITY_MAX_BYTES)
		return refuse(subject, "literal:…", "is longer than 1,024 bytes: shorten it", err);
	if (!utf8_is_valid(bytes_of(locator->rest)))
		return refuse(subject, "literal:…", "is not UTF-8: correct it", err);
	return 0;
}

/* The header of CloudEvents first; where the configuration names it, too, it is not tried again. */
static int compile_list(struct identity_rules *rules, struct locators *list, struct texts texts,
	const struct subject *subject, struct err *err)
{
	int r;

	list->items = calloc(texts.count + 1, sizeof(*list->items));
	if (list->items == NULL)
		return err_memory(err);
	r = compile(rules, &list->items[list->count++], subject->cloudevent, subject, err);
	for (size_t i = 0; r == 0 && i < texts.count; i++) {
		if (strcmp(texts.items[i], subject->cloudevent) != 0)
			r = compile(
				rules, &list->items[list->count++], texts.items[i], subject, err);
	}
	return r;
}

static int copy_accept(
	struct identity_rules *rules, const struct identity_spec *spec, struct err *err)
{
	rules->accept = calloc(spec->accept_count + 1, sizeof(*rules->accept));
	if (rules->accept == NULL)
		return err_memory(err);
	for (size_t i = 0; i < spec->accept_count; i++) {
		rules->accept[i] = strdup(spec->accept[i]);
		if (rules->accept[i] == NULL)
			return err_memory(err);
		rules->accept_count++;
	}
	return 0;
}

int identity_rules_new(
	struct identity_rules **out, const struct identity_spec *spec, struct err *err)
{
	struct identity_rules *rules = calloc(1, sizeof(*rules));
	const struct texts id = { spec->id, spec->id_count };
	const struct texts type = { spec->type, spec->type_count };
	const struct texts source = { spec->source, spec->source_count };
	int r;

	if (rules == NULL)
		return err_memory(err);
	rules->missing_id_rejects = spec->missing_id_rejects;
	r = compile_list(rules, &rules->id, id, &id_subject, err);
	if (r == 0)
		r = compile_list(rules, &rules->type, type, &type_subject, err);
	if (r == 0)
		r = compile_list(rules, &rules->source, source, &source_subject, err);
	if (r == 0)
		r = copy_accept(rules, spec, err);
	if (r != 0) {
		identity_rules_free(rules);
		return r;
	}
	*out = rules;
	return 0;
}

static void free_list(struct locators *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].text);
	free(list->items);
}

void identity_rules_free(struct identity_rules *rules)
{
	if (rules == NULL)
		return;
	free_list(&rules->id);
	free_list(&rules->type);
	free_list(&rules->source);
	for (size_t i = 0; i < rules->accept_count; i++)
		free(rules->accept[i]);
	free(rules->accept);
	for (size_t i = 0; i < rules->pointer_count; i++)
		json_pointer_fini(&rules->pointers[i]);
	free(rules);
}

bool identity_rules_accept(const struct identity_rules *rules, const char *type)
{
	for (size_t i = 0; i < rules->accept_count; i++) {
		const char *pattern = rules->accept[i];
		size_t length = strlen(pattern);
		bool prefix = length > 0 && pattern[length - 1] == '*';

		if (prefix ? strncmp(pattern, type, length - 1) == 0 : strcmp(pattern, type) == 0)
			return true;
	}
	return false;
}
