/* The connection: values in both directions, faults and the state after them, migrations. */
#include "world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "queries.h"
#include "store/schema/migrate.h"

static struct db_options options_of(
	const struct world *world, const struct settings *settings, int64_t statement_timeout_ms)
{
	return (struct db_options){
		.postgres = settings,
		.schema = world->schema,
		.application = "inboxd/other",
		.lock_timeout_ms = 2000,
		.idle_timeout_ms = 20000,
		.statement_timeout_ms = statement_timeout_ms,
	};
}

static struct db *a_db(
	const struct world *world, const struct settings *settings, int64_t statement_timeout_ms)
{
	const struct db_options options = options_of(world, settings, statement_timeout_ms);
	struct db *db = NULL;

	OK(db_new(&db, &options, &err));
	return db;
}

static const struct settings no_settings = { NULL, 0 };

static int open_with(struct world *world, const char *name, const char *value)
{
	char *copies[] = { strdup(name), strdup(value) };
	struct setting setting = { copies[0], copies[1] };
	const struct settings settings = { &setting, 1 };
	struct db *db = a_db(world, &settings, 20000);
	int r = db_open(db, &err);

	db_free(db);
	free(copies[0]);
	free(copies[1]);
	return r;
}

static void a_keyword_of_the_configuration_is_passed_to_libpq(void **state)
{
	struct world *world = *state;

	assert_int_equal(open_with(world, "dbname", "template1"), 0);
	assert_int_equal(open_with(world, "dbname", "no_such_database"), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "no_such_database"));
}

static void an_unreachable_server_is_a_fault_with_a_message(void **state)
{
	struct world *world = *state;

	assert_int_equal(open_with(world, "port", "1"), FAULT_DATABASE);
	assert_string_equal(err.state, "");
	assert_string_equal(db_error_class(&err), "connection");
	assert_int_equal(strncmp(err.text, "cannot connect to PostgreSQL: ", 30), 0);
}

static void a_refused_connection_has_its_sqlstate(void **state)
{
	struct world *world = *state;

	assert_int_equal(open_with(world, "dbname", "no_such_database"), FAULT_DATABASE);
	assert_string_equal(err.state, "3D000");
	assert_null(strstr(err.text, "LOCATION"));
	assert_int_equal(open_with(world, "user", "no_such_user"), FAULT_DATABASE);
	assert_string_equal(err.state, "28000");
	assert_non_null(strstr(err_advice(&err), "create this role in PostgreSQL"));
}

static void settings_that_libpq_refuses_are_configuration_errors(void **state)
{
	struct world *world = *state;

	assert_int_equal(open_with(world, "sslmode", "perhaps"), FAULT_DATABASE);
	assert_string_equal(err.state, "F0000");
	assert_int_equal(open_with(world, "no_such_keyword", "1"), FAULT_DATABASE);
	assert_string_equal(err.state, "F0000");
	assert_int_equal(open_with(world, "host", "/no/such/directory"), FAULT_DATABASE);
	assert_string_equal(err.state, "");
}

static int listen_silently(int *port)
{
	struct sockaddr_in where = { .sin_family = AF_INET };
	socklen_t size = sizeof(where);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&where, &size), 0);
	*port = ntohs(where.sin_port);
	return fd;
}

