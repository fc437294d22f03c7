/*
 * The leased requests that have no reply yet (leased_requests.c). Each is in the list of its session, and in one of two
 * queues: the requests that wait for a worker, and those under way, whose session may have ended.
 */
#include <stdlib.h>

#include "dispatch/sessions/sessions.h"
#include "dispatch/table/table.h"

void leased_free(struct leased_request *request)
{
	if (request->session != NULL) {
		TAILQ_REMOVE(&request->session->leased, request, link);
		request->session->leased_count--;
	}
	job_free(request->job);
	buf_fini(&request->id);
	free(request);
}

void leased_stop_waiting(struct leased_requests *leased, struct leased_request *request)
{
	TAILQ_REMOVE(&leased->waiting, request, queue_link);
	/* give() takes the job of a request that has left the queue; clang-tidy does not know that it has left. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	leased->waiting_bytes -= request->job->leased.params.length;
}

void leased_leave(struct session *session)
{
	struct leased_request *request;
	struct leased_request *next;

	for (request = TAILQ_FIRST(&session->leased); request != NULL; request = next) {
		next = TAILQ_NEXT(request, link);
		if (request->job == NULL) {
			request->session = NULL;
			continue;
		}
		leased_stop_waiting(&session->sessions->leased, request);
		leased_free(request);
	}
}
