/*
 * Results of functions. A function that can fail returns an int:
 * - 0: done.
 * - Positive: an outcome that the caller must handle. An enum beside the function names it.
 * - Negative: one of the faults below. It is passed up unchanged; `err` has a text for people.
 *
 * A fault is the negated exit code of the program if no caller handles it, so main() needs no table. The text says
 * what happened to what. The code that handles the fault adds what happens next.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

enum fault {
	FAULT_USAGE = -1,
	FAULT_CONFIG = -2,
	FAULT_DATABASE = -3,
	FAULT_KAFKA = -4,
	FAULT_SOCKET = -5,
	FAULT_CHECK = -6,
	FAULT_INTERNAL = -70,
	FAULT_MEMORY = -71,
	FAULT_OUTPUT = -74,
};

struct err {
	int fault;       /* 0 while nothing has failed */
	char state[6];   /* SQLSTATE when the fault came from PostgreSQL, else "" */
	char schema[64]; /* the schema of the table whose constraint was violated, else "" */
	char table[64];
	size_t advice;   /* where the advice begins in the text; 0 = there is none */
	char text[1024]; /* one line, no newline at the end */
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		.fault = 0                                                                         \
	}

/* Sets the text (cut to fit, control characters replaced by spaces) and returns `fault`. `err` may be NULL. */
int err_set(struct err *err, int fault, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "words: " in front of the text. Returns err->fault. */
int err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends ": words", the advice what to do. Without room for it the text stays as it is. Returns err->fault. */
int err_advise(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The advice; "" if there is none. */
const char *err_advice(const struct err *err);
/* The length of the text without the advice. */
size_t err_words(const struct err *err);

/* FAULT_MEMORY with its standard text. */
static inline int err_memory(struct err *err)
{
	(void)err_set(err, FAULT_MEMORY, "out of memory");
	return FAULT_MEMORY;
}

/* Exit code of a fault or outcome: 0 for 0, else 1..74; memory counts as internal (70). */
int err_exit_code(int fault);

#endif
