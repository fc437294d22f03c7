/*
 * The retry policy: turns an answer, a timeout or a lost connection into the next state of the row.
 * Pure: writes entry->verdict and its texts and nothing else. One thread.
 *
 * Only a failure of the handler spends an attempt: retry, error, timeout, `settled` without a commit, or events that
 * PostgreSQL refuses. A lost
 * connection, a return to the table, a snooze and a skip spend none (guarantee G6).
 */
#ifndef DISPATCH_ORDER_RETRY_POLICY_H
#define DISPATCH_ORDER_RETRY_POLICY_H

#include "base/err.h"
#include "dispatch/order/entry.h"
#include "dispatch/protocol/protocol.h"

struct retry_rules {
	int64_t max_attempts;
	int64_t backoff_ms;
	int64_t backoff_max_ms;
	int64_t max_crashes;
};

/* The handler answered. Copies the texts. FAULT_MEMORY: the verdict is complete but for its texts. */
int retry_policy_answer(const struct retry_rules *rules, struct entry *entry,
	const struct verdict *verdict, struct err *err);
/* The handler answered `done`, and its events cannot be stored: the attempt failed. */
void retry_policy_unemitted(const struct retry_rules *rules, struct entry *entry, const char *why);
/* The delivery had no answer within timeout_ms. */
void retry_policy_timeout(const struct retry_rules *rules, struct entry *entry, int64_t timeout_ms);
/* The connection ended while the delivery was open. The message is a suspect from now on. Only if it was delivered
 * alone, this counts as a crash (rule R14); after max_crashes the message is dead. */
void retry_policy_lost(const struct retry_rules *rules, struct entry *entry);
/* The message was not delivered, or its delivery was cancelled: it waits again, and nothing is counted. */
void retry_policy_return(struct entry *entry);
/* The message must wait behind its key or for a handler: it is parked, and nothing is counted. */
void retry_policy_park(struct entry *entry);
/*
 * The message was delivered behind `first` in an ordered batch, and `first` has a verdict and was not finished. So the
 * message was not tried: it goes back to the table behind `first`, and nothing is counted (rule R26). It is parked while
 * `first` waits for its time; a claim of the lane then takes both.
 * If `first` timed out or lost its connection, the message is a suspect. The batch has one answer, so the message at
 * which the handler hangs or crashes is not known: each of them is delivered alone.
 */
void retry_policy_follow(struct entry *entry, const struct entry *first);
/* Frees the texts of a verdict. */
void retry_policy_clear(struct entry *entry);

/* The label of inboxd_deliveries_total. NULL for END_RETURNED. */
const char *retry_policy_outcome(enum entry_end end);

#endif
