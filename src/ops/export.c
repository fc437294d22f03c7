/*
 * `inboxd export`: one message as the params of its delivery, for the test kits of the libraries: a dead message becomes
 * a test. The event is rendered as for a delivery. The claim is no real one.
 *
 * --redact replaces values by neutral ones of the same kind, so that the message still has its form. A pointer that fits
 * nothing prints nothing, because a mistake in it would let out what it was to hide.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "json/pointer.h"
#include "json/text.h"
#include "model/event/event.h"
#include "ops/op.h"

enum {
	EXPORT_EVENT_ID,
	EXPORT_SOURCE,
	EXPORT_TYPE,
	EXPORT_CONSUMER,
	EXPORT_TOPIC,
	EXPORT_PARTITION,
	EXPORT_OFFSET,
	EXPORT_TIMESTAMP,
	EXPORT_KEY,
	EXPORT_PAYLOAD,
	EXPORT_HEADERS,
	EXPORT_ATTEMPT,
	EXPORT_IS_DROPPED
};

/* --- Redaction -------------------------------------------------------------------------------------- */

#define MAX_LEVELS     64 /* of a pointer */
#define PAYLOAD        "/payload"
#define PAYLOAD_TARGET "/event/data"

/* A pointer, and how far it fits the containers that are open. */
struct target {
	struct json_pointer pointer;
	size_t open; /* steps that fit */
	bool named;  /* the next step fits the name that was read last */
	bool found;
};

struct redaction {
	struct target *targets;
	size_t count;
	bool is_array[MAX_LEVELS];
	int64_t index[MAX_LEVELS]; /* of the next item */
	struct buf *out;
	const char *copied; /* the text up to here is in `out` */
	int skipped_depth;  /* of the container that is replaced; -1 = none */
};

static const char *const neutral[] = {
	[JSON_OBJECT] = "{}",
	[JSON_ARRAY] = "[]",
	[JSON_STRING] = "\"redacted\"",
	[JSON_NUMBER] = "0",
	[JSON_BOOLEAN] = "false",
	[JSON_NULL] = "null",
};

/* A step `*` fits each member and each item. */
static bool fits(const struct json_step *step, struct bytes name, int64_t index)
{
	if (step->length == 1 && *step->name == '*')
		return true;
	if (name.data == NULL)
		return step->index == index;
	return bytes_equal((struct bytes){ step->name, step->length }, name);
}

/* True if the value at this depth is to be replaced. `index`: of an item; -1 = the value of the last name. */
static bool enter(struct redaction *redaction, int depth, int64_t index, bool is_container)
{
	const struct bytes none = { NULL, 0 };
	size_t level = (size_t)depth - 1;
	bool replaced = false;

	for (size_t i = 0; i < redaction->count; i++) {
		struct target *target = &redaction->targets[i];

		if (target->open != level || level >= target->pointer.count)
			continue;
		if (index < 0 ? !target->named : !fits(&target->pointer.steps[level], none, index))
			continue;
		if (target->pointer.count == level + 1)
			target->found = replaced = true;
		else if (is_container)
			target->open = level + 1;
	}
	return replaced;
}

static void read_name(struct redaction *redaction, const struct json_token *token)
{
	size_t level = (size_t)token->depth - 1;

	for (size_t i = 0; i < redaction->count; i++) {
		struct target *target = &redaction->targets[i];

		target->named = target->open == level && level < target->pointer.count &&
				fits(&target->pointer.steps[level], token->text, -1);
	}
}

static void replace(struct redaction *redaction, const struct json_token *token)
{
	const char *start = token->raw.data;

	buf_add(redaction->out, redaction->copied, (size_t)(start - redaction->copied));
	buf_add_str(redaction->out, neutral[token->kind]);
	redaction->copied = start + token->raw.length;
}

static void leave(struct redaction *redaction, int depth)
{
	for (size_t i = 0; i < redaction->count; i++) {
		if (redaction->targets[i].open >= (size_t)depth && depth > 0)
			redaction->targets[i].open = (size_t)depth - 1;
	}
}

