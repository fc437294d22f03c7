/*
 * `inboxd seek`: calls inbox.seek() after it has compared the arguments with Kafka's log. Main
 * thread; blocks.
 */
#ifndef SEEK_H
#define SEEK_H

#include "admin/ops/cli.h"
#include "config/config.h"

/* Returns 0, also when the answer was no. FAULT_CHECK: the topic or partition does not exist, no
 * instance has ever read it, or the offset is not in the log. */
int seek_run(const struct cli *cli, const struct config *config, struct err *err);

#endif
