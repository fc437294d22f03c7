/* Rows that other instances hold of an acquired partition, and their later states (rule R12). */
#include "world.h"

#include "store/claims/other_claims.h"

static struct instance another(struct world *world)
{
	struct instance instance;

	OK(instance_register(world->db, &(struct instance_names){ .name = "other", .host_id = "" },
		&instance, &err));
	run_sql(world, "UPDATE inbox.inbox_instances SET low_seq = 1 WHERE id = %d", instance.id);
	return instance;
}

/* A row of orders/0 that was born claimed by `holder` or, with a number, claimed from the table. */
static int64_t held_row(
	struct world *world, const char *id, const char *key, int32_t holder, int number)
{
	int64_t seq = STORED(world, .id = id, .key = key);

	run_sql(world,
		"UPDATE inbox.inbox_messages SET claimed_by = %d, delivery_count = %d,"
		" claim_number = nullif(%d, 0) WHERE seq = %ld",
		holder, number > 0 ? 2 : 1, number, (long)seq);
	return seq;
}

static struct other_claims_search *begin(struct world *world, enum ordering ordering)
{
	static struct stream_ref orders;
	const struct other_claims_request request = { world->me.id, &orders, 1 };
	struct other_claims_search *search = NULL;

	orders = (struct stream_ref){ "orders", 0, "", ordering }; /* the search refers to it */
	OK(other_claims_begin(&search, world->db, &request, &err));
	return search;
}

static struct other_claims_search *find(struct world *world, enum ordering ordering)
{
	struct other_claims_search *search = begin(world, ordering);

	OK(other_claims_continue(search, INT64_MAX, &err));
	return search;
}

static void expect_found(struct world *world, enum ordering ordering, size_t count)
{
	struct other_claims_search *search = find(world, ordering);

	assert_int_equal(other_claims_found(search)->count, count);
	other_claims_search_free(search);
}

static void rows_of_another_instance_are_found_with_their_keys(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	int64_t born = held_row(world, "a", "k", other.id, 0);
	int64_t slow = held_row(world, "b", "l", other.id, 3);
	struct other_claims_search *search = find(world, ORDERING_KEY);
	const struct other_claim *items = other_claims_found(search)->items;

	assert_int_equal(other_claims_found(search)->count, 2);
	assert_int_equal(items[0].seq, born);
	assert_int_equal(items[0].offset, 0);
	assert_int_equal(items[0].key_hash, hash_of_key(world, "k"));
	assert_int_equal(items[1].seq, slow);
	assert_int_equal(items[1].offset, 1);
	assert_int_equal(items[1].key_hash, hash_of_key(world, "l"));
	other_claims_search_free(search);
}

static void ended_waiting_and_own_rows_are_not_found(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "mine", "a", world->me.id, 0);
	(void)held_row(world, "done", "b", other.id, 0);
	(void)held_row(world, "dead", "c", other.id, 1);
	(void)held_row(world, "back", "d", other.id, 2);
	expect_found(world, ORDERING_KEY, 3);
	run_sql(world,
		"UPDATE inbox.inbox_messages SET processed_at = now() WHERE event_id = 'done'");
	run_sql(world, "UPDATE inbox.inbox_messages SET dead_at = now() WHERE event_id = 'dead'");
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now(), claimed_by = NULL"
		       " WHERE event_id = 'back'");
	expect_found(world, ORDERING_KEY, 0);
}

static void rows_of_a_dead_instance_are_found_until_it_is_rescued(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "a", "k", other.id, 0);
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = %d",
		other.id);
	expect_found(world, ORDERING_KEY, 1);
	run_sql(world, "UPDATE inbox.inbox_instances SET rescued_at = now() WHERE id = %d",
		other.id);
	expect_found(world, ORDERING_KEY, 0);
}

static void rows_without_a_key_count_with_partition_order_only(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "a", NULL, other.id, 0);
	(void)held_row(world, "b", NULL, other.id, 1);
	expect_found(world, ORDERING_KEY, 0);
	expect_found(world, ORDERING_PARTITION, 2);
	expect_found(world, ORDERING_NONE, 0);
}

static void rows_of_other_partitions_are_not_found(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "a", "k", other.id, 0);
	(void)held_row(world, "b", "k", other.id, 1);
	run_sql(world, "UPDATE inbox.inbox_messages SET kafka_partition = 1");
	expect_found(world, ORDERING_KEY, 0);
}

static void a_result_that_is_too_large_is_requested_again(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	struct other_claims_search *search;

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, key, claimed_by, delivery_count, claim_number)"
		" SELECT 's', i::text, 'orders', 0, i, 'k', %d, 1 + i %% 2, 1 + i / 100"
		" FROM generate_series(1, 10001) i",
		other.id);
	search = begin(world, ORDERING_KEY);
	assert_int_equal(other_claims_continue(search, INT64_MAX, &err), OTHER_CLAIMS_MANY);
	other_claims_search_free(search);
	run_sql(world, "DELETE FROM inbox.inbox_messages WHERE event_id = '7'");
	expect_found(world, ORDERING_KEY, 10000);
}

