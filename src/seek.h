/* `inboxd seek`: inbox.seek() with what Kafka knows of the log, for a person. Main thread; blocks. */
#ifndef SEEK_H
#define SEEK_H

#include "admin/cli.h"
#include "config/config.h"

/* 0, also when the answer was no. FAULT_CHECK: there is no such topic or partition, no sidecar has ever read it, or the
 * offset is not in the log. */
int seek_run(const struct cli *cli, const struct config *config, struct err *err);

#endif
