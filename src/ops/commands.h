/*
 * The function of each command of the program. main() calls it once, on the main thread.
 */
#ifndef OPS_COMMANDS_H
#define OPS_COMMANDS_H

#include "ops/cli.h"

/* Executes the command. Returns 0, or a fault whose text in `err` main() prints to stderr; "" when
 * everything was already printed to stdout. */
int command_execute(const struct cli *cli, struct err *err);

#endif
