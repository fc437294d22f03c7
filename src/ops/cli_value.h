/*
 * Reads the values of options. Pure.
 */
#ifndef OPS_CLI_VALUE_H
#define OPS_CLI_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* True for decimal digits that fit into `out`, and nothing else. */
bool cli_number(const char *text, int64_t *out);
/* True when `text` is one of the words in `choices`, which are separated by spaces. */
bool cli_is_choice(const char *choices, const char *text);

#endif
