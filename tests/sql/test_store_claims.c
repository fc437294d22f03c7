/* Claims from the table: due rows, their order, and rows that must not overtake others. */
#include "store/claims/waiting_rows.h"
#include "world.h"

/* Rows that wait in the table: "a1" has key "a"; "-1" has none. */
static void waiting(struct world *world, const char *id, enum placement_kind place)
{
	char key[2] = { id[0], '\0' };

	batch_clear(&world->batch);
	ADD(world, .id = id, .key = id[0] == '-' ? NULL : key, .type = "order.new", .place = place);
	must_store(world);
}

static void expect_claim(struct world *world, size_t max_rows, const char *ids)
{
	struct claimed claimed = claim(world, max_rows, NULL);

	assert_claimed(&claimed, ids);
	claimed_fini(&claimed);
}

static void expect_key(struct world *world, const char *key, size_t max_rows, const char *ids)
{
	struct claimed claimed = claim_key(world, key, max_rows);

	assert_claimed(&claimed, ids);
	claimed_fini(&claimed);
}

static void a_claimed_row_has_everything_that_dispatch_needs(void **state)
{
	struct world *world = *state;
	struct claimed claimed;
	const struct message *message;

	(void)STORED(world, .id = "x", .key = "k", .type = "t", .payload = "{\"n\":1}",
		.headers = "[[\"h\", \"v\"]]", .place = PLACEMENT_WAITING, .offset = 9);
	run_sql(world,
		"UPDATE inbox.inbox_messages SET retry_count = 2, crash_count = 1, suspect = true,"
		" replay_count = 1");
	claimed = claim(world, 10, NULL);
	assert_int_equal(claimed.count, 1);
	message = claimed.rows[0].message;
	assert_string_equal(message->event_id, "x");
	assert_string_equal(message->source, "shop");
	assert_string_equal(message->type, "t");
	assert_string_equal(message->topic, "orders");
	assert_int_equal(message->offset, 9);
	assert_int_equal(message->timestamp_ms, 1700000000123);
	assert_true(bytes_equal(message->key, bytes_of("k")));
	assert_true(bytes_equal(message->payload, bytes_of("{\"n\":1}")));
	assert_true(bytes_equal(message->headers, bytes_of("[[\"h\", \"v\"]]")));
	assert_int_equal(message->key_hash, hash_of_key(world, "k"));
	assert_int_equal(message->delivery_count, 2);
	assert_int_equal(message->retry_count, 2);
	assert_int_equal(message->crash_count, 1);
	assert_true(message->suspect);
	assert_true(message->replay);
	assert_int_equal(ask(world,
				 "SELECT count(*) FROM inbox.messages WHERE status = 'claimed'"
				 " AND claimed_by = %d AND delivery_count = 2",
				 world->me.id),
		1);
	claimed_fini(&claimed);
}

static void rows_are_claimed_in_the_order_of_their_offsets(void **state)
{
	struct world *world = *state;

	waiting(world, "b1", PLACEMENT_WAITING);
	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b2", PLACEMENT_WAITING);
	waiting(world, "-1", PLACEMENT_WAITING);
	expect_claim(world, 10, "b1 a1 b2 -1");
	expect_claim(world, 10, "");
}

static void a_claim_has_at_most_the_requested_number_of_rows(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	waiting(world, "a3", PLACEMENT_WAITING);
	expect_claim(world, 2, "a1 a2");
	expect_claim(world, 2, "a3");
}

static void bytes_beyond_the_budget_stay_in_the_table(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_KEY };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *all = wants(NULL);
	struct claim_request request = { world->me.id, all, 10, 2500 };
	struct claimed claimed = { NULL };

	for (int i = 1; i < 5; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		waiting(world, id, PLACEMENT_WAITING);
	}
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_claimed(&claimed, "a1 a2 a3");
	assert_true(claimed.rows[2].followed);
	assert_true(claimed.cut);
	claimed_fini(&claimed);
	request.max_bytes = 1;
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_claimed(&claimed, "a4");
	assert_false(claimed.rows[0].followed);
	assert_false(claimed.cut);
	claimed_fini(&claimed);
	routing_free(all);
}

/* Headers and keys count, too, and not with the size that PostgreSQL has compressed them to. */
static void the_byte_budget_counts_what_is_sent(void **state)
{
	struct world *world = *state;
	struct stream_ref stream = { "orders", 0, "", ORDERING_NONE };
	const struct claim_streams streams = { &stream, 1 };
	const uint64_t hash = hash_of_key(world, "a");
	const struct claim_lanes lanes = { &stream, &hash, 1 };
	struct routing *all = wants(NULL);
	const struct claim_request request = { world->me.id, all, 10, 1500000 };
	struct claimed claimed = { NULL };

	for (int i = 1; i < 10; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		waiting(world, id, PLACEMENT_WAITING);
	}
	run_sql(world,
		"UPDATE inbox.inbox_messages"
		" SET headers = jsonb_build_array(jsonb_build_array('h', repeat('x', 1000000)))");
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_claimed(&claimed, "a1 a2");
	claimed_fini(&claimed);
	stream.ordering = ORDERING_PARTITION;
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_claimed(&claimed, "a3 a4");
	claimed_fini(&claimed);
	stream.ordering = ORDERING_KEY;
	OK(claims_lanes(world->db, &request, &lanes, &claimed, &err));
	assert_claimed(&claimed, "a5 a6");
	claimed_fini(&claimed);
	routing_free(all);
}