static void a_silent_host_does_not_block_the_next(void **state)
{
	struct world *world = *state;
	int silent_port;
	int silent = listen_silently(&silent_port);
	char hosts[256];
	char ports[64];
	char names[][16] = { "host", "port", "connect_timeout", "1" };
	struct setting items[] = { { names[0], hosts }, { names[1], ports },
		{ names[2], names[3] } };
	const struct settings settings = { items, 3 };
	struct db *db = a_db(world, &settings, 20000);
	int r = 0;

	(void)snprintf(hosts, sizeof(hosts), "127.0.0.1,127.0.0.1,%s", getenv("PGHOST"));
	(void)snprintf(ports, sizeof(ports), "1,%d,%s", silent_port, getenv("PGPORT"));
	/* A server that answers too late for connect_timeout is no silent one: again. */
	for (int i = 0; i < 10 && !db_is_open(db); i++)
		r = db_open(db, &err);
	OK(r);
	OK(db_run(db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
	db_free(db);
	(void)snprintf(hosts, sizeof(hosts), "127.0.0.1");
	(void)snprintf(ports, sizeof(ports), "%d", silent_port);
	db = a_db(world, &settings, 20000);
	assert_int_equal(db_open(db, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "");
	db_free(db);
	(void)close(silent);
}

static void a_password_is_never_in_an_error_text(void **state)
{
	struct world *world = *state;
	char *copies[] = { strdup("password"), strdup("s3cret"), strdup("port"), strdup("1") };
	struct setting items[] = { { copies[0], copies[1] }, { copies[2], copies[3] } };
	const struct settings settings = { items, 2 };
	struct db *db = a_db(world, &settings, 20000);

	assert_int_equal(db_open(db, &err), FAULT_DATABASE);
	assert_null(strstr(err.text, "s3cret"));
	db_free(db);
	for (int i = 0; i < 4; i++)
		free(copies[i]);
}

static void a_database_in_another_encoding_is_refused(void **state)
{
	struct world *world = *state;

	run_sql(world, "CREATE DATABASE latin_%s ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
		world->schema);
	{
		char name[96];

		(void)snprintf(name, sizeof(name), "latin_%s", world->schema);
		assert_int_equal(open_with(world, "dbname", name), FAULT_DATABASE);
	}
	assert_non_null(strstr(err.text, "LATIN1"));
	run_sql(world, "DROP DATABASE latin_%s WITH (FORCE)", world->schema);
}

static void a_query_on_a_closed_connection_fails_with_that_reason(void **state)
{
	struct world *world = *state;

	db_close(world->db);
	assert_int_equal(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err), FAULT_DATABASE);
	assert_string_equal(err.text, "not connected to PostgreSQL");
	OK(db_open(world->db, &err));
}

static void a_connection_that_rests_is_opened_by_the_next_transaction(void **state)
{
	struct world *world = *state;
	CLEANUP(rows_freep) struct rows *rows = NULL;

	db_rest_unused(world->db);
	assert_true(db_is_open(world->db)); /* it was used a moment ago */
	db_rest(world->db);
	assert_false(db_is_open(world->db));
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, &rows, &err));
	assert_true(db_is_open(world->db));
}

static void a_read_without_begin_waits_a_moment_for_a_lock_and_leaves_no_setting(void **state)
{
	struct world *world = *state;
	CLEANUP(db_freep) struct db *other = a_db(world, &no_settings, 20000);
	CLEANUP(rows_freep) struct rows *rows = NULL;

	OK(db_open(other, &err));
	OK(db_begin(other, &err));
	OK(db_script(other, "LOCK TABLE inbox.inbox_pauses", &err));
	assert_int_equal(db_read(world->db, QUERY_LIST_PAUSES, NULL, &rows, &err), FAULT_DATABASE);
	assert_true(db_error_is_lock(&err));
	assert_true(db_is_open(world->db));
	OK(db_commit(other, &err));
	OK(db_read(world->db, QUERY_LIST_PAUSES, NULL, &rows, &err));
	assert_int_equal(rows_count(rows), 0);
	OK(db_script(world->db,
		"DO $$ BEGIN IF current_setting('lock_timeout') = '100ms' THEN RAISE EXCEPTION 'a "
		"setting stays'; END IF; END $$",
		&err));
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
}

static void a_rollback_undoes_queued_reads(void **state)
{
	struct world *world = *state;
	CLEANUP(rows_freep) struct rows *rows = NULL;

	OK(db_begin_reading(world->db, &err));
	OK(db_queue(world->db, QUERY_LIST_PAUSES, NULL, &rows, &err));
	db_rollback(world->db);
	assert_true(db_is_open(world->db));
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
}

