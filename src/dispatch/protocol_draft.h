/*
 * What a line has said so far, while it is being read: the members this protocol knows, in whatever
 * order they came, and what was wrong with them. A line tells only at its end whether it is a
 * request or an answer, so every complaint waits for its owner here: what is wrong with the
 * parameters of a hello must not spoil a window that happens to have a member of the same name.
 * Everything points into the line's memory.
 */
#ifndef DISPATCH_PROTOCOL_DRAFT_H
#define DISPATCH_PROTOCOL_DRAFT_H

#include <stdarg.h>

#include "dispatch/protocol.h"
#include "dispatch/protocol_memory.h"

enum problem_scope { SCOPE_LINE, SCOPE_HELLO, SCOPE_EXTEND, SCOPE_WINDOW, SCOPE_ANSWER, SCOPES };

/* One result, one error, or one entry of a batch answer. */
struct draft_verdict {
	const char *status;  /* NULL = not given; so are all the next */
	const char *problem; /* what is malformed about it */
	const char *note;
	struct bytes entry;
	struct bytes reason;
	struct bytes code;
	struct bytes result;
	int64_t delay_ms;
};

struct draft {
	const char *problems[SCOPES];
	bool version_named; /* jsonrpc is "2.0" */
	bool has_id;        /* also when it is null */
	bool id_is_null;
	bool has_result;
	bool result_is_null;
	bool has_error;
	bool has_entries;
	bool protocol_given;
	bool protocol_has_ours;
	struct bytes id;     /* raw JSON */
	const char *id_text; /* of a string what it says, else the raw JSON */
	const char *method;
	struct hello hello; /* names are NULL while not given */
	struct subscription *subs;
	size_t sub_capacity;
	size_t sub_first; /* where the subscription being read starts */
	const char *sub_topic;
	const char *delivery;
	int64_t timeout_ms; /* of a hello or an extend; -1 = not given, as the next */
	int64_t max_in_flight;
	struct draft_verdict whole; /* the result or the error itself */
	struct draft_verdict *entries;
	size_t entry_count;
	size_t entry_capacity;
};

/* What reading ended with. */
enum { READ_REFUSED = 1 };

#define PROTOCOL_WORDS 256 /* bytes of an error text, NUL included */

struct refusal {
	int code;
	char text[PROTOCOL_WORDS];
};

/* Reads one line that is UTF-8. READ_REFUSED: it is no JSON object that can be looked into, and
 * `why` says so; else 0 and the draft is filled. Out of memory: longjmp, see protocol_memory.h. */
int protocol_read(
	struct line_memory *memory, struct bytes text, struct draft *out, struct refusal *why);

/* Writes formatted words into `text`, cut to PROTOCOL_WORDS at a character. */
void protocol_words(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What a client wrote, fit for an error text: short and UTF-8. */
const char *protocol_quote(struct line_memory *memory, const char *text);
/* The longest start of the text that fits in `max` bytes and ends with a whole character. */
size_t utf8_fit(const char *text, size_t length, size_t max);

/* Turns what was said into verdicts; fills the line's delivery, verdicts and batch_answer. */
void protocol_answer(struct line_memory *memory, struct draft *draft, struct line *out);

#endif
