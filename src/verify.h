/* `inboxd verify`: what became of a range of records, said. Main thread; blocks. */
#ifndef VERIFY_H
#define VERIFY_H

#include "admin/cli.h"
#include "config/config.h"

/* 0: every record has its trace. FAULT_CHECK after the gaps were listed. */
int verify_run(const struct cli *cli, const struct config *config, struct err *err);

#endif
