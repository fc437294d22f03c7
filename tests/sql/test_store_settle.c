/* Settling: each verdict once, fenced, without waiting for other transactions. */
#include "world.h"

static void settle(struct world *world, struct settle_row *rows, size_t count)
{
	OK(settle_run(world->db, world->me.id, rows, count, &err));
}

static const char *state_of(struct world *world, int64_t seq)
{
	return ask_text(world,
		"SELECT concat_ws('|', status, retry_count, crash_count, suspect, error,"
		" error_code, result) FROM inbox.messages WHERE seq = %ld",
		(long)seq);
}

static void a_done_message_is_processed(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	must_settle(world, &row);
	assert_string_equal(state_of(world, row.seq), "processed|0|0|f");
}

static void rows_of_different_claims_are_settled_together(void **state)
{
	struct world *world = *state;
	struct settle_row rows[4];

	for (int i = 0; i < 4; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1 + i / 2, SETTLE_PROCESSED);
	}
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq >= %ld",
		(long)rows[2].seq);
	settle(world, rows, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
		assert_string_equal(state_of(world, rows[i].seq), "processed|0|0|f");
	}
}

static const char *handler_of(struct world *world, int64_t seq)
{
	return ask_text(world,
		"SELECT coalesce(handler, '-') FROM inbox.inbox_messages WHERE seq = %ld",
		(long)seq);
}

/* More handlers than there are fast statements: all are settled, and each row names its own. */
static void a_row_names_the_handler_that_processed_it(void **state)
{
	struct world *world = *state;
	struct settle_row rows[40];
	char names[40][8];

	for (int i = 0; i < 40; i++) {
		char id[8];

		(void)snprintf(id, sizeof(id), "a%d", i);
		(void)snprintf(names[i], sizeof(names[i]), "h%d", i % 20);
		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
		rows[i].handler = names[i];
	}
	settle(world, rows, 40);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
		assert_string_equal(handler_of(world, rows[i].seq), names[i]);
	}
}

static void a_dead_row_names_its_handler_and_a_waiting_row_does_not(void **state)
{
	struct world *world = *state;
	struct settle_row dead = verdict(STORED(world, .id = "a"), 1, SETTLE_DEAD);
	struct settle_row waits = verdict(STORED(world, .id = "b"), 1, SETTLE_WAITING);

	dead.plain = waits.plain = false;
	dead.handler = waits.handler = "billing";
	must_settle(world, &dead);
	must_settle(world, &waits);
	assert_string_equal(handler_of(world, dead.seq), "billing");
	assert_string_equal(handler_of(world, waits.seq), "-");
}

static void a_row_completed_by_its_handler_gets_the_name_when_verified(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_WAITING);

	row.plain = false;
	row.handler = "billing";
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)row.seq, (int)world->me.id);
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_COMPLETED);
	assert_string_equal(handler_of(world, row.seq), "billing");
	run_sql(world, "UPDATE inbox.inbox_messages SET processed_at = NULL WHERE seq = %ld",
		(long)row.seq);
	assert_string_equal(handler_of(world, row.seq), "-");
}

/* A user's trigger may forbid updates of processed rows. */
static void a_completed_row_stays_completed_when_the_name_cannot_be_stored(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	row.handler = "billing";
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)row.seq, (int)world->me.id);
	run_sql(world, "CREATE FUNCTION inbox.seal() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN RAISE 'sealed'; END$$");
	run_sql(world, "CREATE TRIGGER seal BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.processed_at IS NOT NULL) EXECUTE FUNCTION inbox.seal()");
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_COMPLETED);
	assert_string_equal(handler_of(world, row.seq), "-");
}

static void a_lost_row_does_not_block_the_others(void **state)
{
	struct world *world = *state;
	struct settle_row rows[3];

	for (int i = 0; i < 3; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
	}
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %ld",
		(long)rows[1].seq);
	settle(world, rows, 3);
	assert_int_equal(rows[0].status, SETTLE_COMPLETED);
	assert_int_equal(rows[1].status, SETTLE_LOST);
	assert_int_equal(rows[2].status, SETTLE_COMPLETED);
}

