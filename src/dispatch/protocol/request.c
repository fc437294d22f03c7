/*
 * Decides what a line is after its members were read: a request, a notification or an answer. If several things are
 * wrong with it, the first in this order is reported: it is not JSON, not JSON-RPC, has an unknown method, has wrong
 * parameters. This order is the most useful to the author of a client.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "dispatch/protocol/draft.h"
#include "dispatch/protocol/storable.h"
#include "json/table.h"

struct protocol_parser {
	struct json_stream *stream;
	struct line_memory memory;
};

DEFINE_CLEANUP(struct protocol_parser *, protocol_parser_free);

int protocol_parser_new(struct protocol_parser **out, struct err *err)
{
	CLEANUP(protocol_parser_freep) struct protocol_parser *parser = calloc(1, sizeof(*parser));

	if (parser == NULL)
		return err_memory(err);
	if (line_memory_init(&parser->memory, err) < 0 || json_stream_new(&parser->stream, err) < 0)
		return FAULT_MEMORY;
	*out = parser;
	parser = NULL;
	return 0;
}

void protocol_parser_free(struct protocol_parser *parser)
{
	if (parser == NULL)
		return;
	json_stream_free(parser->stream);
	line_memory_fini(&parser->memory);
	free(parser);
}

__attribute__((format(printf, 3, 4))) static void reject(
	struct line *line, int code, const char *format, ...)
{
	va_list args;

	line->kind = LINE_INVALID;
	line->error_code = code;
	va_start(args, format);
	protocol_vwords(line->error_text, format, args);
	va_end(args);
}

static const char *const leased_methods[] = {
	[LEASED_BEGIN] = "request.begin",
	[LEASED_COMPLETE] = "request.complete",
	[LEASED_FAIL] = "request.fail",
	[LEASED_EXTEND] = "request.extend",
	[LEASED_RESULT] = "result.get",
};

/* A subscription to everything, and the defaults of docs/handler-protocol.md. */
static void hello(const struct draft *draft, struct line *line)
{
	static const struct subscription everything = { NULL, NULL };

	line->hello = draft->params.hello;
	line->hello.subscribe = draft->params.subs;
	if (draft->params.hello.subscribe_count == 0) {
		line->hello.subscribe = &everything;
		line->hello.subscribe_count = 1;
	}
	if (draft->params.hello.instance == NULL)
		line->hello.instance = "";
	if (draft->params.hello.client == NULL)
		line->hello.client = "";
	line->hello.timeout_ms = draft->params.timeout_ms;
	line->hello.max_in_flight =
		draft->params.max_in_flight < 0 ? 64 : draft->params.max_in_flight;
	if (draft->params.hello.role != NULL && strcmp(draft->params.hello.role, "requests") != 0)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.role must be \"requests\"; a handler has no role");
	else if (draft->params.hello.role != NULL && draft->params.subscribe_given)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.subscribe is for handlers; with a role there are no deliveries");
	else if (!draft->params.protocol_given)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.protocol is missing: list the versions you speak, as in [1]");
	else if (draft->params.hello.handler == NULL && draft->params.hello.role == NULL)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.handler is missing: name the handler");
	else if (!draft->params.protocol_has_ours)
		reject(line, PROTOCOL_NO_COMMON_VERSION,
			"no common protocol version: supported [1]");
}

static void extend(const struct draft *draft, struct line *line)
{
	line->delivery = draft->params.delivery;
	line->timeout_ms = draft->params.timeout_ms;
	if (draft->params.delivery == NULL)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.delivery is missing: name the delivery to extend");
	else if (draft->params.timeout_ms < 0)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.timeout_ms is missing: say how long from now");
}

static void window(const struct draft *draft, struct line *line)
{
	line->max_in_flight = draft->params.max_in_flight;
	if (draft->params.max_in_flight < 0)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params.max_in_flight is missing: say how many deliveries may be open");
}