static bool visit(void *arg, const struct json_token *token)
{
	struct redaction *redaction = arg;
	bool ends = token->kind == JSON_OBJECT_END || token->kind == JSON_ARRAY_END;
	bool begins = token->kind == JSON_OBJECT || token->kind == JSON_ARRAY;
	int depth = token->depth;
	int64_t index = -1;

	if (redaction->skipped_depth >= 0) {
		if (ends && depth == redaction->skipped_depth) {
			redaction->copied = (const char *)token->raw.data + token->raw.length;
			redaction->skipped_depth = -1;
		}
		return true;
	}
	if (ends) {
		leave(redaction, depth);
		return true;
	}
	if (depth >= MAX_LEVELS)
		return true;
	if (token->kind == JSON_KEY) {
		read_name(redaction, token);
		return true;
	}
	if (depth > 0 && redaction->is_array[depth - 1])
		index = redaction->index[depth - 1]++;
	if (depth > 0 && enter(redaction, depth, index, begins)) {
		replace(redaction, token);
		redaction->skipped_depth = begins ? depth : -1;
		return true;
	}
	redaction->is_array[depth] = token->kind == JSON_ARRAY;
	redaction->index[depth] = 0;
	return true;
}

/* /payload means the data of the event. */
static int read_pointer(struct target *target, const char *text, struct err *err)
{
	CLEANUP(buf_fini) struct buf whole = BUF_INIT;
	const char *rest = text + strlen(PAYLOAD);
	int r;

	if (strncmp(text, PAYLOAD, strlen(PAYLOAD)) == 0 && (*rest == '/' || *rest == '\0'))
		buf_addf(&whole, PAYLOAD_TARGET "%s", rest);
	else
		buf_add_str(&whole, text);
	if (!buf_ok(&whole))
		return err_memory(err);
	r = json_pointer_init(&target->pointer, buf_str(&whole), err);
	if (r < 0)
		return r;
	if (r != 0 || target->pointer.count == 0 || target->pointer.count >= MAX_LEVELS)
		return err_set(err, FAULT_USAGE,
			"--redact: \"%s\" is no JSON pointer, such as /payload/customer/email",
			text);
	return 0;
}

/* A producer can send a structured CloudEvent with both forms of a member. A user who hides one of them means the other, too. */
static const struct twin {
	const char *member;
	const char *other;
} twins[] = {
	{ "/event/data", "/event/data_base64" },
	{ "/event/partitionkey", "/event/partitionkeybase64" },
};

#define TWINS (sizeof(twins) / sizeof(twins[0]))

static bool is_within(const struct json_pointer *pointer, const char *path)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	for (size_t i = 0; i < pointer->count; i++) {
		buf_add_char(&text, '/');
		buf_add(&text, pointer->steps[i].name, pointer->steps[i].length);
		if (strcmp(buf_str(&text), path) == 0)
			return true;
	}
	return false;
}

static int add_other_form(
	struct redaction *redaction, const struct twin *twin, size_t named, struct err *err)
{
	for (size_t i = 0; i < named; i++) {
		struct target *target = &redaction->targets[redaction->count];

		if (!is_within(&redaction->targets[i].pointer, twin->member))
			continue;
		target->found = true; /* usually there is none */
		redaction->count++;
		return json_pointer_init(&target->pointer, twin->other, err);
	}
	return 0;
}

static int redact(struct redaction *redaction, const struct cli_texts *texts, struct bytes text,
	struct err *err)
{
	const struct json_limits limits = { JSON_DEEPEST, false };
	struct json_stream *stream = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < texts->count; i++) {
		redaction->count = i + 1;
		r = read_pointer(&redaction->targets[i], texts->items[i], err);
	}
	for (size_t i = 0; r == 0 && i < TWINS; i++)
		r = add_other_form(redaction, &twins[i], texts->count, err);
	if (r == 0)
		r = json_stream_new_with(&stream, &limits, err);
	if (r == 0)
		r = json_stream_read(stream, text, visit, redaction, err);
	json_stream_free(stream);
	if (r > 0)
		return err_set(err, FAULT_CHECK, "the message is no JSON that can be redacted");
	for (size_t i = 0; r == 0 && i < texts->count; i++) {
		if (!redaction->targets[i].found)
			return err_set(err, FAULT_CHECK,
				"the message has nothing at %s, so nothing was exported",
				texts->items[i]);
	}
	return r;
}

