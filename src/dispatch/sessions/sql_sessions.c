/*
 * See sql_sessions.h. A worker has at most one job of a session, and between two jobs of the same session its results are
 * taken. So a call is never under way when the next one is delivered.
 *
 * The entries of a call can end before the worker does: by the deadline of the delivery, a revocation or a stop. Their rows
 * are returned or retried then, and the transaction, which marks them processed under the same claim, decides: either the
 * claim is gone when it marks the row, or the settle finds the row locked and later completed.
 */
#include "dispatch/sessions/sql_sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "report/meters.h"
#include "store/connection_options.h"

#define CHECK_MS         5000 /* between two checks of a function that cannot be called */
#define FAULT_PAUSE_MS   100
#define FAULT_PAUSE_MOST 5000
/* A call takes at most six timeouts of the handler (sql_calls.h). A delivery that takes longer times out. */
#define TIMEOUTS         6
#define EXTRA_MS         30000

/* ------------------------------------------------------------------ start and end */

static int start_worker(
	struct sql_session *own, const struct dispatch_options *options, struct err *err)
{
	struct worker_options worker = {
		.connections = 1,
		.done_wake = options->wake,
		.instance = options->instance,
	};
	char name[32];

	connection_options(options->config, options->instance, name, &worker.db);
	worker.db.metrics = options->metrics;
	worker.db.statement_timeout_ms = own->rules->timeout;
	worker.db.user_functions = true;
	return worker_pool_new(&own->pool, &worker, err);
}

static int init_one(struct sql_session *own, struct sessions *sessions,
	const struct sql_handler_rules *rules, struct err *err)
{
	struct connection *connection = &own->session.connection;
	size_t batch = (size_t)rules->batch;

	own->rules = rules;
	own->handler = (struct sql_handler){
		.name = rules->name,
		.call = rules->call,
		.role = *rules->role == '\0' ? NULL : rules->role,
		.timeout_ms = rules->timeout,
	};
	own->session.sessions = sessions;
	TAILQ_INIT(&connection->open);
	(void)snprintf(connection->id, sizeof(connection->id), "s%llu",
		(unsigned long long)++sessions->next_id);
	own->verdicts = calloc(batch, sizeof(*own->verdicts));
	own->names = calloc(batch, sizeof(*own->names));
	if (own->verdicts == NULL || own->names == NULL)
		return err_memory(err);
	return start_worker(own, &sessions->context->options, err);
}

int sql_sessions_init(struct sql_sessions *sql, struct sessions *sessions, struct err *err)
{
	const struct config *config = sessions->context->options.config;
	size_t count = 0;
	int r = 0;

	sql->sessions = sessions;
	for (size_t i = 0; i < config->handler_count; i++)
		count += (size_t)config->handlers[i].connections;
	if (count == 0)
		return 0;
	sql->items = calloc(count, sizeof(*sql->items));
	if (sql->items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < config->handler_count; i++) {
		for (int64_t n = 0; n < config->handlers[i].connections && r == 0; n++)
			r = init_one(
				&sql->items[sql->count++], sessions, &config->handlers[i], err);
	}
	return r;
}

/* The workers end first, so that no job is under way. */
void sql_sessions_fini(struct sql_sessions *sql)
{
	for (size_t i = 0; i < sql->count; i++) {
		struct sql_session *own = &sql->items[i];

		worker_pool_free(own->pool);
		session_leave(&own->session);
		free(own->verdicts);
		free(own->names);
	}
	free(sql->items);
	*sql = (struct sql_sessions){ .sessions = sql->sessions };
}

/* ------------------------------------------------------------------ away and joined */

/* The function cannot be called, or its handler cannot join. */
static void stay_away(struct sql_session *own, const char *why)
{
	if (!own->refusal_logged)
		log_error("sql_handler_away", LOG_STR("handler", own->rules->name),
			LOG_STR("session", own->session.connection.id), LOG_STR("why", why),
			LOG_STR("next", "its messages wait; it is checked again every 5 s"));
	own->refusal_logged = true;
	own->next_ms = clock_now_ms() + CHECK_MS;
}

/* PostgreSQL cannot be used at the moment: nothing is delivered to the session until the pause is over. */
static void pause_session(struct sql_session *own, const struct job *job)
{
	struct metrics *metrics = own->session.sessions->context->options.metrics;
	const int64_t now_ms = clock_now_ms();
	int64_t delay = backoff_delay_ms(
		FAULT_PAUSE_MS, FAULT_PAUSE_MOST, (int)own->outage.failures, random_u64());

	metric_add(metrics_get(metrics, METER_PG_ERRORS, db_error_class(&job->err), NULL), 1);
	if (outage_log_failed(&own->outage, 0, now_ms))
		log_warn("sql_handler_database_lost", LOG_STR("handler", own->rules->name),
			LOG_STR("session", own->session.connection.id),
			LOG_STR("error", job->err.text), LOG_STR("sqlstate", job->err.state),
			LOG_INT("retry_in_ms", delay),
			LOG_STR("next", "its messages go back to waiting and spend no attempt"),
			LOG_OUTAGE(&own->outage, now_ms));
	schedule_set_window(own->session.sessions->schedule, &own->session.connection, 0);
	own->next_ms = now_ms + delay;
}

