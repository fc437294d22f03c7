/*
 * A recursive descent over libyaml's events, never deeper than YAML_FILE_MAX_DEPTH. The text is in
 * memory as a whole, so that libyaml's byte offsets can be told as lines and columns.
 */
#include "config/yaml_file.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "config/string_list.h"
#include "config/text_file.h"

struct reader {
	yaml_parser_t parser;
	const char *file;
	struct bytes text;
	yaml_file_visit *visit;
	void *arg;
	char *path[YAML_FILE_MAX_DEPTH];
	size_t keys; /* seen so far, in the whole file */
	size_t documents;
	struct err *err;
};

static int wrong_at(struct reader *reader, const yaml_mark_t *mark, const char *what)
{
	return err_set(reader->err, FAULT_CONFIG, "%s:%zu:%zu: %s", reader->file, mark->line + 1,
		mark->column + 1, what);
}

/* libyaml tells where bad bytes are by offset alone. */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset)
{
	const char *text = reader->text.data;
	yaml_mark_t mark = { .index = offset };

	for (size_t i = 0; i < offset && i < reader->text.length; i++) {
		mark.column = text[i] == '\n' ? 0 : mark.column + 1;
		mark.line += text[i] == '\n' ? 1 : 0;
	}
	return mark;
}

static int parser_failed(struct reader *reader)
{
	const yaml_parser_t *parser = &reader->parser;
	const char *context = parser->context == NULL ? "" : parser->context;
	const char *hint = "";
	yaml_mark_t mark = parser->problem_mark;
	char what[512];

	if (parser->error == YAML_MEMORY_ERROR)
		return err_memory(reader->err);
	if (parser->error == YAML_READER_ERROR) {
		mark = mark_of_offset(reader, parser->problem_offset);
		hint = "; write the file as UTF-8 without control characters";
	}
	if (strstr(context, "alias") != NULL || strstr(context, "anchor") != NULL)
		hint = "; put quotes around a text that starts with * or &";
	(void)snprintf(what, sizeof(what), "not YAML: %s%s%s%s", context,
		context[0] == '\0' ? "" : ", ",
		parser->problem == NULL ? "cannot be read" : parser->problem, hint);
	return wrong_at(reader, &mark, what);
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return event->data.scalar.anchor;
	case YAML_SEQUENCE_START_EVENT:
		return event->data.sequence_start.anchor;
	case YAML_MAPPING_START_EVENT:
		return event->data.mapping_start.anchor;
	default:
		return NULL;
	}
}

static const yaml_char_t *tag_of(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return event->data.scalar.tag;
	case YAML_SEQUENCE_START_EVENT:
		return event->data.sequence_start.tag;
	case YAML_MAPPING_START_EVENT:
		return event->data.mapping_start.tag;
	default:
		return NULL;
	}
}

static bool is_plain_null(const yaml_event_t *event)
{
	static const char *const nulls[] = { "~", "null", "Null", "NULL" };

	if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
		if (strcmp((const char *)event->data.scalar.value, nulls[i]) == 0)
			return true;
	}
	return false;
}