static void rows_and_params_carry_every_type(void **state)
{
	struct world *world = *state;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	(void)STORED(world, .id = "a", .key = "", .payload = "");
	params_int(&params, world->me.id);
	OK(db_run(world->db, QUERY_PEEK_PARTITIONS, &params, &rows, &err));
	assert_int_equal(rows_count(rows), 1);
	assert_string_equal(rows_text(rows, 0, 0), "orders");
	assert_int_equal(rows_int(rows, 0, 1), 0);
	assert_int_equal(rows_int(rows, 0, 2), 1);
	assert_int_equal(rows_timestamp_ms(rows, 0, 5), 1700000000123);
	assert_false(rows_bool(rows, 0, 6));
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages WHERE key = '' AND "
				    "payload = ''"),
		1);
}

/* The last three parameters of a heartbeat. */
static void add_bounds(struct params *params)
{
	params_bigint(params, 1);
	(void)params_array(params, ARRAY_BIGINT);
	params_bigint(params, 15000);
}

static void a_failed_transaction_leaves_the_connection_usable(void **state)
{
	struct world *world = *state;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, 1);
	params_bigint(&params, 1);
	params_jsonb(&params, bytes_of("{"));
	params_bigint(&params, 1);
	add_bounds(&params);
	assert_int_equal(db_run(world->db, QUERY_HEARTBEAT, &params, NULL, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "22P02");
	assert_true(db_error_is_data(world->db, &err));
	assert_string_equal(db_error_class(&err), "data");
	assert_true(db_is_open(world->db));
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
}

static void error_texts_never_quote_values(void **state)
{
	struct world *world = *state;

	assert_int_equal(db_script(world->db,
				 "INSERT INTO inbox.inbox_binding (only_row, cluster_id, group_id)"
				 " VALUES (false, 's3cret', 's3cret')",
				 &err),
		FAULT_DATABASE);
	assert_string_equal(err.state, "23514");
	assert_null(strstr(err.text, "s3cret"));
}

static void a_savepoint_survives_bad_values(void **state)
{
	struct world *world = *state;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, world->me.id);
	params_bigint(&params, 9);
	params_jsonb(&params, bytes_of("{"));
	params_bigint(&params, 1);
	add_bounds(&params);
	OK(db_begin(world->db, &err));
	OK(db_step(world->db, QUERY_LIST_UNRESCUED, NULL, NULL, &err));
	OK(db_savepoint(world->db, &err));
	assert_int_equal(db_step(world->db, QUERY_HEARTBEAT, &params, NULL, &err), FAULT_DATABASE);
	OK(db_rollback_to_savepoint(world->db, &err));
	params_reset(&params);
	params_int(&params, world->me.id);
	params_bigint(&params, 9);
	params_jsonb(&params, bytes_of("{}"));
	params_bigint(&params, 1);
	add_bounds(&params);
	OK(db_savepoint(world->db, &err));
	OK(db_step(world->db, QUERY_HEARTBEAT, &params, NULL, &err));
	OK(db_commit(world->db, &err));
	assert_int_equal(ask(world, "SELECT low_seq FROM inbox.inbox_instances"), 9);
}

static void a_failed_transaction_cannot_be_committed(void **state)
{
	struct world *world = *state;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, world->me.id);
	params_bigint(&params, 9);
	params_jsonb(&params, bytes_of("{"));
	params_bigint(&params, 1);
	add_bounds(&params);
	OK(db_begin(world->db, &err));
	OK(db_savepoint(world->db, &err));
	assert_int_equal(db_step(world->db, QUERY_HEARTBEAT, &params, NULL, &err), FAULT_DATABASE);
	assert_int_equal(db_commit(world->db, &err), FAULT_INTERNAL);
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
}

