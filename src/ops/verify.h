/*
 * `inboxd verify`: proves that a range of records is in the table, and prints the result. Main
 * thread; blocks.
 */
#ifndef OPS_VERIFY_H
#define OPS_VERIFY_H

#include "config/config.h"
#include "ops/cli.h"

/* 0: every record was found. FAULT_CHECK: the gaps were printed. */
int verify_run(const struct cli *cli, const struct config *config, struct err *err);

#endif
