/*
 * The draft of a line: the members that were read so far, in any order, and the problems found in them. The stages of
 * a line are members.c (reads the members), request.c (decides what the line is), verdict.c (what an answer means).
 *
 * Whether a line is a hello, a window or an answer is known only when its last member was read. So a problem is kept
 * for each kind of line that it would make invalid (enum problem_scope). A problem in a parameter of hello must not
 * make a window invalid that has a member of the same name.
 *
 * All pointers point into the memory of the line. One thread.
 */
#ifndef DISPATCH_PROTOCOL_DRAFT_H
#define DISPATCH_PROTOCOL_DRAFT_H

#include "dispatch/protocol/protocol.h"
#include "json/stream.h"

struct line_chunk;

/* The memory of a line: everything in it is freed before the next line. After an allocation that failed, it is
 * exhausted: the line ends in FAULT_MEMORY. */
struct line_memory {
	struct line_chunk *first;   /* kept for the next line */
	struct line_chunk *current; /* the one that pieces are cut from */
	bool exhausted;
};

int line_memory_init(struct line_memory *memory, struct err *err);
void line_memory_fini(struct line_memory *memory);
/* Frees everything that was allocated since the last reset. */
void line_memory_reset(struct line_memory *memory);
/* NULL when out of memory, like the next. */
void *line_alloc(struct line_memory *memory, size_t size);
/* A copy with a NUL appended, which the length does not count. */
const char *line_copy(struct line_memory *memory, struct bytes bytes);

#define PROTOCOL_WORDS 256 /* bytes of an error text, NUL included */

/* Writes a formatted text into `text`, cut to PROTOCOL_WORDS bytes at a character. */
void protocol_words(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void protocol_vwords(char *text, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
/* Text of a client for use in an error text: cut short, and valid UTF-8. */
const char *protocol_quote(struct line_memory *memory, const char *text);

/* The kinds of lines that a problem makes invalid. SCOPE_LINE: every line. */
enum problem_scope {
	SCOPE_LINE,
	SCOPE_HELLO,
	SCOPE_EXTEND,
	SCOPE_WINDOW,
	SCOPE_LEASED,
	SCOPE_ANSWER,
	SCOPES
};

/* One result, one error, or one entry of a batch answer. */
struct draft_verdict {
	const char *status;  /* NULL = not given, like the next */
	const char *problem; /* why it is malformed; NULL = it is not */
	const char *note;
	struct bytes entry;
	struct bytes reason;
	struct bytes code;
	struct bytes result;
	struct bytes emit; /* the array as it was written */
	size_t emit_count;
	int64_t delay_ms;
};

struct draft_params {
	bool protocol_given;
	bool protocol_has_ours;
	struct hello hello; /* names are NULL while not given */
	struct subscription *subs;
	size_t sub_capacity;
	size_t sub_first; /* the first item of the subscription that is being read */
	const char *sub_topic;
	const char *sub_unknown; /* the member without a rule that is being read */
	const char *delivery;
	int64_t timeout_ms; /* of a hello or an extend; -1 = not given, as the next */
	int64_t max_in_flight;
	bool subscribe_given;
	bool lease_given;
	bool token_given;
	bool source_given;
	bool event_id_given;
	struct bytes whole; /* all of them as they were written; borrowed from the line */
};

struct draft_answer {
	bool has_result;
	bool result_is_null;
	bool has_error;
	bool has_entries;
	struct draft_verdict whole;    /* the result or the error itself */
	struct draft_verdict *verdict; /* the one that is being read: the whole, or an entry */
	struct draft_verdict *entries;
	size_t entry_count;
	size_t entry_capacity;
};

struct draft {
	struct line_memory *memory;
	const char *problems[SCOPES]; /* the first problem of each scope; NULL = none */
	bool version_named;           /* jsonrpc is "2.0" */
	bool has_id;                  /* also when it is null */
	bool id_is_null;
	struct bytes id;     /* raw JSON */
	const char *id_text; /* the decoded string, or the raw JSON of another value */
	const char *method;
	struct draft_params params;
	struct draft_answer answer;
};

/* members.c: reads one line into a draft, whose memory is set. Results as json_table_read(). */
int draft_read(struct json_stream *stream, struct bytes text, struct draft *draft, struct err *err);

/* verdict.c: turns the draft of an answer into verdicts. Sets `delivery`, `verdicts` and `batch_answer` of the line. */
void draft_answer(struct draft *draft, struct line *out);

#endif
