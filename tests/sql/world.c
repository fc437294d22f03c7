#include "world.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/digest.h"
#include "store/pg/statements.h"
#include "store/schema/migrate.h"

static const struct settings no_settings = { NULL, 0 };

struct err err;

void must(int r, const char *what)
{
	if (r != 0)
		fail_msg("%s: %d, fault %d [%s]: %s", what, r, err.fault, err.state, err.text);
}

static PGconn *connect_psql(void)
{
	PGconn *conn = PQconnectdb("options='-c client_min_messages=error'");

	if (PQstatus(conn) != CONNECTION_OK)
		fail_msg("%s", PQerrorMessage(conn));
	return conn;
}

/* The schema's SQL of a format; static, for one use. */
__attribute__((format(printf, 2, 0))) static const char *sql_of(
	const struct world *world, const char *format, va_list args)
{
	static char *kept;
	struct buf text = BUF_INIT;
	char *raw = NULL;

	if (vasprintf(&raw, format, args) < 0)
		fail();
	schema_apply(&text, raw, world->schema);
	buf_add_char(&text, '\0');
	free(raw);
	free(kept);
	kept = text.data;
	return kept;
}

static PGresult *must_run(PGconn *conn, const char *sql)
{
	PGresult *result = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail_msg("%s: %s", sql, PQresultErrorMessage(result));
	return result;
}

void run_sql(struct world *world, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	PQclear(must_run(world->psql, sql_of(world, format, args)));
	va_end(args);
}

__attribute__((format(printf, 2, 0))) static const char *ask_any(
	struct world *world, const char *format, va_list args)
{
	static char answer[4096];
	PGresult *result = must_run(world->psql, sql_of(world, format, args));

