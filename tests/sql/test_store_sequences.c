/* Sequences behind the rows of their tables: how they are found and set, and that no record is
 * rejected. */
#include "world.h"

#include <libpq-fe.h>
#include <unistd.h>

#include "store/schema/sequences.h"

/* As after a switch-over by logical replication: the rows exist, and the sequence starts at 1. */
static void begin_anew(struct world *world, const char *table)
{
	run_sql(world, "SELECT setval(pg_get_serial_sequence('inbox.%s', 'seq'), 1, false)", table);
}

static int64_t last_number(struct world *world, const char *table)
{
	return ask(world,
		"SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('inbox.%s',"
		" 'seq')::regclass), 0)",
		table);
}

static void audit(struct world *world)
{
	run_sql(world, "INSERT INTO inbox.inbox_audit (action) VALUES ('test')");
}

static void correct_sequences_are_not_changed(void **state)
{
	struct world *world = *state;
	struct buf words = BUF_INIT;

	(void)STORED(world, .id = "a");
	run_sql(world, "DELETE FROM inbox.inbox_messages");
	audit(world);
	assert_int_equal(sequences_check(world->db, &words, &err), 0);
	assert_int_equal(last_number(world, "inbox_messages"), 1);
	assert_int_equal(words.length, 0);
}

static void a_sequence_behind_its_table_is_set_to_the_highest_row(void **state)
{
	struct world *world = *state;
	struct buf words = BUF_INIT;
	struct instance instance;

	(void)STORED(world, .id = "a");
	(void)STORED(world, .id = "b");
	audit(world);
	begin_anew(world, "inbox_messages");
	begin_anew(world, "inbox_audit");
	assert_int_equal(sequences_check(world->db, &words, &err), SEQUENCES_SET);
	assert_int_equal(last_number(world, "inbox_messages"), 2);
	assert_int_equal(last_number(world, "inbox_audit"), 1);
	assert_int_equal(last_number(world, "inbox_rejects"), 0);
	assert_non_null(strstr(buf_str(&words), "inbox_messages_seq_seq: 0, highest row 2; "));
	assert_non_null(strstr(buf_str(&words), "inbox_audit_seq_seq: 0, highest row 1"));
	OK(instance_register(world->db, &(struct instance_names){ .name = "next", .host_id = "" },
		&instance, &err));
	assert_int_equal(instance.first_low_seq, 3);
	buf_fini(&words);
}

static void begin_to_advance(struct world *world)
{
	char sql[160];

	(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s.advance_sequences()", world->schema);
	assert_int_equal(PQsendQuery(world->psql, sql), 1);
	for (int tries = 0;
		strcmp(run_other(world, "DO $$ BEGIN ASSERT EXISTS (SELECT FROM pg_locks"
					" WHERE NOT granted AND relation ="
					" 'inbox.inbox_messages'::regclass); END $$"),
			"") != 0;
		tries++) {
		assert_true(tries < 3000);
		(void)usleep(10000);
	}
}

/* It has compared the sequence, and waits for a transaction in which the sequence advances far. */
static void no_sequence_is_set_back(void **state)
{
	struct world *world = *state;
	/* So that its lock does not outlive a failure. */
	PGconn *storing = PQconnectdb("options='-c idle_in_transaction_session_timeout=60s'");
	PGresult *result;
	char sql[240];

	(void)STORED(world, .id = "a");
	begin_anew(world, "inbox_messages");
	(void)snprintf(sql, sizeof(sql), "BEGIN; LOCK %s.inbox_messages IN ROW EXCLUSIVE MODE",
		world->schema);
	PQclear(PQexec(storing, sql));
	begin_to_advance(world);
	(void)snprintf(sql, sizeof(sql), "SELECT setval('%s.inbox_messages_seq_seq', 90); COMMIT",
		world->schema);
	PQclear(PQexec(storing, sql));
	PQfinish(storing);
	result = PQgetResult(world->psql);
	assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
	assert_int_equal(PQntuples(result), 0);
	PQclear(result);
	assert_null(PQgetResult(world->psql));
	assert_int_equal(last_number(world, "inbox_messages"), 90);
}

static void setting_a_sequence_waits_for_running_inserts(void **state)
{
	struct world *world = *state;
	struct buf words = BUF_INIT;
	int r;

	(void)STORED(world, .id = "a");
	begin_anew(world, "inbox_messages");
	assert_string_equal(
		run_other(world, "BEGIN; LOCK inbox.inbox_messages IN ROW EXCLUSIVE MODE"), "");
	r = sequences_check(world->db, &words, &err);
	buf_fini(&words);
	assert_int_equal(r, FAULT_DATABASE);
	assert_true(db_error_is_lock(&err));
	assert_int_equal(last_number(world, "inbox_messages"), 0);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
}

/* A database user with the right to compare, or without any. */
static void become(struct world *world, const char *grant)
{
	run_sql(world,
		"DO $$ BEGIN CREATE ROLE sequences_test; EXCEPTION WHEN duplicate_object THEN"
		" NULL; END $$");
	run_sql(world, "GRANT USAGE ON SCHEMA %s TO sequences_test", world->schema);
	if (grant != NULL)
		run_sql(world, "GRANT EXECUTE ON FUNCTION inbox.%s TO sequences_test", grant);
	OK(db_script(world->db, "SET SESSION AUTHORIZATION sequences_test", &err));
}

static void without_the_right_to_set_the_error_has_the_statement(void **state)
{
	struct world *world = *state;
	char statement[160];

	(void)STORED(world, .id = "a");
	begin_anew(world, "inbox_messages");
	become(world, "sequences_behind()");
	assert_int_equal(sequences_check(world->db, NULL, &err), FAULT_DATABASE);
	assert_int_equal(db_error_kind(&err), PG_ERROR_REFUSED);
	(void)snprintf(statement, sizeof(statement),
		"SELECT pg_catalog.setval('%s.inbox_messages_seq_seq', 1);", world->schema);
	assert_non_null(strstr(err.text, statement));
	run_sql(world, "%s", statement);
	assert_int_equal(sequences_check(world->db, NULL, &err), 0);
}

static void without_the_right_to_compare_the_result_is_unknown(void **state)
{
	struct world *world = *state;

	become(world, NULL);
	assert_int_equal(sequences_check(world->db, NULL, &err), SEQUENCES_UNKNOWN);
}

static void a_used_number_creates_no_reject(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	(void)STORED(world, .id = "b"); /* a batch of one row is tried twice */
	begin_anew(world, "inbox_messages");
	batch_clear(&world->batch);
	ADD(world, .id = "c");
	assert_int_equal(store(world), WRITER_DAMAGED);
	assert_int_equal(err.fault, FAULT_DATABASE);
	assert_non_null(strstr(err.text, "inbox_messages_seq_key"));
	assert_int_equal(result_of(world, 0), ROW_UNKNOWN);
	assert_int_equal(world->batch.reject_count, 0);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_rejects"), 0);
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 2);
}

