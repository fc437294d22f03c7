/*
 * What a command or a service made of a message, before it is the answer to inboxd. Pure, except bridge_answer().
 */
#ifndef BRIDGE_VERDICT_H
#define BRIDGE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "inboxd/handler.h"

#define BRIDGE_REASON_BYTES 1024
#define BRIDGE_CODE_BYTES   32
#define BRIDGE_RESULT_MAX   1048576 /* bytes; inboxd stores no longer one */

enum bridge_status {
	BRIDGE_DONE,
	BRIDGE_RETRY,
	BRIDGE_DEAD,
	BRIDGE_SNOOZE,
	BRIDGE_SETTLED,
	BRIDGE_SKIPPED,
};

#define BRIDGE_STATUSES    6
#define BRIDGE_STATUS_LIST "done, retry, dead, snooze, settled or skipped"

struct bridge_verdict {
	enum bridge_status status;
	int64_t delay_ms;                 /* retry, snooze: negative = the configured backoff */
	struct bytes result;              /* done: JSON; absent = none. Borrowed, like the next */
	struct bytes emit;                /* done: a JSON array of events; absent = none */
	char reason[BRIDGE_REASON_BYTES]; /* "" = none; so does the next */
	char code[BRIDGE_CODE_BYTES];
};

/* False: there is no such status. */
bool bridge_status_parse(struct bytes name, enum bridge_status *out);
/* Copies a text, as much of it as has room. Control characters become spaces. */
void bridge_text_put(char *at, size_t room, struct bytes text);

/* Answers the delivery, which is not valid afterwards. A result that is not JSON or too long is left out, and the log
 * says so: it does not change the verdict. Events that cannot be sent make it a retry with the code PROTOCOL. Nothing is sent if the delivery was cancelled. FAULT_MEMORY: the delivery is
 * still open. */
int bridge_answer(
	struct inbox_delivery *delivery, const struct bridge_verdict *verdict, struct err *err);

#endif
