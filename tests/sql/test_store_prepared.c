/* Named statements: parsed once, and repeated without a name when the session does not have what the client prepared. */
#include "world.h"

#include "base/time/clock.h"
#include "queries.h"
#include "store/pg/pipeline.h"
#include "store/pg/prepared.h"

#define TIMEOUT_MS 20000

static const struct settings no_settings = { NULL, 0 };
static const struct statement plus = { .sql = "SELECT $1::int + 1", .named = true };
static const char of_this_client[] =
	"SELECT count(*), coalesce(sum(generic_plans + custom_plans), 0)::bigint"
	" FROM pg_prepared_statements WHERE name LIKE 'inboxd\\_%'";

static struct pipeline *a_pipeline(void)
{
	struct pipeline *pipeline = NULL;

	OK(pipeline_new(&pipeline, &no_settings, "inboxd/other", &err));
	OK(pipeline_open(pipeline, &err));
	pipeline_name_statements(pipeline, true);
	return pipeline;
}

static void queue(struct pipeline *pipeline, const char *sql)
{
	const struct statement statement = { .sql = sql };

	OK(pipeline_queue(pipeline, &statement, NULL, NULL, &err));
}

static void queue_plus(struct pipeline *pipeline, struct rows **rows)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, 41);
	OK(pipeline_queue(pipeline, &plus, &params, rows, &err));
}

static void assert_answers(struct pipeline *pipeline)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;

	queue_plus(pipeline, &rows);
	OK(pipeline_run(pipeline, TIMEOUT_MS, &err));
	assert_int_equal(rows_int(rows, 0, 0), 42);
}

/* How many statements the session has under a name of inboxd, and how often they were executed. */
static void assert_session_has(struct pipeline *pipeline, int statements, int executions)
{
	const struct statement count = { .sql = of_this_client };
	CLEANUP(rows_freep) struct rows *rows = NULL;

	OK(pipeline_queue(pipeline, &count, NULL, &rows, &err));
	OK(pipeline_run(pipeline, TIMEOUT_MS, &err));
	assert_int_equal(rows_int(rows, 0, 0), statements);
	assert_int_equal(rows_int(rows, 0, 1), executions);
}

static void assert_stale(struct pipeline *pipeline)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;

	queue_plus(pipeline, &rows);
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	assert_int_equal(pg_error_class_of(err.state), PG_ERROR_STALE);
	assert_null(rows);
	assert_false(pipeline_names(pipeline));
}

static void a_named_statement_is_parsed_once_a_connection(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	queue_plus(pipeline, NULL);
	assert_answers(pipeline);
	assert_answers(pipeline);
	assert_session_has(pipeline, 1, 3);
	pipeline_close(pipeline);
	OK(pipeline_open(pipeline, &err));
	assert_answers(pipeline);
	assert_session_has(pipeline, 0, 0);
}

static void a_parse_behind_an_error_is_sent_again(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	queue(pipeline, "SELECT 1 / 0");
	queue_plus(pipeline, NULL);
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "22012");
	assert_answers(pipeline);
	assert_session_has(pipeline, 1, 1);
}

static void a_parse_before_an_error_stays(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	queue(pipeline, "BEGIN");
	queue_plus(pipeline, NULL);
	queue(pipeline, "SELECT 1 / 0");
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	queue(pipeline, "ROLLBACK");
	OK(pipeline_run(pipeline, TIMEOUT_MS, &err));
	assert_answers(pipeline);
	assert_session_has(pipeline, 1, 2);
}

static void a_statement_that_the_session_does_not_know_is_stale(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	assert_answers(pipeline);
	OK(pipeline_script(pipeline, "DEALLOCATE ALL", TIMEOUT_MS, &err));
	assert_stale(pipeline);
	assert_string_equal(err.state, "26000");
	assert_answers(pipeline);
}

static void a_name_that_the_session_has_already_is_stale(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct prepared table = { .count = 0 };
	char script[64];

	(void)state;
	params_int(&params, 41);
	(void)snprintf(script, sizeof(script), "PREPARE %s AS SELECT 666",
		prepared_find(&table, plus.sql, &params)->name);
	OK(pipeline_script(pipeline, script, TIMEOUT_MS, &err));
	assert_stale(pipeline);
	assert_string_equal(err.state, "42P05");
	assert_answers(pipeline);
}

