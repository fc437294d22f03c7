#include "store/pipeline.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wake.h"
#include "store/connect.h"
#include "store/pg_error_class.h"
#include "store/wire.h"

#define MAX_QUEUED     16
#define STATEMENT_MOST (1000U << 20) /* the protocol ends at 1 GiB */

struct pipeline {
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

int pipeline_new(struct pipeline **out, const struct settings *settings, const char *application,
	struct err *err)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
	int r;

	if (pipeline == NULL)
		return err_memory(err);
	pipeline->interrupt = (struct wake)WAKE_INIT;
	pipeline->settings = settings;
	pipeline->application = strdup(application);
	if (pipeline->application == NULL)
		return err_memory(err);
	r = wake_init(&pipeline->interrupt, err);
	if (r != 0)
		return r;
	*out = pipeline;
	pipeline = NULL;
	return 0;
}

void pipeline_free(struct pipeline *pipeline)
{
	if (pipeline == NULL)
		return;
	pipeline_close(pipeline);
	wake_fini(&pipeline->interrupt);
	free(pipeline->application);
	free(pipeline);
}

int pipeline_open(struct pipeline *pipeline, struct err *err)
{
	if (pipeline->conn != NULL)
		return 0;
	return connect_run(&pipeline->conn, pipeline->settings, pipeline->application,
		pipeline->interrupt.fd, err);
}

/* Forgets the flight and what it brought. */
static void clear_flight(struct pipeline *pipeline)
{
	for (size_t i = 0; i < pipeline->queued; i++) {
		PQclear(pipeline->results[i]);
		pipeline->results[i] = NULL;
	}
	pipeline->queued = 0;
	pipeline->landed = 0;
	pipeline->said = (struct err)ERR_INIT;
	pipeline->complete = false;
}

void pipeline_close(struct pipeline *pipeline)
{
	clear_flight(pipeline);
	pipeline->ahead = false;
	pipeline->said_ahead = (struct err)ERR_INIT;
	PQfinish(pipeline->conn);
	pipeline->conn = NULL;
}

bool pipeline_is_open(const struct pipeline *pipeline)
{
	return pipeline->conn != NULL;
}

void pipeline_interrupt(struct pipeline *pipeline)
{
	wake_poke(&pipeline->interrupt);
}

enum pipeline_transaction pipeline_transaction(const struct pipeline *pipeline)
{
	switch (PQtransactionStatus(pipeline->conn)) {
	case PQTRANS_IDLE:
		return PIPELINE_IDLE;
	case PQTRANS_INERROR:
		return PIPELINE_FAILED;
	default:
		return PIPELINE_OPEN;
	}
}

/* Closes after a fault on the wire. What the server said before it hung up is better than what libpq
 * says about that. */
static int lose(struct pipeline *pipeline, struct err *err)
{
	const struct err *said =
		pipeline->said_ahead.fault != 0 ? &pipeline->said_ahead : &pipeline->said;

	if (said->fault != 0 && err != NULL)
		*err = *said;
	pipeline_close(pipeline);
	return FAULT_DATABASE;
}

static int wire_fault(struct pipeline *pipeline, struct err *err)
{
	return err_set(err, FAULT_DATABASE, "connection to PostgreSQL lost: %s",
		PQerrorMessage(pipeline->conn));
}