/* The first parameter that the method needs and that is missing, and what it says. NULL: none. */
static const char *leased_lacks(enum leased_method method, const struct draft_params *params)
{
	switch (method) {
	case LEASED_BEGIN:
		return params->lease_given
			       ? NULL
			       : "lease_ms is missing: say for how long no other copy may run";
	case LEASED_RESULT:
		if (!params->source_given)
			return "source is missing: pass the source of the event";
		return params->event_id_given ? NULL
					      : "event_id is missing: pass the id of the event";
	case LEASED_COMPLETE:
	case LEASED_FAIL:
	case LEASED_EXTEND:
		break;
	}
	return params->token_given ? NULL : "token is missing: pass the token of request.begin";
}

/* PostgreSQL reads the parameters (store/leased_requests.h). */
static void leased(const struct draft *draft, struct line *line)
{
	static const struct bytes none = { "{}", 2 };
	const struct draft_params *params = &draft->params;
	struct bytes whole = params->whole.data == NULL ? none : params->whole;
	const char *why;
	const char *lacks;

	for (size_t i = 0; i < sizeof(leased_methods) / sizeof(leased_methods[0]); i++) {
		if (strcmp(leased_methods[i], draft->method) == 0)
			line->method = (enum leased_method)i;
	}
	lacks = leased_lacks(line->method, params);
	if (lacks != NULL)
		reject(line, PROTOCOL_INVALID_PARAMS, "params.%s", lacks);
	else if (whole.length > PROTOCOL_MAX_PARAMS)
		reject(line, PROTOCOL_INVALID_PARAMS,
			"params has %zu bytes; the limit is %d, and that of a body 1048576",
			whole.length, PROTOCOL_MAX_PARAMS);
	else if ((why = json_refusal_of_any_length(whole)) != NULL)
		reject(line, PROTOCOL_INVALID_PARAMS, "params cannot be stored: %s", why);
	line->params = whole;
}

static const struct method {
	const char *name;
	enum line_kind kind;
	enum problem_scope scope; /* of the problems with its parameters; SCOPE_LINE: it has none */
	bool needs_id;            /* it must be a request, because it has a reply */
	void (*fill)(const struct draft *draft, struct line *line);
} methods[] = {
	{ "hello", LINE_HELLO, SCOPE_HELLO, true, hello },
	{ "extend", LINE_EXTEND, SCOPE_EXTEND, false, extend },
	{ "window", LINE_WINDOW, SCOPE_WINDOW, false, window },
	{ "drain", LINE_DRAIN, SCOPE_LINE, true, NULL },
	{ "poke", LINE_POKE, SCOPE_LINE, false, NULL },
	{ "request.begin", LINE_LEASED, SCOPE_LEASED, true, leased },
	{ "request.complete", LINE_LEASED, SCOPE_LEASED, true, leased },
	{ "request.fail", LINE_LEASED, SCOPE_LEASED, true, leased },
	{ "request.extend", LINE_LEASED, SCOPE_LEASED, true, leased },
	{ "result.get", LINE_LEASED, SCOPE_LEASED, true, leased },
};

/* A method, with or without an id. */
static void request(const struct draft *draft, struct line *line)
{
	const struct method *method = NULL;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, draft->method) == 0)
			method = &methods[i];
	}
	if (method == NULL) {
		reject(line, PROTOCOL_UNKNOWN_METHOD,
			"unknown method \"%s\": there are hello, extend, window, drain, poke, and "
			"with the role requests request.begin, complete, fail, extend and "
			"result.get",
			protocol_quote(draft->memory, draft->method));
	} else if (method->needs_id && line->id.data == NULL) {
		reject(line, PROTOCOL_INVALID_REQUEST,
			"%s is a request: give it an id, a string or a number", method->name);
	} else if (draft->problems[method->scope] != NULL) {
		/* The log names the handler whose hello was refused. */
		line->hello.handler = draft->params.hello.handler;
		reject(line, PROTOCOL_INVALID_PARAMS, "%s", draft->problems[method->scope]);
	} else {
		line->kind = method->kind;
		if (method->fill != NULL)
			method->fill(draft, line);
	}
}

