/*
 * The rules of retrying: what a handler's words, a deadline or a lost connection mean for a message.
 * Pure: writes entry->verdict and its texts, touches nothing else. One thread.
 *
 * Only failures of the handler (retry, error, timeout, not settled) spend an attempt; losing a
 * connection, handing back and snoozing never do (G6).
 */
#ifndef DISPATCH_RETRY_POLICY_H
#define DISPATCH_RETRY_POLICY_H

#include "base/err.h"
#include "dispatch/entry.h"
#include "dispatch/protocol.h"

struct retry_rules {
	int64_t max_attempts;
	int64_t backoff_ms;
	int64_t backoff_max_ms;
	int64_t max_crashes;
};

/* The handler answered. Copies the texts. FAULT_MEMORY: the texts are left out, the verdict stands. */
int retry_policy_answer(const struct retry_rules *rules, struct entry *entry,
	const struct verdict *verdict, struct err *err);
/* Its deadline passed. */
void retry_policy_timeout(const struct retry_rules *rules, struct entry *entry, int64_t timeout_ms);
/* Its connection was lost while it was open: a suspect from now on; counted only when it had been
 * delivered alone (rule R14). */
void retry_policy_lost(const struct retry_rules *rules, struct entry *entry);
/* It was not delivered, or its delivery was called off: back to waiting, nothing counted. */
void retry_policy_return(struct entry *entry);
/* It must wait behind its key, or for a handler. */
void retry_policy_park(struct entry *entry);
/* Frees the texts of a verdict. */
void retry_policy_clear(struct entry *entry);

/* The label of inboxd_deliveries_total, or NULL for END_RETURNED. */
const char *retry_policy_outcome(enum entry_end end);

#endif