static void end_faults(struct sql_session *own)
{
	struct outage_log ended;

	if (outage_log_ended(&own->outage, &ended))
		log_info("sql_handler_database_back", LOG_STR("handler", own->rules->name),
			LOG_STR("session", own->session.connection.id),
			LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
}

/* A subscription for each pair of a topic and a type. The caller frees it. NULL: no memory. */
static struct subscription *subscriptions(const struct sql_handler_rules *rules, size_t *count)
{
	size_t topics = rules->topics.count == 0 ? 1 : rules->topics.count;
	size_t types = rules->types.count == 0 ? 1 : rules->types.count;
	struct subscription *subs = calloc(topics * types, sizeof(*subs));

	*count = topics * types;
	for (size_t i = 0; subs != NULL && i < *count; i++) {
		if (rules->topics.count > 0)
			subs[i].topic = rules->topics.items[i / types];
		if (rules->types.count > 0)
			subs[i].type = rules->types.items[i % types];
	}
	return subs;
}

static int join(struct sql_session *own, struct err *err)
{
	const struct sql_handler_rules *rules = own->rules;
	struct sessions *sessions = own->session.sessions;
	struct hello hello = {
		.handler = rules->name,
		.consumer = hello_consumer(
			sessions, rules->name, *rules->consumer == '\0' ? NULL : rules->consumer),
		.instance = sessions->context->options.config->inbox.instance,
		.client = "inboxd/" INBOXD_VERSION " SQL",
		.max_in_flight = rules->batch,
		.timeout_ms = TIMEOUTS * rules->timeout + EXTRA_MS,
		.batch_max = rules->batch,
		.batch_ordered = true,
	};
	struct subscription *subs;
	int r;

	if (hello.consumer == NULL)
		return err_set(err, FAULT_INTERNAL, "its consumer is not known yet");
	subs = subscriptions(rules, &hello.subscribe_count);
	if (subs == NULL)
		return err_memory(err);
	hello.subscribe = subs;
	r = hello_join(&own->session, &hello, err);
	free(subs);
	return r;
}

static void leave(struct sql_session *own)
{
	session_leave(&own->session);
	own->joined = false;
}

static void take_check(struct sql_session *own, const struct job *job)
{
	struct err err = ERR_INIT;

	own->checking = false;
	if (job->result < 0) {
		pause_session(own, job);
		return;
	}
	end_faults(own);
	if (job->result > 0) {
		stay_away(own, job->err.text);
		return;
	}
	if (join(own, &err) != 0) {
		stay_away(own, err.text);
		return;
	}
	own->joined = true;
	own->refusal_logged = false;
	context_request_round(own->session.sessions->context);
}

/* ------------------------------------------------------------------ calls */

static struct job *job_of(struct sql_session *own, enum job_kind kind, size_t count)
{
	struct job *job = job_new(kind);

	if (job == NULL)
		return NULL;
	job->request.instance = own->session.sessions->context->options.instance;
	job->call.handler = &own->handler;
	if (count > 0)
		job->call.rows = calloc(count, sizeof(*job->call.rows));
	if (count == 0 || job->call.rows != NULL)
		return job;
	job_free(job);
	return NULL;
}

static void add_row(struct job *job, const struct entry *entry, const struct entry *before)
{
	job->call.rows[job->call.count++] = (struct call_row){
		.seq = entry->message->seq,
		.delivery_count = entry->message->delivery_count,
		.follows = before != NULL && entry->lane != NULL && before->lane == entry->lane,
	};
}

/* Gives what the scheduler has delivered to the worker. Without memory nothing was called, so the messages go back to the
 * table, and nothing is counted. */
static void give_call(struct sql_session *own)
{
	struct connection *connection = &own->session.connection;
	struct call *call = connection->call;
	const struct entry *before = NULL;
	const struct entry *entry;
	struct job *job;
	size_t count = 0;

	connection->call = NULL;
	TAILQ_FOREACH (entry, &call->entries, delivery.call_link)
		count++;
	job = job_of(own, JOB_CALL, count);
	if (job == NULL) {
		deliveries_fail(own->session.sessions->schedule, connection);
		return;
	}
	TAILQ_FOREACH (entry, &call->entries, delivery.call_link) {
		add_row(job, entry, before);
		before = entry;
	}
	connection->calling = true;
	worker_pool_give(own->pool, job);
}

/* What a call means as an answer. A message that was not called goes back to the table, and nothing is counted. `done` is
 * committed, so the answer is `settled`, which the settler verifies. So is a lost claim. */
static enum verdict_status status_of(enum call_status status)
{
	static const enum verdict_status answers[] = {
		[CALL_OPEN] = STATUS_SKIPPED,
		[CALL_DONE] = STATUS_SETTLED,
		[CALL_LOST] = STATUS_SETTLED,
		[CALL_SKIPPED] = STATUS_SKIPPED,
		[CALL_RETRY] = STATUS_RETRY,
		[CALL_TIMEOUT] = STATUS_TIMEOUT,
		[CALL_DEAD] = STATUS_DEAD,
		[CALL_SNOOZE] = STATUS_SNOOZE,
	};

	return answers[status];
}

/* The entry of a row, if its delivery is still open. */
static struct entry *open_entry_of(struct sql_session *own, const struct call_row *row)
{
	struct entry *entry =
		entry_find(own->session.sessions->order, row->seq, row->delivery_count);

	return entry != NULL && entry->state == ENTRY_OPEN &&
			       entry->delivery.connection == &own->session.connection
		       ? entry
		       : NULL;
}

/* Answers the deliveries of the call. If the connection to PostgreSQL was lost, only those with a verdict. */
static void answer_call(struct sql_session *own, const struct job *job)
{
	const struct call_row *rows = job->call.rows;
	struct line line = {
		.kind = LINE_ANSWER,
		.verdicts = own->verdicts,
		.verdict_count = job->call.count,
		.batch_answer = true,
	};

	for (size_t i = 0; i < job->call.count; i++) {
		char *name = own->names[i].text;

		(void)snprintf(name, sizeof(own->names[i].text), "d%lld.%d", (long long)rows[i].seq,
			rows[i].delivery_count);
		own->verdicts[i] = (struct verdict){
			.status = status_of(rows[i].status),
			.delay_ms = rows[i].status == CALL_SNOOZE ? rows[i].delay_ms : -1,
			.entry = bytes_of(name),
			.reason = bytes_of(rows[i].error),
			.code = bytes_of(rows[i].error_code),
		};
	}
	for (size_t i = 0; i < job->call.count; i++) {
		struct entry *entry = open_entry_of(own, &rows[i]);

		if (entry != NULL && (job->result != SQL_CALLS_LOST || rows[i].status != CALL_OPEN))
			(void)requests_answer(&own->session, &line, entry, i);
	}
}

static void wake_relay(const struct sql_session *own)
{
	struct wake *outbox = own->session.sessions->context->options.outbox;

	if (outbox != NULL)
		wake_poke(outbox);
}

/* If the session ended during the call, its messages are suspects, as with a handler whose connection ends: one of them may
 * have ended the backend. */
static void take_call(struct sql_session *own, struct job *job)
{
	struct connection *connection = &own->session.connection;
	struct sessions *sessions = own->session.sessions;

	connection->calling = false;
	connection->silent_ms = 0;
	sessions->order->suspects_due = true;
	answer_call(own, job);
	wake_relay(own);
	if (job->result == SQL_CALLS_LOST)
		deliveries_lose(sessions->schedule, connection);
	if (job->result == 0) {
		end_faults(own);
	} else if (job->result == SQL_CALLS_REFUSED) {
		leave(own);
		stay_away(own, job->err.text);
	} else {
		pause_session(own, job);
	}
	context_request_round(sessions->context);
}

void sql_sessions_take(struct sql_sessions *sql)
{
	for (size_t i = 0; i < sql->count; i++) {
		struct job *job = worker_pool_take(sql->items[i].pool);

		if (job == NULL)
			continue;
		if (job->kind == JOB_CALL)
			take_call(&sql->items[i], job);
		else
			take_check(&sql->items[i], job);
		job_free(job);
	}
}

static void run_one(struct sql_session *own, int64_t now_ms)
{
	struct connection *connection = &own->session.connection;
	struct job *job;

	if (connection->call != NULL) {
		give_call(own);
	} else if (!own->joined && !own->checking && now_ms >= own->next_ms) {
		job = job_of(own, JOB_CALLABLE, 0);
		if (job == NULL)
			return; /* no memory: the next round tries again */
		own->checking = true;
		worker_pool_give(own->pool, job);
	} else if (own->joined && connection->window == 0 && now_ms >= own->next_ms) {
		connection->window = (size_t)own->rules->batch;
		own->session.sessions->order->suspects_due = true;
		context_request_round(own->session.sessions->context);
	}
}

void sql_sessions_run(struct sql_sessions *sql, int64_t now_ms)
{
	for (size_t i = 0; i < sql->count; i++) {
		if (!context_is_stopping(sql->sessions->context) ||
			sql->items[i].session.connection.call != NULL)
			run_one(&sql->items[i], now_ms);
	}
}