/* A line without a method is an answer if any part of one is there, even a malformed one: the delivery that it names
 * ends with a retry, instead of staying open until its deadline. */
static void decide(struct draft *draft, struct line *line)
{
	bool answers = draft->method == NULL &&
		       (draft->answer.has_result || draft->answer.result_is_null ||
			       draft->answer.has_error || draft->answer.whole.problem != NULL);

	/* The id of an answer names a delivery and gets no reply. */
	if (!answers && draft->has_id && !draft->id_is_null && draft->id.length <= PROTOCOL_MAX_ID)
		line->id = draft->id;
	if (draft->problems[SCOPE_LINE] != NULL)
		reject(line, PROTOCOL_INVALID_REQUEST, "%s", draft->problems[SCOPE_LINE]);
	else if (!draft->version_named)
		reject(line, PROTOCOL_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
	else if (answers && draft->has_id)
		draft_answer(draft, line);
	else if (answers)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"an answer needs the id of the delivery it is for");
	else if (draft->method == NULL)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"the line has no method, no result and no error");
	else if (draft->answer.has_result || draft->answer.has_error)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"a line is a request or an answer: it has a method and a result or error");
	else if (draft->has_id && draft->id.length > PROTOCOL_MAX_ID)
		reject(line, PROTOCOL_INVALID_REQUEST, "id is longer than %d bytes",
			PROTOCOL_MAX_ID);
	else
		request(draft, line);
}

/* Why a line has no draft. */
static void reject_text(const struct json_mistake *mistake, int outcome, struct line *line)
{
	if (outcome == JSON_ARRAY_TEXT)
		reject(line, PROTOCOL_INVALID_REQUEST,
			"JSON-RPC batches (arrays) are not used here: send one object per line");
	else if (outcome == JSON_SCALAR_TEXT)
		reject(line, PROTOCOL_INVALID_REQUEST, "a line must be one JSON object");
	else if (mistake->problem == JSON_NOT_UTF8)
		reject(line, PROTOCOL_PARSE, "the line is not UTF-8");
	else if (mistake->problem == JSON_BAD_SPACE)
		reject(line, PROTOCOL_PARSE,
			"not JSON: a vertical tab or form feed stands in the line");
	else if (mistake->problem == JSON_TOO_DEEP)
		reject(line, PROTOCOL_INVALID_REQUEST, "the line is nested deeper than %d levels",
			PROTOCOL_MAX_DEPTH);
	else
		reject(line, PROTOCOL_PARSE, "not a JSON object: %s, near byte %zu", mistake->words,
			mistake->at);
}

int protocol_parse(
	struct protocol_parser *parser, struct bytes text, struct line *out, struct err *err)
{
	static const char foreign[] = "Content-";
	struct draft draft = { .memory = &parser->memory };
	int r;

	line_memory_reset(&parser->memory);
	memset(out, 0, sizeof(*out));
	/* JSON would refuse both of these, too, but not with words that help. */
	if (text.length == 0) {
		reject(out, PROTOCOL_PARSE, "the line is empty: send one JSON object per line");
		return 0;
	}
	if (text.length >= sizeof(foreign) - 1 &&
		strncasecmp(text.data, foreign, sizeof(foreign) - 1) == 0) {
		reject(out, PROTOCOL_PARSE,
			"Content-Length framing is not used here: send each JSON object on one "
			"line, ended by LF");
		out->close = true;
		return 0;
	}
	/* Without memory the draft is incomplete: what was decided with it does not count. */
	r = draft_read(parser->stream, text, &draft, err);
	if (r < 0)
		return r;
	if (r == 0)
		decide(&draft, out);
	else if (r != JSON_STOPPED)
		reject_text(json_stream_mistake(parser->stream), r, out);
	return parser->memory.exhausted ? err_memory(err) : 0;
}