static void rows_beyond_the_byte_budget_are_not_due_before_those_claimed(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_NONE };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *wanted = wants("order.new");
	struct claim_request request = { world->me.id, wanted, 10, 1 };
	struct claimed claimed = { NULL };
	struct claimed later = { NULL };

	waiting(world, "-1", PLACEMENT_WAITING);
	waiting(world, "-2", PLACEMENT_WAITING);
	waiting(world, "-3", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = '2020-01-01'::timestamptz"
		       " - kafka_offset * interval '1 s',"
		       " event_type = CASE event_id WHEN '-1' THEN 'other' ELSE event_type END");
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_claimed(&claimed, "-3");
	assert_int_equal(claimed.parked, 0);
	assert_true(claimed.cut);
	request.since = claimed.latest;
	OK(claims_due(world->db, &request, &streams, &later, &err));
	assert_claimed(&later, "-2");
	claimed_fini(&claimed);
	claimed_fini(&later);
	routing_free(wanted);
}

/* "a1" and "a2" come before "b1" and "b2"; the limit is one row. */
static void expect_cut(struct world *world, size_t max_rows, const char *ids, bool cut)
{
	const struct stream_ref streams[] = { { "orders", 0, "", ORDERING_KEY },
		{ "orders", 0, "", ORDERING_KEY } };
	const uint64_t hashes[] = { hash_of_key(world, "a"), hash_of_key(world, "b") };
	const struct claim_lanes lanes = { streams, hashes, 2 };
	struct routing *all = wants(NULL);
	const struct claim_request request = { world->me.id, all, max_rows, 1000 };
	struct claimed claimed = { NULL };

	OK(claims_lanes(world->db, &request, &lanes, &claimed, &err));
	assert_claimed(&claimed, ids);
	assert_int_equal(claimed.cut, cut);
	claimed_fini(&claimed);
	routing_free(all);
}

static void keys_that_the_byte_budget_did_not_reach_are_reported(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_PARKED);
	expect_cut(world, 10, "a1", true);
	expect_cut(world, 10, "b1", false);
	expect_cut(world, 10, "", false);
}

static void rows_that_are_not_claimed_take_no_bytes_of_the_budget(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_PARKED);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = 'a1'");
	expect_cut(world, 10, "b1", false);
}

static void a_partition_cut_short_by_the_byte_budget_is_reported(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_PARTITION };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *all = wants(NULL);
	const struct claim_request request = { world->me.id, all, 10, 1 };
	struct claimed claimed = { NULL };

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	for (int i = 0; i < 2; i++) {
		OK(claims_due(world->db, &request, &streams, &claimed, &err));
		assert_int_equal(claimed.count, 1);
		assert_int_equal(claimed.cut, i == 0);
		claimed_fini(&claimed);
	}
	routing_free(all);
}

static void a_row_waiting_for_its_retry_parks_later_rows_of_its_key(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = 'a1'");
	expect_claim(world, 10, "b1");
	assert_string_equal(
		ask_text(world, "SELECT status FROM inbox.messages WHERE event_id = 'a2'"),
		"parked");
}

static void rows_without_a_key_do_not_wait_for_each_other(void **state)
{
	struct world *world = *state;

	waiting(world, "-1", PLACEMENT_WAITING);
	waiting(world, "-2", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = '-1'");
	expect_claim(world, 10, "-2");
}

static void a_locked_head_parks_later_rows_of_its_key(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	assert_string_equal(run_other(world, "BEGIN; SELECT 1 FROM inbox.inbox_messages"
					     " WHERE event_id = 'a1' FOR UPDATE"),
		"");
	expect_claim(world, 10, "");
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	expect_claim(world, 10, "a1");
	expect_key(world, "a", 10, "a2");
}

static void a_claim_can_start_at_a_position_and_reports_where_it_ended(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_KEY };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *all = wants(NULL);
	int64_t since = 1700000002000;
	struct claim_request request = { world->me.id, all, 10, 1 << 20, 7, &since };
	struct claimed claimed;

	for (int i = 1; i <= 3; i++)
		(void)STORED(world, .id = (char[]){ (char)('0' + i), '\0' },
			.place = PLACEMENT_WAITING, .offset = i);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = to_timestamp(1700000000.5 + "
		       "kafka_offset)");
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_int_equal(claimed.count, 2);
	assert_string_equal(claimed.rows[0].message->event_id, "2");
	assert_int_equal(claimed.latest[0], 1700000003500);
	claimed_fini(&claimed);
	request.since = NULL;
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_int_equal(claimed.count, 1);
	assert_int_equal(claimed.latest[0], 1700000001500);
	claimed_fini(&claimed);
	OK(claims_due(world->db, &request, &streams, &claimed, &err));
	assert_int_equal(claimed.latest[0], -1);
	claimed_fini(&claimed);
	routing_free(all);
}

