/*
 * Implements db.h on top of pipeline.h: transactions, their settings, savepoints, and the metric of
 * the connection state.
 */
#include "store/pg/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"
#include "report/meters.h"
#include "store/pg/pipeline.h"
#include "store/pg/settings.h"
#include "store/pg/statements.h"

/* The client waits longer than statement_timeout, so that the server's own error arrives first: half as long again, within
 * these limits. */
#define EXTRA_LEAST_MS  500
#define EXTRA_MOST_MS   2000
#define NO_LIMIT_MS     (INT64_C(1) << 40)
#define REST_AFTER_MS   60000
#define REST_MOST_MS    240000

/* Roles and databases may have other defaults. A batch that is retried needs READ COMMITTED: it
 * must see what another transaction committed in the meantime. */
#define BEGIN           "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

/* What the user's code may have changed in a session of our own is set again after this time. */
#define SETTINGS_AGE_MS 1000

/* The state of the connection in the metric inboxd_pg_connections. */
enum connection_state {
	CONNECTION_CLOSED,
	CONNECTION_IDLE,
	CONNECTION_BUSY,        /* waits for the answer of the server */
	CONNECTION_TRANSACTION, /* a transaction is open, between two statements */
	CONNECTION_STATES,
	CONNECTION_UNUSED =
		CONNECTION_STATES, /* not opened yet, or closed by db_rest(): not counted */
};

struct connection_gauge {
	struct metric *gauges[CONNECTION_STATES + 1]; /* NULL: not counted */
	enum connection_state state;
};

/*
 * A session that no pooler shares is our own. It keeps the settings, so that a transaction need not set them, and a
 * transaction of a single pipeline needs neither BEGIN nor COMMIT: PostgreSQL executes a pipeline up to its Sync as one
 * transaction (PostgreSQL's manual, "Pipelining" of the extended query protocol).
 */
struct own_session {
	bool is_own;
	int64_t set_ms; /* when a transaction that set the settings was committed */
	bool setting;   /* this transaction sets them */
};

struct db {
	struct pipeline *pipeline;
	struct statements *statements;
	struct connection_gauge gauge;
	char *schema;
	struct transaction_settings settings;
	struct own_session session;
	bool begun; /* BEGIN is queued or sent */
	int64_t timeout_ms;
	int64_t used_ms; /* when something was sent last */
	int64_t rested_ms;
	int64_t rest_after_ms; /* how long it is unused before it rests */
	bool resting;          /* the next transaction connects */
	bool stores;
	bool user_functions;
	enum prepare prepare;
	bool reading;   /* the transaction is one of db_begin_reading() */
	bool savepoint; /* a savepoint exists in this transaction */
	enum plans plans;
	enum plans plans_before; /* when the savepoint was made */
};

static void gauge_add(struct connection_gauge *gauge, int n)
{
	if (gauge->gauges[gauge->state] != NULL)
		metric_add(gauge->gauges[gauge->state], n);
}

/* A connection is counted from the first attempt to open it. */
static void gauge_init(struct connection_gauge *gauge, struct metrics *metrics)
{
	static const char *const names[CONNECTION_STATES] = {
		[CONNECTION_CLOSED] = "closed",
		[CONNECTION_IDLE] = "idle",
		[CONNECTION_BUSY] = "busy",
		[CONNECTION_TRANSACTION] = "transaction",
	};

	*gauge = (struct connection_gauge){ .state = CONNECTION_UNUSED };
	for (int i = 0; metrics != NULL && i < CONNECTION_STATES; i++)
		gauge->gauges[i] = metrics_get(metrics, METER_PG_CONNECTIONS, names[i], NULL);
}

static void gauge_move(struct connection_gauge *gauge, enum connection_state state)
{
	if (gauge->state == state)
		return;
	gauge_add(gauge, -1);
	gauge->state = state;
	gauge_add(gauge, 1);
}

