/*
 * See exit_status.h. The two codes that are not 0 are those of sysexits.h: EX_DATAERR and EX_TEMPFAIL. Many programs
 * know them, and no shell uses them for its own failures.
 */
#include "bridge/exec/exit_status.h"

#include <stdio.h>
#include <sysexits.h>

static const struct {
	int code;
	enum bridge_status status;
} verdicts[] = {
	{ EX_OK, BRIDGE_DONE },
	{ EX_DATAERR, BRIDGE_DEAD },
	{ EX_TEMPFAIL, BRIDGE_RETRY },
};

static void put_words(
	struct ending ending, const char *what, const char *last_line, struct bridge_verdict *out)
{
	(void)snprintf(out->code, sizeof(out->code), ending.signalled ? "SIGNAL_%d" : "EXIT_%d",
		ending.number);
	if (last_line[0] != '\0')
		bridge_text_put(out->reason, sizeof(out->reason), bytes_of(last_line));
	else
		(void)snprintf(out->reason, sizeof(out->reason), "the command ended with %s %d%s",
			ending.signalled ? "signal" : "exit code", ending.number, what);
}

void exit_status_verdict(
	struct ending ending, bool settles, const char *last_line, struct bridge_verdict *out)
{
	*out = (struct bridge_verdict){ .status = BRIDGE_RETRY, .delay_ms = -1 };
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		if (!ending.signalled && verdicts[i].code == ending.number)
			out->status = verdicts[i].status;
	}
	if (out->status != BRIDGE_DONE)
		put_words(ending, ", and wrote nothing to stderr", last_line, out);
	else if (settles)
		out->status = BRIDGE_SETTLED;
}

void exit_status_failure(
	struct ending ending, const char *what, const char *last_line, struct bridge_verdict *out)
{
	*out = (struct bridge_verdict){ .status = BRIDGE_RETRY, .delay_ms = -1 };
	put_words(ending, what, last_line, out);
}