static void two_sessions_never_claim_the_same_row(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	assert_string_equal(
		run_other(world, "BEGIN; UPDATE inbox.inbox_messages SET available_at = NULL,"
				 " claimed_by = 5 WHERE event_id = 'a1'"),
		"");
	expect_claim(world, 10, "b1");
	assert_string_equal(run_other(world, "COMMIT"), "");
	expect_claim(world, 10, "");
}

static void a_row_without_handler_is_parked_and_blocks_its_key(void **state)
{
	struct world *world = *state;
	struct routing *routing = wants("order.new");
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	run_sql(world,
		"UPDATE inbox.inbox_messages SET event_type = 'other' WHERE event_id = 'a1'");
	claimed = claim(world, 10, routing);
	assert_claimed(&claimed, "b1");
	assert_int_equal(claimed.parked, 2);
	assert_int_equal(claimed.seen, 3);
	claimed_fini(&claimed);
	routing_free(routing);
}

static void the_most_specific_subscription_decides(void **state)
{
	struct world *world = *state;
	const struct subscription wide = { NULL, NULL };
	const struct subscription narrow[] = { { "orders", "order.*" }, { NULL, "order.old" } };
	const struct subscription exact = { NULL, "order.new" };
	struct routing *routing = NULL;
	struct claimed claimed;

	OK(routing_new(&routing, &err));
	OK(routing_set(routing, (struct handler_id){ "", "wide" }, &wide, 1, &err));
	OK(routing_set(routing, (struct handler_id){ "", "narrow" }, narrow, 2, &err));
	routing_close(routing, (struct handler_id){ "", "narrow" }, true);
	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET event_type = NULL WHERE event_id = 'b1'");
	claimed = claim(world, 10, routing);
	assert_claimed(&claimed, "b1");
	claimed_fini(&claimed);

	OK(routing_set(routing, (struct handler_id){ "", "exact" }, &exact, 1, &err));
	run_sql(world,
		"UPDATE inbox.inbox_messages SET available_at = now() WHERE event_id = 'a1'");
	claimed = claim(world, 10, routing);
	assert_claimed(&claimed, "a1");
	claimed_fini(&claimed);
	routing_free(routing);
}

static void without_order_no_row_waits_for_another(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = 'a1'");
	expect_claim(world, 10, "a2");
}

static void a_finished_head_releases_the_run_behind_it(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_PARKED);
	waiting(world, "a3", PLACEMENT_PARKED);
	expect_key(world, "a", 2, "a1 a2");
	expect_key(world, "a", 2, "a3");
}

static void the_run_of_a_key_ends_at_a_row_that_waits(void **state)
{
	struct world *world = *state;
	struct claimed claimed;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "a3", PLACEMENT_PARKED);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = 'a2'");
	claimed = claim_key(world, "a", 10);
	assert_claimed(&claimed, "a1");
	assert_true(claimed.rows[0].followed);
	claimed_fini(&claimed);
	expect_key(world, "a", 10, "");
}

static void the_run_of_a_key_ends_at_a_locked_row(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	assert_string_equal(run_other(world, "BEGIN; SELECT 1 FROM inbox.inbox_messages"
					     " WHERE event_id = 'a1' FOR UPDATE"),
		"");
	expect_key(world, "a", 10, "");
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	expect_key(world, "a", 10, "a1 a2");
}

static void with_partition_order_a_retry_blocks_the_partition(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_PARKED);
	waiting(world, "-1", PLACEMENT_PARKED);
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() + interval '1 hour'"
		       " WHERE event_id = 'b1'");
	expect_claim(world, 10, "a1");
	expect_claim(world, 10, "");
	run_sql(world,
		"UPDATE inbox.inbox_messages SET available_at = now() WHERE event_id = 'b1'");
	expect_claim(world, 10, "b1 -1");
}

static void a_fenced_instance_claims_nothing(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now()");
	expect_claim(world, 10, "");
	expect_key(world, "a", 10, "");
}

static void only_the_owner_claims_an_ordered_partition(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_offsets SET owner = 1");
	expect_claim(world, 10, "");
	expect_key(world, "a", 10, "");
	run_sql(world, "UPDATE inbox.inbox_offsets SET ordering = 'none'");
	expect_claim(world, 10, "a1");
}

