/* Unassigned partitions (rule R6): which instance finds them, and which one gets them. */
#include "base/time/clock.h"
#include "world.h"

#define LEASE_MS 15000

struct found {
	int count;
	char first[64];
	bool mine;
};

static void note(const char *topic, int32_t partition, bool mine, void *arg)
{
	struct found *found = arg;

	found->mine = mine;
	if (found->count++ == 0)
		(void)snprintf(found->first, sizeof(found->first), "%s/%d", topic, partition);
}

static struct found orphans(struct world *world)
{
	struct found found = { 0, "", false };

	OK(watermarks_orphans(world->writer, LEASE_MS, note, &found, &err));
	return found;
}

/* Partition 7 of a topic that is no longer read; the owner is an SQL expression. */
static void leave_waiting(struct world *world, const char *owner)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_offsets (topic, kafka_partition, epoch, ordering, owner, "
		"updated_at)"
		" VALUES ('former', 7, 3, 'key', %s, now() - interval '16 s')",
		owner);
	run_sql(world, "INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		       " kafka_offset, available_at) VALUES ('s', 'left', 'former', 7, 0, now())");
}

static void a_partition_without_owner_for_a_lease_is_an_orphan(void **state)
{
	struct world *world = *state;
	int64_t began_ms;
	int count;

	assert_int_equal(orphans(world).count, 0);
	leave_waiting(world, "NULL");
	assert_int_equal(orphans(world).count, 1);
	assert_string_equal(orphans(world).first, "former/7");
	assert_false(orphans(world).mine);
	do { /* a second before the end of the lease */
		began_ms = clock_now_ms();
		run_sql(world, "UPDATE inbox.inbox_offsets SET updated_at = now() - interval '14 s'"
			       " WHERE topic = 'former'");
		count = orphans(world).count;
	} while (clock_now_ms() - began_ms >= 1000);
	assert_int_equal(count, 0);
}

static void a_partition_without_waiting_rows_is_no_orphan(void **state)
{
	struct world *world = *state;

	leave_waiting(world, "NULL");
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = now()");
	assert_int_equal(orphans(world).count, 0);
}

static void a_partition_whose_owner_has_stopped_is_an_orphan(void **state)
{
	struct world *world = *state;
	struct instance other;
	char id[16];

	OK(instance_register(world->db, &(struct instance_names){ .name = "other", .host_id = "" },
		&other, &err));
	(void)snprintf(id, sizeof(id), "%d", other.id);
	leave_waiting(world, id);
	assert_int_equal(orphans(world).count, 0);
	OK(instance_stop(world->db, other.id, &err));
	assert_int_equal(orphans(world).count, 1);
}

/* It lost the partition in Kafka and could not record it in the table. */
static void an_own_partition_that_is_only_in_the_table_is_an_orphan(void **state)
{
	struct world *world = *state;
	char id[16];

	(void)snprintf(id, sizeof(id), "%d", world->me.id);
	leave_waiting(world, id);
	assert_int_equal(orphans(world).count, 1);
	assert_true(orphans(world).mine);
}

static void the_adopter_is_the_owner_in_a_new_epoch(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "former", 7 };
	struct watermarks marks = { NULL, 0 };

	leave_waiting(world, "NULL");
	OK(watermarks_adopt(world->writer, &ref, 1, &marks, &err));
	assert_int_equal(marks.count, 1);
	assert_true(marks.items[0].mine);
	assert_int_equal(marks.items[0].epoch, 4);
	watermarks_free(&marks);
}

static void a_partition_of_a_live_instance_is_not_adopted(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "former", 7 };
	struct watermarks marks = { NULL, 0 };
	struct instance other;
	char id[16];

	OK(instance_register(world->db, &(struct instance_names){ .name = "other", .host_id = "" },
		&other, &err));
	(void)snprintf(id, sizeof(id), "%d", other.id);
	leave_waiting(world, id);
	OK(watermarks_adopt(world->writer, &ref, 1, &marks, &err));
	assert_int_equal(marks.count, 0);
	watermarks_free(&marks);
}

static void a_fenced_instance_adopts_nothing(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "former", 7 };
	struct watermarks marks = { NULL, 0 };

	leave_waiting(world, "NULL");
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now()");
	assert_int_equal(watermarks_adopt(world->writer, &ref, 1, &marks, &err), WRITER_FENCED);
	assert_int_equal(
		ask(world, "SELECT epoch FROM inbox.inbox_offsets WHERE topic = 'former'"), 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_partition_without_owner_for_a_lease_is_an_orphan),
		TEST(a_partition_without_waiting_rows_is_no_orphan),
		TEST(a_partition_whose_owner_has_stopped_is_an_orphan),
		TEST(an_own_partition_that_is_only_in_the_table_is_an_orphan),
		TEST(the_adopter_is_the_owner_in_a_new_epoch),
		TEST(a_partition_of_a_live_instance_is_not_adopted),
		TEST(a_fenced_instance_adopts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
