/* The texts of errors, which the program asks for, and the lines of the log, which it is given. */
#include <stdarg.h>
#include <stdio.h>

#include "client/handler.h"

/* The error of the last inbox_handler_new() that failed in this thread: there is no object that could hold it. */
static _Thread_local char new_words[sizeof(((struct inbox_handler *)NULL)->words)];

int ih_fail(struct inbox_handler *handler, int error, const char *format, ...)
{
	char *words = handler == NULL ? new_words : handler->words;
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(new_words), format, args);
	va_end(args);
	return error;
}

void ih_log(struct inbox_handler *handler, const char *format, ...)
{
	char text[sizeof(handler->words)];
	va_list args;

	if (handler->log == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	handler->log(text, handler->log_arg);
}

const char *inbox_handler_error(const struct inbox_handler *handler)
{
	return handler == NULL ? new_words : handler->words;
}