static const char *unwanted(const yaml_event_t *event)
{
	if (event->type == YAML_ALIAS_EVENT)
		return "aliases are not read here; write the value itself, or put quotes around a "
		       "text that starts with *";
	if (anchor_of(event) != NULL)
		return "anchors are not read here; remove it, or put quotes around a text that "
		       "starts with &";
	if (tag_of(event) != NULL)
		return "tags are not read here; remove it, or put quotes around a text that starts "
		       "with !";
	if (is_plain_null(event))
		return "null is no value; write \"\" for an empty text, or leave the key out";
	if (event->type == YAML_SCALAR_EVENT &&
		strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
		return "the text holds a NUL byte; remove it";
	return NULL;
}

/* On success the caller deletes the event. */
static int next_event(struct reader *reader, yaml_event_t *event)
{
	const char *what;
	int r;

	if (!yaml_parser_parse(&reader->parser, event))
		return parser_failed(reader);
	what = unwanted(event);
	if (what == NULL)
		return 0;
	r = wrong_at(reader, &event->start_mark, what);
	yaml_event_delete(event);
	return r;
}

static int add_text(struct reader *reader, struct strings *list, const yaml_event_t *event)
{
	return strings_add(list, (const char *)event->data.scalar.value, event->data.scalar.length,
		reader->err);
}

static int read_list(struct reader *reader, struct strings *list)
{
	int r = 0;

	for (bool done = false; r == 0 && !done;) {
		yaml_event_t event;

		r = next_event(reader, &event);
		if (r < 0)
			return r;
		if (event.type == YAML_SCALAR_EVENT)
			r = add_text(reader, list, &event);
		else if (event.type == YAML_SEQUENCE_END_EVENT)
			done = true;
		else
			r = wrong_at(reader, &event.start_mark,
				"a list holds plain values only, no lists or keys");
		yaml_event_delete(&event);
	}
	return r;
}

static int tell(struct reader *reader, struct yaml_setting *setting)
{
	for (size_t i = 0; i < setting->depth; i++)
		setting->path[i] = reader->path[i];
	setting->file = reader->file;
	return reader->visit(setting, reader->arg, reader->err);
}

static int read_mapping(struct reader *reader, size_t depth, const yaml_mark_t *start);

/* What stands behind a key; `event` is its first event. */
static int read_value(
	struct reader *reader, struct yaml_setting *setting, const yaml_event_t *event)
{
	int r;

	switch (event->type) {
	case YAML_SCALAR_EVENT:
		setting->nothing = event->data.scalar.length == 0 &&
				   event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		r = add_text(reader, &setting->texts, event);
		return r < 0 ? r : tell(reader, setting);
	case YAML_SEQUENCE_START_EVENT:
		setting->list = true;
		r = read_list(reader, &setting->texts);
		return r < 0 ? r : tell(reader, setting);
	default:
		if (setting->depth == YAML_FILE_MAX_DEPTH)
			return wrong_at(reader, &event->start_mark, "nothing is nested this deep");
		return read_mapping(reader, setting->depth, &event->start_mark);
	}
}

/* A key was read into reader->path[depth - 1]; now its value. */
static int read_setting(struct reader *reader, size_t depth, const yaml_mark_t *mark)
{
	struct yaml_setting setting = {
		.depth = depth,
		.line = mark->line + 1,
		.column = mark->column + 1,
	};
	yaml_event_t event;
	int r = next_event(reader, &event);

	if (r < 0)
		return r;
	r = read_value(reader, &setting, &event);
	yaml_event_delete(&event);
	strings_fini(&setting.texts);
	return r;
}

static int check_key(struct reader *reader, const struct strings *seen, const yaml_event_t *event)
{
	char what[256];

	if (event->type != YAML_SCALAR_EVENT || event->data.scalar.length == 0)
		return wrong_at(reader, &event->start_mark, "a key is a plain word");
	if (++reader->keys > YAML_FILE_MAX_KEYS)
		return wrong_at(reader, &event->start_mark, "too many keys in one file");
	if (!strings_have(seen, (const char *)event->data.scalar.value))
		return 0;
	(void)snprintf(what, sizeof(what), "\"%.200s\" is here twice; remove one",
		(const char *)event->data.scalar.value);
	return wrong_at(reader, &event->start_mark, what);
}

/* One key and its value; `seen` are the keys before it. */
static int read_pair(
	struct reader *reader, size_t depth, struct strings *seen, const yaml_event_t *event)
{
	int r = check_key(reader, seen, event);

	if (r < 0)
		return r;
	r = add_text(reader, seen, event);
	if (r < 0)
		return r;
	reader->path[depth] = seen->items[seen->count - 1];
	return read_setting(reader, depth + 1, &event->start_mark);
}

static int read_pairs(struct reader *reader, size_t depth, struct strings *seen)
{
	int r = 0;

	for (bool done = false; r == 0 && !done;) {
		yaml_event_t event;

		r = next_event(reader, &event);
		if (r < 0)
			return r;
		done = event.type == YAML_MAPPING_END_EVENT;
		if (!done)
			r = read_pair(reader, depth, seen, &event);
		yaml_event_delete(&event);
	}
	return r;
}

/* An empty mapping is told as a key with nothing behind it. */
static int read_mapping(struct reader *reader, size_t depth, const yaml_mark_t *start)
{
	struct strings seen = { NULL, 0 };
	struct yaml_setting setting = {
		.depth = depth,
		.nothing = true,
		.line = start->line + 1,
		.column = start->column + 1,
	};
	int r = read_pairs(reader, depth, &seen);

	if (r == 0 && seen.count == 0 && depth > 0)
		r = tell(reader, &setting);
	strings_fini(&seen);
	return r;
}

static int read_root(struct reader *reader, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	case YAML_DOCUMENT_START_EVENT:
		if (++reader->documents > 1)
			return wrong_at(reader, &event->start_mark,
				"a second document starts here; keep one");
		return 0;
	case YAML_MAPPING_START_EVENT:
		return read_mapping(reader, 0, &event->start_mark);
	case YAML_SCALAR_EVENT:
		/* A file of comments and "---" alone. */
		if (event->data.scalar.length == 0)
			return 0;
		break;
	default:
		break;
	}
	return wrong_at(reader, &event->start_mark,
		"a configuration is sections with keys, such as \"inbox:\" and under it "
		"\"schema: inbox\"");
}

static int read_stream(struct reader *reader)
{
	yaml_event_type_t type = YAML_NO_EVENT;
	int r = 0;

	while (r == 0 && type != YAML_STREAM_END_EVENT) {
		yaml_event_t event;

		r = next_event(reader, &event);
		if (r < 0)
			return r;
		type = event.type;
		r = read_root(reader, &event);
		yaml_event_delete(&event);
	}
	return r;
}

int yaml_file_parse(
	const char *file, struct bytes text, yaml_file_visit *visit, void *arg, struct err *err)
{
	struct reader reader = {
		.file = file,
		.text = text,
		.visit = visit,
		.arg = arg,
		.err = err,
	};
	int r;

	if (!yaml_parser_initialize(&reader.parser))
		return err_memory(err);
	/* Said, not guessed: UTF-16 is then an error like any other bytes. */
	yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.parser, text.data, text.length);
	r = read_stream(&reader);
	yaml_parser_delete(&reader.parser);
	return r;
}

int yaml_file_read(const char *file, yaml_file_visit *visit, void *arg, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	int r = text_file_read(file, &text, err);

	if (r < 0)
		return r;
	if (text.length == 0)
		return 0;
	return yaml_file_parse(file, (struct bytes){ text.data, text.length }, visit, arg, err);
}
