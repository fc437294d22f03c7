/*
 * From texts to values: parses what was written for an option and puts it into the struct it
 * belongs to. Pure; one thread a struct. FAULT_CONFIG says what the text is not and what to write;
 * the caller puts the key and the place before it.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "base/duration.h"
#include "base/err.h"
#include "config/config.h"
#include "config/options.h"

#define VALUE_TEXT_BYTES DURATION_TEXT_BYTES

/* Parses `texts` and stores them in `base`, which holds a zeroed field there. */
int value_store(
	void *base, const struct option *option, const struct strings *texts, struct err *err);
/* Frees what value_store() put there. */
void value_release(void *base, const struct option *option);
/* True for the types that are lists of texts. */
bool value_is_list(const struct option *option);

/* A number of this option's type as one would write it: 3000 is "3s" for a duration. */
void value_text(const struct option *option, int64_t number, char out[VALUE_TEXT_BYTES]);

#endif