/* How long the client waits for an answer. */
static int64_t answer_timeout_ms(const struct db_options *options)
{
	int64_t extra_ms = options->statement_timeout_ms / 2;

	if (options->statement_timeout_ms == 0)
		return NO_LIMIT_MS;
	if (extra_ms < EXTRA_LEAST_MS)
		extra_ms = EXTRA_LEAST_MS;
	if (extra_ms > EXTRA_MOST_MS)
		extra_ms = EXTRA_MOST_MS;
	return options->statement_timeout_ms * (options->user_functions ? 2 : 1) + extra_ms;
}

int db_new(struct db **out, const struct db_options *options, struct err *err)
{
	CLEANUP(db_freep) struct db *db = calloc(1, sizeof(*db));
	int r;

	if (db == NULL)
		return err_memory(err);
	settings_write(&db->settings, options);
	db->rest_after_ms = REST_AFTER_MS;
	db->stores = options->stores;
	db->user_functions = options->user_functions;
	db->prepare = options->user_functions ? PREPARE_NEVER : options->prepare;
	gauge_init(&db->gauge, options->metrics);
	db->timeout_ms = answer_timeout_ms(options);
	db->schema = strdup(options->schema);
	if (db->schema == NULL)
		return err_memory(err);
	r = statements_new(&db->statements, options->schema, err);
	if (r == 0)
		r = pipeline_new(&db->pipeline, options->postgres, options->application, err);
	if (r != 0)
		return r;
	*out = db;
	db = NULL;
	return 0;
}

void db_free(struct db *db)
{
	if (db == NULL)
		return;
	gauge_move(&db->gauge, CONNECTION_UNUSED);
	pipeline_free(db->pipeline);
	statements_free(db->statements);
	free(db->schema);
	free(db);
}

/* Sets the metric to the state of the connection while nothing is awaited. */
static void note_state(struct db *db)
{
	if (!pipeline_is_open(db->pipeline))
		gauge_move(&db->gauge, CONNECTION_CLOSED);
	else if (pipeline_transaction(db->pipeline) == PIPELINE_IDLE)
		gauge_move(&db->gauge, CONNECTION_IDLE);
	else
		gauge_move(&db->gauge, CONNECTION_TRANSACTION);
}

static void note_sent(struct db *db)
{
	db->used_ms = clock_now_ms();
	gauge_move(&db->gauge, CONNECTION_BUSY);
}

static int run_pipeline(struct db *db, struct err *err)
{
	int r;

	note_sent(db);
	r = pipeline_run(db->pipeline, db->timeout_ms, err);
	note_state(db);
	return r;
}

/* Queues a statement that has no parameters, no rows and no name. */
static int queue_plain(struct db *db, const char *sql, struct err *err)
{
	const struct statement statement = { .sql = sql };

	return pipeline_queue(db->pipeline, &statement, NULL, NULL, err);
}

static void forget_transaction(struct db *db)
{
	db->savepoint = false;
	db->begun = false;
	db->session.setting = false;
	db->plans = PLANS_NONE;
}

static void note_committed(struct db *db)
{
	if (db->session.setting)
		db->session.set_ms = clock_now_ms();
	forget_transaction(db);
}

/* Rolls the transaction back after a fault. If that fails too, the connection is closed, and the
 * server rolls back. */
static void end_transaction(struct db *db)
{
	forget_transaction(db);
	if (db_is_open(db) && pipeline_transaction(db->pipeline) != PIPELINE_IDLE &&
		(queue_plain(db, "ROLLBACK", NULL) != 0 || run_pipeline(db, NULL) != 0))
		pipeline_close(db->pipeline);
	note_state(db);
}

/* True when the session is that of this connection alone: a pooler shows another process id than that of the session. */
static int ask_process(struct db *db, bool *own, struct err *err)
{
	static const struct statement ask = { .sql = "SELECT pg_backend_pid()" };
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = pipeline_queue(db->pipeline, &ask, NULL, &rows, err);

	if (r == 0)
		r = run_pipeline(db, err);
	*own = r == 0 && rows_count(rows) == 1 &&
	       pipeline_is_process(db->pipeline, rows_int(rows, 0, 0));
	return r;
}

/*
 * Asks a pooler for the name that a named statement has in the session, with that statement itself. A pooler that supports
 * prepared statements has given it another name. Otherwise the statement is deallocated in the same transaction, so in the
 * same session, because the next client of the session may be another one.
 */
