/*
 * How a thread tells the one that started it that things cannot go on: the instance is fenced and
 * needs a new id (rule R2), or a fault that no retry mends. First report wins. Any thread.
 */
#ifndef MODEL_SUPERVISION_H
#define MODEL_SUPERVISION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/wake.h"

struct supervision {
	pthread_mutex_t lock;
	struct wake wake;   /* poked by each report; main waits on it */
	atomic_bool fenced; /* start anew with a new id */
	struct err fault;   /* .fault != 0: end the program with these words */
};

int supervision_init(struct supervision *supervision, struct err *err);
void supervision_fini(struct supervision *supervision);
void supervision_report_fenced(struct supervision *supervision);
void supervision_report_fault(struct supervision *supervision, const struct err *fault);
/* Copies the fault; returns it, 0 when there is none. */
int supervision_fault(struct supervision *supervision, struct err *out);

#endif
