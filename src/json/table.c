/*
 * See table.h. The place of a token follows from its depth: only containers that a rule knows are entered, so each
 * container around a token has a frame. Everything in another container is skipped until its closing bracket.
 */
#include "json/table.h"

struct frame {
	int place;
	const struct json_rule *first; /* rule of this place; the others follow */
	uint64_t seen;                 /* members of this object, by their rule */
	const struct json_rule *rule;  /* of the value that comes next; NULL = unknown */
	const char *start;             /* the opening bracket */
};

struct walk {
	const struct json_table *table;
	void *target;
	struct frame frames[JSON_TABLE_DEPTH]; /* by depth */
	int skipped;                   /* depth of the container that is skipped; -1 = none */
	const struct json_rule *whole; /* its rule, if it is stored as it was written */
	const char *start;             /* its opening bracket */
	int outcome;
};

/* The first rule of a place; the end of the table if it has none. */
static const struct json_rule *first_rule(const struct json_table *table, int place)
{
	const struct json_rule *rule = table->rules;

	while (rule < table->rules + table->count && rule->place != place)
		rule++;
	return rule;
}

const struct json_rule *json_table_element(const struct json_table *table, int place)
{
	const struct json_rule *rule = first_rule(table, place);

	return rule < table->rules + table->count && rule->name == NULL ? rule : NULL;
}

/* The rule of a value that may be stored, or NULL. */
static const struct json_rule *admitted(struct walk *walk, const struct json_token *value)
{
	const struct json_table *table = walk->table;
	struct frame *frame = &walk->frames[value->depth - 1];
	const struct json_rule *rule = frame->rule;
	uint64_t bit;

	if (rule == NULL) {
		if (table->unknown_value != NULL)
			table->unknown_value(walk->target, frame->place, value);
		return NULL;
	}
	/* The elements of an array share one rule, so only a member can be given twice. */
	bit = UINT64_C(1) << (rule - table->rules);
	if (rule->name != NULL && (frame->seen & bit) != 0 && table->repeated != NULL) {
		table->repeated(walk->target, rule);
		return NULL;
	}
	frame->seen |= bit;
	if ((rule->kinds & JSON_IS(value->kind)) != 0)
		return rule;
	if (table->mistyped != NULL)
		table->mistyped(walk->target, rule, value->kind);
	return NULL;
}

static void enter(struct walk *walk, int place, const struct json_token *bracket)
{
	walk->frames[bracket->depth] = (struct frame){
		.place = place,
		.first = first_rule(walk->table, place),
		.rule = json_table_element(walk->table, place),
		.start = bracket->raw.data,
	};
}

static void open_value(struct walk *walk, const struct json_token *bracket)
{
	const struct json_rule *rule = admitted(walk, bracket);

	if (rule != NULL && rule->inner != 0 && bracket->depth < JSON_TABLE_DEPTH) {
		if (rule->set != NULL)
			rule->set(walk->target, rule, bracket);
		enter(walk, rule->inner, bracket);
		return;
	}
	walk->skipped = bracket->depth;
	walk->whole = rule;
	walk->start = bracket->raw.data;
}

/* The closing bracket of a place, or of the container that was skipped. */
static void close_value(struct walk *walk, const struct json_token *bracket)
{
	const bool skipped = walk->skipped >= 0;
	const char *start = skipped ? walk->start : walk->frames[bracket->depth].start;
	struct json_token whole = *bracket;

	whole.kind = bracket->kind == JSON_OBJECT_END ? JSON_OBJECT : JSON_ARRAY;
	whole.raw = (struct bytes){ start, (size_t)((const char *)bracket->raw.data + 1 - start) };
	walk->skipped = -1;
	if (skipped && walk->whole != NULL && walk->whole->set != NULL)
		walk->whole->set(walk->target, walk->whole, &whole);
	else if (!skipped && walk->table->ended != NULL)
		walk->table->ended(walk->target, walk->frames[bracket->depth].place, whole.raw);
}

static void read_name(struct walk *walk, const struct json_token *name)
{
	struct frame *frame = &walk->frames[name->depth - 1];
	const struct json_rule *end = walk->table->rules + walk->table->count;
	const struct json_rule *rule = frame->first;

	/* The search is linear, because it is short: a place has about ten rules. */
	while (rule < end && rule->place == frame->place &&
		(rule->name == NULL || !bytes_equal(bytes_of(rule->name), name->text)))
		rule++;
	frame->rule = rule < end && rule->place == frame->place ? rule : NULL;
	if (frame->rule == NULL && walk->table->unknown_name != NULL)
		walk->table->unknown_name(walk->target, frame->place, name->text);
}

static void read_scalar(struct walk *walk, const struct json_token *value)
{
	const struct json_rule *rule = admitted(walk, value);

	if (rule != NULL && rule->set != NULL)
		rule->set(walk->target, rule, value);
}

static bool visit(void *arg, const struct json_token *token)
{
	struct walk *walk = arg;
	const bool opens = token->kind == JSON_OBJECT || token->kind == JSON_ARRAY;
	const bool closes = token->kind == JSON_OBJECT_END || token->kind == JSON_ARRAY_END;

	/* The closing bracket of what is skipped has the depth of its opening one; everything inside is deeper. */
	if (walk->skipped >= 0 && !(closes && token->depth == walk->skipped))
		return true;
	if (closes) {
		close_value(walk, token);
	} else if (token->depth == 0) {
		if (token->kind != JSON_OBJECT) {
			walk->outcome =
				token->kind == JSON_ARRAY ? JSON_ARRAY_TEXT : JSON_SCALAR_TEXT;
			return false;
		}
		enter(walk, walk->table->root, token);
	} else if (token->kind == JSON_KEY) {
		read_name(walk, token);
	} else if (opens) {
		open_value(walk, token);
	} else {
		read_scalar(walk, token);
	}
	return walk->table->stopped == NULL || !walk->table->stopped(walk->target);
}

int json_table_read(struct json_stream *stream, struct bytes text, const struct json_table *table,
	void *target, struct err *err)
{
	struct walk walk = { .table = table, .target = target, .skipped = -1 };
	int r = json_stream_read(stream, text, visit, &walk, err);

	return r == JSON_STOPPED && walk.outcome != 0 ? walk.outcome : r;
}
