/*
 * Implements pipeline.h on libpq's pipeline mode. libpq buffers both directions, so while data is
 * sent the results must be read as well; otherwise client and server could wait for each other with
 * full buffers.
 */
#include "store/pg/pipeline.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads/wake.h"
#include "base/time/clock.h"
#include "store/pg/connect/connect.h"
#include "store/pg/pg_error_class.h"
#include "store/pg/pg_wire.h"
#include "store/pg/prepared.h"

#define MAX_QUEUED     96
#define STATEMENT_MOST (1000U << 20) /* the protocol limit is 1 GiB */

/* A statement of the pipeline. */
struct pipeline_slot {
	struct rows **wanted;
	PGresult *result;
	struct prepared_statement *prepared; /* NULL = it has no name */
	bool parsing;                        /* the next result is that of its Parse */
	bool commits;
};

struct pipeline {
	PGconn *conn; /* NULL = closed */
	struct wake interrupt;
	const struct settings *settings;
	char *application;
	struct prepared prepared;
	bool names; /* statements that may have a name get one */
	struct pipeline_slot slots[MAX_QUEUED];
	size_t queued;
	size_t received;
	/* The pipeline that was sent. */
	int64_t deadline_ms;
	struct err said;     /* the first fault in its results */
	struct err farewell; /* why the server ends the connection, as it says in a notice */
	bool complete;       /* all its results were received */
	size_t notices;      /* notifications that were read since pipeline_take_notices() */
	/* The statement that was sent ahead. */
	bool ahead;            /* it is not answered yet */
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

/* A server that stops at once, or in which another process has crashed, sends a notice and closes the connection. */
static void keep_farewell(void *arg, const PGresult *notice)
{
	struct pipeline *pipeline = arg;
	const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);

	if (state != NULL && strncmp(state, "57P", 3) == 0)
		(void)pg_wire_error(notice, &pipeline->farewell);
}

int pipeline_open(struct pipeline *pipeline, struct err *err)
{
	int r;

	if (pipeline->conn != NULL)
		return 0;
	r = connect_run(&pipeline->conn, pipeline->settings, pipeline->application,
		pipeline->interrupt.fd, err);
	if (r == 0)
		(void)PQsetNoticeReceiver(pipeline->conn, keep_farewell, pipeline);
	return r;
}

/* Drops the pipeline and its results. */
static void clear_pipeline(struct pipeline *pipeline)
{
	for (size_t i = 0; i < pipeline->queued; i++) {
		PQclear(pipeline->slots[i].result);
		pipeline->slots[i].result = NULL;
	}
	prepared_pipeline_ended(&pipeline->prepared);
	pipeline->queued = 0;
	pipeline->received = 0;
	pipeline->said = (struct err)ERR_INIT;
	pipeline->farewell = (struct err)ERR_INIT;
	pipeline->complete = false;
}

void pipeline_close(struct pipeline *pipeline)
{
	clear_pipeline(pipeline);
	prepared_forget(&pipeline->prepared);
	pipeline->names = false;
	pipeline->ahead = false;
	pipeline->said_ahead = (struct err)ERR_INIT;
	PQfinish(pipeline->conn);
	pipeline->conn = NULL;
}

bool pipeline_is_open(const struct pipeline *pipeline)
{
	return pipeline->conn != NULL;
}

void pipeline_name_statements(struct pipeline *pipeline, bool names)
{
	pipeline->names = names && pipeline->conn != NULL;
}

bool pipeline_names(const struct pipeline *pipeline)
{
	return pipeline->names;
}

bool pipeline_reports_late_faults(void)
{
	static const int first_minor[] = { [14] = 11, [15] = 6, [16] = 2 };
	const int major = PQlibVersion() / 10000;

	return major > 16 || (major >= 14 && PQlibVersion() % 10000 >= first_minor[major]);
}