/* Without a name, SQLSTATE 0A000 means a standby. */
static void a_changed_result_of_a_named_statement_is_stale(void **state)
{
	static const struct statement star = { .sql = "SELECT * FROM t", .named = true };
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	OK(pipeline_script(pipeline, "CREATE TEMP TABLE t AS SELECT 1 AS a", TIMEOUT_MS, &err));
	OK(pipeline_queue(pipeline, &star, NULL, NULL, &err));
	OK(pipeline_run(pipeline, TIMEOUT_MS, &err));
	OK(pipeline_script(pipeline, "ALTER TABLE t ADD COLUMN b int", TIMEOUT_MS, &err));
	OK(pipeline_queue(pipeline, &star, NULL, NULL, &err));
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "0A000"));
	assert_int_equal(pg_error_class_of(err.state), PG_ERROR_STALE);
	OK(pipeline_queue(pipeline, &star, NULL, NULL, &err));
	OK(pipeline_run(pipeline, TIMEOUT_MS, &err));
}

static void a_name_is_of_the_text_and_the_types(void **state)
{
	static const char again[] = "SELECT $1::int + 1";
	static const char texts[PREPARED_MOST + 1] = "";
	CLEANUP(params_fini) struct params number = PARAMS_INIT;
	CLEANUP(params_fini) struct params word = PARAMS_INIT;
	struct prepared table = { .count = 0 };
	const struct prepared_statement *first;
	const struct prepared_statement *other;

	(void)state;
	params_int(&number, 1);
	params_text(&word, "1");
	first = prepared_find(&table, plus.sql, &number);
	assert_ptr_equal(prepared_find(&table, plus.sql, &number), first);
	assert_int_equal(strlen(first->name), strlen("inboxd_") + 16);
	other = prepared_find(&table, plus.sql, &word);
	assert_string_not_equal(other->name, first->name);
	other = prepared_find(&table, "SELECT $1::int + 2", &number);
	assert_string_not_equal(other->name, first->name);
	other = prepared_find(&table, again, &number);
	assert_string_equal(other->name, first->name);
	while (table.count < PREPARED_MOST)
		assert_non_null(prepared_find(&table, &texts[table.count], NULL));
	assert_null(prepared_find(&table, "SELECT 'none is left'", NULL));
}

static void a_commit_that_rolls_back_is_a_fault(void **state)
{
	CLEANUP(pipeline_freep) struct pipeline *pipeline = a_pipeline();

	(void)state;
	queue(pipeline, "BEGIN");
	queue(pipeline, "SELECT 1 / 0");
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	queue(pipeline, "COMMIT");
	assert_int_equal(pipeline_run(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
	assert_int_equal(pg_error_class_of(err.state), PG_ERROR_BUSY);
	OK(pipeline_send_first(pipeline, "ROLLBACK", &err));
	assert_int_equal(pipeline_receive_first(pipeline, TIMEOUT_MS, &err), FAULT_DATABASE);
}

/* --- Transactions ------------------------------------------------------------------------------ */

static int try_lease(struct world *world)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	params_int(&params, world->me.id);
	r = db_begin(world->db, &err);
	if (r == 0)
		r = db_step(world->db, QUERY_HOLD_LEASE, &params, NULL, &err);
	return r == 0 ? db_commit(world->db, &err) : r;
}

static void a_transaction_with_a_stale_statement_is_repeated_as_a_whole(void **state)
{
	struct world *world = *state;

	OK(try_lease(world));
	OK(db_script(world->db, "DEALLOCATE ALL", &err));
	assert_int_equal(try_lease(world), FAULT_DATABASE);
	assert_int_equal(db_error_kind(&err), PG_ERROR_STALE);
	assert_false(db_error_may_be_row(&err));
	OK(try_lease(world));
}

static void a_transaction_of_one_statement_is_repeated_at_once(void **state)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct world *world = *state;

	params_int(&params, world->me.id);
	OK(db_run(world->db, QUERY_HOLD_LEASE, &params, NULL, &err));
	OK(db_script(world->db, "DEALLOCATE ALL", &err));
	OK(db_run(world->db, QUERY_HOLD_LEASE, &params, NULL, &err));
}

/* A stale statement is no reason to refuse a row: no row is tried alone. */
static void a_batch_of_a_session_without_its_statements_is_stored_whole(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "first");
	OK(db_script(world->db, "DEALLOCATE ALL", &err));
	ADD(world, .id = "a");
	ADD(world, .id = "b");
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_int_equal(db_error_kind(&err), PG_ERROR_STALE);
	OK(store_batch(world));
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 3);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_rejects"), 0);
}

static void assert_plan_mode(struct world *world, const char *mode)
{
	char script[256];

	(void)snprintf(script, sizeof(script),
		"DO $$ BEGIN IF current_setting('plan_cache_mode') <> '%s' THEN"
		" RAISE '%%', current_setting('plan_cache_mode'); END IF; END $$",
		mode);
	OK(db_script(world->db, script, &err));
}