/* The verdict of the first claim was committed and its answer lost. Before it is repeated, the row was claimed again. */
static void two_claims_of_a_row_are_told_apart(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct settle_row rows[2] = { verdict(seq, 1, SETTLE_WAITING),
		verdict(seq, 2, SETTLE_PROCESSED) };

	rows[0].lane = rows[1].lane = 7;
	rows[1].follows = true;
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %ld",
		(long)seq);
	settle(world, rows, 2);
	assert_int_equal(rows[0].status, SETTLE_LOST);
	assert_int_equal(rows[1].status, SETTLE_BEHIND);
	must_settle(world, &rows[1]);
	assert_string_equal(state_of(world, seq), "processed|0|0|f");
}

static void each_verdict_writes_its_state(void **state)
{
	struct world *world = *state;
	struct settle_row rows[5];

	for (int i = 0; i < 5; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
	}
	rows[1].plain = false;
	rows[1].result = bytes_of("{\"ok\":true}");
	rows[2].plain = rows[3].plain = rows[4].plain = false;
	rows[2].outcome = SETTLE_DEAD;
	rows[2].retry_count = 10;
	rows[2].error = "boom";
	rows[2].error_code = "BOOM";
	rows[3].outcome = SETTLE_WAITING;
	rows[3].delay_ms = 3600000;
	rows[3].retry_count = 1;
	rows[3].crash_count = 2;
	rows[3].suspect = true;
	rows[4].outcome = SETTLE_PARKED;
	settle(world, rows, 5);

	for (int i = 0; i < 5; i++)
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
	assert_string_equal(state_of(world, rows[0].seq), "processed|0|0|f");
	assert_string_equal(state_of(world, rows[1].seq), "processed|0|0|f|{\"ok\": true}");
	assert_string_equal(state_of(world, rows[2].seq), "dead|10|0|f|boom|BOOM");
	assert_string_equal(state_of(world, rows[3].seq), "retrying|1|2|t");
	assert_string_equal(state_of(world, rows[4].seq), "parked|0|0|f");
	assert_string_equal(ask_text(world,
				    "SELECT available_at - now() BETWEEN '50 min' AND '60 min'"
				    " AND claimed_by IS NULL FROM inbox.inbox_messages"
				    " WHERE seq = %ld",
				    (long)rows[3].seq),
		"t");
}

/* The attempts of a row as "attempt handler error code", one after the other. */
static const char *history_of(struct world *world, int64_t seq)
{
	return ask_text(world,
		"SELECT string_agg(concat_ws(' ', e->>'attempt', e->>'handler', e->>'error',"
		" e->>'code'), ', ' ORDER BY n) FROM inbox.inbox_messages,"
		" jsonb_array_elements(attempts) WITH ORDINALITY AS a(e, n) WHERE seq = %ld",
		(long)seq);
}

static struct settle_row failure(int64_t seq, enum settle_outcome outcome, int attempt)
{
	struct settle_row row = verdict(seq, 1, outcome);

	row.plain = false;
	row.retry_count = attempt;
	row.error = "boom";
	row.error_code = "E";
	row.handler = "billing";
	return row;
}

static void claim_again(struct world *world, int64_t seq)
{
	run_sql(world,
		"UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = %d"
		" WHERE seq = %ld",
		(int)world->me.id, (long)seq);
}

static void a_failed_attempt_goes_to_the_history(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct settle_row row = failure(seq, SETTLE_WAITING, 1);

	must_settle(world, &row);
	assert_string_equal(history_of(world, seq), "1 billing boom E");
	claim_again(world, seq);
	row = failure(seq, SETTLE_DEAD, 2);
	row.handler = NULL;
	row.error = NULL;
	must_settle(world, &row);
	assert_string_equal(history_of(world, seq), "1 billing boom E, 2 E");
}

/* The handler answered dead: no attempt is counted, and it failed. */
static void dead_at_once_is_a_failed_attempt(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct settle_row row = failure(seq, SETTLE_DEAD, 0);

	must_settle(world, &row);
	assert_string_equal(history_of(world, seq), "1 billing boom E");
}

