/*
 * The draft of a line: the members that were read so far, in any order, and the problems found in them.
 *
 * Whether a line is a hello, a window or an answer is known only when its last member was read. So a problem is kept
 * for each kind of line that it would make invalid (enum problem_scope). A problem in a parameter of hello must not
 * make a window invalid that has a member of the same name.
 *
 * All pointers point into the memory of the line (protocol_memory.h).
 */
#ifndef DISPATCH_PROTOCOL_PROTOCOL_DRAFT_H
#define DISPATCH_PROTOCOL_PROTOCOL_DRAFT_H

#include <stdarg.h>

#include "dispatch/protocol/protocol.h"
#include "dispatch/protocol/protocol_memory.h"

/* The kinds of lines that a problem makes invalid. SCOPE_LINE: every line. */
enum problem_scope { SCOPE_LINE, SCOPE_HELLO, SCOPE_EXTEND, SCOPE_WINDOW, SCOPE_ANSWER, SCOPES };

/* One result, one error, or one entry of a batch answer. */
struct draft_verdict {
	const char *status;  /* NULL = not given, like the next */
	const char *problem; /* why it is malformed; NULL = it is not */
	const char *note;
	struct bytes entry;
	struct bytes reason;
	struct bytes code;
	struct bytes result;
	int64_t delay_ms;
};

struct draft {
	const char *problems[SCOPES]; /* the first problem of each scope; NULL = none */
	bool version_named;           /* jsonrpc is "2.0" */
	bool has_id;                  /* also when it is null */
	bool id_is_null;
	bool has_result;
	bool result_is_null;
	bool has_error;
	bool has_entries;
	bool protocol_given;
	bool protocol_has_ours;
	struct bytes id;     /* raw JSON */
	const char *id_text; /* the decoded string, or the raw JSON of another value */
	const char *method;
	struct hello hello; /* names are NULL while not given */
	struct subscription *subs;
	size_t sub_capacity;
	size_t sub_first; /* the first item of the subscription that is being read */
	const char *sub_topic;
	const char *delivery;
	int64_t timeout_ms; /* of a hello or an extend; -1 = not given, as the next */
	int64_t max_in_flight;
	struct draft_verdict whole; /* the result or the error itself */
	struct draft_verdict *entries;
	size_t entry_count;
	size_t entry_capacity;
};

/* The outcome of protocol_read(). */
enum { READ_REFUSED = 1 };

#define PROTOCOL_WORDS 256 /* bytes of an error text, NUL included */

struct refusal {
	int code;
	char text[PROTOCOL_WORDS];
};

/* Reads one line of UTF-8 into the draft. READ_REFUSED: the line is not a JSON object, or too deep; `why` has the
 * reason. Without memory it leaves by longjmp, see protocol_memory.h. */
int protocol_read(
	struct line_memory *memory, struct bytes text, struct draft *out, struct refusal *why);

/* Writes a formatted text into `text`, cut to PROTOCOL_WORDS bytes at a character. */
void protocol_words(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text of a client for use in an error text: cut short, and valid UTF-8. */
const char *protocol_quote(struct line_memory *memory, const char *text);

/* Turns the draft of an answer into verdicts. Sets `delivery`, `verdicts` and `batch_answer` of the line. */
void protocol_answer(struct line_memory *memory, struct draft *draft, struct line *out);

#endif