static void a_partition_that_is_being_acquired_is_skipped(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_WAITING);
	assert_string_equal(
		run_other(world, "BEGIN; SELECT 1 FROM inbox.inbox_offsets FOR UPDATE"), "");
	expect_claim(world, 10, "");
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	expect_claim(world, 10, "a1");
}

static void a_claim_whose_answer_was_lost_is_unknown_and_can_be_rescued(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_KEY };
	const struct claim_streams streams = { &stream, 1 };
	struct routing *all = wants(NULL);
	const struct claim_request request = { world->me.id, all, 10, 1 << 20 };
	struct claimed claimed = { NULL };
	struct held_claim held[2] = { 0 };
	int64_t rescued = -1;

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "b1", PLACEMENT_WAITING);
	run_sql(world,
		"CREATE FUNCTION inbox.hang_up() RETURNS trigger LANGUAGE plpgsql AS"
		" $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END$$");
	run_sql(world,
		"CREATE CONSTRAINT TRIGGER hang_up AFTER UPDATE ON inbox.inbox_messages"
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION inbox.hang_up()");
	assert_int_equal(claims_due(world->db, &request, &streams, &claimed, &err), CLAIM_UNKNOWN);
	run_sql(world, "DROP TRIGGER hang_up ON inbox.inbox_messages");

	OK(db_open(world->db, &err));
	expect_claim(world, 10, "a1 b1");
	for (int i = 0; i < 2; i++) {
		held[i].seq = ask(world,
			i == 0 ? "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'a1'"
			       : "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'b1'");
		held[i].delivery_count =
			(int32_t)ask(world, "SELECT max(delivery_count) FROM inbox.inbox_messages");
	}
	held[1].delivery_count--; /* memory holds an earlier claim of b1, whose verdict is committed */
	refuse_behind_the_lease(world);
	OK(claims_rescue(
		world->db, &(struct claims_held){ world->me.id, 0, held, 2 }, &rescued, &err));
	assert_int_equal(rescued, 1);
	run_sql(world, "DROP TRIGGER refuse_behind_the_lease ON inbox.inbox_messages");
	expect_claim(world, 10, "b1");
	routing_free(all);
}

static struct claim_request a_request(const struct world *world, const struct routing *routing)
{
	return (struct claim_request){ world->me.id, routing, 100, 1 << 20 };
}

static void a_sweep_finds_keys_that_are_parked_at_their_head(void **state)
{
	struct world *world = *state;
	const struct parked_position position = {
		.stream = { "orders", 0, "", ORDERING_KEY },
	};
	struct routing *routing = wants("order.*");
	struct claim_request request = a_request(world, routing);
	struct parked_page page;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_WAITING);
	waiting(world, "b2", PLACEMENT_PARKED);
	waiting(world, "c1", PLACEMENT_PARKED);
	waiting(world, "-1", PLACEMENT_PARKED);
	run_sql(world,
		"UPDATE inbox.inbox_messages SET event_type = 'other' WHERE event_id = 'c1'");
	OK(waiting_rows_find_parked(world->db, &request, &position, &page, &err));
	assert_int_equal(page.count, 1);
	assert_int_equal(page.hashes[0], hash_of_key(world, "a"));
	assert_false(page.more);
	parked_page_fini(&page);
	routing_free(routing);
}

static void a_sweep_continues_where_its_last_page_ended(void **state)
{
	struct world *world = *state;
	struct parked_position position = { .stream = { "orders", 0, "", ORDERING_KEY } };
	struct routing *routing = wants(NULL);
	struct claim_request request = a_request(world, routing);
	struct parked_page page = { .more = true };
	uint64_t last = 0;
	size_t found = 0;
	int pages = 0;

	for (int key = 'a'; key < 'f'; key++) {
		char id[] = { (char)key, '1', '\0' };

		waiting(world, id, PLACEMENT_PARKED);
	}
	request.max_rows = 2;
	while (page.more) {
		OK(waiting_rows_find_parked(world->db, &request, &position, &page, &err));
		found += page.count;
		last = page.last;
		position.after = &last;
		pages++;
		parked_page_fini(&(struct parked_page){ .hashes = page.hashes });
	}
	assert_int_equal(found, 5);
	assert_int_equal(pages, 3);
	routing_free(routing);
}

static void release(struct world *world, const char *type, int64_t expected)
{
	const struct stream_ref stream = { "orders", 0, "", world->ordering };
	struct routing *routing = wants(type);
	struct claim_request request = a_request(world, routing);
	int64_t released = -1;

	OK(waiting_rows_release(world->db, &request, &stream, &released, &err));
	assert_int_equal(released, expected);
	routing_free(routing);
}

static void parked_rows_without_a_key_are_released_by_a_subscription(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "-1", PLACEMENT_PARKED);
	release(world, "other", 0);
	release(world, "order.*", 1);
	expect_claim(world, 10, "-1");
}