static void a_result_without_an_attempt_leaves_no_history(void **state)
{
	static const enum settle_outcome outcomes[] = { SETTLE_PROCESSED, SETTLE_WAITING,
		SETTLE_PARKED };
	struct world *world = *state;

	for (size_t i = 0; i < 3; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };
		struct settle_row row = failure(STORED(world, .id = id), outcomes[i], 0);

		/* It was raised before the delivery. An answer takes that back. */
		run_sql(world, "UPDATE inbox.inbox_messages SET crash_count = 1, suspect = true"
			       " WHERE available_at IS NULL AND processed_at IS NULL");
		must_settle(world, &row);
		assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"
					    " WHERE error = 'boom' AND error_code = 'E'"
					    " AND retry_count = 0 AND crash_count = 0"),
			(int64_t)i + 1);
		assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"
					    " WHERE attempts IS NOT NULL"),
			0);
	}
}

/* It spends no attempt either, but has an error. */
static void a_crash_that_counts_goes_to_the_history(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct settle_row row = failure(seq, SETTLE_WAITING, 0);

	row.crash_count = 1;
	row.suspect = true;
	run_sql(world, "UPDATE inbox.inbox_messages SET crash_count = 1, suspect = true");
	must_settle(world, &row);
	assert_string_equal(history_of(world, seq), "1 billing boom E");
}

static void the_history_keeps_the_last_ten_and_every_replay(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");

	run_sql(world, "UPDATE inbox.inbox_messages SET attempts ="
		       " '[{\"replayed_by\": \"me\", \"handler\": \"replay\"}]'");
	for (int i = 1; i <= 12; i++) {
		struct settle_row row = failure(seq, SETTLE_WAITING, i);

		row.error = row.error_code = row.handler = NULL;
		must_settle(world, &row);
		claim_again(world, seq);
	}
	assert_string_equal(history_of(world, seq), "replay, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12");
}

static void a_long_error_is_cut_in_the_history(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct settle_row row = failure(seq, SETTLE_WAITING, 1);
	char words[5001];

	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	row.error = words;
	must_settle(world, &row);
	assert_int_equal(
		ask(world, "SELECT length(attempts->0->>'error') FROM inbox.inbox_messages"), 1000);
	assert_int_equal(ask(world, "SELECT length(error) FROM inbox.inbox_messages"), 5000);
}

/* A statement that updates more than six rows ends as by statement_timeout. */
static void a_batch_that_times_out_is_settled_in_halves(void **state)
{
	struct world *world = *state;
	struct settle_row rows[16];

	for (int i = 0; i < 16; i++) {
		char id[] = { (char)('a' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
	}
	run_sql(world,
		"CREATE FUNCTION inbox.slow() RETURNS trigger LANGUAGE plpgsql AS"
		" $$BEGIN IF (SELECT count(*) > 6 FROM changed) THEN"
		" RAISE 'slow' USING ERRCODE = 'query_canceled'; END IF; RETURN NULL; END$$");
	run_sql(world, "CREATE TRIGGER slow AFTER UPDATE ON inbox.inbox_messages REFERENCING NEW"
		       " TABLE AS changed EXECUTE FUNCTION inbox.slow()");
	OK(settle_run(world->db, world->me.id, rows, 16, &err));
	for (int i = 0; i < 16; i++)
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
}

static void a_settle_without_the_current_claim_is_lost(void **state)
{
	struct world *world = *state;
	struct settle_row rows[] = {
		verdict(STORED(world, .id = "a"), 2, SETTLE_PROCESSED),
		verdict(STORED(world, .id = "b"), 1, SETTLE_PROCESSED),
		verdict(987654321, 1, SETTLE_PROCESSED),
	};

	run_sql(world, "UPDATE inbox.inbox_messages SET claimed_by = 5 WHERE event_id = 'b'");
	settle(world, rows, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rows[i].status, SETTLE_LOST);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.messages WHERE status = 'claimed'"), 2);
}

/* All of them are in the fast statement: each has the most frequent count. */
static void a_settle_without_any_current_claim_changes_nothing(void **state)
{
	struct world *world = *state;
	struct settle_row rows[] = {
		verdict(STORED(world, .id = "a"), 2, SETTLE_PROCESSED),
		verdict(STORED(world, .id = "b"), 2, SETTLE_PROCESSED),
	};

	settle(world, rows, 2);
	assert_int_equal(rows[0].status, SETTLE_LOST);
	assert_int_equal(rows[1].status, SETTLE_LOST);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.messages WHERE status = 'claimed'"), 2);
}

static void settling_twice_reports_completed(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	must_settle(world, &row);
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_COMPLETED);
}

static void settling_dead_twice_reports_settled(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_DEAD);

	must_settle(world, &row);
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_SETTLED);
}

