/* Events of answers: stored in the statement that settles the message, or the message is not settled. */
#include <stdlib.h>

#include "world.h"

#define BROKEN "[{\"topic\":\"no topic\",\"type\":\"t\"}]"

static struct bytes events(const char *json)
{
	return bytes_of(json);
}

static void settle(struct world *world, struct settle_row *rows, size_t count)
{
	OK(settle_run(world->db, world->me.id, rows, count, &err));
}

/* a0, a1 and so on, born claimed and done. Every second one emits an event with its id as data, the others are plain. */
static void done_rows(struct world *world, struct settle_row *rows, int count)
{
	static char emit[16][64];

	for (int i = 0; i < count; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
		rows[i].handler = "billing";
		if (i % 2 != 0)
			continue;
		(void)snprintf(emit[i], sizeof(emit[i]), "[{\"topic\":\"t\",\"type\":\"%s\"}]", id);
		rows[i].emit = events(emit[i]);
		rows[i].plain = false;
	}
}

static void free_errors(struct settle_row *rows, int count)
{
	for (int i = 0; i < count; i++)
		free(rows[i].refusal);
}

static const char *emitted(struct world *world)
{
	return ask_text(world, "SELECT coalesce(string_agg(event_type, ' ' ORDER BY seq), '')"
			       " FROM inbox.outbox");
}

static const char *statuses(struct world *world)
{
	return ask_text(world, "SELECT string_agg(status, ' ' ORDER BY seq) FROM inbox.messages");
}

static void events_are_stored_with_the_verdict(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	row.plain = false;
	row.handler = "billing";
	row.result = bytes_of("{\"n\":1}");
	row.emit = events("[{\"topic\":\"out\",\"key\":\"k\",\"type\":\"one\",\"data\":{\"a\":1}},"
			  "{\"aggregate\":\"order\",\"type\":\"two\"}]");
	must_settle(world, &row);
	assert_string_equal(emitted(world), "one two");
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.outbox WHERE caused_by = %ld",
				 (long)row.seq),
		2);
	assert_string_equal(
		ask_text(world, "SELECT handler || result::text FROM inbox.inbox_messages"),
		"billing{\"n\": 1}");
}

static void events_follow_the_order_of_the_list(void **state)
{
	struct world *world = *state;
	struct settle_row rows[5];
	struct settle_row reversed[5];

	done_rows(world, rows, 5);
	for (int i = 0; i < 5; i++)
		reversed[i] = rows[4 - i];
	settle(world, reversed, 5);
	assert_string_equal(emitted(world), "a4 a2 a0");
	assert_string_equal(statuses(world), "processed processed processed processed processed");
}

static void a_lost_claim_emits_nothing(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %ld",
		(long)rows[0].seq);
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_LOST);
	assert_int_equal(rows[2].status, SETTLE_SETTLED);
	assert_string_equal(emitted(world), "a2");
}

/* The answer to the first COMMIT was lost. */
static void settling_again_emits_nothing_more(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	settle(world, rows, 3);
	for (int i = 0; i < 3; i++)
		rows[i].repeated = true;
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_COMPLETED);
	assert_false(rows[0].events_dropped);
	assert_string_equal(emitted(world), "a0 a2");
}

static void events_behind_a_completion_are_dropped_and_reported(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	run_sql(world,
		"SELECT inbox.complete(concat_ws('.', seq, delivery_count, claimed_by, "
		"'YmlsbGluZw')) "
		"FROM inbox.inbox_messages WHERE seq IN (%ld, %ld)",
		(long)rows[0].seq, (long)rows[1].seq);
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_COMPLETED);
	assert_true(rows[0].events_dropped);
	assert_int_equal(rows[1].status, SETTLE_COMPLETED);
	assert_false(rows[1].events_dropped);
	assert_false(rows[2].events_dropped);
	assert_string_equal(emitted(world), "a2");
}

static void a_wrong_event_leaves_out_its_message_only(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	done_rows(world, rows, 6);
	rows[2].emit = events(BROKEN);
	settle(world, rows, 6);
	assert_int_equal(rows[2].status, SETTLE_UNEMITTED);
	assert_string_equal(rows[2].refusal->text,
		"inbox.emit: emit[0].topic is 'no topic'; it has 1 to 249 letters, digits, dots, "
		"underscores and hyphens [IB020]");
	assert_string_equal(
		statuses(world), "processed processed claimed processed processed processed");
	assert_string_equal(emitted(world), "a0 a4");
	free_errors(rows, 6);
}

static void the_verdict_that_follows_can_be_settled(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	row.emit = events(BROKEN);
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_UNEMITTED);
	free(row.refusal);
	row = verdict(row.seq, 1, SETTLE_WAITING);
	row.error_code = "EMIT";
	must_settle(world, &row);
	assert_string_equal(emitted(world), "");
}

static void what_jsonb_cannot_hold_leaves_out_its_message_only(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	rows[0].emit = events("[{\"topic\":\"t\",\"type\":\"t\",\"data\":\"\\u0000\"}]");
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_UNEMITTED);
	assert_string_equal(emitted(world), "a2");
	free_errors(rows, 3);
}

