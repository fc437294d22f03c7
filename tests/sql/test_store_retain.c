/* Retention as the janitor calls it: kinds, ages, batches, and the elected instance. */
#include "store/periodic/retain_batch.h"

#include "world.h"

static struct retain_done retain(struct world *world, enum retain_kind kind, int max_rows)
{
	const struct retain_batch batch = {
		.instance = world->me.id,
		.kind = kind,
		.age_ms = 3600000,
		.max_rows = max_rows,
	};
	struct retain_done done;

	OK(retain_run(world->db, &batch, 1, &done, &err));
	return done;
}

static void end_long_ago(struct world *world, const char *column)
{
	run_sql(world,
		"UPDATE inbox.inbox_messages SET received_at = now() - interval '2 hours',"
		" %s = now() - interval '2 hours'",
		column);
}

static void several_kinds_are_done_in_one_transaction(void **state)
{
	struct world *world = *state;
	const struct retain_batch batches[] = {
		{ world->me.id, RETAIN_PAYLOAD, 3600000, 10 },
		{ world->me.id, RETAIN_PROCESSED, 3600000, 1 },
		{ world->me.id, RETAIN_DEAD, 3600000, 10 },
	};
	struct retain_done done[3];

	(void)STORED(world, .id = "a", .payload = "{}");
	(void)STORED(world, .id = "b", .payload = "{}");
	end_long_ago(world, "processed_at");
	OK(retain_run(world->db, batches, 3, done, &err));
	assert_int_equal(done[0].affected, 2);
	assert_int_equal(done[1].affected, 1);
	assert_true(done[1].more);
	assert_int_equal(done[2].affected, 0);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
}

static void a_payload_is_dropped_before_its_row_is_deleted(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "{\"n\": 1}");
	end_long_ago(world, "processed_at");
	assert_int_equal(retain(world, RETAIN_PAYLOAD, 10).affected, 1);
	assert_string_equal(
		ask_text(world, "SELECT concat_ws('|', payload IS NULL, headers, length("
				"payload_digest)) FROM inbox.inbox_messages"),
		"t|[]|16");
	assert_int_equal(retain(world, RETAIN_PROCESSED, 10).affected, 1);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
}

static void a_duplicate_of_a_dropped_payload_is_a_duplicate(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "{\"n\": 1}");
	end_long_ago(world, "processed_at");
	(void)retain(world, RETAIN_PAYLOAD, 10);
	ADD(world, .id = "a", .payload = "{\"n\": 1}");
	ADD(world, .id = "b");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 2);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_conflicts"), 0);
}

static void a_full_batch_reports_more(void **state)
{
	struct world *world = *state;

	for (int c = 'a'; c <= 'c'; c++) {
		char id[] = { (char)c, '\0' };

		(void)STORED(world, .id = id);
	}
	end_long_ago(world, "processed_at");
	assert_true(retain(world, RETAIN_PROCESSED, 2).more);
	assert_false(retain(world, RETAIN_PROCESSED, 2).more);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
}

static void a_claimed_row_is_kept(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	run_sql(world, "UPDATE inbox.inbox_messages SET received_at = now() - interval '2 hours'");
	for (int kind = 0; kind < RETAIN_KINDS; kind++)
		assert_int_equal(retain(world, kind, 10).affected, 0);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
}

static void every_kind_deletes_its_own_rows(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	end_long_ago(world, "dead_at");
	run_sql(world,
		"INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, reason,"
		" received_at) VALUES ('t', 0, 1, 'r', '2020-01-01')");
	run_sql(world,
		"INSERT INTO inbox.inbox_conflicts (source, event_id, topic, kafka_partition,"
		" kafka_offset, received_at) VALUES ('s', 'e', 't', 0, 1, '2020-01-01')");
	run_sql(world, "INSERT INTO inbox.inbox_audit (at, action) VALUES ('2020-01-01', 'x')");
	run_sql(world,
		"INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at, rescued_at)"
		" VALUES (0, 'x', 1, '2020-01-01', '2020-01-01')");
	run_sql(world, "INSERT INTO inbox.outbox (topic, event_type, created_at, published_at, "
		       "dead_at) VALUES"
		       " ('t', 'e', '2020-01-01', '2020-01-01', NULL), ('t', 'e', '2020-01-01', "
		       "NULL, '2020-01-01')");
	run_sql(world, "INSERT INTO inbox.requests (scope, key, holder, completed_at, expires_at) "
		       "VALUES ('', 'k', 0, '2020-01-01', '2020-01-02'),"
		       " ('', 'l', 7, '2020-01-01', '2100-01-02')");
	/* It was not produced to the dead topic: one kind keeps it and the other deletes it. */
	assert_int_equal(retain(world, RETAIN_DEAD_PRODUCED, 10).affected, 0);
	assert_int_equal(retain(world, RETAIN_DEAD, 10).affected, 1);
	for (int kind = RETAIN_REJECTS; kind < RETAIN_KINDS; kind++)
		assert_int_equal(retain(world, kind, 10).affected, 1);
}

static void a_fenced_instance_deletes_nothing(void **state)
{
	struct world *world = *state;
	const struct retain_batch batch = { world->me.id, RETAIN_PROCESSED, 0, 10 };
	struct retain_done done;

	(void)STORED(world, .id = "a");
	end_long_ago(world, "processed_at");
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now()");
	assert_int_equal(retain_run(world->db, &batch, 1, &done, &err), RETAIN_ANOTHERS);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(several_kinds_are_done_in_one_transaction),
		WITH_WORLD(a_payload_is_dropped_before_its_row_is_deleted),
		WITH_WORLD(a_duplicate_of_a_dropped_payload_is_a_duplicate),
		WITH_WORLD(a_full_batch_reports_more),
		WITH_WORLD(a_claimed_row_is_kept),
		WITH_WORLD(every_kind_deletes_its_own_rows),
		WITH_WORLD(a_fenced_instance_deletes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