	if (PQntuples(result) == 0 || PQgetisnull(result, 0, 0))
		(void)snprintf(answer, sizeof(answer), "(null)");
	else
		(void)snprintf(answer, sizeof(answer), "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	return answer;
}

const char *ask_text(struct world *world, const char *format, ...)
{
	const char *answer;
	va_list args;

	va_start(args, format);
	answer = ask_any(world, format, args);
	va_end(args);
	return answer;
}

int64_t ask(struct world *world, const char *format, ...)
{
	const char *answer;
	va_list args;

	va_start(args, format);
	answer = ask_any(world, format, args);
	va_end(args);
	return strtoll(answer, NULL, 10);
}

const char *run_other(struct world *world, const char *format, ...)
{
	static char state[6];
	const char *said;
	PGresult *result;
	va_list args;

	if (world->other == NULL)
		world->other = connect_psql();
	va_start(args, format);
	result = PQexec(world->other, sql_of(world, format, args));
	va_end(args);
	said = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (said == NULL)
		said = PQstatus(world->other) == CONNECTION_BAD ? "lost" : "";
	(void)snprintf(state, sizeof(state), "%s", said);
	PQclear(result);
	return state;
}

static void open_db(struct world *world)
{
	const struct db_options options = {
		.postgres = &no_settings,
		.schema = world->schema,
		.application = "inboxd/test",
		.lock_timeout_ms = 2000,
		.idle_timeout_ms = 20000,
		.statement_timeout_ms = 20000,
		.prepare = PREPARE_AUTO,
	};
	struct migrate_result result;

	OK(migrate_run(&options, NULL, &result, &err));
	OK(db_new(&world->db, &options, &err));
	OK(db_open(world->db, &err));
}

static void take_orders(struct world *world)
{
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	OK(watermarks_take(world->writer, &ref, 1, &marks, &err));
	world->mark = marks.items[0];
	world->mark.topic = NULL;
	world->next = world->mark.next_offset;
	watermarks_free(&marks);
}

static void open_writer(struct world *world)
{
	const struct batch_writer_options options = {
		.db = world->db,
		.instance = world->me.id,
		.first_low_seq = world->me.first_low_seq,
		.ordering = world->ordering,
	};

	OK(batch_writer_new(&world->writer, &options, &err));
}

void world_without_tags(struct world *world)
{
	run_sql(world, "DELETE FROM inbox.inbox_claim_secrets");
}

static int set_up(void **state, enum ordering ordering)
{
	static int count;
	struct world *world = calloc(1, sizeof(*world));

	*state = world;
	world->ordering = ordering;
	(void)snprintf(world->schema, sizeof(world->schema), "store_%d_%d", (int)getpid(), ++count);
	world->psql = connect_psql();
	open_db(world);
	OK(instance_register(world->db, &(struct instance_names){ .name = "test", .host_id = "" },
		&world->me, &err));
	world_without_tags(world);
	open_writer(world);
	take_orders(world);
	return 0;
}

int world_setup(void **state)
{
	return set_up(state, ORDERING_KEY);
}

int world_setup_unordered(void **state)
{
	return set_up(state, ORDERING_NONE);
}

int world_setup_by_partition(void **state)
{
	return set_up(state, ORDERING_PARTITION);
}

#define DROP_TRIES 10

/* A backend whose client has gone can still execute the last statements of a pipeline. The DROP takes its locks one by
 * one, so both can wait for each other. */
static void drop_schema(struct world *world)
{
	PGresult *result = NULL;
	const char *state = NULL;
	char sql[128];

	(void)snprintf(sql, sizeof(sql), "DROP SCHEMA %s CASCADE", world->schema);
	for (int i = 0; i < DROP_TRIES; i++) {
		PQclear(result);
		result = PQexec(world->psql, sql);
		state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
		if (state == NULL || strcmp(state, "40P01") != 0)
			break;
	}
	if (state != NULL)
		fail_msg("%s: %s", sql, PQresultErrorMessage(result));
	PQclear(result);
}

int world_teardown(void **state)
{
	struct world *world = *state;

	PQfinish(world->other);
	batch_writer_free(world->writer);
	db_free(world->db);
	batch_fini(&world->batch);
	drop_schema(world);
	PQfinish(world->psql);
	free(world);
	return 0;
}

static void digest_into(struct message *message)
{
	struct digester *digester = NULL;
	unsigned char sum[32];

	OK(digester_new(&digester, &err));
	OK(digester_sha256(digester, message->payload, sum));
	memcpy(message->digest, sum, sizeof(message->digest));
	OK(digester_sha256(digester, message->key, sum));
	message->key_hash = message->key.data == NULL ? 0 : digest_prefix(sum);
	digester_free(digester);
}

uint64_t hash_of_key(struct world *world, const char *key)
{
	struct message message = { .key = bytes_of(key) };

	(void)world;
	digest_into(&message);
	return message.key_hash;
}

static int64_t last_offset(const struct world *world)
{
	size_t count = world->batch.row_count;

	if (count > 0)
		return world->batch.rows[count - 1].message->offset;
	return world->next < 0 ? -1 : world->next - 1;
}

void refuse_behind_the_lease(struct world *world)
{
	run_sql(world,
		"CREATE FUNCTION inbox.refuse_behind_the_lease() RETURNS trigger LANGUAGE plpgsql "
		"AS"
		" $$ BEGIN IF EXISTS (SELECT FROM inbox.inbox_instances WHERE id = %d AND "
		"xmax::text ="
		" (pg_current_xact_id()::text::bigint %% 4294967296)::text)"
		" THEN RAISE 'the row of this instance is locked'; END IF; RETURN NEW; END $$",
		world->me.id);
	run_sql(world,
		"CREATE TRIGGER refuse_behind_the_lease BEFORE UPDATE ON inbox.inbox_messages"
		" FOR EACH ROW EXECUTE FUNCTION inbox.refuse_behind_the_lease()");
}

void add(struct world *world, struct a_row row)
{
	struct message plan = {
		.event_id = row.id,
		.source = "shop",
		.type = row.type,
		.consumer = row.consumer,
		.topic = "orders",
		.offset = row.offset > 0 ? row.offset : last_offset(world) + 1,
		.timestamp_ms = 1700000000123,
		.key = bytes_of(row.key),
		.payload = bytes_of(row.payload == NULL ? "{}" : row.payload),
		.headers = bytes_of(row.headers == NULL ? "[]" : row.headers),
	};
	struct message *message = NULL;

	digest_into(&plan);
	OK(message_new(&message, &plan, &err));
	OK(batch_add(&world->batch, message, 0, &err));
	world->batch.rows[world->batch.row_count - 1].placement =
		(struct placement){ row.place, row.asks };
}

int store_batch(struct world *world)
{
	int r = batch_writer_start(world->writer, &world->batch, &err);

	return r != 0 ? r : batch_writer_finish(world->writer, &world->batch, &err);
}

int64_t plan_move(struct world *world)
{
	struct watermark_update *move = watermark_update(&world->batch, "orders", 0);
	int64_t last = last_offset(world);

	move->epoch = world->mark.epoch;
	move->expected = world->next;
	move->next = last + 1;
	move->last_offset = last;
	move->last_timestamp = 1700000000123;
	return last + 1;
}

int store(struct world *world)
{
	int64_t next = plan_move(world);
	int r = store_batch(world);

	if (r == 0)
		world->next = next;
	return r;
}

void must_store(struct world *world)
{
	OK(store(world));
}

int64_t stored(struct world *world, struct a_row row)
{
	batch_clear(&world->batch);
	add(world, row);
	must_store(world);
	return world->batch.rows[0].message->seq;
}

enum insert_result result_of(const struct world *world, size_t row)
{
	return world->batch.rows[row].result;
}

struct routing *wants(const char *type)
{
	const struct subscription sub = { NULL, type };
	struct routing *routing = NULL;