static int ask_name(struct db *db, bool *renamed, struct err *err)
{
	static const struct statement ask = {
		.sql = "SELECT name FROM pg_prepared_statements"
		       " WHERE statement LIKE '%name that a statement of inboxd has%'",
		.named = true,
	};
	CLEANUP(rows_freep) struct rows *rows = NULL;
	char deallocate[64] = "";
	int r = queue_plain(db, BEGIN, err);

	if (r == 0)
		r = pipeline_queue(db->pipeline, &ask, NULL, &rows, err);
	if (r == 0)
		r = run_pipeline(db, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		if (strncmp(rows_text(rows, i, 0), "inboxd_", strlen("inboxd_")) == 0)
			(void)snprintf(deallocate, sizeof(deallocate), "DEALLOCATE %s",
				rows_text(rows, i, 0));
	}
	*renamed = r == 0 && rows_count(rows) > 0 && deallocate[0] == '\0';
	if (r == 0 && deallocate[0] != '\0')
		r = queue_plain(db, deallocate, err);
	if (r == 0)
		r = run_pipeline(db, err);
	end_transaction(db);
	return r;
}

/* Before the first transaction, because default_transaction_isolation concerns only later ones. */
static int set_session(struct db *db, struct err *err)
{
	int r = queue_plain(db, db->settings.session, err);

	if (r == 0)
		r = run_pipeline(db, err);
	db->session = (struct own_session){ .is_own = r == 0, .set_ms = clock_now_ms() };
	return r;
}

/* Whether statements get names. A server that refuses the answers is treated as one behind a pooler that knows no prepared
 * statements. */
static int find_pooler(struct db *db, struct err *err)
{
	bool names = false;
	int r = ask_process(db, &names, err);

	pipeline_name_statements(db->pipeline, true);
	if (r == 0 && !names)
		r = ask_name(db, &names, err);
	else if (r == 0 && pipeline_reports_late_faults())
		r = set_session(db, err);
	pipeline_name_statements(db->pipeline, names);
	return db_is_open(db) ? 0 : r;
}

/* Work that comes every few minutes must not connect each time: after a short rest, the next one begins later. */
static void end_rest(struct db *db)
{
	const int64_t rested_for_ms = clock_now_ms() - db->rested_ms;

	if (db->resting && rested_for_ms >= REST_MOST_MS)
		db->rest_after_ms = REST_AFTER_MS;
	else if (db->resting && db->rest_after_ms < REST_MOST_MS)
		db->rest_after_ms *= 2;
	db->resting = false;
}

int db_open(struct db *db, struct err *err)
{
	bool was_open = db_is_open(db);
	int r = pipeline_open(db->pipeline, err);

	if (!was_open)
		db->session = (struct own_session){ false };
	if (r == 0 && !was_open && db->prepare == PREPARE_ALWAYS)
		pipeline_name_statements(db->pipeline, true);
	if (r == 0 && !was_open && db->prepare == PREPARE_AUTO)
		r = find_pooler(db, err);
	end_rest(db);
	db->used_ms = clock_now_ms();
	note_state(db);
	return r == 0 && !was_open && db->stores
		       ? db_run(db, QUERY_PIN_SERVER_MEMORY, NULL, NULL, err)
		       : r;
}

void db_close(struct db *db)
{
	pipeline_close(db->pipeline);
	forget_transaction(db);
	db->session = (struct own_session){ false };
	note_state(db);
}

void db_rest(struct db *db)
{
	db_close(db);
	db->resting = true;
	db->rested_ms = clock_now_ms();
	gauge_move(&db->gauge, CONNECTION_UNUSED);
}

void db_rest_unused(struct db *db)
{
	if (db_is_open(db) && clock_now_ms() - db->used_ms >= db->rest_after_ms)
		db_rest(db);
}

bool db_names_statements(const struct db *db)
{
	return pipeline_names(db->pipeline);
}

bool db_is_open(const struct db *db)
{
	return pipeline_is_open(db->pipeline);
}

void db_interrupt(struct db *db)
{
	pipeline_interrupt(db->pipeline);
}

