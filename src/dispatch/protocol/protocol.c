/*
 * Decides what a line is after it was read: a request, a notification or an answer. If several things are wrong with
 * it, the first in this order is reported: it is not JSON, not JSON-RPC, has an unknown method, has wrong parameters.
 * This order is the most useful to the author of a client.
 */
#include "dispatch/protocol/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "dispatch/protocol/protocol_draft.h"
#include "dispatch/protocol/protocol_memory.h"

struct protocol_parser {
	struct line_memory memory;
};

DEFINE_CLEANUP(struct protocol_parser *, protocol_parser_free);

int protocol_parser_new(struct protocol_parser **out, struct err *err)
{
	CLEANUP(protocol_parser_freep) struct protocol_parser *parser = calloc(1, sizeof(*parser));

	if (parser == NULL)
		return err_memory(err);
	if (line_memory_init(&parser->memory, err) < 0)
		return FAULT_MEMORY;
	*out = parser;
	parser = NULL;
	return 0;
}

void protocol_parser_free(struct protocol_parser *parser)
{
	if (parser == NULL)
		return;
	line_memory_fini(&parser->memory);
	free(parser);
}

__attribute__((format(printf, 3, 4))) static void reject(
	struct line *line, int code, const char *format, ...)
{
	va_list args;
	char words[PROTOCOL_WORDS];

	va_start(args, format);
	(void)vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	line->kind = LINE_INVALID;
	line->error_code = code;
	protocol_words(line->error_text, "%s", words);
}

static void hello(const struct draft *draft, struct line *line)
{
	static const struct subscription everything = { NULL, NULL };

	line->hello = draft->hello;
	line->hello.subscribe = draft->subs;
	if (draft->hello.subscribe_count == 0) {
		line->hello.subscribe = &everything;
		line->hello.subscribe_count = 1;
	}
	if (draft->hello.instance == NULL)
		line->hello.instance = "";
	if (draft->hello.client == NULL)
		line->hello.client = "";
	line->hello.timeout_ms = draft->timeout_ms < 0 ? 30000 : draft->timeout_ms;
	line->hello.max_in_flight = draft->max_in_flight < 0 ? 64 : draft->max_in_flight;
	if (!draft->protocol_given)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.protocol is missing: list the versions you speak, as in [1]");
	else if (draft->hello.handler == NULL)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.handler is missing: name the handler");
	else if (!draft->protocol_has_ours)
		reject(line, PROTOCOL_NO_COMMON_VERSION,
			"no common protocol version: supported [1]");
}

static void extend(const struct draft *draft, struct line *line)
{
	line->delivery = draft->delivery;
	line->timeout_ms = draft->timeout_ms;
	if (draft->delivery == NULL)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.delivery is missing: name the delivery to extend");
	else if (draft->timeout_ms < 0)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.timeout_ms is missing: say how long from now");
}

static void window(const struct draft *draft, struct line *line)
{
	line->max_in_flight = draft->max_in_flight;
	if (draft->max_in_flight < 0)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.max_in_flight is missing: say how many deliveries may be open");
}

static const struct method {
	const char *name;
	enum line_kind kind;
	enum problem_scope
		owner; /* whose complaints about parameters count; SCOPE_LINE: it has none */
	bool needs_id; /* it must be a request, because it has a reply */
	void (*fill)(const struct draft *draft, struct line *line);
} methods[] = {
	{ "hello", LINE_HELLO, SCOPE_HELLO, true, hello },
	{ "extend", LINE_EXTEND, SCOPE_EXTEND, false, extend },
	{ "window", LINE_WINDOW, SCOPE_WINDOW, false, window },
	{ "drain", LINE_DRAIN, SCOPE_LINE, true, NULL },
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	}
	return NULL;
}

static void request(struct line_memory *memory, const struct draft *draft, struct line *line)
{
	const struct method *method = find_method(draft->method);

	if (method == NULL) {
		reject(line, PROTOCOL_UNKNOWN_METHOD,
			"unknown method \"%s\": there are hello, extend, window and drain",
			protocol_quote(memory, draft->method));
	} else if (method->needs_id && line->id.data == NULL) {
		reject(line, PROTOCOL_INVALID_REQUEST,
			"%s is a request: give it an id, a string or a number", method->name);
	} else if (draft->problems[method->owner] != NULL) {
		line->hello.handler = draft->hello.handler;
		reject(line, PROTOCOL_INVALID_PARAMS, "%s", draft->problems[method->owner]);
	} else {
		line->kind = method->kind;
		if (method->fill != NULL)
			method->fill(draft, line);
	}
}

/* Keeps the id for the reply, if it is short and not null. The id of an answer names a delivery and gets no reply. */
static void echo_id(const struct draft *draft, bool answers, struct line *line)
{
	if (!answers && draft->has_id && !draft->id_is_null && draft->id.length <= PROTOCOL_MAX_ID)
		line->id = draft->id;
}

static void decide(struct line_memory *memory, struct draft *draft, struct line *line)
{
	bool answers =
		draft->method == NULL && (draft->has_result || draft->result_is_null ||
						 draft->has_error || draft->whole.problem != NULL);

	echo_id(draft, answers, line);
	if (draft->problems[SCOPE_LINE] != NULL)
		reject(line, PROTOCOL_INVALID_REQUEST, "%s", draft->problems[SCOPE_LINE]);
	else if (!draft->version_named)
		reject(line, PROTOCOL_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
	else if (answers && draft->has_id)
		protocol_answer(memory, draft, line);
	else if (answers)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"an answer needs the id of the delivery it is for");
	else if (draft->method == NULL)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"the line has no method, no result and no error");
	else if (draft->has_result || draft->has_error)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"a line is a request or an answer: it has a method and a result or error");
	else if (draft->has_id && draft->id.length > PROTOCOL_MAX_ID)
		reject(line, PROTOCOL_INVALID_REQUEST, "id is longer than %d bytes",
			PROTOCOL_MAX_ID);
	else
		request(memory, draft, line);
}

static bool has_foreign_framing(struct bytes text)
{
	static const char header[] = "Content-";

	return text.length >= sizeof(header) - 1 &&
	       strncasecmp(text.data, header, sizeof(header) - 1) == 0;
}

static void read_line(struct line_memory *memory, struct bytes text, struct line *line)
{
	struct draft draft;
	struct refusal why = { 0 };

	if (text.length == 0)
		reject(line, PROTOCOL_PARSE, "the line is empty: send one JSON object per line");
	else if (!utf8_is_valid(text))
		reject(line, PROTOCOL_PARSE, "the line is not UTF-8");
	else if (protocol_read(memory, text, &draft, &why) == READ_REFUSED)
		reject(line, why.code, "%s", why.text);
	else
		decide(memory, &draft, line);
}

int protocol_parse(
	struct protocol_parser *parser, struct bytes text, struct line *out, struct err *err)
{
	line_memory_reset(&parser->memory);
	memset(out, 0, sizeof(*out));
	if (setjmp(parser->memory.exhausted) != 0)
		return err_memory(err);
	if (has_foreign_framing(text)) {
		reject(out, PROTOCOL_PARSE,
			"Content-Length framing is not used here: send each JSON object on one "
			"line, ended by LF");
		out->close = true;
	} else {
		read_line(&parser->memory, text, out);
	}
	return 0;
}