static void a_handlers_own_completion_is_found(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_WAITING);

	run_sql(world, "SELECT inbox.complete('%ld.1.%d', '{\"by\": \"handler\"}')", (long)row.seq,
		world->me.id);
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_COMPLETED);
	assert_string_equal(state_of(world, row.seq), "processed|0|0|f|{\"by\": \"handler\"}");
}

static void a_locked_row_is_skipped_and_the_others_are_settled(void **state)
{
	struct world *world = *state;
	struct settle_row rows[] = {
		verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED),
		verdict(STORED(world, .id = "b"), 1, SETTLE_WAITING),
		verdict(STORED(world, .id = "c"), 1, SETTLE_PROCESSED),
		verdict(987654321, 1, SETTLE_PROCESSED),
	};

	assert_string_equal(run_other(world, "BEGIN; SELECT inbox.complete('%ld.1.%d')",
				    (long)rows[1].seq, world->me.id),
		"");
	settle(world, rows, 4);
	assert_int_equal(rows[0].status, SETTLE_SETTLED);
	assert_int_equal(rows[1].status, SETTLE_LOCKED);
	assert_int_equal(rows[2].status, SETTLE_SETTLED);
	assert_int_equal(rows[3].status, SETTLE_LOST);

	assert_string_equal(run_other(world, "COMMIT"), "");
	settle(world, &rows[1], 1);
	assert_int_equal(rows[1].status, SETTLE_COMPLETED);
}

static void a_locked_row_whose_transaction_rolls_back_is_settled_later(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	assert_string_equal(run_other(world, "BEGIN; SELECT inbox.complete('%ld.1.%d')",
				    (long)row.seq, world->me.id),
		"");
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_LOCKED);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	must_settle(world, &row);
}

static void a_result_that_cannot_be_stored_is_replaced_by_a_note(void **state)
{
	struct world *world = *state;
	struct settle_row rows[9];

	for (int i = 0; i < 9; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
		rows[i].plain = i % 2 == 0;
		if (!rows[i].plain)
			rows[i].result = bytes_of(i == 5 ? "{\"a\":\"\\u0000\"}" : "{\"a\":1}");
	}
	settle(world, rows, 9);
	for (int i = 0; i < 9; i++)
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
	assert_string_equal(state_of(world, rows[3].seq), "processed|0|0|f|{\"a\": 1}");
	assert_string_equal(
		ask_text(world,
			"SELECT result->>'inboxd' FROM inbox.inbox_messages WHERE seq = %ld",
			(long)rows[5].seq),
		"result not stored: unsupported Unicode escape sequence [22P05]");
	assert_int_equal(rows[5].result.length, strlen("{\"a\":\"\\u0000\"}"));
}

static void an_error_that_cannot_be_stored_is_replaced_by_a_note(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_DEAD);

	row.error = "broken \xff";
	row.error_code = "X\xff";
	must_settle(world, &row);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.inbox_messages WHERE dead_at IS NOT NULL"
			   " AND error LIKE 'error not stored: %%' AND error_code = 'UNSTORABLE'"),
		1);
}

static void an_absurd_delay_is_cut(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_WAITING);

	row.delay_ms = INT64_MAX;
	must_settle(world, &row);
	assert_string_equal(
		ask_text(world, "SELECT available_at > now() + interval '90 years'"
				" AND available_at < 'infinity' FROM inbox.inbox_messages"),
		"t");
}

static void a_settle_without_the_server_leaves_the_row_open(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_PROCESSED);

	run_sql(world, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
		       " WHERE application_name = 'inboxd/test'");
	assert_int_equal(settle_run(world->db, world->me.id, &row, 1, &err), FAULT_DATABASE);
	assert_int_equal(row.status, SETTLE_OPEN);
	OK(db_open(world->db, &err));
	must_settle(world, &row);
}

static void a_crash_is_counted_before_delivery(void **state)
{
	struct world *world = *state;
	struct settle_row rows[] = {
		verdict(STORED(world, .id = "a"), 1, SETTLE_WAITING),
		verdict(STORED(world, .id = "b"), 3, SETTLE_WAITING),
	};

	OK(settle_raise(world->db, world->me.id, rows, 2, &err));
	assert_int_equal(rows[0].status, SETTLE_SETTLED);
	assert_int_equal(rows[1].status, SETTLE_LOST);
	assert_string_equal(state_of(world, rows[0].seq), "claimed|0|1|t");
}