const char *db_schema(const struct db *db)
{
	return db->schema;
}

enum pg_error_class db_error_kind(const struct err *err)
{
	return pg_error_class_of(err->state);
}

static bool names_own_table(const struct db *db, const struct err *err)
{
	return strcmp(err->schema, db->schema) == 0 &&
	       (strncmp(err->table, "inbox_", strlen("inbox_")) == 0 ||
		       strcmp(err->table, "outbox") == 0 || strcmp(err->table, "requests") == 0);
}

bool db_error_is_data(const struct db *db, const struct err *err)
{
	return db_error_kind(err) == PG_ERROR_DATA &&
	       (err->table[0] == '\0' || names_own_table(db, err));
}

bool db_error_may_be_row(const struct err *err)
{
	enum pg_error_class class = db_error_kind(err);

	return class == PG_ERROR_DATA || class == PG_ERROR_OTHER || class == PG_ERROR_REFUSED;
}

bool db_error_is_clash(const struct db *db, const struct err *err)
{
	return strcmp(err->state, "23505") == 0 && names_own_table(db, err);
}

bool db_error_is_lock(const struct err *err)
{
	return strcmp(err->state, "55P03") == 0;
}

bool db_error_is_event(const struct err *err)
{
	return strcmp(err->state, "IB020") == 0;
}

const char *db_error_class(const struct err *err)
{
	return pg_error_class_name(db_error_kind(err));
}

/* Handles the result `r` of a pipeline of this transaction. */
static int after_pipeline(struct db *db, int r, const struct err *err)
{
	bool resumable = db->savepoint && err != NULL && db_error_may_be_row(err);

	if (r != 0 && !(resumable && db_is_open(db)))
		end_transaction(db);
	return r;
}

/* The settings precede the first statement. A later statement that is to be planned
 * differently changes only that. */
static int queue_plans(struct db *db, bool named, struct err *err)
{
	static const char *const changes[PLANS_KINDS] = {
		[PLANS_CUSTOM] = "SELECT set_config('plan_cache_mode', 'auto', true)",
		[PLANS_GENERIC] =
			"SELECT set_config('plan_cache_mode', 'force_generic_plan', true)",
	};
	enum plans plans = named && pipeline_names(db->pipeline) ? PLANS_GENERIC : PLANS_CUSTOM;
	struct statement statement = { .named = true };
	int r = 0;

	if (db->plans == PLANS_UNSET && db->session.is_own && !db->reading) {
		statement.sql = db->settings.session;
		db->session.setting = clock_now_ms() - db->session.set_ms >= SETTINGS_AGE_MS;
		db->plans = PLANS_GENERIC;
		if (db->session.setting)
			r = pipeline_queue(db->pipeline, &statement, NULL, NULL, err);
	}
	if (r != 0 || db->plans == plans)
		return r;
	statement.sql =
		db->plans == PLANS_UNSET ? db->settings.of[db->reading][plans] : changes[plans];
	db->plans = plans;
	return pipeline_queue(db->pipeline, &statement, NULL, NULL, err);
}

/* Queues BEGIN unless that is done. Behind other statements of the pipeline it makes the transaction last beyond the pipeline. */
static int queue_begin(struct db *db, struct err *err)
{
	if (db->begun || db->reading || db->plans == PLANS_NONE)
		return 0;
	db->begun = true;
	/* the isolation level can be set only by the first statement; a session of our own has it as its default */
	return queue_plain(db, db->session.is_own ? "BEGIN" : BEGIN, err);
}

static int run_and_keep_open(struct db *db, struct err *err)
{
	int r = queue_begin(db, err);

	return r != 0 ? r : run_pipeline(db, err);
}

/* For what follows db_begin() and is no statement of sql/queries. */
static int ensure_settings(struct db *db, struct err *err)
{
	return db->plans == PLANS_UNSET ? queue_plans(db, false, err) : 0;
}