static void without_order_every_parked_row_is_released_by_a_subscription(void **state)
{
	struct world *world = *state;

	waiting(world, "a1", PLACEMENT_PARKED);
	waiting(world, "-1", PLACEMENT_PARKED);
	release(world, "order.new", 2);
}

static void each_stream_reports_whether_rows_wait(void **state)
{
	struct world *world = *state;
	const struct stream_ref items[] = { { "orders", 1, "" }, { "orders", 0, "" },
		{ "x", 0, "" }, { "orders", 0, "other" } };
	const struct claim_streams streams = { items, 4 };
	bool found[4] = { true, false, true, true };

	waiting(world, "a1", PLACEMENT_PARKED);
	OK(waiting_rows_any(world->db, &streams, found, &err));
	assert_false(found[0]);
	assert_true(found[1]);
	assert_false(found[2]);
	assert_false(found[3]);
}

static void gauges_count_waiting_dead_and_unhandled_messages(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_KEY };
	struct routing *routing = wants("order.new");
	const struct gauges_request request = { { &stream, 1 }, routing, 1000, true };
	CLEANUP(gauges_fini) struct gauges gauges = { .dead = -1 };
	const struct backlog *own = backlogs_add(&gauges.known, "");

	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_PARKED);
	waiting(world, "b1", PLACEMENT_PARKED);
	waiting(world, "b2", PLACEMENT_PARKED);
	waiting(world, "c1", PLACEMENT_CLAIMED);
	run_sql(world,
		"UPDATE inbox.inbox_messages SET event_type = 'other' WHERE event_id LIKE 'b_'");
	run_sql(world, "UPDATE inbox.inbox_messages SET dead_at = now() WHERE event_id = 'c1'");
	run_sql(world, "UPDATE inbox.inbox_messages SET available_at = now() - interval '5 s'"
		       " WHERE event_id = 'a1'");
	OK(waiting_rows_gauges(world->db, &request, &gauges, &err));
	assert_int_equal(own->waiting, 1);
	assert_in_range(own->oldest_due_ms, 5000, 30000);
	assert_int_equal(gauges.dead, 1);
	assert_int_equal(own->unrouted, 2);
	assert_int_equal(gauges.for_nobody.count, 0);
	routing_free(routing);
}

static struct table_look look_at(struct world *world, const char *change)
{
	const struct stream_ref items[] = { { "orders", 0, "", ORDERING_KEY } };
	const struct look_request request = { world->me.id, { items, 1 }, 15000, 600000 };
	struct table_look found;

	if (change != NULL)
		run_sql(world, "%s", change);
	OK(waiting_rows_look(world->db, &request, &found, &err));
	return found;
}

static void a_look_finds_when_the_next_row_is_due(void **state)
{
	struct world *world = *state;
	int64_t due_in_ms;

	assert_int_equal(look_at(world, NULL).due_in_ms, INT64_MAX);
	waiting(world, "a", PLACEMENT_PARKED);
	waiting(world, "b", PLACEMENT_WAITING);
	due_in_ms = look_at(world,
		"UPDATE inbox.inbox_messages SET available_at = now() + interval '1 min'"
		" WHERE event_id = 'b'")
			    .due_in_ms;
	assert_in_range(due_in_ms, 30000, 60000);
	assert_int_equal(
		look_at(world,
			"UPDATE inbox.inbox_messages SET available_at = now() WHERE event_id = 'b'")
			.due_in_ms,
		0);
}

/* Each change is one that another read must find. */
static void a_look_finds_what_has_changed(void **state)
{
	static const struct {
		const char *change;
		bool handlers;
		bool consumers;
	} changes[] = {
		{ "UPDATE inbox.inbox_instances SET heartbeat_at = now()", false, false },
		{ "INSERT INTO inbox.inbox_pauses (kind, name) VALUES ('topic', 'orders')", true,
			false },
		{ "UPDATE inbox.inbox_pauses SET ingest = true", true, false },
		{ "DELETE FROM inbox.inbox_pauses", true, false },
		{ "INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, "
		  "known_since, connected_at, last_seen_at)"
		  " VALUES ('mail', 'b', '[]', '1 min', now(), now(), now())",
			true, false },
		{ "UPDATE inbox.inbox_handlers SET last_seen_at = now()", false, false },
		{ "UPDATE inbox.inbox_handlers SET last_seen_at = now() - interval '1 hour'", true,
			false },
		{ "UPDATE inbox.inbox_instances SET handlers = '[{\"name\": \"mail\", "
		  "\"consumer\": \"b\"}]'",
			true, false },
		{ "UPDATE inbox.inbox_handlers SET subscriptions = '[{\"topic\": \"x\"}]'", true,
			false },
		{ "INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('c', 'key', "
		  "'1 min')",
			false, true },
		{ "UPDATE inbox.inbox_consumers SET listed_at = listed_at - interval '1 s'", false,
			false },
		{ "UPDATE inbox.inbox_consumers SET listed_at = now() - interval '1 hour' WHERE "
		  "name = 'c'",
			false, true },
		{ "UPDATE inbox.inbox_offsets SET next_offset = next_offset + 1", false, true },
		{ "UPDATE inbox.inbox_offsets SET epoch = epoch + 1", false, true },
		{ "UPDATE inbox.inbox_offsets SET owner = NULL", false, true },
	};
	struct world *world = *state;
	struct table_look before;

	waiting(world, "a", PLACEMENT_PARKED); /* the partition is taken before it */
	before = look_at(world, NULL);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct table_look after = look_at(world, changes[i].change);

		if ((after.handlers_version != before.handlers_version) != changes[i].handlers ||
			(after.consumers_version != before.consumers_version) !=
				changes[i].consumers)
			fail_msg("after: %s: %d %d", changes[i].change,
				after.handlers_version != before.handlers_version,
				after.consumers_version != before.consumers_version);
		before = after;
	}
}