/* `count` rows that were born claimed by `holder`; all are processed except the first and the last. */
static void long_ago(struct world *world, int32_t holder, int count)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, "
		"kafka_offset, key,"
		" claimed_by, delivery_count, processed_at)"
		" SELECT 's', i::text, 'orders', 0, i, 'k', %d, 1, CASE WHEN i > 1 AND i < %d THEN "
		"now() END"
		" FROM generate_series(1, %d) i",
		holder, count, count);
}

/* The search returns after each window. */
static void a_search_continues_where_it_stopped(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	struct other_claims_search *search;
	int slices = 1;
	int r;

	long_ago(world, other.id, 100000);
	(void)held_row(world, "slow", "l", other.id, 3);
	search = begin(world, ORDERING_KEY);
	while ((r = other_claims_continue(search, 0, &err)) == OTHER_CLAIMS_MORE)
		slices++;
	OK(r);
	assert_in_range(slices, 6, 8);
	assert_int_equal(other_claims_found(search)->count, 3);
	other_claims_search_free(search);
}

static void after_a_fault_the_same_window_is_searched_again(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	struct other_claims_search *search;

	long_ago(world, other.id, 30000);
	search = begin(world, ORDERING_KEY);
	assert_int_equal(other_claims_continue(search, 0, &err), OTHER_CLAIMS_MORE);
	run_sql(world, "ALTER TABLE inbox.inbox_messages RENAME kafka_offset TO elsewhere");
	assert_true(other_claims_continue(search, 0, &err) < 0);
	run_sql(world, "ALTER TABLE inbox.inbox_messages RENAME elsewhere TO kafka_offset");
	OK(other_claims_continue(search, INT64_MAX, &err));
	assert_int_equal(other_claims_found(search)->count, 2);
	other_claims_search_free(search);
}

/* Rule R3: below low_rest only stragglers may be held. */
static void stragglers_are_found_below_the_bound(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	int64_t open = held_row(world, "a", "k", other.id, 0);
	int64_t done = held_row(world, "b", "l", other.id, 0);

	(void)held_row(world, "c", "m", other.id, 0);
	run_sql(world, "UPDATE inbox.inbox_messages SET processed_at = now() WHERE seq = %ld",
		(long)done);
	run_sql(world,
		"UPDATE inbox.inbox_instances SET stragglers = '{%ld,%ld}', low_rest = %ld"
		" WHERE id = %d",
		(long)open, (long)done, (long)done + 1, other.id);
	expect_found(world, ORDERING_KEY, 2);
	run_sql(world, "UPDATE inbox.inbox_instances SET stragglers = '{}' WHERE id = %d",
		other.id);
	expect_found(world, ORDERING_KEY, 1);
}

static void a_check_reports_the_state_of_each_row(void **state)
{
	static const char *const changes[] = {
		"SET event_type = 'still held'",
		"SET available_at = now(), claimed_by = NULL",
		"SET available_at = 'infinity', claimed_by = NULL",
		"SET processed_at = now()",
		"SET dead_at = now()",
	};
	static const enum other_claims_state expected[] = { OTHER_CLAIMS_HELD, OTHER_CLAIMS_WAITING,
		OTHER_CLAIMS_WAITING, OTHER_CLAIMS_OVER, OTHER_CLAIMS_OVER, OTHER_CLAIMS_OVER,
		OTHER_CLAIMS_OVER };
	enum { COUNT = sizeof(expected) / sizeof(expected[0]) };
	struct world *world = *state;
	struct instance other = another(world);
	enum other_claims_state states[COUNT];
	int64_t seqs[COUNT];

	for (int i = 0; i < COUNT; i++) {
		char id[] = { (char)('a' + i), '\0' };

		seqs[i] = held_row(world, id, "k", other.id, i);
		if (i < 5)
			run_sql(world, "UPDATE inbox.inbox_messages %s WHERE seq = %ld", changes[i],
				(long)seqs[i]);
	}
	run_sql(world, "UPDATE inbox.inbox_messages SET claimed_by = %d WHERE seq = %ld",
		world->me.id, (long)seqs[5]);
	run_sql(world, "DELETE FROM inbox.inbox_messages WHERE seq = %ld", (long)seqs[6]);
	OK(other_claims_look(
		world->db, world->me.id, &(struct other_claims_rows){ seqs, states, COUNT }, &err));
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(states[i], expected[i]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_of_another_instance_are_found_with_their_keys),
		TEST(ended_waiting_and_own_rows_are_not_found),
		TEST(rows_of_a_dead_instance_are_found_until_it_is_rescued),
		TEST(rows_without_a_key_count_with_partition_order_only),
		TEST(rows_of_other_partitions_are_not_found),
		TEST(a_result_that_is_too_large_is_requested_again),
		TEST(a_search_continues_where_it_stopped),
		TEST(after_a_fault_the_same_window_is_searched_again),
		TEST(stragglers_are_found_below_the_bound),
		TEST(a_check_reports_the_state_of_each_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