static void a_thousand_rows_in_any_order_are_settled(void **state)
{
	struct world *world = *state;
	static struct settle_row rows[1000];

	for (int i = 0; i < 1000; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "e%d", i);
		ADD(world, .id = id);
	}
	must_store(world);
	for (size_t i = 0; i < 1000; i++)
		rows[i] = verdict(world->batch.rows[(i * 379) % 1000].message->seq, 1,
			i % 3 == 0 ? SETTLE_WAITING : SETTLE_PROCESSED);
	settle(world, rows, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(rows[i].status, SETTLE_SETTLED);
}

/* Refuses updates of `column` of matching rows, like a trigger of the user. */
static void refuse_updates(struct world *world, const char *column, const char *condition)
{
	run_sql(world,
		"CREATE FUNCTION inbox.refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$"
		" BEGIN RAISE 'not %%', NEW.event_id; END $$");
	run_sql(world,
		"CREATE TRIGGER refuse_update BEFORE UPDATE OF %s ON inbox.inbox_messages"
		" FOR EACH ROW WHEN (%s) EXECUTE FUNCTION inbox.refuse_update()",
		column, condition);
}

/* a0 to a5, born claimed; all to be done. */
static void six_rows(struct world *world, struct settle_row rows[6])
{
	for (int i = 0; i < 6; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		rows[i] = verdict(STORED(world, .id = id), 1, SETTLE_PROCESSED);
	}
}

static void free_refusals(struct settle_row *rows, int count)
{
	for (int i = 0; i < count; i++)
		free(rows[i].refusal);
}

static void a_row_that_is_refused_is_isolated_and_the_others_are_settled(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows(world, rows);
	refuse_updates(world, "processed_at", "NEW.event_id IN ('a1', 'a4')");
	assert_int_equal(settle_run(world->db, world->me.id, rows, 6, &err), FAULT_DATABASE);
	assert_int_equal(rows[0].status, SETTLE_OPEN);
	OK(settle_isolate(world->db, world->me.id, rows, 6, &err));
	for (int i = 0; i < 6; i++)
		assert_int_equal(
			rows[i].status, i == 1 || i == 4 ? SETTLE_REFUSED : SETTLE_SETTLED);
	assert_string_equal(err.text, "not a4 [P0001]");
	assert_string_equal(state_of(world, rows[1].seq), "claimed|0|0|f");
	assert_string_equal(state_of(world, rows[2].seq), "processed|0|0|f");
	free_refusals(rows, 6);
}

static void when_every_row_is_refused_the_settle_fails(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows(world, rows);
	refuse_updates(world, "processed_at", "true");
	assert_int_equal(settle_isolate(world->db, world->me.id, rows, 6, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "P0001");
	for (int i = 0; i < 6; i++)
		assert_int_equal(rows[i].status, SETTLE_OPEN);
	OK(settle_isolate(world->db, world->me.id, rows, 1, &err));
	assert_int_equal(rows[0].status, SETTLE_REFUSED);
	free_refusals(rows, 6);
}

/* There is no value that a note could replace. */
static void a_row_that_a_constraint_of_the_user_refuses_is_isolated(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows(world, rows);
	run_sql(world, "ALTER TABLE inbox.inbox_messages ADD CONSTRAINT theirs"
		       " CHECK (event_id <> 'a3' OR processed_at IS NULL)");
	assert_int_equal(settle_run(world->db, world->me.id, rows, 6, &err), FAULT_DATABASE);
	OK(settle_isolate(world->db, world->me.id, rows, 6, &err));
	assert_int_equal(rows[3].status, SETTLE_REFUSED);
	assert_true(rows[2].status == SETTLE_SETTLED || rows[2].status == SETTLE_COMPLETED);
	assert_string_equal(state_of(world, rows[5].seq), "processed|0|0|f");
	free_refusals(rows, 6);
}

static void a_crash_that_cannot_be_counted_does_not_block_others(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows(world, rows);
	refuse_updates(world, "crash_count", "NEW.event_id = 'a2'");
	OK(settle_raise(world->db, world->me.id, rows, 6, &err));
	for (int i = 0; i < 6; i++)
		assert_int_equal(rows[i].status, i == 2 ? SETTLE_REFUSED : SETTLE_SETTLED);
	assert_int_equal(ask(world, "SELECT sum(crash_count) FROM inbox.inbox_messages"), 5);
	free_refusals(rows, 6);
}

/* Rule R25. a0 to a2 are verdicts of one lane, a3 and a4 of another one, a5 has no order. */
static void six_rows_of_lanes(struct world *world, struct settle_row rows[6])
{
	static const uint64_t lanes[] = { 7, 7, 7, 8, 8, 0 };
	static const bool follows[] = { false, true, true, false, true, false };

	six_rows(world, rows);
	for (int i = 0; i < 6; i++) {
		rows[i].lane = lanes[i];
		rows[i].follows = follows[i];
		rows[i].plain = i % 2 == 0; /* both statements */
	}
}

static void assert_statuses(const struct settle_row *rows, const enum settle_status *expected)
{
	for (int i = 0; i < 6; i++)
		assert_int_equal(rows[i].status, expected[i]);
}

static void behind_a_locked_row_its_lane_is_not_settled(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_LOCKED, SETTLE_BEHIND,
		SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_SETTLED };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	assert_string_equal(run_other(world, "BEGIN; SELECT inbox.complete('%ld.1.%d')",
				    (long)rows[1].seq, world->me.id),
		"");
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	assert_string_equal(state_of(world, rows[2].seq), "claimed|0|0|f");
	assert_string_equal(run_other(world, "ROLLBACK"), "");
}

