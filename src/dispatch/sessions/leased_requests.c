/*
 * The connections of clients with the role "requests": leased requests for programs that have no connection to the database
 * (docs/idempotency-keys.md). Such a connection belongs to no handler group, so it gets no delivery. Each request is a job of
 * a worker; workers are shared with claims and settles:
 *
 *	waiting ──── a worker is idle ────▶ under way ──── the job has ended ────▶ its reply
 *	   └─ WAIT_MS are over: -32013
 *
 * Every request gets one reply, unless its connection ends. Limits: PROTOCOL_MAX_OPEN requests of a connection,
 * WAITING_MAX_BYTES of parameters of all connections, and half of the workers. The connections take turns, and half of the
 * bytes are divided among them, so that no client waits for all requests of others. A client that does not read its
 * replies gets no further ones: its requests wait, and time out.
 */
#include <stdlib.h>

#include "base/time/clock.h"
#include "dispatch/sessions/sessions.h"
#include "dispatch/table/table.h"

#define WAIT_MS           10000
#define WAITING_MAX_BYTES ((size_t)64 * 1024 * 1024)

static struct bytes bytes_in(const struct buf *buf)
{
	return (struct bytes){ buf->data, buf->length };
}

/* ------------------------------------------------------------------ lines */

static struct leased_request *request_new(const struct line *line)
{
	struct leased_request *request = calloc(1, sizeof(*request));

	if (request == NULL)
		return NULL;
	request->since_ms = clock_now_ms();
	buf_add(&request->id, line->id.data, line->id.length);
	request->job = job_new(JOB_LEASED);
	if (request->job != NULL) {
		request->job->leased.method = line->method;
		request->job->leased.request = request;
		buf_add(&request->job->leased.params, line->params.data, line->params.length);
		if (buf_ok(&request->id) && buf_ok(&request->job->leased.params))
			return request;
	}
	leased_free(request);
	return NULL;
}

/* Half of the bytes are for all. Of the other half each connection has a share, and its first request always has a place
 * if any is left. */
static bool has_place(const struct session *session, size_t bytes)
{
	const struct leased_requests *leased = &session->sessions->leased;
	size_t own = session->leased_waiting_bytes;
	size_t all = leased->waiting_bytes + bytes;

	if (leased->clients < 2 || own == 0)
		return all <= WAITING_MAX_BYTES;
	return all <= WAITING_MAX_BYTES / 2 ||
	       own + bytes <= WAITING_MAX_BYTES / 2 / leased->clients;
}

/* Why a request is not accepted. 0: it is. */
static int refusal_of(const struct session *session, const struct line *line, const char **why)
{
	if (!session->for_requests) {
		*why = "requests are for connections with the role requests: say it in the hello";
		return PROTOCOL_HELLO_ORDER;
	}
	if (context_is_stopping(session->sessions->context)) {
		*why = "inboxd is shutting down; connect again later";
		return PROTOCOL_SHUTTING_DOWN;
	}
	if (session->connection.draining) {
		*why = "drain was asked for; connect again";
		return PROTOCOL_INVALID_REQUEST;
	}
	if (session->leased_count >= PROTOCOL_MAX_OPEN) {
		*why = "64 requests of this connection are open; wait for a reply";
		return PROTOCOL_TOO_MANY_OPEN;
	}
	if (!has_place(session, line->params.length)) {
		*why = "the requests of all connections that wait are too large; wait for a reply";
		return PROTOCOL_TOO_MANY_OPEN;
	}
	return 0;
}

void leased_accept(struct session *session, const struct line *line)
{
	struct leased_request *request;
	const char *why = NULL;
	int code = refusal_of(session, line, &why);

	if (code != 0) {
		session_reply_error(session, line->id, code, why);
		return;
	}
	request = request_new(line);
	if (request == NULL) {
		session_reply_error(
			session, line->id, PROTOCOL_INTERNAL, "out of memory; send it again");
		return;
	}
	request->session = session;
	TAILQ_INSERT_TAIL(&session->leased, request, link);
	session->leased_count++;
	leased_wait(&session->sessions->leased, request);
	context_request_round(session->sessions->context);
}

/* ------------------------------------------------------------------ replies */

static bool may_reply(const struct leased_request *request)
{
	return request->session != NULL && !request->session->connection.closing;
}