static int print_redacted(const struct op *op, struct bytes text, struct err *err)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	const struct cli_texts *texts = &op->cli->redact;
	struct redaction redaction = { .out = &out, .copied = text.data, .skipped_depth = -1 };
	int r;

	redaction.targets = calloc(texts->count + TWINS, sizeof(*redaction.targets));
	if (redaction.targets == NULL)
		return err_memory(err);
	r = redact(&redaction, texts, text, err);
	for (size_t i = 0; i < redaction.count; i++)
		json_pointer_fini(&redaction.targets[i].pointer);
	free(redaction.targets);
	if (r != 0)
		return r;
	buf_add(&out, redaction.copied,
		(size_t)((const char *)text.data + text.length - redaction.copied));
	buf_add_char(&out, '\n');
	if (!buf_ok(&out))
		return err_memory(err);
	(void)fwrite(out.data, 1, out.length, stdout);
	return 0;
}

/* --- The message ------------------------------------------------------------------------------------ */

static void add_delivery(struct buf *out, const struct op *op, int64_t seq, const struct rows *rows)
{
	const char *consumer = rows_text(rows, 0, EXPORT_CONSUMER);

	buf_addf(out, "{\"delivery\":{\"claim\":\"exported\",\"seq\":\"%lld\",", (long long)seq);
	if (consumer[0] != '\0') {
		buf_add_str(out, "\"consumer\":");
		json_add_string(out, bytes_of(consumer));
		buf_add_char(out, ',');
	}
	buf_addf(out, "\"attempt\":%lld,\"max_attempts\":%lld,\"replay\":false},",
		(long long)rows_int(rows, 0, EXPORT_ATTEMPT),
		(long long)op->config->retry.max_attempts);
}

static int render(
	const struct op *op, int64_t seq, const struct rows *rows, struct buf *out, struct err *err)
{
	const struct message message = {
		.seq = seq,
		.event_id = rows_text(rows, 0, EXPORT_EVENT_ID),
		.source = rows_text(rows, 0, EXPORT_SOURCE),
		.type = rows_is_null(rows, 0, EXPORT_TYPE) ? NULL : rows_text(rows, 0, EXPORT_TYPE),
		.consumer = rows_text(rows, 0, EXPORT_CONSUMER),
		.topic = rows_text(rows, 0, EXPORT_TOPIC),
		.partition = (int32_t)rows_int(rows, 0, EXPORT_PARTITION),
		.offset = rows_int(rows, 0, EXPORT_OFFSET),
		.timestamp_ms = rows_int(rows, 0, EXPORT_TIMESTAMP),
		.key = rows_bytes(rows, 0, EXPORT_KEY),
		.payload = rows_bytes(rows, 0, EXPORT_PAYLOAD),
		.headers = rows_bytes(rows, 0, EXPORT_HEADERS),
	};
	struct event_renderer *renderer = NULL;
	int r = event_renderer_new(&renderer, err);

	add_delivery(out, op, seq, rows);
	if (r == 0)
		r = event_render(renderer, &message, out, err);
	event_renderer_free(renderer);
	buf_add_char(out, '}');
	if (r == 0 && !buf_ok(out))
		return err_memory(err);
	return r;
}

int op_export(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	int64_t seq;
	int r = op_find_message(op, &seq, err);

	if (r != 0)
		return r;
	params_bigint(&params, seq);
	r = db_run(op->db, QUERY_OP_EXPORT, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return op_no_message(op, op->cli->words[0], err);
	if (rows_bool(rows, 0, EXPORT_IS_DROPPED))
		return err_set(err, FAULT_CHECK,
			"the payload of event \"%s\" no longer exists: retention has dropped it",
			op->cli->words[0]);
	r = render(op, seq, rows, &out, err);
	if (r != 0)
		return r;
	return print_redacted(op, (struct bytes){ out.data, out.length }, err);
}