static void a_rollback_undoes_queued_statements(void **state)
{
	struct world *world = *state;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, world->me.id);
	OK(db_begin(world->db, &err));
	OK(db_queue(world->db, QUERY_STOP_INSTANCE, &params, NULL, &err));
	db_rollback(world->db);
	assert_true(db_is_open(world->db));
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.inbox_instances WHERE stopped_at IS NULL"),
		1);
}

/* Runs a statement that takes a minute, with this time for each statement. False if the time was too short for the server or
 * for this process: it could not open, or had no answer of the server in time. */
static bool is_ended_in(struct world *world, int64_t statement_timeout_ms)
{
	CLEANUP(db_freep) struct db *db = a_db(world, &no_settings, statement_timeout_ms);

	if (db_open(db, &err) != 0)
		return false;
	assert_int_equal(instance_stop(db, world->me.id, &err), FAULT_DATABASE);
	return strcmp(err.state, "57014") == 0 && db_is_open(db);
}

static void a_statement_that_takes_too_long_is_ended_by_the_server(void **state)
{
	struct world *world = *state;

	run_sql(world, "CREATE OR REPLACE FUNCTION inbox.slow() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN PERFORM pg_sleep(60); RETURN NULL; END$$");
	run_sql(world, "CREATE TRIGGER slow AFTER UPDATE ON inbox.inbox_instances EXECUTE FUNCTION "
		       "inbox.slow()");
	assert_true(
		is_ended_in(world, 200) || is_ended_in(world, 2000) || is_ended_in(world, 20000));
}

/* When the server has begun to sleep. */
static void *interrupt_the_sleep(void *arg)
{
	static const char asleep[] =
		"SELECT count(*) FROM pg_stat_activity"
		" WHERE application_name = 'inboxd/test' AND wait_event = 'PgSleep'";
	struct world *world = arg;
	int64_t until_ms = clock_now_ms() + 15000;

	while (ask(world, asleep) == 0 && clock_now_ms() < until_ms)
		continue;
	db_interrupt(world->db);
	return NULL;
}

static void an_interrupt_ends_the_wait_of_another_thread(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, interrupt_the_sleep, world), 0);
	assert_int_equal(db_script(world->db, "SELECT pg_sleep(60)", &err), FAULT_DATABASE);
	assert_string_equal(err.state, ""); /* not that of statement_timeout */
	assert_false(db_is_open(world->db));
	assert_int_equal(pthread_join(thread, NULL), 0);
	OK(db_open(world->db, &err));
}

/* The trigger ends our session within COMMIT, so there is no answer. */
/* A transaction whose COMMIT ends its own session. */
static void begin_what_hangs_up(struct world *world)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	run_sql(world,
		"CREATE FUNCTION inbox.hang_up() RETURNS trigger LANGUAGE plpgsql AS"
		" $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END$$");
	run_sql(world,
		"CREATE CONSTRAINT TRIGGER hang_up AFTER UPDATE ON inbox.inbox_instances"
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION inbox.hang_up()");
	params_int(&params, world->me.id);
	OK(db_begin(world->db, &err));
	OK(db_step(world->db, QUERY_STOP_INSTANCE, &params, NULL, &err));
}

static void a_commit_without_an_answer_is_unknown(void **state)
{
	struct world *world = *state;

	begin_what_hangs_up(world);
	assert_int_equal(db_commit(world->db, &err), DB_COMMIT_UNKNOWN);
	assert_false(db_is_open(world->db));
	assert_string_equal(err.state, "57P01");
}

static void a_commit_without_an_answer_is_unknown_with_a_transaction_behind_it(void **state)
{
	struct world *world = *state;

	begin_what_hangs_up(world);
	OK(db_commit_ahead(world->db, &err));
	OK(db_begin(world->db, &err));
	OK(db_send(world->db, &err));
	assert_int_equal(db_committed(world->db, &err), DB_COMMIT_UNKNOWN);
	assert_false(db_is_open(world->db));
	assert_string_equal(err.state, "57P01");
}

