/*
 * See supervision.h. The main thread waits on the wake-up and then asks; a report is stored before the poke, so it is
 * never missed. Later faults are mostly consequences of the first one, which is why that one is kept.
 */
#include "report/supervision.h"

int supervision_init(struct supervision *supervision, struct err *err)
{
	*supervision = (struct supervision){ .wake = WAKE_INIT };
	if (wake_init(&supervision->wake, err) < 0)
		return err == NULL ? FAULT_INTERNAL : err->fault;
	(void)pthread_mutex_init(&supervision->lock, NULL);
	return 0;
}

void supervision_fini(struct supervision *supervision)
{
	(void)pthread_mutex_destroy(&supervision->lock);
	wake_fini(&supervision->wake);
}

void supervision_report_fenced(struct supervision *supervision)
{
	atomic_store(&supervision->fenced, true);
	wake_poke(&supervision->wake);
}

void supervision_report_renamed(struct supervision *supervision)
{
	atomic_store(&supervision->renamed, true);
	wake_poke(&supervision->wake);
}

void supervision_report_rejoins(struct supervision *supervision)
{
	atomic_store(&supervision->rejoins, true);
	wake_poke(&supervision->wake);
}

void supervision_report_fault(struct supervision *supervision, const struct err *fault)
{
	(void)pthread_mutex_lock(&supervision->lock);
	if (supervision->fault.fault == 0)
		supervision->fault = *fault;
	(void)pthread_mutex_unlock(&supervision->lock);
	wake_poke(&supervision->wake);
}

int supervision_fault(struct supervision *supervision, struct err *out)
{
	int fault;

	(void)pthread_mutex_lock(&supervision->lock);
	fault = supervision->fault.fault;
	if (fault != 0 && out != NULL)
		*out = supervision->fault;
	(void)pthread_mutex_unlock(&supervision->lock);
	return fault;
}
