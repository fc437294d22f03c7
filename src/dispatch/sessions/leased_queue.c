/*
 * The leased requests that have no reply yet (leased_requests.c). Each is in the list of its session, and in one of two
 * queues: the requests that wait for a worker, and those under way, whose session may have ended. Connections take turns:
 * a client with many requests delays a request of another one by one request at most.
 */
#include <stdlib.h>

#include "dispatch/sessions/sessions.h"
#include "dispatch/table/table.h"

/* Above this, a client that does not read its replies has no request executed. */
#define UNREAD_MAX_BYTES ((size_t)1024 * 1024)

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

void leased_wait(struct leased_requests *leased, struct leased_request *request)
{
	struct session *session = request->session;
	size_t bytes = request->job->leased.params.length;

	TAILQ_INSERT_TAIL(&leased->waiting, request, queue_link);
	leased->waiting_bytes += bytes;
	session->leased_waiting_bytes += bytes;
	if (session->leased_waiting++ == 0)
		TAILQ_INSERT_TAIL(&leased->turns, session, leased_link);
}

void leased_stop_waiting(struct leased_requests *leased, struct leased_request *request)
{
	struct session *session = request->session;
	/* give() takes the job of a request that has left the queue; clang-tidy does not know that it has left. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	size_t bytes = request->job->leased.params.length;

	TAILQ_REMOVE(&leased->waiting, request, queue_link);
	leased->waiting_bytes -= bytes;
	session->leased_waiting_bytes -= bytes;
	if (--session->leased_waiting == 0)
		TAILQ_REMOVE(&leased->turns, session, leased_link);
}

/* A request without a job is under way. */
static struct leased_request *first_waiting(struct session *session)
{
	struct leased_request *request = TAILQ_FIRST(&session->leased);

	while (request != NULL && request->job == NULL)
		request = TAILQ_NEXT(request, link);
	return request;
}

static void drop_waiting(struct session *session)
{
	struct leased_request *request;

	while ((request = first_waiting(session)) != NULL) {
		leased_stop_waiting(&session->sessions->leased, request);
		leased_free(request);
	}
}

struct leased_request *leased_next(struct leased_requests *leased)
{
	struct session *session;
	struct session *next;

	for (session = TAILQ_FIRST(&leased->turns); session != NULL; session = next) {
		next = TAILQ_NEXT(session, leased_link);
		if (session->connection.closing) {
			drop_waiting(session);
		} else if (connection_unsent(&session->connection) < UNREAD_MAX_BYTES) {
			TAILQ_REMOVE(&leased->turns, session, leased_link);
			TAILQ_INSERT_TAIL(&leased->turns, session, leased_link);
			return first_waiting(session);
		}
	}
	return NULL;
}

void leased_leave(struct session *session)
{
	struct leased_request *request;

	drop_waiting(session);
	TAILQ_FOREACH (request, &session->leased, link)
		request->session = NULL;
}