/* Ends a request, which is in no queue any more, after its reply. */
static void finish(struct leased_request *request)
{
	struct session *session = request->session;

	leased_free(request);
	if (session != NULL)
		session_check_drained(session);
}

static void refuse_waiting(
	struct leased_requests *leased, struct leased_request *request, int code, const char *why)
{
	leased_stop_waiting(leased, request);
	if (may_reply(request))
		session_reply_error(request->session, bytes_in(&request->id), code, why);
	finish(request);
}

/* The replies that have a result may be larger than what session_reply() allows. leased_next() limits them. */
static void reply_result(struct leased_request *request, const char *result)
{
	struct buf *line = &request->session->sessions->line;

	buf_reset(line);
	protocol_add_result(line, bytes_in(&request->id), result);
	if (buf_ok(line))
		connection_send(&request->session->connection, line);
	else
		session_reply_error(request->session, bytes_in(&request->id), PROTOCOL_INTERNAL,
			"out of memory; begin again with the same key");
}

static void reply_to(struct leased_request *request, const struct job *job)
{
	static const int codes[] = {
		[LEASED_WRONG] = PROTOCOL_INVALID_PARAMS,
		[LEASED_LOST] = PROTOCOL_TOKEN_LOST,
		[LEASED_AGAIN] = PROTOCOL_DATABASE_AWAY,
		[LEASED_REFUSED] = PROTOCOL_INTERNAL,
	};
	struct bytes id = bytes_in(&request->id);

	if (job->result != 0)
		session_reply_error(request->session, id, PROTOCOL_DATABASE_AWAY,
			"PostgreSQL cannot be used at the moment, and the outcome is unknown; send "
			"it again, or begin again with the same key");
	else if (job->leased.outcome == LEASED_DONE)
		reply_result(request, job->leased.reply);
	else
		session_reply_error(
			request->session, id, codes[job->leased.outcome], job->err.text);
}

void leased_take(struct sessions *sessions, struct job *job)
{
	struct leased_request *request = job->leased.request;

	TAILQ_REMOVE(&sessions->leased.under_way, request, queue_link);
	sessions->leased.under_way_count--;
	if (may_reply(request))
		reply_to(request, job);
	finish(request);
	context_request_round(sessions->context);
}

/* ------------------------------------------------------------------ jobs */

static bool give(struct sessions *sessions)
{
	struct table *table = sessions->groups->table;
	struct leased_requests *leased = &sessions->leased;
	size_t most = (worker_pool_size(table->pool) + 1) / 2;
	struct leased_request *request;
	struct job *job;

	if (leased->under_way_count >= most || !jobs_may_give(table))
		return false;
	request = leased_next(leased);
	if (request == NULL)
		return false;
	leased_stop_waiting(leased, request);
	job = request->job;
	request->job = NULL;
	TAILQ_INSERT_TAIL(&leased->under_way, request, queue_link);
	leased->under_way_count++;
	jobs_give(table, job);
	return true;
}

void leased_run(struct sessions *sessions, int64_t now_ms)
{
	if (TAILQ_EMPTY(&sessions->leased.waiting) ||
		jobs_are_on_hold(sessions->groups->table, now_ms))
		return;
	while (give(sessions))
		;
}

void leased_tick(struct sessions *sessions, int64_t now_ms)
{
	struct leased_requests *leased = &sessions->leased;
	struct leased_request *request;

	while ((request = TAILQ_FIRST(&leased->waiting)) != NULL) {
		if (context_is_stopping(sessions->context))
			refuse_waiting(leased, request, PROTOCOL_SHUTTING_DOWN,
				"inboxd is shutting down, and nothing has happened; connect again "
				"later");
		else if (now_ms - request->since_ms >= WAIT_MS)
			refuse_waiting(leased, request, PROTOCOL_DATABASE_AWAY,
				"no connection to PostgreSQL was free within 10 s, and nothing has "
				"happened; send it again");
		else
			return;
	}
}

void leased_init(struct leased_requests *leased)
{
	TAILQ_INIT(&leased->waiting);
	TAILQ_INIT(&leased->turns);
	TAILQ_INIT(&leased->under_way);
}

void leased_fini(struct leased_requests *leased)
{
	struct leased_request *request;

	while ((request = TAILQ_FIRST(&leased->under_way)) != NULL) {
		TAILQ_REMOVE(&leased->under_way, request, queue_link);
		leased_free(request);
	}
}