static int pipeline_ready(struct pipeline *pipeline, struct err *err)
{
	if (pipeline->conn == NULL)
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

int pipeline_queue(struct pipeline *pipeline, const char *sql, const struct params *params,
	struct rows **rows, struct err *err)
{
	const char *values[PARAMS_MAX];
	size_t bytes = 0;
	int lengths[PARAMS_MAX];
	int formats[PARAMS_MAX];
	int count = params == NULL ? 0 : params->count;

	if (pipeline_ready(pipeline, err) != 0)
		return FAULT_DATABASE;
	if (pipeline->queued == MAX_QUEUED)
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
	if (PQsendQueryParams(pipeline->conn, sql, count, count == 0 ? NULL : params->types, values,
		    lengths, formats, 1) != 1) {
		(void)wire_fault(pipeline, err);
		return lose(pipeline, err);
	}
	pipeline->wanted[pipeline->queued++] = rows;
	return 0;
}

/* Takes one result of the statement that went ahead; true when it was one. */
static bool take_ahead(struct pipeline *pipeline, PGresult *result)
{
	const ExecStatusType status = PQresultStatus(result);

	if (!pipeline->ahead)
		return false;
	if (status == PGRES_PIPELINE_SYNC)
		pipeline->ahead = false;
	else if (status == PGRES_FATAL_ERROR && pipeline->said_ahead.fault == 0)
		(void)wire_error(result, &pipeline->said_ahead);
	PQclear(result);
	return true;
}

/* Reads what has arrived. True when the flight has landed. */
static bool take_results(struct pipeline *pipeline)
{
	struct err *said = &pipeline->said;
	int nothing = 0;

	while (!pipeline->complete && PQisBusy(pipeline->conn) == 0 && nothing < 2) {
		PGresult *result = PQgetResult(pipeline->conn);
		ExecStatusType status = result == NULL ? PGRES_EMPTY_QUERY : PQresultStatus(result);

		if (result != NULL && take_ahead(pipeline, result)) {
			nothing = 0;
			continue;
		}
		if (status == PGRES_PIPELINE_SYNC) {
			PQclear(result);
			pipeline->complete = true;
			break;
		}
		nothing = result == NULL ? nothing + 1 : 0;
		if (status == PGRES_FATAL_ERROR && said->fault == 0)
			(void)wire_error(result, said);
		if (result != NULL && pipeline->landed < pipeline->queued)
			pipeline->results[pipeline->landed++] = result;
		else
			PQclear(result);
	}
	return pipeline->complete;
}

/* Waits for the wire once, and sends and reads what it lets through. */
static int go_on(struct pipeline *pipeline, int unsent, struct err *err)
{
	short events = (short)(unsent == 1 ? POLLIN | POLLOUT : POLLIN);
	int r = unsent < 0 ? wire_fault(pipeline, err) : 0;

	if (r == 0)
		r = wire_wait(PQsocket(pipeline->conn), events, pipeline->interrupt.fd,
			pipeline->deadline_ms, err);
	if (r == 0 && PQconsumeInput(pipeline->conn) != 1) {
		r = wire_fault(pipeline, err);
		(void)take_results(pipeline);
	}
	return r;
}

static int send_all(struct pipeline *pipeline, struct err *err)
{
	int unsent = PQflush(pipeline->conn);
	int r = 0;

	while (r == 0 && unsent != 0 && !take_results(pipeline)) {
		r = go_on(pipeline, unsent, err);
		unsent = r == 0 ? PQflush(pipeline->conn) : 0;
	}
	return r;
}

static int await_landing(struct pipeline *pipeline, struct err *err)
{
	int r = 0;

	while (r == 0 && !take_results(pipeline))
		r = go_on(pipeline, PQflush(pipeline->conn), err);
	return r;
}

static void hand_out(struct pipeline *pipeline)
{
	for (size_t i = 0; i < pipeline->landed; i++) {
		if (pipeline->wanted[i] == NULL)
			continue;
		rows_free(*pipeline->wanted[i]);
		*pipeline->wanted[i] = rows_of_result(pipeline->results[i]);
		pipeline->results[i] = NULL;
	}
}

/* A server that answers so is a standby, or libpq is out of memory: a new connection may find a
 * better one, this one will not mend. */
static bool is_hopeless(const struct err *said)
{
	return said->fault != 0 &&
	       (said->state[0] == '\0' || pg_error_class_of(said->state) == PG_ERROR_READ_ONLY);
}

static int landed_with(struct pipeline *pipeline, struct err *err)
{
	struct err said = pipeline->said;

	if (said.fault == 0)
		hand_out(pipeline);
	else if (is_hopeless(&said))
		return lose(pipeline, err);
	else if (err != NULL)
		*err = said;
	clear_flight(pipeline);
	return said.fault;
}

int pipeline_send(struct pipeline *pipeline, int64_t timeout_ms, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	pipeline->deadline_ms = clock_now_ms() + timeout_ms;
	r = PQpipelineSync(pipeline->conn) == 1 ? send_all(pipeline, err)
						: wire_fault(pipeline, err);
	return r != 0 ? lose(pipeline, err) : 0;
}

/* A wire that is broken is looked into by pipeline_receive(). */
bool pipeline_poll(struct pipeline *pipeline)
{
	return pipeline->conn == NULL || PQconsumeInput(pipeline->conn) != 1 ||
	       take_results(pipeline);
}

int pipeline_receive(struct pipeline *pipeline, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	r = await_landing(pipeline, err);
	return r != 0 ? lose(pipeline, err) : landed_with(pipeline, err);
}

int pipeline_run(struct pipeline *pipeline, int64_t timeout_ms, struct err *err)
{
	int r = pipeline_send(pipeline, timeout_ms, err);

	return r != 0 ? r : pipeline_receive(pipeline, err);
}

int pipeline_send_first(struct pipeline *pipeline, const char *sql, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	if (pipeline->ahead || pipeline->queued > 0)
		return err_set(err, FAULT_INTERNAL, "a statement can only go ahead of a flight");
	pipeline->said_ahead = (struct err)ERR_INIT;
	if (PQsendQueryParams(pipeline->conn, sql, 0, NULL, NULL, NULL, NULL, 1) != 1 ||
		PQpipelineSync(pipeline->conn) != 1 || PQflush(pipeline->conn) < 0) {
		(void)wire_fault(pipeline, err);
		return lose(pipeline, err);
	}
	pipeline->ahead = true;
	return 0;
}

int pipeline_receive_first(struct pipeline *pipeline, int64_t timeout_ms, struct err *err)
{
	struct err said;
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	pipeline->deadline_ms = clock_now_ms() + timeout_ms;
	(void)take_results(pipeline);
	while (r == 0 && pipeline->ahead) {
		r = go_on(pipeline, PQflush(pipeline->conn), err);
		(void)take_results(pipeline);
	}
	if (r != 0 || is_hopeless(&pipeline->said_ahead))
		return lose(pipeline, err);
	/* What was sent behind it begins now. */
	pipeline->deadline_ms = clock_now_ms() + timeout_ms;
	said = pipeline->said_ahead;
	pipeline->said_ahead = (struct err)ERR_INIT;
	if (said.fault != 0 && err != NULL)
		*err = said;
	return said.fault;
}

/* The simple protocol ends with a NULL, not with a sync. */
static int await_script(struct pipeline *pipeline, struct err *err)
{
	for (;;) {
		int unsent = PQflush(pipeline->conn);
		int r;

		while (PQisBusy(pipeline->conn) == 0) {
			PGresult *result = PQgetResult(pipeline->conn);

			if (result == NULL)
				return 0;
			if (PQresultStatus(result) == PGRES_FATAL_ERROR &&
				pipeline->said.fault == 0)
				(void)wire_error(result, &pipeline->said);
			PQclear(result);
		}
		r = go_on(pipeline, unsent, err);
		if (r != 0)
			return r;
	}
}

int pipeline_script(struct pipeline *pipeline, const char *sql, int64_t timeout_ms, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	pipeline->deadline_ms = clock_now_ms() + timeout_ms;
	if (PQexitPipelineMode(pipeline->conn) != 1 || PQsendQuery(pipeline->conn, sql) != 1)
		r = wire_fault(pipeline, err);
	else
		r = await_script(pipeline, err);
	if (r == 0 && PQenterPipelineMode(pipeline->conn) != 1)
		r = wire_fault(pipeline, err);
	return r != 0 ? lose(pipeline, err) : landed_with(pipeline, err);
}

/* libpq keeps them until they are taken. */
static bool take_notices(struct pipeline *pipeline)
{
	PGnotify *notice;
	bool any = false;

	while ((notice = PQnotifies(pipeline->conn)) != NULL) {
		PQfreemem(notice);
		any = true;
	}
	return any;
}

int pipeline_await_notice(struct pipeline *pipeline, int64_t timeout_ms, struct err *err)
{
	int64_t deadline_ms = clock_now_ms() + timeout_ms;
	int r = pipeline_ready(pipeline, err);

	while (r == 0 && !take_notices(pipeline)) {
		if (clock_now_ms() >= deadline_ms)
			return 0;
		r = wire_wait(
			PQsocket(pipeline->conn), POLLIN, pipeline->interrupt.fd, deadline_ms, err);
		if (r != 0 && clock_now_ms() >= deadline_ms)
			return 0;
		if (r == 0 && PQconsumeInput(pipeline->conn) != 1)
			r = wire_fault(pipeline, err);
	}
	if (r != 0)
		return pipeline_is_open(pipeline) ? lose(pipeline, err) : r;
	return PIPELINE_NOTICE;
}