static void behind_a_refused_row_its_lane_is_not_settled(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_REFUSED,
		SETTLE_BEHIND, SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_SETTLED };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	refuse_updates(world, "processed_at", "NEW.event_id = 'a1'");
	OK(settle_isolate(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	assert_string_equal(state_of(world, rows[2].seq), "claimed|0|0|f");
	free_refusals(rows, 6);
}

static void behind_a_lost_row_its_lane_is_not_settled(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_LOST, SETTLE_BEHIND,
		SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_SETTLED };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %ld",
		(long)rows[1].seq);
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	assert_string_equal(state_of(world, rows[2].seq), "claimed|0|0|f");
}

/* Its handler completed it in a transaction of its own. */
static void behind_a_completed_row_its_lane_is_settled(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_COMPLETED,
		SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_SETTLED };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)rows[1].seq, world->me.id);
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
}

/* Handlers that complete their messages themselves answer `settled`. Their rows are read, and nothing is written: a
 * trigger that refuses updates is not called. */
static void rows_that_their_handler_completed_are_only_read(void **state)
{
	static const enum settle_status expected[] = { SETTLE_COMPLETED, SETTLE_COMPLETED,
		SETTLE_COMPLETED, SETTLE_COMPLETED, SETTLE_COMPLETED, SETTLE_LOST };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	for (int i = 0; i < 6; i++) {
		rows[i].expects_completed = true;
		rows[i].outcome = SETTLE_WAITING;
		rows[i].plain = false;
		run_sql(world,
			i < 5 ? "SELECT inbox.complete('%ld.1.%d')"
			      : "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = "
				"%ld AND %d > 0",
			(long)rows[i].seq, world->me.id);
	}
	refuse_updates(world, "processed_at", "true");
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
}

/* inbox.complete() writes the name of the handler, which is in the claim, and inbox.call_handler() does, too. Another
 * transaction can have the rows locked. */
static void completed_rows_with_the_name_of_their_handler_are_not_updated(void **state)
{
	static const char last_change[] =
		"SELECT max(xmin::text::bigint) FROM inbox.inbox_messages";
	struct world *world = *state;
	struct settle_row rows[6];
	int64_t before;

	six_rows(world, rows);
	run_sql(world, "SELECT inbox.complete(concat_ws('.', seq, delivery_count, claimed_by, "
		       "'YmlsbGluZw')) "
		       "FROM inbox.inbox_messages");
	assert_string_equal(
		run_other(world, "BEGIN; SELECT seq FROM inbox.inbox_messages FOR UPDATE"), "");
	for (int i = 0; i < 6; i++) {
		rows[i].expects_completed = true;
		rows[i].outcome = SETTLE_WAITING;
		rows[i].plain = false;
		rows[i].handler = "billing";
	}
	before = ask(world, last_change);
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	for (int i = 0; i < 6; i++)
		assert_int_equal(rows[i].status, SETTLE_COMPLETED);
	assert_int_equal(ask(world, last_change), before);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	rows[3].handler = "shipping";
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_int_equal(rows[3].status, SETTLE_COMPLETED);
	assert_string_equal(handler_of(world, rows[3].seq), "shipping");
}