static void a_result_that_cannot_be_stored_keeps_the_events(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	rows[0].result = bytes_of("\"\\u0000\"");
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_SETTLED);
	assert_string_equal(emitted(world), "a0 a2");
	assert_string_equal(ask_text(world, "SELECT left(result ->> 'inboxd', 17)"
					    " FROM inbox.inbox_messages WHERE event_id = 'a0'"),
		"result not stored");
}

/* For example without the privilege to call emit_caused(). */
static void a_trigger_that_refuses_events_delays_no_other_verdict(void **state)
{
	struct world *world = *state;
	struct settle_row rows[5];

	done_rows(world, rows, 5);
	run_sql(world, "CREATE FUNCTION inbox.refuse_event() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN RAISE 'no events' USING ERRCODE = '42501'; END$$");
	run_sql(world, "CREATE TRIGGER refuse_event BEFORE INSERT ON inbox.outbox FOR EACH ROW"
		       " EXECUTE FUNCTION inbox.refuse_event()");
	settle(world, rows, 5);
	assert_string_equal(statuses(world), "claimed processed claimed processed claimed");
	assert_int_equal(rows[4].status, SETTLE_REFUSED);
	assert_string_equal(rows[4].refusal->text, "no events [42501]");
	free_errors(rows, 5);
	run_sql(world, "DROP TRIGGER refuse_event ON inbox.outbox");
	settle(world, rows, 5);
	assert_string_equal(emitted(world), "a0 a2 a4");
}

static void behind_a_message_with_a_wrong_event_its_lane_is_not_settled(void **state)
{
	struct world *world = *state;
	struct settle_row rows[4];

	done_rows(world, rows, 4);
	for (int i = 0; i < 3; i++) {
		rows[i].lane = 7;
		rows[i].follows = i > 0;
	}
	rows[0].emit = events(BROKEN);
	settle(world, rows, 4);
	assert_int_equal(rows[0].status, SETTLE_UNEMITTED);
	assert_int_equal(rows[1].status, SETTLE_BEHIND);
	assert_int_equal(rows[2].status, SETTLE_BEHIND);
	assert_string_equal(statuses(world), "claimed claimed claimed processed");
	assert_string_equal(emitted(world), "");
	free_errors(rows, 4);
}

/* For example by CREATE INDEX. */
static void while_the_outbox_is_locked_other_messages_are_settled(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	assert_string_equal(run_other(world, "BEGIN; LOCK inbox.outbox IN SHARE MODE"), "");
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_LOCKED);
	assert_int_equal(rows[1].status, SETTLE_SETTLED);
	assert_string_equal(run_other(world, "COMMIT"), "");
	settle(world, rows, 1);
	assert_int_equal(rows[0].status, SETTLE_SETTLED);
}

/* A list of both: neither lock delays what needs neither of them. */
static void while_the_outbox_and_a_row_are_locked_other_messages_are_settled(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	done_rows(world, rows, 6);
	assert_string_equal(run_other(world,
				    "BEGIN; LOCK inbox.outbox IN SHARE MODE;"
				    " SELECT FROM inbox.inbox_messages WHERE seq = %ld FOR UPDATE",
				    (long)rows[1].seq),
		"");
	settle(world, rows, 6);
	assert_int_equal(rows[0].status, SETTLE_LOCKED);
	assert_int_equal(rows[1].status, SETTLE_LOCKED);
	assert_int_equal(rows[3].status, SETTLE_SETTLED);
	assert_int_equal(rows[5].status, SETTLE_SETTLED);
	assert_string_equal(run_other(world, "COMMIT"), "");
	settle(world, rows, 3);
	assert_string_equal(emitted(world), "a0 a2");
}

static void a_message_in_its_handlers_transaction_emits_later(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	done_rows(world, rows, 3);
	assert_string_equal(
		run_other(world,
			"BEGIN; SELECT FROM inbox.inbox_messages WHERE seq = %ld FOR UPDATE",
			(long)rows[0].seq),
		"");
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_LOCKED);
	assert_string_equal(emitted(world), "a2");
	assert_string_equal(run_other(world, "COMMIT"), "");
	settle(world, rows, 1);
	assert_string_equal(emitted(world), "a2 a0");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(events_are_stored_with_the_verdict),
		TEST(events_follow_the_order_of_the_list),
		TEST(a_lost_claim_emits_nothing),
		TEST(settling_again_emits_nothing_more),
		TEST(events_behind_a_completion_are_dropped_and_reported),
		TEST(a_wrong_event_leaves_out_its_message_only),
		TEST(the_verdict_that_follows_can_be_settled),
		TEST(what_jsonb_cannot_hold_leaves_out_its_message_only),
		TEST(a_result_that_cannot_be_stored_keeps_the_events),
		TEST(a_trigger_that_refuses_events_delays_no_other_verdict),
		TEST(behind_a_message_with_a_wrong_event_its_lane_is_not_settled),
		TEST(while_the_outbox_is_locked_other_messages_are_settled),
		TEST(while_the_outbox_and_a_row_are_locked_other_messages_are_settled),
		TEST(a_message_in_its_handlers_transaction_emits_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