bool pipeline_is_process(const struct pipeline *pipeline, int64_t pid)
{
	return pipeline->conn != NULL && PQbackendPID(pipeline->conn) == pid;
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

/* Closes the connection after a failure. If the server sent an error before it closed the
 * connection, that error is reported, because it is more precise than libpq's. */
static int lose(struct pipeline *pipeline, struct err *err)
{
	const struct err *said =
		pipeline->said_ahead.fault != 0 ? &pipeline->said_ahead : &pipeline->said;

	/* Without a SQLSTATE it is libpq's. */
	if (said->state[0] == '\0' && pipeline->farewell.fault != 0)
		said = &pipeline->farewell;
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

/* PostgreSQL would end the connection because of such a statement. The caller gets the SQLSTATE of
 * a value that exceeds a limit, so that it sends less at a time. */
static int too_large(size_t bytes, struct err *err)
{
	(void)err_set(
		err, FAULT_DATABASE, "a statement of %zu bytes exceeds PostgreSQL's limit", bytes);
	if (err != NULL)
		(void)snprintf(err->state, sizeof(err->state), "54000");
	return FAULT_DATABASE;
}

/* The parameters as libpq wants them. */
struct values {
	const char *data[PARAMS_MAX];
	int lengths[PARAMS_MAX];
	int formats[PARAMS_MAX];
	int count;
};

static int fill_values(struct values *values, const struct params *params, struct err *err)
{
	size_t bytes = 0;

	values->count = params == NULL ? 0 : params->count;
	if (params != NULL && !params_ok(params))
		return err_memory(err);
	for (int i = 0; i < values->count; i++) {
		/* libpq needs an address for an empty value, and NULL for NULL */
		const char *data = params->values[i].length == 0 ? "" : params->values[i].data;

		values->data[i] = params->nulls[i] ? NULL : data;
		values->lengths[i] = (int)params->values[i].length;
		values->formats[i] = 1;
		bytes += params->values[i].length;
	}
	return bytes > STATEMENT_MOST ? too_large(bytes, err) : 0;
}

/* Sends the Parse of a named statement unless the server has executed it, or will, before the statement. */
static bool send_parse(PGconn *conn, struct pipeline_slot *slot)
{
	struct prepared_statement *prepared = slot->prepared;

	if (prepared->state != PREPARED_NOT)
		return true;
	slot->parsing = true;
	prepared->state = PREPARED_SENT;
	return PQsendPrepare(
		       conn, prepared->name, prepared->sql, prepared->count, prepared->types) == 1;
}

int pipeline_queue(struct pipeline *pipeline, const struct statement *statement,
	const struct params *params, struct rows **rows, struct err *err)
{
	struct pipeline_slot slot = { .wanted = rows,
		.commits = strcmp(statement->sql, "COMMIT") == 0 };
	struct values values;
	bool sent;
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	if (pipeline->queued == MAX_QUEUED)
		return err_set(err, FAULT_INTERNAL, "more than %d statements queued", MAX_QUEUED);
	r = fill_values(&values, params, err);
	if (r != 0)
		return r;
	if (statement->named && pipeline->names)
		slot.prepared = prepared_find(&pipeline->prepared, statement->sql, params);
	if (slot.prepared == NULL)
		sent = PQsendQueryParams(pipeline->conn, statement->sql, values.count,
			       values.count == 0 ? NULL : params->types, values.data,
			       values.lengths, values.formats, 1) == 1;
	else
		sent = send_parse(pipeline->conn, &slot) &&
		       PQsendQueryPrepared(pipeline->conn, slot.prepared->name, values.count,
			       values.data, values.lengths, values.formats, 1) == 1;
	if (!sent) {
		(void)wire_fault(pipeline, err);
		return lose(pipeline, err);
	}
	pipeline->slots[pipeline->queued++] = slot;
	return 0;
}

/* Notes the first fault in the results. */
static void note_fault(struct pipeline *pipeline, PGresult *result,
	const struct pipeline_slot *slot, struct err *said)
{
	if (said->fault != 0)
		return;
	/* a failed transaction is rolled back by COMMIT, without an error */
	if (slot->commits && PQresultStatus(result) == PGRES_COMMAND_OK &&
		strcmp(PQcmdStatus(result), "COMMIT") != 0) {
		(void)err_set(said, FAULT_DATABASE, "PostgreSQL rolled the transaction back");
		(void)snprintf(said->state, sizeof(said->state), "40000");
	}
	if (PQresultStatus(result) != PGRES_FATAL_ERROR)
		return;
	(void)pg_wire_error(result, said);
	if (slot->prepared != NULL && strcmp(said->state, "0A000") == 0)
		(void)snprintf(said->state, sizeof(said->state), "26000");
	if (pg_error_class_of(said->state) == PG_ERROR_STALE)
		pipeline->names = false;
}

/* Takes a result of the statement that was sent ahead. False when the result belongs to the
 * pipeline. */
static bool take_ahead(struct pipeline *pipeline, PGresult *result)
{
	static const struct pipeline_slot commit = { .commits = true };
	const ExecStatusType status = PQresultStatus(result);

	if (!pipeline->ahead)
		return false;
	if (status == PGRES_PIPELINE_SYNC)
		pipeline->ahead = false;
	else
		note_fault(pipeline, result, &commit, &pipeline->said_ahead);
	PQclear(result);
	return true;
}

/* Keeps the result of the next statement, or of its Parse. What a Parse answers has no command tag. */
static void take_result(struct pipeline *pipeline, PGresult *result)
{
	static const struct pipeline_slot nothing = { .wanted = NULL };
	struct pipeline_slot *slot =
		pipeline->received < pipeline->queued ? &pipeline->slots[pipeline->received] : NULL;

	note_fault(pipeline, result, slot == NULL ? &nothing : slot, &pipeline->said);
	if (slot != NULL && slot->parsing) {
		slot->parsing = false;
		if (PQresultStatus(result) == PGRES_COMMAND_OK && PQcmdStatus(result)[0] == '\0')
			slot->prepared->state = PREPARED_DONE;
		PQclear(result);
	} else if (slot != NULL) {
		slot->result = result;
		pipeline->received++;
	} else {
		PQclear(result);
	}
}

/* Reads the results that have arrived. True when the pipeline is complete. */
static bool take_results(struct pipeline *pipeline)
{
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
		if (result != NULL)
			take_result(pipeline, result);
	}
	return pipeline->complete;
}

/* libpq keeps notifications until somebody takes them, without a limit. Also a session that a pooler shares may get some. */
static void drop_notices(struct pipeline *pipeline)
{
	PGnotify *notice;

	while ((notice = PQnotifies(pipeline->conn)) != NULL) {
		PQfreemem(notice);
		pipeline->notices++;
	}
}

/* Reads what has arrived. */
static bool consume(struct pipeline *pipeline)
{
	bool ok = PQconsumeInput(pipeline->conn) == 1;

	drop_notices(pipeline);
	return ok;
}

/* Waits once for the socket, then sends and reads. */
static int wait_once(struct pipeline *pipeline, int unsent, struct err *err)
{
	short events = (short)(unsent == 1 ? POLLIN | POLLOUT : POLLIN);
	int r = unsent < 0 ? wire_fault(pipeline, err) : 0;

	if (r == 0)
		r = pg_wire_wait(PQsocket(pipeline->conn), events, pipeline->interrupt.fd,
			pipeline->deadline_ms, err);
	if (r == 0 && !consume(pipeline)) {
		r = wire_fault(pipeline, err);
		(void)take_results(pipeline);
	}
	return r;
}

/* Reads results while it sends. The server stops reading when its output buffer is full, so a
 * client that only writes could wait for it forever. */
static int send_all(struct pipeline *pipeline, struct err *err)
{
	int unsent = PQflush(pipeline->conn);
	int r = 0;

	while (r == 0 && unsent != 0 && !take_results(pipeline)) {
		r = wait_once(pipeline, unsent, err);
		unsent = r == 0 ? PQflush(pipeline->conn) : 0;
	}
	return r;
}

/* True for an error after which the connection is useless: the server is a standby, or libpq is out
 * of memory. A new connection may succeed. */
static bool is_useless(const struct err *said)
{
	return said->fault != 0 &&
	       (said->state[0] == '\0' || pg_error_class_of(said->state) == PG_ERROR_READ_ONLY);
}

static int end_pipeline(struct pipeline *pipeline, struct err *err)
{
	struct err said = pipeline->said;

	if (said.fault != 0 && is_useless(&said))
		return lose(pipeline, err);
	if (said.fault != 0 && err != NULL)
		*err = said;
	for (size_t i = 0; said.fault == 0 && i < pipeline->received; i++) {
		struct pipeline_slot *slot = &pipeline->slots[i];

		if (slot->wanted == NULL)
			continue;
		rows_free(*slot->wanted);
		*slot->wanted = rows_of_result(slot->result);
		slot->result = NULL;
	}
	clear_pipeline(pipeline);
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

/* pipeline_receive() reports a broken connection. */
bool pipeline_poll(struct pipeline *pipeline)
{
	return pipeline->conn == NULL || !consume(pipeline) || take_results(pipeline);
}

int pipeline_receive(struct pipeline *pipeline, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	while (r == 0 && !take_results(pipeline))
		r = wait_once(pipeline, PQflush(pipeline->conn), err);
	return r != 0 ? lose(pipeline, err) : end_pipeline(pipeline, err);
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
		return err_set(err, FAULT_INTERNAL,
			"a statement can be sent ahead only when nothing is queued");
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
		r = wait_once(pipeline, PQflush(pipeline->conn), err);
		(void)take_results(pipeline);
	}
	if (r != 0 || is_useless(&pipeline->said_ahead))
		return lose(pipeline, err);
	/* the time limit of the pipeline behind it starts now */
	pipeline->deadline_ms = clock_now_ms() + timeout_ms;
	said = pipeline->said_ahead;
	pipeline->said_ahead = (struct err)ERR_INIT;
	if (said.fault != 0 && err != NULL)
		*err = said;
	return said.fault;
}

/* In the simple protocol the results end with NULL, not with a sync. */
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
				(void)pg_wire_error(result, &pipeline->said);
			PQclear(result);
		}
		r = wait_once(pipeline, unsent, err);
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
	return r != 0 ? lose(pipeline, err) : end_pipeline(pipeline, err);
}

int pipeline_await_notice(
	struct pipeline *pipeline, int wake_fd, int64_t timeout_ms, struct err *err)
{
	int r = pipeline_ready(pipeline, err);

	if (r != 0)
		return r;
	/* it ends after the time, a poke, or input; what it was, the input says */
	(void)pg_wire_wait(
		PQsocket(pipeline->conn), POLLIN, wake_fd, clock_now_ms() + timeout_ms, NULL);
	if (!consume(pipeline)) {
		(void)wire_fault(pipeline, err);
		return lose(pipeline, err);
	}
	return 0;
}

size_t pipeline_take_notices(struct pipeline *pipeline)
{
	size_t notices;

	/* a result may have brought some since the last read */
	if (pipeline->conn != NULL)
		drop_notices(pipeline);
	notices = pipeline->notices;
	pipeline->notices = 0;
	return notices;
}