static int begin_transaction(struct db *db, bool reading, struct err *err)
{
	int r = db->resting ? db_open(db, err) : 0;

	forget_transaction(db);
	db->reading = reading;
	db->plans = PLANS_UNSET;
	if (r == 0 && db->user_functions)
		r = queue_plain(db, "RESET ALL", err);
	if (r == 0 && !db->session.is_own)
		r = queue_begin(db, err);
	return after_pipeline(db, r, err);
}

int db_begin(struct db *db, struct err *err)
{
	return begin_transaction(db, false, err);
}

int db_begin_reading(struct db *db, struct err *err)
{
	return begin_transaction(db, true, err);
}

int db_queue(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err)
{
	const struct statement statement = {
		.sql = statements_text(db->statements, query),
		.named = statements_may_be_named(query),
	};
	int r = queue_plans(db, statement.named, err);

	if (r == 0)
		r = pipeline_queue(db->pipeline, &statement, params, rows, err);
	return after_pipeline(db, r, err);
}

int db_step(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err)
{
	int r = db_queue(db, query, params, rows, err);

	if (r != 0)
		return r;
	return db_flush(db, err);
}

int db_flush(struct db *db, struct err *err)
{
	int r = run_and_keep_open(db, err);

	if (db->reading)
		forget_transaction(db);
	return after_pipeline(db, r, err);
}

int db_send(struct db *db, struct err *err)
{
	int r = queue_begin(db, err);

	note_sent(db);
	if (FAULT_ERROR("error_before_depart"))
		pipeline_close(db->pipeline);
	if (r == 0)
		r = pipeline_send(db->pipeline, db->timeout_ms, err);
	if (r != 0)
		note_state(db);
	return after_pipeline(db, r, err);
}

bool db_poll(struct db *db)
{
	return pipeline_poll(db->pipeline);
}

int db_receive(struct db *db, struct err *err)
{
	int r = pipeline_receive(db->pipeline, err);

	note_state(db);
	return after_pipeline(db, r, err);
}

int db_savepoint(struct db *db, struct err *err)
{
	int r = ensure_settings(db, err);

	if (r == 0)
		r = queue_begin(db, err);
	/* only one at a time: the previous one protected rows that were written successfully */
	if (r == 0 && db->savepoint)
		r = queue_plain(db, "RELEASE SAVEPOINT inboxd", err);
	if (r == 0)
		r = queue_plain(db, "SAVEPOINT inboxd", err);
	if (r != 0) {
		end_transaction(db);
		return r;
	}
	db->savepoint = true;
	db->plans_before = db->plans;
	return 0;
}

int db_rollback_to_savepoint(struct db *db, struct err *err)
{
	int r = queue_plain(db, "ROLLBACK TO SAVEPOINT inboxd", err);

	/* this also takes back what was set since the savepoint */
	db->plans = db->plans_before;
	if (r == 0)
		r = run_pipeline(db, err);
	if (r != 0)
		end_transaction(db);
	return r;
}

/* PostgreSQL answers a COMMIT of a failed transaction with a rollback and without an error, so it
 * must not be sent. */
static int refuse_failed(struct db *db, struct err *err)
{
	if (pipeline_transaction(db->pipeline) != PIPELINE_FAILED)
		return 0;
	return err_set(err, FAULT_INTERNAL, "attempt to commit a failed transaction");
}

/* Simulates a connection that is lost between COMMIT and its answer, for the fault tests. */
static int lose_answer(struct db *db, struct err *err)
{
	pipeline_close(db->pipeline);
	return err_set(err, FAULT_DATABASE, "the answer to COMMIT was lost");
}

/* The result of a COMMIT for the result `r` of its pipeline. A connection that was open and is closed now means an unknown
 * result: the server may have executed the COMMIT. */
static int commit_result(struct db *db, int r, bool was_open)
{
	if (was_open && !db_is_open(db)) {
		forget_transaction(db);
		note_state(db);
		return DB_COMMIT_UNKNOWN;
	}
	if (r == 0)
		note_committed(db);
	else
		end_transaction(db);
	return r;
}