static void a_look_finds_an_orphaned_partition(void **state)
{
	struct world *world = *state;

	waiting(world, "a", PLACEMENT_PARKED);
	assert_false(look_at(world, NULL).orphans);
	assert_false(look_at(world, "UPDATE inbox.inbox_offsets SET owner = NULL").orphans);
	assert_true(look_at(
		world, "UPDATE inbox.inbox_offsets SET updated_at = now() - interval '16 s'")
			    .orphans);
	assert_false(look_at(world, "DELETE FROM inbox.inbox_messages").orphans);
}

static void gauges_count_each_consumer_and_the_rows_of_unknown_ones(void **state)
{
	struct world *world = *state;
	const struct stream_ref items[] = { { "orders", 0, "mail", ORDERING_KEY },
		{ "orders", 0, "billing", ORDERING_KEY }, { "orders", 0, "old", ORDERING_KEY },
		{ "orders", 1, "mail", ORDERING_KEY } };
	const struct gauges_request request = { { items, 4 }, NULL, 1000, true };
	CLEANUP(gauges_fini) struct gauges gauges = { .dead = -1 };
	static const char *const nobody[] = { "", "a", "billing.2", "cook", "old" };
	const struct backlog *known;

	assert_non_null(backlogs_add(&gauges.known, "mail"));
	assert_non_null(backlogs_add(&gauges.known, "billing"));
	for (int i = 0; i < 9; i++) {
		char id[8];

		(void)snprintf(id, sizeof(id), "a%d", i);
		waiting(world, id, i < 2 ? PLACEMENT_PARKED : PLACEMENT_WAITING);
	}
	run_sql(world,
		"UPDATE inbox.inbox_messages m SET consumer = c.consumer FROM (VALUES ('a0', "
		"'mail'),"
		" ('a1', 'old'), ('a2', 'mail'), ('a3', 'mail'), ('a4', 'billing'), ('a5', ''),"
		" ('a6', 'a'), ('a7', 'billing.2'), ('a8', 'cook')) c(event_id, consumer)"
		" WHERE m.event_id = c.event_id");
	OK(waiting_rows_gauges(world->db, &request, &gauges, &err));
	known = gauges.known.items;
	assert_int_equal(known[0].waiting, 2);
	assert_int_equal(known[0].unrouted, 1);
	assert_int_equal(known[1].waiting, 1);
	assert_int_equal(known[1].unrouted, 0);
	assert_int_equal(gauges.for_nobody.count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(gauges.for_nobody.items[i].consumer, nobody[i]);
		assert_int_equal(gauges.for_nobody.items[i].waiting, 1);
	}
}

static void gauges_count_the_rows_of_many_consumers(void **state)
{
	enum { MANY = 40 };
	struct world *world = *state;
	char names[MANY][8];
	struct stream_ref items[MANY];
	const struct gauges_request request = { { items, MANY }, NULL, 1000, true };
	CLEANUP(gauges_fini) struct gauges gauges = { .dead = -1 };

	for (int i = 0; i < MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "c%02d", i);
		items[i] = (struct stream_ref){ "orders", 0, names[i], ORDERING_KEY };
		assert_non_null(backlogs_add(&gauges.known, names[i]));
	}
	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET consumer = CASE event_id WHEN 'a1' THEN "
		       "'c39' ELSE 'old' END");
	OK(waiting_rows_gauges(world->db, &request, &gauges, &err));
	assert_int_equal(gauges.known.items[0].waiting, 0);
	assert_int_equal(gauges.known.items[MANY - 1].waiting, 1);
	assert_int_equal(gauges.for_nobody.count, 1);
}

