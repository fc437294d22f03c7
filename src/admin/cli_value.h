/* What is written behind an option, read. Pure. */
#ifndef ADMIN_CLI_VALUE_H
#define ADMIN_CLI_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits that fit, and nothing else. */
bool cli_number(const char *text, int64_t *out);
/* True when `text` is one of the words, which are separated by spaces. */
bool cli_is_choice(const char *choices, const char *text);

#endif
