/*
 * Results. A function that can fail returns int: 0 done; positive, an outcome its caller must
 * handle (named in an enum beside the function); negative, one of the faults below, passed up
 * unchanged with words for a person in `err`.
 *
 * A fault is the negated exit code the program ends with if nobody handles it, so main needs no
 * table. Words say what happened and to what; whoever handles the fault adds what happens next.
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
	char schema[64]; /* of the table whose constraint PostgreSQL says is violated, else "" */
	char table[64];
	size_t advice;   /* where in the text begins what to do about it; 0 = nowhere */
	char text[1024]; /* one line, no newline at the end */
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		.fault = 0                                                                         \
	}

/* Writes the words (cut to fit, control bytes replaced by spaces) and returns `fault`. `err` may be
 * NULL: then only the return value tells. */
int err_set(struct err *err, int fault, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "words: " before what is there already. Returns err->fault. */
int err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts ": words" behind what is there: what to do about it. Where there is no room for that, nothing. Returns
 * err->fault. */
int err_advise(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What to do about it; "" when that is not said. */
const char *err_advice(const struct err *err);
/* How much of the text says what happened. */
size_t err_words(const struct err *err);

/* FAULT_MEMORY with the usual words. */
static inline int err_memory(struct err *err)
{
	(void)err_set(err, FAULT_MEMORY, "out of memory");
	return FAULT_MEMORY;
}

/* Exit code of a fault or outcome: 0 for 0, else 1..74; memory counts as internal (70). */
int err_exit_code(int fault);

#endif
