/*
 * The last line that is not blank of what a command writes to stderr. It becomes the reason of a verdict. Long lines are
 * cut. Pure. One thread.
 */
#ifndef BASE_TEXT_LAST_LINE_H
#define BASE_TEXT_LAST_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define LAST_LINE_BYTES 1024

struct last_line {
	char text[LAST_LINE_BYTES];    /* the last whole line */
	char partial[LAST_LINE_BYTES]; /* the beginning of the line that is not complete */
	size_t length;                 /* of `partial` */
	bool blank;                    /* `partial` has only white space so far */
};

void last_line_reset(struct last_line *line);
void last_line_add(struct last_line *line, const char *bytes, size_t length);
/* The line, also if it is not complete; "" if there is none. Ends an incomplete line. */
const char *last_line_end(struct last_line *line);

#endif