static void a_connection_to_a_read_only_server_is_closed(void **state)
{
	struct world *world = *state;

	OK(db_begin(world->db, &err));
	OK(db_script(world->db, "SET TRANSACTION READ ONLY", &err));
	assert_int_equal(
		db_script(world->db, "DELETE FROM inbox.inbox_binding", &err), FAULT_DATABASE);
	assert_string_equal(err.state, "25006");
	assert_false(db_is_open(world->db));
}

static void large_batches_do_not_block_each_other(void **state)
{
	struct world *world = *state;
	char *payload = malloc(4 << 20);

	memset(payload, 'x', (4 << 20) - 1);
	payload[(4 << 20) - 1] = '\0';
	for (int i = 0; i < 4; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		ADD(world, .id = id, .payload = payload);
	}
	must_store(world);
	assert_int_equal(ask(world, "SELECT sum(octet_length(payload)) FROM inbox.inbox_messages"),
		4 * ((4 << 20) - 1));
	free(payload);
}

static void a_statement_beyond_the_protocol_is_never_sent(void **state)
{
	struct world *world = *state;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, 1);
	params_text(&params, "x");
	params.values[1].length = (size_t)1001 << 20;
	OK(db_begin(world->db, &err));
	assert_int_equal(
		db_queue(world->db, QUERY_REGISTER_INSTANCE, &params, NULL, &err), FAULT_DATABASE);
	assert_true(db_error_is_data(world->db, &err));
	assert_true(db_is_open(world->db));
	OK(db_run(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
}

static void a_migrated_schema_matches_this_program(void **state)
{
	struct world *world = *state;
	const struct db_options options = options_of(world, &no_settings, 20000);
	int found;
	struct migrate_result result;

	OK(migrate_check(world->db, &found, &err));
	assert_int_equal(found, migrate_latest());
	OK(migrate_run(&options, NULL, &result, &err));
	assert_int_equal(result.applied, 0);
}

static void older_and_newer_schemas_are_distinguished(void **state)
{
	struct world *world = *state;
	const struct db_options options = options_of(world, &no_settings, 20000);
	int found;
	struct migrate_result result;

	run_sql(world,
		"UPDATE inbox.inbox_schema_version SET version = 9999, oldest_sidecar = %d"
		" WHERE version = %d",
		migrate_latest() + 1, migrate_latest());
	assert_int_equal(migrate_check(world->db, &found, &err), SCHEMA_NEWER);
	assert_int_equal(found, 9999);
	assert_int_equal(migrate_run(&options, NULL, &result, &err), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "upgrade inboxd"));
	run_sql(world, "UPDATE inbox.inbox_schema_version SET oldest_sidecar = %d",
		migrate_latest());
	assert_int_equal(migrate_check(world->db, &found, &err), SCHEMA_AHEAD);
	assert_int_equal(found, 9999);
	OK(migrate_run(&options, NULL, &result, &err));
	assert_int_equal(result.applied, 0);
	assert_int_equal(result.version, 9999);
	run_sql(world, "DELETE FROM inbox.inbox_schema_version");
	assert_int_equal(migrate_check(world->db, &found, &err), SCHEMA_MISSING);
	run_sql(world, "ALTER TABLE inbox.inbox_schema_version DROP COLUMN oldest_sidecar");
	assert_int_equal(migrate_check(world->db, &found, &err), SCHEMA_PRERELEASE);
	assert_int_equal(migrate_run(&options, NULL, &result, &err), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "pre-release"));
	run_sql(world, "DROP TABLE inbox.inbox_schema_version");
	assert_int_equal(migrate_check(world->db, &found, &err), SCHEMA_MISSING);
}

static void *migrate_there(void *arg)
{
	struct err words = ERR_INIT;
	struct migrate_result result;

	return migrate_run(arg, NULL, &result, &words) == 0 ? arg : NULL;
}

