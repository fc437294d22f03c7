/* See jobs.h. Which kind of job ran last decides whether claims or maintenance come next (claimer_run). */
#include "dispatch/table/jobs.h"

#include <stdlib.h>

struct job *jobs_new(struct dispatch *dispatch, enum job_kind kind)
{
	struct job *job = job_new(kind);

	if (job == NULL)
		return NULL;
	job->request.instance = dispatch->options.instance;
	job->request.ordering = dispatch->options.config->inbox.ordering;
	if (routing_copy(&job->routing, dispatch->routing, NULL) == 0) {
		job->request.routing = job->routing;
		return job;
	}
	job_free(job);
	return NULL;
}

void jobs_give(struct dispatch *dispatch, struct job *job)
{
	dispatch->claimer.under_way[job->kind] = true;
	if (job->kind != JOB_RESCUE && job->kind != JOB_HOLDS && job->kind != JOB_HANDLERS)
		dispatch->claimer.last_was_claim = job->kind == JOB_DUE || job->kind == JOB_LANES;
	worker_pool_give(dispatch->pool, job);
}

void jobs_drop(struct dispatch *dispatch, struct job *job)
{
	if (job != NULL)
		admission_release(dispatch->options.admission, job->reserved, 0);
	job_free(job);
}

void jobs_add_partition(struct job *job, const struct admission_partition *partition, size_t index)
{
	job->partitions[job->count] =
		(struct partition_ref){ partition->topic, partition->partition };
	job->indexes[job->count] = index;
	job->versions[job->count] = partition->version;
	job->count++;
}

bool jobs_room(struct job *job, size_t count)
{
	job->partitions = calloc(count, sizeof(*job->partitions));
	job->indexes = calloc(count, sizeof(*job->indexes));
	job->versions = calloc(count, sizeof(*job->versions));
	return job->partitions != NULL && job->indexes != NULL && job->versions != NULL;
}

/* The list starts with another partition each time. A claim has a row limit, so the backlog of the first partition
 * would otherwise delay the others. */
bool jobs_add_own(struct dispatch *dispatch, struct job *job, bool all)
{
	size_t count = admission_count(dispatch->options.admission);
	size_t first = count == 0 ? 0 : dispatch->claimer.rotation++ % count;

	if (count == 0 || !jobs_room(job, count))
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t index = (first + i) % count;
		struct admission_partition partition =
			admission_get(dispatch->options.admission, index);

		if (partition.assigned && (all || claimer_may_claim(dispatch, index)))
			jobs_add_partition(job, &partition, index);
	}
	return job->count > 0;
}

size_t jobs_rows(const struct dispatch *dispatch)
{
	size_t batch = (size_t)dispatch->options.config->worker.claim_batch;
	size_t part = batch >> dispatch->claimer.halvings;

	return part > 0 ? part : 1;
}

bool jobs_may_give(const struct dispatch *dispatch)
{
	size_t kept = worker_pool_size(dispatch->pool) > 1 && dispatch->settler.jobs == 0 ? 1 : 0;

	return worker_pool_idle(dispatch->pool) > kept;
}