/* If retention has deleted the low rows, no number clashes. */
static void a_number_below_earlier_ones_stores_nothing(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	(void)STORED(world, .id = "b");
	(void)STORED(world, .id = "c");
	run_sql(world, "DELETE FROM inbox.inbox_messages WHERE event_id IN ('a', 'b')");
	begin_anew(world, "inbox_messages");
	batch_clear(&world->batch);
	ADD(world, .id = "d");
	assert_int_equal(store(world), WRITER_DAMAGED);
	assert_non_null(strstr(err.text, "number 2, which is not above 3"));
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
}

static void add_reject(struct world *world, int64_t offset)
{
	const struct message plan = { .event_id = "",
		.source = "",
		.topic = "orders",
		.offset = offset,
		.timestamp_ms = -1,
		.payload = bytes_of("p") };
	struct message *message = NULL;

	batch_clear(&world->batch);
	OK(message_new(&message, &plan, &err));
	OK(batch_reject(&world->batch, message, "id_empty: no id", &err));
}

static void a_reject_with_a_used_number_is_not_lost(void **state)
{
	struct world *world = *state;

	add_reject(world, 5);
	must_store(world);
	begin_anew(world, "inbox_rejects");
	add_reject(world, 6);
	assert_int_equal(store(world), WRITER_DAMAGED);
	assert_non_null(strstr(err.text, "inbox_rejects_pkey"));
}

static void a_conflict_with_a_used_number_is_not_lost(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "1");
	(void)STORED(world, .id = "a", .payload = "2");
	begin_anew(world, "inbox_conflicts");
	batch_clear(&world->batch);
	ADD(world, .id = "a", .payload = "3");
	assert_int_equal(store(world), WRITER_DAMAGED);
	assert_non_null(strstr(err.text, "inbox_conflicts_pkey"));
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_rejects"), 0);
}

static void a_unique_violation_in_a_user_trigger_is_no_damage(void **state)
{
	struct world *world = *state;

	run_sql(world, "CREATE TABLE inbox.theirs (n int PRIMARY KEY)");
	run_sql(world,
		"CREATE FUNCTION inbox.copy_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" INSERT INTO inbox.theirs VALUES (1); RETURN NEW; END $$");
	run_sql(world, "CREATE TRIGGER copy_once BEFORE INSERT ON inbox.inbox_messages"
		       " FOR EACH ROW EXECUTE FUNCTION inbox.copy_once()");
	(void)STORED(world, .id = "a");
	batch_clear(&world->batch);
	ADD(world, .id = "b");
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_string_equal(err.state, "23505");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(correct_sequences_are_not_changed),
		TEST(a_sequence_behind_its_table_is_set_to_the_highest_row),
		TEST(no_sequence_is_set_back),
		TEST(setting_a_sequence_waits_for_running_inserts),
		TEST(without_the_right_to_set_the_error_has_the_statement),
		TEST(without_the_right_to_compare_the_result_is_unknown),
		TEST(a_used_number_creates_no_reject),
		TEST(a_number_below_earlier_ones_stores_nothing),
		TEST(a_reject_with_a_used_number_is_not_lost),
		TEST(a_conflict_with_a_used_number_is_not_lost),
		TEST(a_unique_violation_in_a_user_trigger_is_no_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
