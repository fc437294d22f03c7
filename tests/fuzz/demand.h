/*
 * Assertions of fuzz targets: a broken promise prints its position and ends the program, so that
 * libFuzzer keeps the input. Also the checks that several targets share.
 */
#ifndef TESTS_FUZZ_DEMAND_H
#define TESTS_FUZZ_DEMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define demand(holds) ((holds) ? (void)0 : demand_failed(__FILE__, __LINE__, #holds))

static inline __attribute__((noreturn)) void demand_failed(
	const char *file, int line, const char *words)
{
	(void)fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, words);
	abort();
}

static inline bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Fit for a log line and for a column of type text. */
static inline bool is_plain_text(const char *text)
{
	return utf8_is_valid(bytes_of(text)) && strpbrk(text, "\n\r") == NULL;
}

#endif
