#include "store/link.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wake.h"
#include "store/connect.h"
#include "store/trouble.h"
#include "store/wire.h"

#define MAX_QUEUED     16
#define STATEMENT_MOST (1000U << 20) /* the protocol ends at 1 GiB */

struct link {
	PGconn *conn; /* NULL = closed */
	struct wake interrupt;
	const struct settings *settings;
	char *application;
	struct rows **wanted[MAX_QUEUED]; /* by statement of the flight */
	PGresult *results[MAX_QUEUED];
	size_t queued;
	size_t landed;
	/* Of the flight that departed. */
	int64_t deadline_ms;
	struct err said; /* the first fault among its results */
	bool complete;   /* all of its results are here */
	/* Of the statement that went ahead. */
	bool ahead;            /* it is not answered */
	struct err said_ahead; /* its fault */
};

int link_new(struct link **out, const struct settings *settings, const char *application,
	struct err *err)
{
	CLEANUP(link_freep) struct link *link = calloc(1, sizeof(*link));
	int r;

	if (link == NULL)
		return err_memory(err);
	link->interrupt = (struct wake)WAKE_INIT;
	link->settings = settings;
	link->application = strdup(application);
	if (link->application == NULL)
		return err_memory(err);
	r = wake_init(&link->interrupt, err);
	if (r != 0)
		return r;
	*out = link;
	link = NULL;
	return 0;
}

void link_free(struct link *link)
{
	if (link == NULL)
		return;
	link_close(link);
	wake_fini(&link->interrupt);
	free(link->application);
	free(link);
}

int link_open(struct link *link, struct err *err)
{
	if (link->conn != NULL)
		return 0;
	return connect_run(&link->conn, link->settings, link->application, link->interrupt.fd, err);
}

/* Forgets the flight and what it brought. */
static void clear_flight(struct link *link)
{
	for (size_t i = 0; i < link->queued; i++) {
		PQclear(link->results[i]);
		link->results[i] = NULL;
	}
	link->queued = 0;
	link->landed = 0;
	link->said = (struct err)ERR_INIT;
	link->complete = false;
}

void link_close(struct link *link)
{
	clear_flight(link);
	link->ahead = false;
	link->said_ahead = (struct err)ERR_INIT;
	PQfinish(link->conn);
	link->conn = NULL;
}

bool link_is_open(const struct link *link)
{
	return link->conn != NULL;
}

void link_interrupt(struct link *link)
{
	wake_poke(&link->interrupt);
}

enum link_transaction link_transaction(const struct link *link)
{
	switch (PQtransactionStatus(link->conn)) {
	case PQTRANS_IDLE:
		return LINK_IDLE;
	case PQTRANS_INERROR:
		return LINK_FAILED;
	default:
		return LINK_OPEN;
	}
}

/* Closes after a fault on the wire. What the server said before it hung up is better than what libpq
 * says about that. */
static int lose(struct link *link, struct err *err)
{
	const struct err *said = link->said_ahead.fault != 0 ? &link->said_ahead : &link->said;

	if (said->fault != 0 && err != NULL)
		*err = *said;
	link_close(link);
	return FAULT_DATABASE;
}

static int wire_fault(struct link *link, struct err *err)
{
	return err_set(err, FAULT_DATABASE, "connection to PostgreSQL lost: %s",
		PQerrorMessage(link->conn));
}

static int link_ready(struct link *link, struct err *err)
{
	if (link->conn == NULL)
		return err_set(err, FAULT_DATABASE, "not connected to PostgreSQL");
	return 0;
}

/* PostgreSQL would end the connection over it. To the caller it is what the server says of a value that
 * is beyond its limits: less must be sent at a time. */
static int too_large(size_t bytes, struct err *err)
{
	(void)err_set(err, FAULT_DATABASE, "a statement of %zu bytes is more than PostgreSQL takes",
		bytes);
	if (err != NULL)
		(void)snprintf(err->state, sizeof(err->state), "54000");
	return FAULT_DATABASE;
}

int link_queue(struct link *link, const char *sql, const struct params *params, struct rows **rows,
	struct err *err)
{
	const char *values[PARAMS_MAX];
	size_t bytes = 0;
	int lengths[PARAMS_MAX];
	int formats[PARAMS_MAX];
	int count = params == NULL ? 0 : params->count;