static void a_known_consumer_without_a_name_hides_no_other(void **state)
{
	struct world *world = *state;
	const struct stream_ref stream = { "orders", 0, "", ORDERING_KEY };
	const struct gauges_request request = { { &stream, 1 }, NULL, 1000, true };
	CLEANUP(gauges_fini) struct gauges gauges = { .dead = -1 };

	assert_non_null(backlogs_add(&gauges.known, ""));
	waiting(world, "a1", PLACEMENT_WAITING);
	waiting(world, "a2", PLACEMENT_WAITING);
	run_sql(world, "UPDATE inbox.inbox_messages SET consumer = 'old' WHERE event_id = 'a2'");
	OK(waiting_rows_gauges(world->db, &request, &gauges, &err));
	assert_int_equal(gauges.known.items[0].waiting, 1);
	assert_int_equal(gauges.for_nobody.count, 1);
	assert_string_equal(gauges.for_nobody.items[0].consumer, "old");
}

/* Refuses claims of the rows that match. */
static void refuse_claims(struct world *world, const char *condition)
{
	run_sql(world, "CREATE FUNCTION inbox.refuse_claim() RETURNS trigger LANGUAGE plpgsql AS $$"
		       " BEGIN RAISE 'not %%', NEW.event_id; END $$");
	run_sql(world,
		"CREATE TRIGGER refuse_claim BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		" WHEN (NEW.claimed_by IS NOT NULL AND OLD.available_at IS NOT NULL AND (%s))"
		" EXECUTE FUNCTION inbox.refuse_claim()",
		condition);
}

struct trial {
	struct stream_ref stream;
	uint64_t hash;
	struct claim_request request;
	struct routing *routing;
	struct refused_seqs without;
};

static struct trial trial_of(struct world *world, const char *key)
{
	struct trial trial = { .stream = { "orders", 0, "", world->ordering },
		.hash = hash_of_key(world, key),
		.routing = wants(NULL) };

	trial.request = (struct claim_request){ .instance = world->me.id,
		.routing = trial.routing,
		.max_rows = 10,
		.max_bytes = 1 << 20,
		.number = 7 };
	return trial;
}

static int probe_due(struct world *world, struct trial *trial)
{
	const struct claim_streams streams = { &trial->stream, 1 };

	return claims_probe_due(world->db, &trial->request, &streams, &trial->without, &err);
}

static int probe_lanes(struct world *world, struct trial *trial)
{
	const struct claim_lanes lanes = { &trial->stream, &trial->hash, 1 };

	return claims_probe_lanes(world->db, &trial->request, &lanes, &trial->without, &err);
}

static struct claimed claim_without(struct world *world, struct trial *trial, bool lane)
{
	const struct claim_streams streams = { &trial->stream, 1 };
	const struct claim_lanes lanes = { &trial->stream, &trial->hash, 1 };
	struct claimed claimed = { NULL };

	trial->request.without = &trial->without;
	if (lane)
		OK(claims_lanes(world->db, &trial->request, &lanes, &claimed, &err));
	else
		OK(claims_due(world->db, &trial->request, &streams, &claimed, &err));
	return claimed;
}

static void trial_fini(struct trial *trial)
{
	refused_seqs_fini(&trial->without);
	routing_free(trial->routing);
}

static int64_t waiting_seq(struct world *world, const char *id, const char *key)
{
	return STORED(world, .id = id, .key = key, .place = PLACEMENT_WAITING);
}

static int64_t first_of(const struct refused_seqs *seqs)
{
	return seqs->items == NULL ? 0 : seqs->items[0];
}

static void a_row_whose_claim_is_refused_is_isolated_with_its_key(void **state)
{
	struct world *world = *state;
	struct claimed claimed;
	struct trial trial;
	int64_t bad;

	(void)waiting_seq(world, "a1", "a");
	bad = waiting_seq(world, "k1", "k");
	(void)waiting_seq(world, "k2", "k");
	(void)waiting_seq(world, "b1", "b");
	refuse_claims(world, "NEW.event_id = 'k1'");
	trial = trial_of(world, "k");
	OK(probe_due(world, &trial));
	assert_int_equal(trial.without.count, 1);
	assert_int_equal(first_of(&trial.without), bad);
	assert_string_equal(err.text, "not k1 [P0001]");
	assert_int_equal(ask(world, "SELECT count(claimed_by) FROM inbox.inbox_messages"), 0);
	claimed = claim_without(world, &trial, false);
	assert_claimed(&claimed, "a1 b1");
	claimed_fini(&claimed);
	claimed = claim_without(world, &trial, true);
	assert_claimed(&claimed, "");
	claimed_fini(&claimed);
	trial_fini(&trial);
}

static void the_first_of_a_key_is_found_when_its_claim_is_refused(void **state)
{
	struct world *world = *state;
	struct claimed claimed;
	struct trial trial;

	(void)STORED(world, .id = "k1", .key = "k", .place = PLACEMENT_PARKED);
	(void)STORED(world, .id = "k2", .key = "k", .place = PLACEMENT_PARKED);
	refuse_claims(world, "NEW.event_id = 'k2'");
	trial = trial_of(world, "k");
	OK(probe_due(world, &trial));
	assert_int_equal(trial.without.count, 0);
	OK(probe_lanes(world, &trial));
	assert_int_equal(trial.without.count, 1);
	OK(probe_lanes(world, &trial));
	assert_int_equal(trial.without.count, 1);
	claimed = claim_without(world, &trial, true);
	assert_claimed(&claimed, "k1");
	assert_true(claimed.rows[0].followed);
	claimed_fini(&claimed);
	trial_fini(&trial);
}

