/*
 * The janitor: one thread with one connection that enforces `retention`. Of all sidecars of a schema one does
 * it at a time, elected by the database; the others look now and then whether it still is there. Short
 * transactions, each followed by a pause nine times as long, so that it takes a tenth of one backend at most and
 * never holds up a heartbeat, a batch or a verdict. What it cannot do now it does later: no fault of its own ends
 * anything.
 */
#ifndef PERIODIC_JANITOR_H
#define PERIODIC_JANITOR_H

#include "base/metrics.h"
#include "config/config.h"

struct janitor;

/* Everything is kept and must outlive the janitor. */
struct janitor_options {
	const struct config *config;
	struct metrics *metrics;
	int32_t instance;
};

int janitor_new(struct janitor **out, const struct janitor_options *options, struct err *err);
int janitor_start(struct janitor *janitor, struct err *err);
/* Any thread: other ages from now on. Keeps `config`. */
void janitor_reload(struct janitor *janitor, const struct config *config);
/* Asks the thread to end at once: the answer to a statement under way is not waited for. */
void janitor_begin_stop(struct janitor *janitor);
/* Waits for its end. */
void janitor_stop(struct janitor *janitor);
void janitor_free(struct janitor *janitor);

#endif
