/*
 * Handles Ctrl-C during a command that works in pages. See op.h.
 */
#include <signal.h>
#include <stdio.h>

#include "ops/op.h"

#define SIGNALS 3

static const int signals[SIGNALS] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[SIGNALS];
static volatile sig_atomic_t caught;

static void remember(int number)
{
	caught = number;
}

/* A signal that is ignored, for example by nohup, stays ignored. The second signal ends the program
 * at once. */
void op_interrupt_begin(void)
{
	const struct sigaction action = { .sa_handler = remember, .sa_flags = (int)SA_RESETHAND };

	caught = 0;
	for (size_t i = 0; i < SIGNALS; i++) {
		if (sigaction(signals[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
			(void)sigaction(signals[i], &action, NULL);
	}
}

bool op_interrupted(void)
{
	return caught != 0;
}

void op_interrupt_end(void)
{
	for (size_t i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &before[i], NULL);
}

void op_interrupt_obey(void)
{
	op_interrupt_end();
	(void)fflush(stdout);
	if (caught != 0)
		(void)raise(caught);
}