	if (link_ready(link, err) != 0)
		return FAULT_DATABASE;
	if (link->queued == MAX_QUEUED)
		return err_set(err, FAULT_INTERNAL, "more than %d statements queued", MAX_QUEUED);
	if (params != NULL && !params_ok(params))
		return err_memory(err);
	for (int i = 0; i < count; i++) {
		/* An empty value has an address, NULL has none. */
		const char *data = params->values[i].length == 0 ? "" : params->values[i].data;

		values[i] = params->nulls[i] ? NULL : data;
		lengths[i] = (int)params->values[i].length;
		formats[i] = 1;
		bytes += params->values[i].length;
	}
	if (bytes > STATEMENT_MOST)
		return too_large(bytes, err);
	if (PQsendQueryParams(link->conn, sql, count, count == 0 ? NULL : params->types, values,
		    lengths, formats, 1) != 1) {
		(void)wire_fault(link, err);
		return lose(link, err);
	}
	link->wanted[link->queued++] = rows;
	return 0;
}

/* Takes one result of the statement that went ahead; true when it was one. */
static bool take_ahead(struct link *link, PGresult *result)
{
	const ExecStatusType status = PQresultStatus(result);

	if (!link->ahead)
		return false;
	if (status == PGRES_PIPELINE_SYNC)
		link->ahead = false;
	else if (status == PGRES_FATAL_ERROR && link->said_ahead.fault == 0)
		(void)wire_error(result, &link->said_ahead);
	PQclear(result);
	return true;
}

/* Reads what has arrived. True when the flight has landed. */
static bool take_results(struct link *link)
{
	struct err *said = &link->said;
	int nothing = 0;

	while (!link->complete && PQisBusy(link->conn) == 0 && nothing < 2) {
		PGresult *result = PQgetResult(link->conn);
		ExecStatusType status = result == NULL ? PGRES_EMPTY_QUERY : PQresultStatus(result);

		if (result != NULL && take_ahead(link, result)) {
			nothing = 0;
			continue;
		}
		if (status == PGRES_PIPELINE_SYNC) {
			PQclear(result);
			link->complete = true;
			break;
		}
		nothing = result == NULL ? nothing + 1 : 0;
		if (status == PGRES_FATAL_ERROR && said->fault == 0)
			(void)wire_error(result, said);
		if (result != NULL && link->landed < link->queued)
			link->results[link->landed++] = result;
		else
			PQclear(result);
	}
	return link->complete;
}

/* Waits for the wire once, and sends and reads what it lets through. */
static int go_on(struct link *link, int unsent, struct err *err)
{
	short events = (short)(unsent == 1 ? POLLIN | POLLOUT : POLLIN);
	int r = unsent < 0 ? wire_fault(link, err) : 0;

	if (r == 0)
		r = wire_wait(
			PQsocket(link->conn), events, link->interrupt.fd, link->deadline_ms, err);
	if (r == 0 && PQconsumeInput(link->conn) != 1) {
		r = wire_fault(link, err);
		(void)take_results(link);
	}
	return r;
}

static int send_all(struct link *link, struct err *err)
{
	int unsent = PQflush(link->conn);
	int r = 0;

	while (r == 0 && unsent != 0 && !take_results(link)) {
		r = go_on(link, unsent, err);
		unsent = r == 0 ? PQflush(link->conn) : 0;
	}
	return r;
}

static int await_landing(struct link *link, struct err *err)
{
	int r = 0;

	while (r == 0 && !take_results(link))
		r = go_on(link, PQflush(link->conn), err);
	return r;
}

static void hand_out(struct link *link)
{
	for (size_t i = 0; i < link->landed; i++) {
		if (link->wanted[i] == NULL)
			continue;
		rows_free(*link->wanted[i]);
		*link->wanted[i] = rows_of_result(link->results[i]);
		link->results[i] = NULL;
	}
}

/* A server that answers so is a standby, or libpq is out of memory: a new connection may find a
 * better one, this one will not mend. */
static bool is_hopeless(const struct err *said)
{
	return said->fault != 0 &&
	       (said->state[0] == '\0' || trouble_of(said->state) == TROUBLE_READ_ONLY);
}

static int landed_with(struct link *link, struct err *err)
{
	struct err said = link->said;

	if (said.fault == 0)
		hand_out(link);
	else if (is_hopeless(&said))
		return lose(link, err);
	else if (err != NULL)
		*err = said;
	clear_flight(link);
	return said.fault;
}