/* Rule R8. The rows of two handlers, which say that they have completed all of them. a1 has another claim now, a4 was
 * not completed, and the transaction of a5 is open. */
static void what_handlers_say_they_have_completed_is_checked(void **state)
{
	static const enum settle_status expected[] = { SETTLE_COMPLETED, SETTLE_LOST,
		SETTLE_COMPLETED, SETTLE_COMPLETED, SETTLE_SETTLED, SETTLE_LOCKED };
	static const char *const names[] = { "billing", "-", "billing", "shipping", "-", "-" };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows(world, rows);
	for (int i = 0; i < 6; i++) {
		rows[i].expects_completed = true;
		rows[i].outcome = SETTLE_WAITING;
		rows[i].plain = false;
		rows[i].handler = i == 3 ? "shipping" : "billing";
		if (i == 0 || i == 2 || i == 3)
			run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)rows[i].seq,
				world->me.id);
	}
	run_sql(world, "UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %ld",
		(long)rows[1].seq);
	assert_string_equal(run_other(world, "BEGIN; SELECT inbox.complete('%ld.1.%d')",
				    (long)rows[5].seq, world->me.id),
		"");
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	for (int i = 0; i < 6; i++)
		assert_string_equal(handler_of(world, rows[i].seq), names[i]);
	assert_string_equal(state_of(world, rows[4].seq), "waiting|0|0|f");
}

static void a_completed_row_that_is_locked_is_completed(void **state)
{
	struct world *world = *state;
	struct settle_row row = verdict(STORED(world, .id = "a"), 1, SETTLE_WAITING);

	row.plain = false;
	row.expects_completed = true;
	row.handler = "billing";
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)row.seq, (int)world->me.id);
	assert_string_equal(
		run_other(world,
			"BEGIN; UPDATE inbox.inbox_messages SET result = NULL WHERE seq = %ld",
			(long)row.seq),
		"");
	settle(world, &row, 1);
	assert_int_equal(row.status, SETTLE_COMPLETED);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	assert_string_equal(handler_of(world, row.seq), "-");
}

static void a_row_that_its_handler_did_not_complete_is_settled(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_SETTLED,
		SETTLE_SETTLED, SETTLE_SETTLED, SETTLE_COMPLETED, SETTLE_SETTLED };
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	rows[1].expects_completed = true;
	rows[1].outcome = SETTLE_WAITING;
	rows[1].handler = "billing";
	rows[4].expects_completed = true;
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)rows[4].seq, world->me.id);
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	assert_string_equal(state_of(world, rows[1].seq), "waiting|0|0|f");
}

/* The look for the lost row ends as by statement_timeout. */
static void without_an_answer_about_their_claims_no_row_is_lost(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	for (int i = 0; i < 6; i++)
		rows[i].handler = "billing";
	run_sql(world, "SELECT inbox.complete('%ld.1.%d')", (long)rows[1].seq, world->me.id);
	run_sql(world, "CREATE FUNCTION inbox.slow() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN RAISE 'slow' USING ERRCODE = 'query_canceled'; END$$");
	run_sql(world, "CREATE TRIGGER slow BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.processed_at IS NOT NULL) EXECUTE FUNCTION inbox.slow()");
	assert_int_equal(settle_run(world->db, world->me.id, rows, 6, &err), FAULT_DATABASE);
	for (int i = 0; i < 6; i++)
		assert_int_equal(rows[i].status, SETTLE_OPEN);
}

/* The order of the verdicts counts, not that of the rows. Of six verdicts the third is refused, and it has the fourth
 * lowest seq: if the halves were made by seq, the ones behind it would be settled first. */