int db_commit_send(struct db *db, struct err *err)
{
	bool was_open = db_is_open(db);
	int r = was_open ? refuse_failed(db, err) : 0;

	note_sent(db);
	if (FAULT_ERROR("error_before_commit"))
		pipeline_close(db->pipeline);
	if (r == 0 && db->begun)
		r = queue_plain(db, "COMMIT", err);
	if (r == 0)
		r = pipeline_send(db->pipeline, db->timeout_ms, err);
	return r == 0 ? 0 : commit_result(db, r, was_open);
}

int db_commit_receive(struct db *db, struct err *err)
{
	int r = pipeline_receive(db->pipeline, err);

	note_state(db);
	if (r == 0 && FAULT_ERROR("error_after_commit"))
		r = lose_answer(db, err);
	return commit_result(db, r, true);
}

int db_commit(struct db *db, struct err *err)
{
	int r = db_commit_send(db, err);

	return r != 0 ? r : db_commit_receive(db, err);
}

int db_commit_ahead(struct db *db, struct err *err)
{
	bool was_open = db_is_open(db);
	int r = was_open ? refuse_failed(db, err) : 0;

	if (FAULT_ERROR("error_before_commit"))
		pipeline_close(db->pipeline);
	if (r == 0)
		r = pipeline_send_first(db->pipeline, "COMMIT", err);
	if (r == 0) {
		note_committed(db); /* if it is not committed, the connection is closed */
		return 0;
	}
	end_transaction(db);
	return was_open && !db_is_open(db) ? DB_COMMIT_UNKNOWN : r;
}

int db_committed(struct db *db, struct err *err)
{
	int r = pipeline_receive_first(db->pipeline, db->timeout_ms, err);
	bool lost = !db_is_open(db);

	if (r == 0 && FAULT_ERROR("error_after_commit")) {
		r = lose_answer(db, err);
		lost = true;
	}
	if (r != 0)
		pipeline_close(db->pipeline);
	note_state(db);
	return r != 0 && lost ? DB_COMMIT_UNKNOWN : r;
}

void db_rollback(struct db *db)
{
	end_transaction(db);
}

/* A transaction of one statement; db->reading says of which kind. */
static int run_once(struct db *db, enum query query, const struct params *params,
	struct rows **rows, struct err *err)
{
	int r = begin_transaction(db, db->reading, err);

	if (r == 0)
		r = db_queue(db, query, params, rows, err);
	if (r == 0)
		r = db->reading ? db_flush(db, err) : db_commit(db, err);
	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

static int run_statement(struct db *db, enum query query, const struct params *params,
	struct rows **rows, struct err *err)
{
	bool named = pipeline_names(db->pipeline);
	int r = run_once(db, query, params, rows, err);

	/* nothing was committed, and the statement has no name any more */
	if (r == FAULT_DATABASE && named && db_is_open(db) && !pipeline_names(db->pipeline))
		r = run_once(db, query, params, rows, err);
	return r;
}

int db_run(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err)
{
	db->reading = false;
	return run_statement(db, query, params, rows, err);
}

int db_read(struct db *db, enum query query, const struct params *params, struct rows **rows,
	struct err *err)
{
	db->reading = true;
	return run_statement(db, query, params, rows, err);
}

int db_script(struct db *db, const char *sql, struct err *err)
{
	struct buf text = BUF_INIT;
	bool inside;
	int r;

	/* the script must not overtake queued statements such as BEGIN */
	r = ensure_settings(db, err);
	if (r == 0)
		r = run_and_keep_open(db, err);
	if (r != 0)
		return after_pipeline(db, r, err);
	inside = pipeline_transaction(db->pipeline) != PIPELINE_IDLE;
	schema_apply(&text, sql, db->schema);
	if (!buf_ok(&text))
		r = err_memory(err);
	else
		r = pipeline_script(db->pipeline, buf_str(&text), db->timeout_ms, err);
	buf_fini(&text);
	r = inside ? after_pipeline(db, r, err) : r;
	note_state(db);
	return r;
}

int db_await_notice(struct db *db, const struct wake *wake, int64_t timeout_ms, struct err *err)
{
	int r = pipeline_await_notice(db->pipeline, wake->fd, timeout_ms, err);

	note_state(db);
	return r;
}

size_t db_take_notices(struct db *db)
{
	return pipeline_take_notices(db->pipeline);
}
