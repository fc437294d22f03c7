/* What a command prints on stdout, and whether it got there. Main thread. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include "base/err.h"

/* Once, before anything is opened: a standard stream that is closed must not become a connection's number. A reader
 * that goes away is from now on an error of writing and no signal, so that a command which changes something ends what
 * it began. */
void output_begin(void);
/* Writes what is left. 0, also when whoever read it has gone: they have what they wanted. FAULT_OUTPUT. */
int output_end(struct err *err);

#endif