static void two_migrations_at_once_both_succeed(void **state)
{
	struct world *world = *state;
	struct db_options options = options_of(world, &no_settings, 20000);
	pthread_t thread;
	void *there = NULL;

	run_sql(world, "DROP SCHEMA %s CASCADE", world->schema);
	assert_int_equal(pthread_create(&thread, NULL, migrate_there, &options), 0);
	assert_non_null(migrate_there(&options));
	assert_int_equal(pthread_join(thread, &there), 0);
	assert_non_null(there);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.inbox_schema_version"), migrate_latest());
}

static int migrate_as(struct world *world, const char *user)
{
	char *copies[] = { strdup("user"), strdup(user) };
	struct setting setting = { copies[0], copies[1] };
	const struct settings settings = { &setting, 1 };
	const struct db_options options = options_of(world, &settings, 20000);
	struct migrate_result result;
	int r = migrate_run(&options, NULL, &result, &err);

	free(copies[0]);
	free(copies[1]);
	return r;
}

static void a_user_can_migrate_a_schema_it_owns(void **state)
{
	struct world *world = *state;
	char user[96];

	(void)snprintf(user, sizeof(user), "user_%s", world->schema);
	run_sql(world, "CREATE ROLE %s LOGIN", user);
	run_sql(world, "DROP SCHEMA %s CASCADE", world->schema);
	assert_int_equal(migrate_as(world, user), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "may not create it"));
	run_sql(world, "CREATE SCHEMA %s", world->schema);
	assert_int_equal(migrate_as(world, user), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "may not create objects"));
	run_sql(world, "DROP SCHEMA %s", world->schema);
	run_sql(world, "CREATE SCHEMA %s AUTHORIZATION %s", world->schema, user);
	assert_int_equal(migrate_as(world, user), 0);
	run_sql(world, "DROP OWNED BY %s", user);
	run_sql(world, "DROP ROLE %s", user);
	run_sql(world, "CREATE SCHEMA %s", world->schema);
}

static void every_statement_prepares(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < QUERY_COUNT; i++) {
		char *sql = NULL;

		if (asprintf(&sql, "PREPARE q%d AS %s", i, query_texts[i].sql) < 0)
			fail();
		OK(db_script(world->db, sql, &err));
		free(sql);
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_keyword_of_the_configuration_is_passed_to_libpq),
		TEST(an_unreachable_server_is_a_fault_with_a_message),
		TEST(a_refused_connection_has_its_sqlstate),
		TEST(settings_that_libpq_refuses_are_configuration_errors),
		TEST(a_silent_host_does_not_block_the_next),
		TEST(a_password_is_never_in_an_error_text),
		TEST(a_database_in_another_encoding_is_refused),
		TEST(a_query_on_a_closed_connection_fails_with_that_reason),
		TEST(a_connection_that_rests_is_opened_by_the_next_transaction),
		TEST(a_read_without_begin_waits_a_moment_for_a_lock_and_leaves_no_setting),
		TEST(a_rollback_undoes_queued_reads),
		TEST(rows_and_params_carry_every_type),
		TEST(a_failed_transaction_leaves_the_connection_usable),
		TEST(error_texts_never_quote_values),
		TEST(a_savepoint_survives_bad_values),
		TEST(a_failed_transaction_cannot_be_committed),
		TEST(a_rollback_undoes_queued_statements),
		TEST(a_statement_that_takes_too_long_is_ended_by_the_server),
		TEST(an_interrupt_ends_the_wait_of_another_thread),
		TEST(a_commit_without_an_answer_is_unknown),
		TEST(a_commit_without_an_answer_is_unknown_with_a_transaction_behind_it),
		TEST(a_connection_to_a_read_only_server_is_closed),
		TEST(large_batches_do_not_block_each_other),
		TEST(a_statement_beyond_the_protocol_is_never_sent),
		TEST(a_migrated_schema_matches_this_program),
		TEST(older_and_newer_schemas_are_distinguished),
		TEST(two_migrations_at_once_both_succeed),
		TEST(a_user_can_migrate_a_schema_it_owns),
		TEST(every_statement_prepares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
