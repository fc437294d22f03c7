/*
 * Reports of threads to the main thread that this instance cannot continue: it was fenced and needs a new id (rule
 * R2), or a fault occurred that no retry can repair. Of several faults the first one is kept. Any thread; never
 * blocks for long.
 */
#ifndef REPORT_SUPERVISION_H
#define REPORT_SUPERVISION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/threads/wake.h"

struct supervision {
	pthread_mutex_t lock;
	struct wake wake;    /* poked by each report; the main thread waits on it */
	atomic_bool fenced;  /* begin another instance run with a new id */
	atomic_bool renamed; /* end the instance run in order, and begin another one */
	atomic_bool rejoins; /* the same, with a new client of Kafka */
	struct err fault;    /* .fault != 0: end the program with this error */
};

int supervision_init(struct supervision *supervision, struct err *err);
void supervision_fini(struct supervision *supervision);
void supervision_report_fenced(struct supervision *supervision);
void supervision_report_renamed(struct supervision *supervision);
void supervision_report_rejoins(struct supervision *supervision);
void supervision_report_fault(struct supervision *supervision, const struct err *fault);
/* Copies the fault and returns its code; 0 = there is none. */
int supervision_fault(struct supervision *supervision, struct err *out);

#endif
