/*
 * The output of `inboxd check`: the configuration and then one line per check as soon as it is
 * done, or everything as one JSON object at the end. One thread.
 */
#ifndef OPS_CHECK_PRINT_H
#define OPS_CHECK_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

enum check_outcome { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };

struct check_result {
	const char *name;
	enum check_outcome outcome;
	struct err fault; /* of a failed check */
	struct buf found; /* lines, also of a failed check */
};

/* Starts as zeros, except `json`; check_print_end() frees its content. */
struct check_print {
	bool json;
	size_t checks;
	struct buf out; /* JSON */
};

/* Only FAULT_MEMORY, as for check_print_end(). */
int check_print_config(struct check_print *print, const struct config *config, struct err *err);
void check_print_result(struct check_print *print, struct check_result *result);
/* Prints the overall result and returns it. */
int check_print_end(struct check_print *print, int fault, struct err *err);

#endif
