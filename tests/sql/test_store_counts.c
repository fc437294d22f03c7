/* Counts at the maximum of their type: other rows do not fail, and no two claims have the same
 * token. */
#include "world.h"

#define END "2147483647"

static const atomic_bool go_on = false;

static void waiting(struct world *world, const char *id, enum placement_kind place)
{
	char key[2] = { id[0], '\0' };

	batch_clear(&world->batch);
	ADD(world, .id = id, .key = key, .type = "order.new", .place = place);
	must_store(world);
}

static void set_count(struct world *world, const char *id, const char *column)
{
	run_sql(world, "UPDATE inbox.inbox_messages SET %s = " END " WHERE event_id = '%s'", column,
		id);
}

static const char *all_rows(struct world *world)
{
	return ask_text(world, "SELECT string_agg(concat_ws(' ', event_id, status, error_code, "
			       "delivery_count), ','"
			       " ORDER BY seq) FROM inbox.messages");
}

/* The expected rows after any claim with "a1" at its maximum before "a2", and "b1". */
static void expect_one_dead(struct world *world, struct claimed *claimed, const char *ids)
{
	assert_claimed(claimed, ids);
	assert_int_equal(claimed->parked, 1);
	assert_string_equal(ask_text(world,
				    "SELECT concat_ws(' ', status, error_code, delivery_count,"
				    " claimed_by = %d, left(error, 24)) FROM inbox.messages"
				    " WHERE event_id = 'a1'",
				    world->me.id),
		"dead DELIVERY_COUNT " END " t claimed " END " times");
	claimed_fini(claimed);
}

static void a_due_row_dies_before_its_delivery_count_overflows(void **state)
{
	struct world *world = *state;
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	set_count(world, "a1", "delivery_count");
	claimed = claim(world, 10, NULL);
	expect_one_dead(world, &claimed, "a2 b1");
}

static void a_row_of_a_key_dies_before_its_delivery_count_overflows(void **state)
{
	struct world *world = *state;
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	set_count(world, "a1", "delivery_count");
	claimed = claim_key(world, "a", 10);
	expect_one_dead(world, &claimed, "a2");
}

static void a_row_of_a_partition_dies_before_its_delivery_count_overflows(void **state)
{
	struct world *world = *state;
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_PARKED);
	set_count(world, "a1", "delivery_count");
	claimed = claim(world, 10, NULL);
	expect_one_dead(world, &claimed, "a2 b1");
}

static void the_last_delivery_count_is_given_once(void **state)
{
	struct world *world = *state;
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2147483646");
	claimed = claim(world, 10, NULL);
	assert_claimed(&claimed, "a1");
	assert_int_equal(claimed.rows[0].message->delivery_count, INT32_MAX);
	claimed_fini(&claimed);
}

static void a_row_at_its_last_count_without_handler_is_parked(void **state)
{
	struct world *world = *state;
	struct routing *other = wants("other");
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_WAITING);
	set_count(world, "a1", "delivery_count");
	claimed = claim(world, 10, other);
	assert_claimed(&claimed, "");
	assert_string_equal(all_rows(world), "a1 parked " END);
	claimed_fini(&claimed);
	routing_free(other);
}

static void attempt_and_crash_counts_do_not_overflow(void **state)
{
	struct world *world = *state;
	struct claimed claimed;
	struct settle_row row;

	waiting(world, "a1", PLACEMENT_WAITING);
	set_count(world, "a1", "retry_count");
	set_count(world, "a1", "crash_count");
	claimed = claim(world, 10, NULL);
	assert_int_equal(claimed.rows[0].message->retry_count, INT32_MAX - 1);
	assert_int_equal(claimed.rows[0].message->crash_count, INT32_MAX - 1);
	row = verdict(claimed.rows[0].message->seq, 2, SETTLE_DEAD);
	row.error = "boom";
	OK(settle_raise(world->db, world->me.id, &row, 1, &err));
	assert_int_equal(row.status, SETTLE_SETTLED);
	must_settle(world, &row);
	assert_string_equal(all_rows(world), "a1 dead 2");
	claimed_fini(&claimed);
}

/* Another instance holds "a1" and "b1" with equal counts; it is fenced, and they are rescued. */
static void expect_rescued(struct world *world, int delivery_count, bool named)
{
	const struct fencing fencing = { .host_id = "here", .lease_ms = 15000 };
	struct rescue rescue = { .db = world->db, .stop = &go_on, .until_ms = INT64_MAX };
	struct instance dead;
	int fenced = -1;

	/* Rows from before its start were not born claimed by it; they are found by their claim
	 * numbers. */
	if (delivery_count == 1)
		OK(instance_register(world->db,
			&(struct instance_names){ .name = "other", .host_id = "here" }, &dead,
			&err));
	waiting(world, "a1", PLACEMENT_CLAIMED);
	waiting(world, "b1", PLACEMENT_CLAIMED);
	if (delivery_count > 1)
		OK(instance_register(world->db,
			&(struct instance_names){ .name = "other", .host_id = "here" }, &dead,
			&err));
	set_count(world, "a1", "rescue_count");
	run_sql(world,
		"UPDATE inbox.inbox_messages SET claimed_by = %d, delivery_count = %d,"
		" claim_number = CASE WHEN %d > 1 THEN 7 END",
		dead.id, delivery_count, delivery_count);
	if (named)
		run_sql(world,
			"UPDATE inbox.inbox_instances SET low_rest = 1000,"
			" stragglers = ARRAY(SELECT seq FROM inbox.inbox_messages)"
			" WHERE id = %d",
			dead.id);
	OK(instance_fence(world->db, world->me.id, &fencing, &fenced, &err));
	OK(instance_rescue(&rescue, &err));
	assert_int_equal(rescue.freed, 2);
	assert_int_equal(ask(world, "SELECT rescue_count FROM inbox.inbox_messages"
				    " WHERE event_id = 'a1'"),
		INT32_MAX);
}

static void a_born_row_at_its_last_rescue_does_not_block_others(void **state)
{
	expect_rescued(*state, 1, false);
}

static void a_straggler_at_its_last_rescue_does_not_block_others(void **state)
{
	expect_rescued(*state, 1, true);
}

static void a_claimed_row_at_its_last_rescue_does_not_block_others(void **state)
{
	expect_rescued(*state, 3, false);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_due_row_dies_before_its_delivery_count_overflows),
		TEST(a_row_of_a_key_dies_before_its_delivery_count_overflows),
		cmocka_unit_test_setup_teardown(
			a_row_of_a_partition_dies_before_its_delivery_count_overflows,
			world_setup_by_partition, world_teardown),
		TEST(the_last_delivery_count_is_given_once),
		TEST(a_row_at_its_last_count_without_handler_is_parked),
		TEST(attempt_and_crash_counts_do_not_overflow),
		TEST(a_born_row_at_its_last_rescue_does_not_block_others),
		TEST(a_straggler_at_its_last_rescue_does_not_block_others),
		TEST(a_claimed_row_at_its_last_rescue_does_not_block_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