static void a_lane_is_halved_in_the_order_of_its_verdicts(void **state)
{
	static const enum settle_status expected[] = { SETTLE_SETTLED, SETTLE_SETTLED,
		SETTLE_REFUSED, SETTLE_BEHIND, SETTLE_BEHIND, SETTLE_BEHIND };
	struct world *world = *state;
	struct settle_row by_seq[6];
	struct settle_row rows[6];

	six_rows(world, by_seq);
	for (int i = 0; i < 6; i++) {
		rows[i] = by_seq[5 - i];
		rows[i].lane = 7;
		rows[i].follows = i > 0;
	}
	refuse_updates(world, "processed_at", "NEW.event_id = 'a3'");
	OK(settle_isolate(world->db, world->me.id, rows, 6, &err));
	assert_statuses(rows, expected);
	free_refusals(rows, 6);
}

/* The number of updated rows stays too low although no claim is lost. */
static void a_trigger_that_hides_an_update_does_not_stop_a_lane_for_ever(void **state)
{
	struct world *world = *state;
	struct settle_row rows[6];

	six_rows_of_lanes(world, rows);
	run_sql(world, "CREATE FUNCTION inbox.hide() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN RETURN NULL; END$$");
	run_sql(world, "CREATE TRIGGER hide BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.event_id = 'a1') EXECUTE FUNCTION inbox.hide()");
	OK(settle_run(world->db, world->me.id, rows, 6, &err));
	assert_int_equal(rows[1].status, SETTLE_LOCKED);
	assert_string_equal(state_of(world, rows[5].seq), "processed|0|0|f");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_done_message_is_processed),
		TEST(rows_of_different_claims_are_settled_together),
		TEST(a_row_names_the_handler_that_processed_it),
		TEST(a_dead_row_names_its_handler_and_a_waiting_row_does_not),
		TEST(a_row_completed_by_its_handler_gets_the_name_when_verified),
		TEST(a_completed_row_stays_completed_when_the_name_cannot_be_stored),
		TEST(a_lost_row_does_not_block_the_others),
		TEST(two_claims_of_a_row_are_told_apart),
		TEST(each_verdict_writes_its_state),
		TEST(a_failed_attempt_goes_to_the_history),
		TEST(dead_at_once_is_a_failed_attempt),
		TEST(a_result_without_an_attempt_leaves_no_history),
		TEST(a_crash_that_counts_goes_to_the_history),
		TEST(the_history_keeps_the_last_ten_and_every_replay),
		TEST(a_long_error_is_cut_in_the_history),
		TEST(a_batch_that_times_out_is_settled_in_halves),
		TEST(a_settle_without_the_current_claim_is_lost),
		TEST(a_settle_without_any_current_claim_changes_nothing),
		TEST(settling_twice_reports_completed),
		TEST(settling_dead_twice_reports_settled),
		TEST(a_handlers_own_completion_is_found),
		TEST(a_locked_row_is_skipped_and_the_others_are_settled),
		TEST(a_locked_row_whose_transaction_rolls_back_is_settled_later),
		TEST(a_result_that_cannot_be_stored_is_replaced_by_a_note),
		TEST(an_error_that_cannot_be_stored_is_replaced_by_a_note),
		TEST(an_absurd_delay_is_cut),
		TEST(a_settle_without_the_server_leaves_the_row_open),
		TEST(a_crash_is_counted_before_delivery),
		TEST(a_thousand_rows_in_any_order_are_settled),
		TEST(a_row_that_is_refused_is_isolated_and_the_others_are_settled),
		TEST(when_every_row_is_refused_the_settle_fails),
		TEST(a_row_that_a_constraint_of_the_user_refuses_is_isolated),
		TEST(a_crash_that_cannot_be_counted_does_not_block_others),
		TEST(behind_a_locked_row_its_lane_is_not_settled),
		TEST(behind_a_refused_row_its_lane_is_not_settled),
		TEST(behind_a_lost_row_its_lane_is_not_settled),
		TEST(behind_a_completed_row_its_lane_is_settled),
		TEST(rows_that_their_handler_completed_are_only_read),
		TEST(completed_rows_with_the_name_of_their_handler_are_not_updated),
		TEST(what_handlers_say_they_have_completed_is_checked),
		TEST(a_completed_row_that_is_locked_is_completed),
		TEST(a_row_that_its_handler_did_not_complete_is_settled),
		TEST(without_an_answer_about_their_claims_no_row_is_lost),
		TEST(a_lane_is_halved_in_the_order_of_its_verdicts),
		TEST(a_trigger_that_hides_an_update_does_not_stop_a_lane_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