static void when_each_claim_is_refused_no_row_is_left_out(void **state)
{
	struct world *world = *state;
	struct trial trial;

	(void)waiting_seq(world, "a1", "a");
	(void)waiting_seq(world, "b1", "b");
	refuse_claims(world, "true");
	trial = trial_of(world, "a");
	assert_int_equal(probe_due(world, &trial), FAULT_DATABASE);
	assert_string_equal(err.state, "P0001");
	assert_int_equal(trial.without.count, 0);
	trial_fini(&trial);
}

static void with_partition_order_rows_behind_a_refused_row_wait(void **state)
{
	struct world *world = *state;
	struct claimed claimed;
	struct trial trial;

	(void)waiting_seq(world, "a1", "a");
	(void)waiting_seq(world, "b1", "b");
	(void)waiting_seq(world, "c1", "c");
	refuse_claims(world, "NEW.event_id = 'b1'");
	trial = trial_of(world, "a");
	OK(probe_due(world, &trial));
	assert_int_equal(trial.without.count, 1);
	claimed = claim_without(world, &trial, false);
	assert_claimed(&claimed, "a1");
	claimed_fini(&claimed);
	trial_fini(&trial);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)
#define TEST_UNORDERED(function)                                                                   \
	cmocka_unit_test_setup_teardown(function, world_setup_unordered, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_claimed_row_has_everything_that_dispatch_needs),
		TEST(rows_are_claimed_in_the_order_of_their_offsets),
		TEST(a_claim_has_at_most_the_requested_number_of_rows),
		TEST(bytes_beyond_the_budget_stay_in_the_table),
		TEST(the_byte_budget_counts_what_is_sent),
		TEST_UNORDERED(rows_beyond_the_byte_budget_are_not_due_before_those_claimed),
		TEST(keys_that_the_byte_budget_did_not_reach_are_reported),
		TEST(rows_that_are_not_claimed_take_no_bytes_of_the_budget),
		cmocka_unit_test_setup_teardown(
			a_partition_cut_short_by_the_byte_budget_is_reported,
			world_setup_by_partition, world_teardown),
		TEST(a_row_waiting_for_its_retry_parks_later_rows_of_its_key),
		TEST(rows_without_a_key_do_not_wait_for_each_other),
		TEST(a_locked_head_parks_later_rows_of_its_key),
		TEST(a_claim_can_start_at_a_position_and_reports_where_it_ended),
		TEST(two_sessions_never_claim_the_same_row),
		TEST(a_row_without_handler_is_parked_and_blocks_its_key),
		TEST(the_most_specific_subscription_decides),
		TEST_UNORDERED(without_order_no_row_waits_for_another),
		TEST(a_finished_head_releases_the_run_behind_it),
		TEST(the_run_of_a_key_ends_at_a_row_that_waits),
		TEST(the_run_of_a_key_ends_at_a_locked_row),
		cmocka_unit_test_setup_teardown(with_partition_order_a_retry_blocks_the_partition,
			world_setup_by_partition, world_teardown),
		TEST(a_fenced_instance_claims_nothing),
		TEST(only_the_owner_claims_an_ordered_partition),
		TEST(a_partition_that_is_being_acquired_is_skipped),
		TEST(a_claim_whose_answer_was_lost_is_unknown_and_can_be_rescued),
		TEST(a_sweep_finds_keys_that_are_parked_at_their_head),
		TEST(a_sweep_continues_where_its_last_page_ended),
		TEST(parked_rows_without_a_key_are_released_by_a_subscription),
		TEST_UNORDERED(without_order_every_parked_row_is_released_by_a_subscription),
		TEST(each_stream_reports_whether_rows_wait),
		TEST(gauges_count_waiting_dead_and_unhandled_messages),
		TEST(a_look_finds_when_the_next_row_is_due),
		TEST(a_look_finds_what_has_changed),
		TEST(a_look_finds_an_orphaned_partition),
		TEST(gauges_count_each_consumer_and_the_rows_of_unknown_ones),
		TEST(gauges_count_the_rows_of_many_consumers),
		TEST(a_known_consumer_without_a_name_hides_no_other),
		TEST(a_row_whose_claim_is_refused_is_isolated_with_its_key),
		TEST(the_first_of_a_key_is_found_when_its_claim_is_refused),
		TEST(when_each_claim_is_refused_no_row_is_left_out),
		cmocka_unit_test_setup_teardown(with_partition_order_rows_behind_a_refused_row_wait,
			world_setup_by_partition, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
