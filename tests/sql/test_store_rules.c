/* Rules of the whole store: ids, timelines, the configured order. */
#include "world.h"

/* Ids of a sequence or of a counter would repeat after a failover. */
static void ids_are_drawn_from_all_31_bits(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < 30; i++) {
		struct instance instance;

		OK(instance_register(world->db,
			&(struct instance_names){ .name = "other", .host_id = "" }, &instance,
			&err));
	}
	assert_in_range(ask(world, "SELECT min(id) FROM inbox.inbox_instances"), 1, INT32_MAX);
	assert_in_range(
		ask(world, "SELECT max(id) FROM inbox.inbox_instances"), 1 << 30, INT32_MAX);
	assert_in_range(ask(world, "SELECT max(g) FROM (SELECT id - lag(id) OVER (ORDER BY id) AS g"
				   " FROM inbox.inbox_instances) gaps"),
		1 << 24, INT32_MAX);
}

static void fail_over(struct world *world)
{
	run_sql(world, "UPDATE inbox.inbox_instances SET timeline = '0000002A'");
}

static void another_timeline_ends_the_lease(void **state)
{
	struct world *world = *state;
	const struct heartbeat_report heartbeat = { .bounds = { .low_seq = 1, .low_rest = 1 },
		.low_claim = 1,
		.handlers = bytes_of("[]") };
	struct heartbeat_answer answer;

	OK(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err));
	fail_over(world);
	assert_int_equal(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err),
		HEARTBEAT_FENCED);
}

static void on_another_timeline_nothing_is_stored_or_acquired(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	fail_over(world);
	ADD(world, .id = "a");
	assert_int_equal(store(world), WRITER_FENCED);
	assert_int_equal(watermarks_take(world->writer, &ref, 1, &marks, &err), WRITER_FENCED);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
}

/* Rows that this timeline lacks could be claimed a second time with the token of the first claim. */
static void nothing_is_claimed(struct world *world)
{
	struct claimed claimed;

	ADD(world, .id = "a", .key = "k", .place = PLACEMENT_WAITING);
	must_store(world);
	fail_over(world);
	claimed = claim(world, 10, NULL);
	assert_int_equal(claimed.count, 0);
	claimed_fini(&claimed);
	claimed = claim_key(world, "k", 10);
	assert_int_equal(claimed.count, 0);
	claimed_fini(&claimed);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.inbox_messages WHERE claimed_by IS NULL"),
		1);
}

static void on_another_timeline_nothing_is_claimed(void **state)
{
	nothing_is_claimed(*state);
}

static void on_another_timeline_no_partition_is_claimed_in_order(void **state)
{
	nothing_is_claimed(*state);
}

static void acquiring_records_the_configured_order(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	run_sql(world, "UPDATE inbox.inbox_offsets SET ordering = 'none'");
	OK(watermarks_take(world->writer, &ref, 1, &marks, &err));
	assert_string_equal(ask_text(world, "SELECT ordering FROM inbox.inbox_offsets"), "key");
	watermarks_free(&marks);
}

static void each_claim_of_a_row_has_a_new_number(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .key = "k", .place = PLACEMENT_WAITING);
	for (int claims = 2; claims < 5; claims++) {
		struct claimed claimed =
			claims % 2 == 0 ? claim(world, 1, NULL) : claim_key(world, "k", 1);

		assert_int_equal(claimed.count, 1);
		assert_int_equal(claimed.rows[0].message->delivery_count, claims);
		claimed_fini(&claimed);
		run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now(),"
			       " claimed_by = NULL");
	}
}

static void a_row_without_key_and_handler_is_parked(void **state)
{
	struct world *world = *state;
	struct routing *routing = wants("order.*");
	struct claimed claimed;

	(void)STORED(world, .id = "a", .type = "other", .place = PLACEMENT_WAITING);
	claimed = claim(world, 10, routing);
	assert_int_equal(claimed.count, 0);
	assert_int_equal(claimed.parked, 1);
	assert_string_equal(ask_text(world, "SELECT status FROM inbox.messages"), "parked");
	claimed_fini(&claimed);
	routing_free(routing);
}

/* The same delivery_count with another id: only claimed_by differs. */
static void a_verdict_of_another_instance_changes_nothing(void **state)
{
	struct world *world = *state;
	struct settle_row rows[] = {
		verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED),
		verdict(STORED(world, .id = "b"), 1, SETTLE_DEAD),
		verdict(STORED(world, .id = "c"), 1, SETTLE_WAITING),
	};

	OK(settle_run(world->db, world->me.id + 1, rows, 3, &err));
	for (int i = 0; i < 3; i++)
		assert_int_equal(rows[i].status, SETTLE_LOST);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.messages WHERE status = 'claimed'"), 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ids_are_drawn_from_all_31_bits),
		TEST(another_timeline_ends_the_lease),
		TEST(on_another_timeline_nothing_is_stored_or_acquired),
		TEST(on_another_timeline_nothing_is_claimed),
		cmocka_unit_test_setup_teardown(
			on_another_timeline_no_partition_is_claimed_in_order,
			world_setup_by_partition, world_teardown),
		TEST(acquiring_records_the_configured_order),
		TEST(each_claim_of_a_row_has_a_new_number),
		TEST(a_verdict_of_another_instance_changes_nothing),
		TEST(a_row_without_key_and_handler_is_parked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
