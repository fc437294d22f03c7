/*
 * What `inboxd check` prints: the configuration and a line a check as soon as it is made, or all of it as one JSON object
 * at the end. One thread.
 */
#ifndef CHECK_PRINT_H
#define CHECK_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

enum check_outcome { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };

struct check_result {
	const char *name;
	enum check_outcome outcome;
	struct err fault; /* of one that failed */
	struct buf found; /* lines, also of one that failed */
};

/* Begins as zero, but for `json`; check_print_end() frees what it holds. */
struct check_print {
	bool json;
	size_t checks;
	struct buf out; /* JSON */
};

/* FAULT_MEMORY only, as in check_print_end(). */
int check_print_config(struct check_print *print, const struct config *config, struct err *err);
void check_print_result(struct check_print *print, struct check_result *result);
/* Says what all ended with, and returns it. */
int check_print_end(struct check_print *print, int fault, struct err *err);

#endif