static void only_named_statements_have_generic_plans(void **state)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct world *world = *state;

	params_int(&params, world->me.id);
	OK(db_begin(world->db, &err));
	OK(db_step(world->db, QUERY_HOLD_LEASE, &params, NULL, &err));
	assert_plan_mode(world, "force_generic_plan");
	OK(db_savepoint(world->db, &err));
	OK(db_step(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
	assert_plan_mode(world, "auto");
	OK(db_rollback_to_savepoint(world->db, &err));
	OK(db_step(world->db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
	assert_plan_mode(world, "auto");
	OK(db_step(world->db, QUERY_HOLD_LEASE, &params, NULL, &err));
	assert_plan_mode(world, "force_generic_plan");
	OK(db_commit(world->db, &err));
	assert_plan_mode(world, "force_generic_plan"); /* that of the session */
}

static const char has_settings[] = "DO $$ BEGIN IF current_setting('lock_timeout') <> '2s' THEN"
				   " RAISE 'lock_timeout'; END IF; END $$";

static struct db *another_db(const struct world *world, enum prepare prepare)
{
	const struct db_options options = {
		.postgres = &no_settings,
		.schema = world->schema,
		.application = "inboxd/other",
		.lock_timeout_ms = 2000,
		.statement_timeout_ms = TIMEOUT_MS,
		.prepare = prepare,
	};
	struct db *db = NULL;

	OK(db_new(&db, &options, &err));
	OK(db_open(db, &err));
	return db;
}

/* What precedes every statement of sql/queries has the settings of the transaction, too. */
static void a_script_and_a_savepoint_have_the_settings(void **state)
{
	CLEANUP(db_freep) struct db *db = another_db(*state, PREPARE_ALWAYS);

	OK(db_begin(db, &err));
	OK(db_script(db, has_settings, &err));
	db_rollback(db);
	OK(db_begin(db, &err));
	OK(db_savepoint(db, &err));
	OK(db_rollback_to_savepoint(db, &err));
	OK(db_script(db, has_settings, &err));
	OK(db_commit(db, &err));
	assert_int_equal(db_script(db, has_settings, &err), FAULT_DATABASE);
}

static void a_session_of_our_own_keeps_the_settings(void **state)
{
	CLEANUP(db_freep) struct db *db = another_db(*state, PREPARE_AUTO);
	int r = FAULT_DATABASE;

	OK(db_script(db, has_settings, &err));
	OK(db_run(db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
	OK(db_script(db, has_settings, &err));
	/* as a trigger of the user may do */
	OK(db_script(db, "SET lock_timeout = 0", &err));
	/* a transaction that is rolled back takes its settings back, too, so the next one sets them again */
	for (int64_t began_ms = clock_now_ms(); r != 0 && clock_now_ms() - began_ms < TIMEOUT_MS;) {
		OK(db_begin(db, &err));
		OK(db_step(db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
		r = db_script(db, has_settings, &err);
		db_rollback(db);
	}
	assert_int_equal(r, 0);
	OK(db_run(db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
	OK(db_script(db, has_settings, &err));
}

/* Other defaults of a role would make a retry read what it has read before, or refuse to write. */
static void a_session_of_our_own_reads_what_is_committed(void **state)
{
	struct world *world = *state;
	static const char check[] =
		"DO $$ BEGIN IF current_setting('transaction_isolation') <> 'read committed'"
		" OR current_setting('transaction_read_only') <> 'off' THEN RAISE 'default'; END "
		"IF; END $$";
	char alter[256];

	(void)snprintf(alter, sizeof(alter),
		"DO $$ BEGIN EXECUTE format('ALTER ROLE %%I IN DATABASE %%I SET %%s', current_user,"
		" current_database(), 'default_transaction_isolation = serializable'); END $$");
	OK(db_script(world->db, alter, &err));
	for (int prepare = PREPARE_NEVER; prepare <= PREPARE_ALWAYS; prepare++) {
		CLEANUP(db_freep) struct db *db = another_db(world, (enum prepare)prepare);

		OK(db_begin(db, &err));
		OK(db_step(db, QUERY_SCHEMA_VERSION, NULL, NULL, &err));
		OK(db_script(db, check, &err));
		OK(db_commit(db, &err));
	}
	OK(db_script(world->db,
		"DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET "
		"default_transaction_isolation',"
		" current_user, current_database()); END $$",
		&err));
}

static void queue_stop(struct db *db, int32_t instance)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, instance);
	OK(db_queue(db, QUERY_STOP_INSTANCE, &params, NULL, &err));
}

/* A pipeline is a transaction without BEGIN and COMMIT: all of its statements have an effect, or none. */
static void a_transaction_of_one_pipeline_is_atomic(void **state)
{
	struct world *world = *state;
	static const char stopped[] =
		"SELECT count(*) FROM inbox.inbox_instances WHERE stopped_at IS NOT NULL";

	OK(db_begin(world->db, &err));
	queue_stop(world->db, world->me.id);
	OK(db_queue(world->db, QUERY_HOLD_LEASE, NULL, NULL, &err)); /* lacks its parameter */
	assert_int_equal(db_commit(world->db, &err), FAULT_DATABASE);
	assert_int_equal(ask(world, stopped), 0);

	OK(db_begin(world->db, &err));
	queue_stop(world->db, world->me.id);
	db_rollback(world->db);
	assert_int_equal(ask(world, stopped), 0);

	OK(db_begin(world->db, &err));
	queue_stop(world->db, world->me.id);
	OK(db_flush(world->db, &err));
	assert_int_equal(ask(world, stopped), 0); /* it goes on */
	db_rollback(world->db);
	assert_int_equal(ask(world, stopped), 0);

	OK(db_begin(world->db, &err));
	queue_stop(world->db, world->me.id);
	OK(db_commit(world->db, &err));
	assert_int_equal(ask(world, stopped), 1);
}

/* A deferred trigger of the user fails when the transaction is committed, so the fault comes with the Sync. */
static void a_fault_of_the_commit_is_one_without_a_commit(void **state)
{
	struct world *world = *state;

	OK(db_script(world->db,
		"CREATE FUNCTION inbox.refuse_late() RETURNS trigger LANGUAGE plpgsql AS"
		" $$ BEGIN RAISE 'too late'; END $$;"
		"CREATE CONSTRAINT TRIGGER refuse_late AFTER UPDATE ON inbox.inbox_instances"
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION inbox.refuse_late()",
		&err));
	OK(db_begin(world->db, &err));
	queue_stop(world->db, world->me.id);
	assert_int_equal(db_commit(world->db, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "P0001");
	assert_non_null(strstr(err.text, "too late"));
	assert_true(db_is_open(world->db));
	OK(try_lease(world));
}

static void user_functions_have_no_named_statements_around(void **state)
{
	struct world *world = *state;
	struct db_options options = {
		.postgres = &no_settings,
		.schema = world->schema,
		.application = "inboxd/other",
		.statement_timeout_ms = TIMEOUT_MS,
		.user_functions = true,
		.prepare = PREPARE_ALWAYS,
	};
	CLEANUP(db_freep) struct db *db = NULL;
	static const char check[] =
		"DO $$ BEGIN IF EXISTS (SELECT FROM pg_prepared_statements) OR"
		" current_setting('plan_cache_mode') <> 'auto' THEN RAISE 'named'; END IF; END $$";

	OK(db_new(&db, &options, &err));
	OK(db_open(db, &err));
	OK(db_begin(db, &err));
	OK(db_step(db, QUERY_SET_LOCK_TIMEOUT, NULL, NULL, &err));
	OK(db_script(db, check, &err));
	OK(db_commit(db, &err));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_named_statement_is_parsed_once_a_connection),
		cmocka_unit_test(a_parse_behind_an_error_is_sent_again),
		cmocka_unit_test(a_parse_before_an_error_stays),
		cmocka_unit_test(a_statement_that_the_session_does_not_know_is_stale),
		cmocka_unit_test(a_name_that_the_session_has_already_is_stale),
		cmocka_unit_test(a_changed_result_of_a_named_statement_is_stale),
		cmocka_unit_test(a_name_is_of_the_text_and_the_types),
		cmocka_unit_test(a_commit_that_rolls_back_is_a_fault),
		TEST(a_transaction_with_a_stale_statement_is_repeated_as_a_whole),
		TEST(a_transaction_of_one_statement_is_repeated_at_once),
		TEST(a_batch_of_a_session_without_its_statements_is_stored_whole),
		TEST(only_named_statements_have_generic_plans),
		TEST(a_script_and_a_savepoint_have_the_settings),
		TEST(a_session_of_our_own_keeps_the_settings),
		TEST(a_session_of_our_own_reads_what_is_committed),
		TEST(a_transaction_of_one_pipeline_is_atomic),
		TEST(a_fault_of_the_commit_is_one_without_a_commit),
		TEST(user_functions_have_no_named_statements_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