	OK(routing_new(&routing, &err));
	OK(routing_set(routing, (struct handler_id){ "", "handler" }, &sub, 1, &err));
	return routing;
}

struct claimed claim(struct world *world, size_t max_rows, struct routing *routing)
{
	const struct stream_ref stream = { "orders", 0, "", world->ordering };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *all = routing == NULL ? wants(NULL) : routing;
	const struct claim_request request = {
		.instance = world->me.id,
		.routing = all,
		.max_rows = max_rows,
		.max_bytes = 1 << 20,
	};
	struct claimed claimed = { NULL };

	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	if (all != routing)
		routing_free(all);
	return claimed;
}

struct claimed claim_key(struct world *world, const char *key, size_t max_rows)
{
	const struct stream_ref stream = { "orders", 0, "", world->ordering };
	const uint64_t hash = hash_of_key(world, key);
	const struct claim_lanes lanes = { &stream, &hash, 1 };
	struct routing *all = wants(NULL);
	const struct claim_request request = {
		.instance = world->me.id,
		.routing = all,
		.max_rows = max_rows,
		.max_bytes = 1 << 20,
	};
	struct claimed claimed = { NULL };

	OK(claims_lanes(world->db, &request, &lanes, &claimed, &err));
	routing_free(all);
	return claimed;
}

void assert_claimed(const struct claimed *claimed, const char *ids)
{
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < claimed->count; i++)
		buf_addf(&text, "%s%s", i == 0 ? "" : " ", claimed->rows[i].message->event_id);
	assert_string_equal(buf_str(&text), ids);
	buf_fini(&text);
}

struct settle_row verdict(int64_t seq, int delivery_count, enum settle_outcome outcome)
{
	return (struct settle_row){
		.seq = seq,
		.delivery_count = delivery_count,
		.outcome = outcome,
		.plain = outcome == SETTLE_PROCESSED,
	};
}

void must_settle(struct world *world, struct settle_row *row)
{
	OK(settle_run(world->db, world->me.id, row, 1, &err));
	assert_int_equal(row->status, SETTLE_SETTLED);
}
