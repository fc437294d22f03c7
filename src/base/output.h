/* The output of a command on stdout, and its errors. Main thread. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include "base/err.h"

/* Call it once, before anything is opened: the number of a closed standard stream must not be given to a connection.
 * Also ignores SIGPIPE: if the reader of stdout ends, a command that changes something still completes the change. */
void output_begin(void);
/* Flushes stdout. 0, also if its reader has ended: it does not need the rest. FAULT_OUTPUT. */
int output_end(struct err *err);

#endif
