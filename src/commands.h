/* What each command of the program does. Called by main once, on the main thread. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "admin/cli.h"

/* Executes the command: 0, or a fault with words for stderr in `err` ("" when everything was said on
 * stdout already). */
int command_execute(const struct cli *cli, struct err *err);

#endif
