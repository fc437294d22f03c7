/*
 * `inboxd seek`: calls inbox.seek() after it has compared the arguments with Kafka's log. Main
 * thread; blocks.
 */
#ifndef OPS_SEEK_H
#define OPS_SEEK_H

#include "config/config.h"
#include "ops/cli.h"

/* Returns 0, also when the answer was no. FAULT_CHECK: the topic or partition does not exist, no
 * instance has ever read it, or the offset is not in the log. */
int seek_run(const struct cli *cli, const struct config *config, struct err *err);

#endif