int link_depart(struct link *link, int64_t timeout_ms, struct err *err)
{
	int r = link_ready(link, err);

	if (r != 0)
		return r;
	link->deadline_ms = clock_now_ms() + timeout_ms;
	r = PQpipelineSync(link->conn) == 1 ? send_all(link, err) : wire_fault(link, err);
	return r != 0 ? lose(link, err) : 0;
}

/* A wire that is broken is looked into by link_land(). */
bool link_look(struct link *link)
{
	return link->conn == NULL || PQconsumeInput(link->conn) != 1 || take_results(link);
}

int link_land(struct link *link, struct err *err)
{
	int r = link_ready(link, err);

	if (r != 0)
		return r;
	r = await_landing(link, err);
	return r != 0 ? lose(link, err) : landed_with(link, err);
}

int link_fly(struct link *link, int64_t timeout_ms, struct err *err)
{
	int r = link_depart(link, timeout_ms, err);

	return r != 0 ? r : link_land(link, err);
}

int link_go_ahead(struct link *link, const char *sql, struct err *err)
{
	int r = link_ready(link, err);

	if (r != 0)
		return r;
	if (link->ahead || link->queued > 0)
		return err_set(err, FAULT_INTERNAL, "a statement can only go ahead of a flight");
	link->said_ahead = (struct err)ERR_INIT;
	if (PQsendQueryParams(link->conn, sql, 0, NULL, NULL, NULL, NULL, 1) != 1 ||
		PQpipelineSync(link->conn) != 1 || PQflush(link->conn) < 0) {
		(void)wire_fault(link, err);
		return lose(link, err);
	}
	link->ahead = true;
	return 0;
}

int link_await_ahead(struct link *link, int64_t timeout_ms, struct err *err)
{
	struct err said;
	int r = link_ready(link, err);

	if (r != 0)
		return r;
	link->deadline_ms = clock_now_ms() + timeout_ms;
	(void)take_results(link);
	while (r == 0 && link->ahead) {
		r = go_on(link, PQflush(link->conn), err);
		(void)take_results(link);
	}
	if (r != 0 || is_hopeless(&link->said_ahead))
		return lose(link, err);
	/* What was sent behind it begins now. */
	link->deadline_ms = clock_now_ms() + timeout_ms;
	said = link->said_ahead;
	link->said_ahead = (struct err)ERR_INIT;
	if (said.fault != 0 && err != NULL)
		*err = said;
	return said.fault;
}

/* The simple protocol ends with a NULL, not with a sync. */
static int await_script(struct link *link, struct err *err)
{
	for (;;) {
		int unsent = PQflush(link->conn);
		int r;

		while (PQisBusy(link->conn) == 0) {
			PGresult *result = PQgetResult(link->conn);

			if (result == NULL)
				return 0;
			if (PQresultStatus(result) == PGRES_FATAL_ERROR && link->said.fault == 0)
				(void)wire_error(result, &link->said);
			PQclear(result);
		}
		r = go_on(link, unsent, err);
		if (r != 0)
			return r;
	}
}

int link_script(struct link *link, const char *sql, int64_t timeout_ms, struct err *err)
{
	int r = link_ready(link, err);

	if (r != 0)
		return r;
	link->deadline_ms = clock_now_ms() + timeout_ms;
	if (PQexitPipelineMode(link->conn) != 1 || PQsendQuery(link->conn, sql) != 1)
		r = wire_fault(link, err);
	else
		r = await_script(link, err);
	if (r == 0 && PQenterPipelineMode(link->conn) != 1)
		r = wire_fault(link, err);
	return r != 0 ? lose(link, err) : landed_with(link, err);
}

/* libpq keeps them until they are taken. */
static bool take_notices(struct link *link)
{
	PGnotify *notice;
	bool any = false;

	while ((notice = PQnotifies(link->conn)) != NULL) {
		PQfreemem(notice);
		any = true;
	}
	return any;
}

int link_await_notice(struct link *link, int64_t timeout_ms, struct err *err)
{
	int64_t deadline_ms = clock_now_ms() + timeout_ms;
	int r = link_ready(link, err);

	while (r == 0 && !take_notices(link)) {
		if (clock_now_ms() >= deadline_ms)
			return 0;
		r = wire_wait(PQsocket(link->conn), POLLIN, link->interrupt.fd, deadline_ms, err);
		if (r != 0 && clock_now_ms() >= deadline_ms)
			return 0;
		if (r == 0 && PQconsumeInput(link->conn) != 1)
			r = wire_fault(link, err);
	}
	if (r != 0)
		return link_is_open(link) ? lose(link, err) : r;
	return LINK_NOTICE;
}
