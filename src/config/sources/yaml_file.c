/*
 * A recursive descent over libyaml's events: read_stream() for the document, read_mapping() for the
 * keys of a mapping, read_value() for what is behind a key. Each event passes next_event(), which
 * refuses the parts of YAML that a configuration does not use.
 *
 * The whole text is in memory, because libyaml reports some errors by byte offset only, and a person
 * needs line and column.
 */
#include "config/sources/yaml_file.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "config/sources/strings.h"

struct reader {
	yaml_parser_t parser;
	const char *file;
	struct bytes text;
	yaml_file_visit *visit;
	void *arg;
	const char *path[YAML_FILE_MAX_DEPTH]; /* the keys that enclose the current event */
	size_t keys;                           /* seen so far, in the whole file */
	struct err *err;
};

static int wrong_at(struct reader *reader, const yaml_mark_t *mark, const char *what)
{
	return err_set(reader->err, FAULT_CONFIG, "%s:%zu:%zu: %s", reader->file, mark->line + 1,
		mark->column + 1, what);
}

/* libyaml gives only the offset of bytes that it cannot decode. */
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

/* In YAML only an unquoted scalar is null. It is refused, because "no value" and "the default" are easily
 * confused. */
static bool is_null(const yaml_event_t *event)
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

/* What is wrong with an event, whatever its place; NULL when nothing is. */
static const char *unsupported(const yaml_event_t *event)
{
	const yaml_char_t *anchor = NULL;
	const yaml_char_t *tag = NULL;

	if (event->type == YAML_SCALAR_EVENT) {
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
	}
	if (event->type == YAML_ALIAS_EVENT)
		return "aliases are not read here; write the value itself, or put quotes around a "
		       "text that starts with *";
	if (anchor != NULL)
		return "anchors are not read here; remove it, or put quotes around a text that "
		       "starts with &";
	if (tag != NULL)
		return "tags are not read here; remove it, or put quotes around a text that starts "
		       "with !";
	if (is_null(event))
		return "null is not a value; write \"\" for an empty text, or leave the key out";
	if (event->type == YAML_SCALAR_EVENT &&
		strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
		return "the text contains a NUL byte; remove it";
	return NULL;
}

/* Reads an event that is allowed somewhere. On success the caller deletes it. */
static int next_event(struct reader *reader, yaml_event_t *event)
{
	const char *what;
	int r;

	if (!yaml_parser_parse(&reader->parser, event))
		return parser_failed(reader);
	what = unsupported(event);
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

/* The items behind the start of a list, up to its end. */
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

static int read_mapping(struct reader *reader, size_t depth, size_t *keys);

/* Reads what is behind the key reader->path[depth - 1], which is at `key`, and passes it to the visitor. Keys
 * below it are passed one by one instead. */
static int read_value(struct reader *reader, size_t depth, const yaml_mark_t *key)
{
	CLEANUP(strings_fini) struct strings texts = { NULL, 0 };
	struct yaml_setting setting = {
		.path = reader->path,
		.depth = depth,
		.file = reader->file,
		.line = key->line + 1,
	};
	bool has_keys = false;
	yaml_event_t event;
	int r = next_event(reader, &event);

	if (r < 0)
		return r;
	if (event.type == YAML_SCALAR_EVENT) {
		setting.nothing = event.data.scalar.length == 0 &&
				  event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		r = add_text(reader, &texts, &event);
	} else if (event.type == YAML_SEQUENCE_START_EVENT) {
		setting.list = true;
		r = read_list(reader, &texts);
	} else if (depth == YAML_FILE_MAX_DEPTH) {
		r = wrong_at(reader, &event.start_mark, "keys are nested too deeply here");
	} else {
		size_t keys = 0;

		setting.line = event.start_mark.line + 1;
		r = read_mapping(reader, depth, &keys);
		has_keys = keys > 0;
		setting.nothing = true;
	}
	yaml_event_delete(&event);
	setting.texts = texts;
	return r < 0 || has_keys ? r : reader->visit(&setting, reader->arg, reader->err);
}

/* libyaml accepts duplicate keys; the last one would win without a word. The limit keeps the search for
 * them, which is quadratic, short. */
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

/* The keys behind the start of a mapping, up to its end; `depth` keys enclose them. */
static int read_mapping(struct reader *reader, size_t depth, size_t *keys)
{
	CLEANUP(strings_fini) struct strings seen = { NULL, 0 };
	int r = 0;

	for (bool done = false; r == 0 && !done;) {
		yaml_event_t event;

		r = next_event(reader, &event);
		if (r < 0)
			return r;
		done = event.type == YAML_MAPPING_END_EVENT;
		if (!done)
			r = check_key(reader, &seen, &event);
		if (r == 0 && !done)
			r = add_text(reader, &seen, &event);
		if (r == 0 && !done) {
			reader->path[depth] = seen.items[seen.count - 1];
			r = read_value(reader, depth + 1, &event.start_mark);
		}
		yaml_event_delete(&event);
	}
	*keys = seen.count;
	return r;
}

/* A stream is one document, and that is one mapping or empty. */
static int read_stream(struct reader *reader)
{
	size_t documents = 0;
	size_t keys = 0;
	int r = 0;

	for (bool done = false; r == 0 && !done;) {
		yaml_event_t event;

		r = next_event(reader, &event);
		if (r < 0)
			return r;
		switch (event.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_STREAM_END_EVENT:
			done = true;
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (++documents > 1)
				r = wrong_at(reader, &event.start_mark,
					"a second document starts here; keep one");
			break;
		case YAML_MAPPING_START_EVENT:
			r = read_mapping(reader, 0, &keys);
			break;
		default:
			/* An empty scalar: the file has only comments and "---". */
			if (event.type != YAML_SCALAR_EVENT || event.data.scalar.length > 0)
				r = wrong_at(reader, &event.start_mark,
					"a configuration is sections with keys, such as \"inbox:\" "
					"and under it \"schema: inbox\"");
			break;
		}
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
	/* Without this libyaml would guess, and accept UTF-16. */
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

void yaml_file_add_library_version(struct buf *out)
{
	buf_add_str(out, yaml_get_version_string());
}
