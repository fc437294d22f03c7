/* The options of a handler: their defaults and limits. Pure, except that it reads the environment. */
#ifndef CLIENT_OPTIONS_H
#define CLIENT_OPTIONS_H

#include "inboxd/handler.h"

/* Copies the options of the program and sets the missing ones to their defaults. Strings stay borrowed, also the
 * value of an environment variable. INBOX_ERROR_ARGUMENT, with a text for inbox_handler_error(NULL). */
int ih_options_complete(
	struct inbox_handler_options *out, const struct inbox_handler_options *given);

#endif
