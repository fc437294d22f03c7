/* The options of a handler: their defaults and limits. Pure but for the environment. */
#ifndef HANDLER_OPTIONS_H
#define HANDLER_OPTIONS_H

#include "inboxd/handler.h"

/* Copies what the program gave and fills in what it left out. Strings stay borrowed; so does the
 * value of an environment variable. INBOX_ERROR_ARGUMENT, with words for inbox_handler_error(NULL). */
int ih_options_complete(
	struct inbox_handler_options *out, const struct inbox_handler_options *given);

#endif
