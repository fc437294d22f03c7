/* What others hold of a partition that was just taken, and what becomes of it (rule R12). */
#include "world.h"

#include "store/foreign.h"

static const struct partition_ref orders[] = { { "orders", 0 } };

static struct instance another(struct world *world)
{
	struct instance instance;

	OK(instance_register(world->db, "other", "", &instance, &err));
	run_sql(world, "UPDATE inbox.inbox_instances SET low_seq = 1 WHERE id = %d", instance.id);
	return instance;
}

/* A row of orders/0 that `holder` was born holding, or, with a number, claimed from the table. */
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

static int find(struct world *world, enum ordering ordering, struct foreign_claims *out)
{
	const struct foreign_request request = { world->me.id, ordering, orders, 1 };

	return foreign_find(world->db, &request, out, &err);
}

static void expect_found(struct world *world, enum ordering ordering, size_t count)
{
	struct foreign_claims found = { NULL, 0 };

	OK(find(world, ordering, &found));
	assert_int_equal(found.count, count);
	foreign_claims_fini(&found);
}

static void what_another_holds_is_found_with_its_keys(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	struct foreign_claims found = { NULL, 0 };
	int64_t born = held_row(world, "a", "k", other.id, 0);
	int64_t slow = held_row(world, "b", "l", other.id, 3);

	OK(find(world, ORDERING_KEY, &found));
	assert_int_equal(found.count, 2);
	assert_int_equal(found.items[0].seq, born);
	assert_int_equal(found.items[0].offset, 0);
	assert_int_equal(found.items[0].key_hash, hash_of_key(world, "k"));
	assert_int_equal(found.items[1].seq, slow);
	assert_int_equal(found.items[1].offset, 1);
	assert_int_equal(found.items[1].key_hash, hash_of_key(world, "l"));
	foreign_claims_fini(&found);
}

static void what_is_over_or_waits_or_is_ours_is_not_found(void **state)
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

static void the_dead_count_until_they_are_rescued(void **state)
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

static void rows_without_a_key_hold_back_whole_partitions_only(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "a", NULL, other.id, 0);
	(void)held_row(world, "b", NULL, other.id, 1);
	expect_found(world, ORDERING_KEY, 0);
	expect_found(world, ORDERING_PARTITION, 2);
	expect_found(world, ORDERING_NONE, 0);
}

static void other_partitions_do_not_matter(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);

	(void)held_row(world, "a", "k", other.id, 0);
	(void)held_row(world, "b", "k", other.id, 1);
	run_sql(world, "UPDATE inbox.inbox_messages SET kafka_partition = 1");
	expect_found(world, ORDERING_KEY, 0);
}

static void too_many_are_asked_for_again(void **state)
{
	struct world *world = *state;
	struct instance other = another(world);
	struct foreign_claims found = { NULL, 0 };

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, key, claimed_by, delivery_count, claim_number)"
		" SELECT 's', i::text, 'orders', 0, i, 'k', %d, 1 + i %% 2, 1 + i / 100"
		" FROM generate_series(1, 10001) i",
		other.id);
	assert_int_equal(find(world, ORDERING_KEY, &found), FOREIGN_MANY);
	assert_int_equal(found.count, 0);
	run_sql(world, "DELETE FROM inbox.inbox_messages WHERE event_id = '7'");
	expect_found(world, ORDERING_KEY, 10000);
}

static void a_look_tells_what_became_of_each(void **state)
{
	static const char *const changes[] = {
		"SET event_type = 'still held'",
		"SET available_at = now(), claimed_by = NULL",
		"SET available_at = 'infinity', claimed_by = NULL",
		"SET processed_at = now()",
		"SET dead_at = now()",
	};
	static const enum foreign_state expected[] = { FOREIGN_HELD, FOREIGN_WAITING,
		FOREIGN_WAITING, FOREIGN_OVER, FOREIGN_OVER, FOREIGN_OVER, FOREIGN_OVER };
	enum { COUNT = sizeof(expected) / sizeof(expected[0]) };
	struct world *world = *state;
	struct instance other = another(world);
	enum foreign_state states[COUNT];
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
	OK(foreign_look(
		world->db, world->me.id, &(struct foreign_rows){ seqs, states, COUNT }, &err));
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(states[i], expected[i]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_another_holds_is_found_with_its_keys),
		TEST(what_is_over_or_waits_or_is_ours_is_not_found),
		TEST(the_dead_count_until_they_are_rescued),
		TEST(rows_without_a_key_hold_back_whole_partitions_only),
		TEST(other_partitions_do_not_matter),
		TEST(too_many_are_asked_for_again),
		TEST(a_look_tells_what_became_of_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
