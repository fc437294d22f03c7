/* Batches and watermarks against a real server: the promises of batch_writer.h and watermarks.h, one sentence each. */
#include "store/schema/binding.h"
#include "world.h"

static void a_new_row_is_born_claimed(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a", .key = "k", .payload = "{\"n\": 1}", .type = "t");

	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(world->batch.rows[0].message->delivery_count, 1);
	assert_int_equal(ask(world,
				 "SELECT seq FROM inbox.inbox_messages WHERE claimed_by = %d "
				 "AND delivery_count = 1 AND available_at IS NULL",
				 world->me.id),
		seq);
}

static void a_row_is_stored_unchanged(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "ä\"b", .key = "k", .payload = "\x01\xff", .type = "t",
		.headers = "[[\"n\", \"v\"], [\"nul\", null]]");
	assert_string_equal(
		ask_text(world, "SELECT concat_ws('|', source, event_id, event_type, topic,"
				" kafka_partition, kafka_offset, encode(key, 'escape'),"
				" encode(payload, 'hex'), headers,"
				" extract(epoch FROM kafka_timestamp)::numeric(20, 3),"
				" payload_digest = substr(sha256(payload), 1, 16))"
				" FROM inbox.inbox_messages"),
		"shop|ä\"b|t|orders|0|0|k|01ff|[[\"n\", \"v\"], [\"nul\", null]]|1700000000.123|t");
}

/* A topic was recreated within one batch: its records have the coordinates of the old ones. */
static void records_with_the_same_coordinates_are_distinguished_by_id(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "old", .offset = 7);
	batch_clear(&world->batch);
	ADD(world, .id = "old", .offset = 8);
	ADD(world, .id = "new", .offset = 8, .place = PLACEMENT_PARKED);
	ADD(world, .id = "old", .offset = 9, .payload = "other");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	assert_int_equal(result_of(world, 1), ROW_STORED);
	assert_int_equal(result_of(world, 2), ROW_CONFLICT);
	assert_int_equal(world->batch.rows[1].message->seq,
		ask(world, "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'new'"));
}

static void a_row_alone_is_stored_by_one_statement(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	(void)STORED(world, .id = "b");
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(world->batch.rows[0].message->seq,
		ask(world, "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'b'"));
	OK(db_script(world->db,
		"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_prepared_statements"
		" WHERE statement LIKE '%RETURNING o.owner%' AND generic_plans = 2) OR EXISTS"
		" (SELECT FROM pg_prepared_statements WHERE statement LIKE '%ON CONFLICT "
		"(event_id%')"
		" THEN RAISE 'more than one'; END IF; END $$",
		&err));
}

/* The trigger acts like another instance that stores the event after the statement has looked for it. */
static void an_event_that_comes_at_the_same_time_is_compared(void **state)
{
	struct world *world = *state;

	run_sql(world,
		"CREATE FUNCTION inbox.be_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, payload, payload_digest) VALUES (NEW.source, NEW.event_id,"
		" NEW.topic, 1, 1, 'other', 'digest'); RETURN NEW; END $$");
	run_sql(world, "CREATE TRIGGER be_first BEFORE INSERT ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION inbox.be_first()");
	ADD(world, .id = "a");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_conflicts"), 1);
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 1);
}

static void add_trigger(struct world *world, const char *body)
{
	run_sql(world,
		"CREATE FUNCTION inbox.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s "
		"END $$",
		body);
	run_sql(world, "CREATE TRIGGER change BEFORE INSERT ON inbox.inbox_messages FOR EACH ROW"
		       " EXECUTE FUNCTION inbox.change()");
}

/* It is stored with the statements for many rows, which know what the trigger did. */
static void a_row_alone_that_a_trigger_delays_is_not_claimed(void **state)
{
	struct world *world = *state;

	add_trigger(world, "NEW.available_at := now() + interval '1 hour'; NEW.claimed_by := NULL;"
			   " NEW.delivery_count := 0; RETURN NEW;");
	ADD(world, .id = "a");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_STORED);
}

static void a_row_alone_that_a_trigger_leaves_out_is_passed(void **state)
{
	struct world *world = *state;

	add_trigger(world, "RETURN NULL;");
	ADD(world, .id = "a");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 1);
}

static void a_second_copy_is_a_duplicate(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	(void)STORED(world, .id = "a");
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_conflicts"), 0);
}

static void the_same_id_with_another_payload_is_kept_as_a_conflict(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "1");
	(void)STORED(world, .id = "a", .payload = "2");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
	assert_string_equal(
		ask_text(world, "SELECT encode(payload, 'escape') FROM inbox.inbox_messages"), "1");
	assert_string_equal(
		ask_text(world, "SELECT encode(payload, 'escape') FROM inbox.inbox_conflicts"),
		"2");
}

/* Stores it like another instance. */
static void insert_elsewhere(struct world *world, const char *id, const char *payload)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, payload, payload_digest)"
		" SELECT 'shop', '%s', 'orders', 0, 7, p, substr(sha256(p), 1, 16)"
		" FROM (SELECT convert_to('%s', 'UTF8') AS p) payload",
		id, payload);
}

/* inbox.refuse(), for a trigger. */
static void make_refuse(struct world *world)
{
	run_sql(world, "CREATE FUNCTION inbox.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		       " RAISE EXCEPTION 'no'; END $$");
}

static void change_digests(struct world *world)
{
	run_sql(world, "UPDATE inbox.inbox_messages SET payload_digest = '\\x00'");
}

static void a_recently_stored_event_is_not_queried(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "1");
	change_digests(world);
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	(void)STORED(world, .id = "a", .payload = "2");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
}

static void an_event_stored_by_another_instance_is_queried_once(void **state)
{
	struct world *world = *state;

	insert_elsewhere(world, "a", "1");
	(void)STORED(world, .id = "a", .payload = "2");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	change_digests(world);
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	(void)STORED(world, .id = "a", .payload = "2");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
}

static void the_payload_stored_after_a_delete_is_compared(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .payload = "1");
	run_sql(world, "DELETE FROM inbox.inbox_messages");
	(void)STORED(world, .id = "a", .payload = "2");
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
}

static void acquiring_partitions_clears_the_dedup_cache(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	(void)STORED(world, .id = "a", .payload = "1");
	change_digests(world);
	OK(watermarks_take(world->writer, &ref, 1, &marks, &err));
	world->mark.epoch = marks.items[0].epoch;
	watermarks_free(&marks);
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
}

/* The conflict of `b` cannot be kept here, and another instance then stores `a` with another
 * payload. */
static void a_failed_batch_is_not_in_the_dedup_cache(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "b", .payload = "1");
	make_refuse(world);
	run_sql(world, "CREATE TRIGGER refuse BEFORE INSERT ON inbox.inbox_conflicts"
		       " FOR EACH ROW EXECUTE FUNCTION inbox.refuse()");
	batch_clear(&world->batch);
	ADD(world, .id = "a", .payload = "1");
	ADD(world, .id = "b", .payload = "2");
	assert_int_equal(store(world), FAULT_DATABASE);
	run_sql(world, "DROP TRIGGER refuse ON inbox.inbox_conflicts");
	insert_elsewhere(world, "a", "2");
	(void)STORED(world, .id = "a", .payload = "1");
	assert_int_equal(result_of(world, 0), ROW_CONFLICT);
}

static void one_batch_can_have_every_insert_result(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "known");
	batch_clear(&world->batch);
	ADD(world, .id = "a", .payload = "1");
	ADD(world, .id = "known");
	ADD(world, .id = "a", .payload = "1");
	ADD(world, .id = "b", .place = PLACEMENT_WAITING);
	ADD(world, .id = "a", .payload = "2");
	ADD(world, .id = "c", .place = PLACEMENT_PARKED);
	must_store(world);

	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_DUPLICATE);
	assert_int_equal(result_of(world, 2), ROW_DUPLICATE);
	assert_int_equal(result_of(world, 3), ROW_STORED);
	assert_int_equal(result_of(world, 4), ROW_CONFLICT);
	assert_int_equal(result_of(world, 5), ROW_STORED);
	assert_string_equal(
		ask_text(world, "SELECT string_agg(event_id || ' ' || status, ',' ORDER BY seq)"
				" FROM inbox.messages"),
		"known claimed,a claimed,b waiting,c parked");
}

static void a_row_to_be_checked_is_parked_behind_a_waiting_row_of_its_key(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a1", .key = "a", .place = PLACEMENT_WAITING);
	batch_clear(&world->batch);
	ADD(world, .id = "a2", .key = "a", .asks = ASKS_KEY);
	ADD(world, .id = "b1", .key = "b", .asks = ASKS_KEY);
	ADD(world, .id = "n1", .asks = ASKS_KEY);
	must_store(world);

	assert_int_equal(result_of(world, 0), ROW_STORED);
	assert_int_equal(result_of(world, 1), ROW_CLAIMED);
	assert_int_equal(result_of(world, 2), ROW_CLAIMED);
	assert_string_equal(
		ask_text(world, "SELECT status FROM inbox.messages WHERE event_id = 'a2'"),
		"parked");
}

static void rows_of_one_record_are_told_apart_by_their_consumer(void **state)
{
	struct world *world = *state;

	ADD(world, .id = "a", .key = "k", .consumer = "billing", .offset = 1);
	must_store(world);
	batch_clear(&world->batch);
	ADD(world, .id = "a", .key = "k", .consumer = "billing", .offset = 2);
	ADD(world, .id = "a", .key = "k", .consumer = "search", .offset = 2);
	ADD(world, .id = "a", .key = "k", .offset = 2, .place = PLACEMENT_WAITING);
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_DUPLICATE);
	assert_int_equal(result_of(world, 1), ROW_CLAIMED);
	assert_int_equal(result_of(world, 2), ROW_STORED);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 3);
}

static void a_row_is_parked_only_behind_rows_of_its_consumer(void **state)
{
	struct world *world = *state;

	ADD(world, .id = "a", .key = "k", .consumer = "billing", .place = PLACEMENT_WAITING);
	must_store(world);
	batch_clear(&world->batch);
	ADD(world, .id = "b", .key = "k", .consumer = "billing", .asks = ASKS_KEY);
	ADD(world, .id = "b", .key = "k", .consumer = "search", .asks = ASKS_KEY);
	ADD(world, .id = "c", .key = "k", .consumer = "search", .asks = ASKS_STREAM);
	ADD(world, .id = "c", .key = "other", .consumer = "billing", .asks = ASKS_STREAM);
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_STORED);
	assert_int_equal(result_of(world, 1), ROW_CLAIMED);
	assert_int_equal(result_of(world, 2), ROW_CLAIMED);
	assert_int_equal(result_of(world, 3), ROW_STORED);
}

static void with_partition_order_it_is_parked_behind_any_waiting_row(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a1", .key = "a", .place = PLACEMENT_WAITING);
	(void)STORED(world, .id = "b1", .key = "b", .asks = ASKS_STREAM);
	assert_int_equal(result_of(world, 0), ROW_STORED);
}

static void rows_and_watermark_move_together(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a", .offset = 41);
	assert_string_equal(
		ask_text(world,
			"SELECT concat_ws('|', next_offset, last_offset,"
			" extract(epoch FROM last_timestamp)::numeric(20, 3), owner = %d)"
			" FROM inbox.inbox_offsets",
			world->me.id),
		"42|41|1700000000.123|t");
}

static void a_batch_of_skipped_records_moves_the_watermark_only(void **state)
{
	struct world *world = *state;
	struct watermark_update *move = watermark_update(&world->batch, "orders", 0);

	*move = (struct watermark_update){ "orders", 0, world->mark.epoch, -1, 10, -1, -1 };
	OK(store_batch(world));
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 10);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
}

static void a_batch_at_a_moved_watermark_is_not_stored(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "a");
	run_sql(world, "UPDATE inbox.inbox_offsets SET next_offset = 100");
	batch_clear(&world->batch);
	ADD(world, .id = "b");
	assert_int_equal(store(world), WRITER_MOVED);
	assert_int_equal(result_of(world, 0), ROW_UNKNOWN);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 1);
	assert_true(db_is_open(world->db));
}

static void a_batch_of_another_epoch_is_not_stored(void **state)
{
	struct world *world = *state;

	run_sql(world, "UPDATE inbox.inbox_offsets SET epoch = epoch + 1");
	ADD(world, .id = "a");
	assert_int_equal(store(world), WRITER_MOVED);
}

static void a_fenced_instance_stores_nothing(void **state)
{
	struct world *world = *state;

	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now()");
	ADD(world, .id = "a");
	assert_int_equal(store(world), WRITER_FENCED);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
}

static void a_bad_row_is_bisected_out_and_becomes_a_reject(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < 40; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "e%d", i);
		ADD(world, .id = id,
			.headers = i == 17 || i == 30 ? "[[\"a\",\"\\u0000\"]]" : "[]");
	}
	must_store(world);

	assert_int_equal(result_of(world, 17), ROW_REJECTED);
	assert_int_equal(result_of(world, 30), ROW_REJECTED);
	assert_int_equal(result_of(world, 16), ROW_CLAIMED);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 38);
	assert_int_equal(world->batch.reject_count, 2);
	assert_true(world->batch.rejects[0].kept);
	assert_int_equal(strncmp(world->batch.rejects[0].reason, "storage: 22P05 ", 15), 0);
	assert_string_equal(
		ask_text(world, "SELECT string_agg(kafka_offset::text, ' ' ORDER BY kafka_offset)"
				" FROM inbox.inbox_rejects"),
		"17 30");
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 40);
}

static void after_bisecting_each_row_has_its_own_seq(void **state)
{
	struct world *world = *state;

	ADD(world, .id = "bad", .headers = "[");
	ADD(world, .id = "good");
	must_store(world);
	assert_int_equal(world->batch.rows[1].message->seq,
		ask(world, "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'good'"));
}

static void a_timestamp_beyond_the_calendar_is_cut(void **state)
{
	struct world *world = *state;

	ADD(world, .id = "late");
	ADD(world, .id = "early");
	ADD(world, .id = "none");
	world->batch.rows[0].message->timestamp_ms = INT64_MAX;
	world->batch.rows[1].message->timestamp_ms = INT64_MIN;
	world->batch.rows[2].message->timestamp_ms = -1;
	must_store(world);
	assert_string_equal(
		ask_text(world,
			"SELECT string_agg(coalesce(extract(year FROM kafka_timestamp)::text,"
			" 'null'), ' ' ORDER BY kafka_offset) FROM inbox.inbox_messages"),
		"294276 -4714 null");
}

static void add_reject_because(struct world *world, const char *headers, const char *reason)
{
	const struct message plan = {
		.event_id = "",
		.source = "",
		.topic = "orders",
		.offset = 5,
		.timestamp_ms = -1,
		.key = bytes_of("k"),
		.payload = bytes_of("p"),
		.headers = bytes_of(headers),
	};
	struct message *message = NULL;

	OK(message_new(&message, &plan, &err));
	OK(batch_reject(&world->batch, message, reason, &err));
}

static void add_reject(struct world *world, const char *headers)
{
	add_reject_because(world, headers, "id_empty: no id");
}

static void a_reject_is_kept_once(void **state)
{
	struct world *world = *state;

	add_reject(world, "[]");
	must_store(world);
	assert_true(world->batch.rejects[0].kept);
	batch_clear(&world->batch);
	add_reject(world, "[]");
	must_store(world);
	assert_false(world->batch.rejects[0].kept);
	assert_string_equal(
		ask_text(world, "SELECT concat_ws('|', topic, kafka_offset, kafka_timestamp,"
				" encode(key, 'escape'), reason) FROM inbox.inbox_rejects"),
		"orders|5|k|id_empty: no id");
}

static void a_reject_that_cannot_be_kept_whole_keeps_its_coordinates(void **state)
{
	struct world *world = *state;

	add_reject(world, "[[\"a\",\"\\u0000\"]]");
	must_store(world);
	assert_string_equal(ask_text(world, "SELECT concat_ws('|', kafka_offset, payload IS NULL,"
					    " reason LIKE 'id_empty: no id; not kept whole: %%')"
					    " FROM inbox.inbox_rejects"),
		"5|t|t");
}

static void an_event_id_out_of_bounds_rejects_itself_alone(void **state)
{
	struct world *world = *state;
	char huge[16384];
	uint32_t noise = 1;

	/* Not compressible, so that the key index refuses it (class 54). */
	for (size_t i = 0; i < sizeof(huge) - 1; i++) {
		noise = noise * 1664525 + 1013904223;
		huge[i] = (char)('!' + (noise >> 16) % 90);
	}
	huge[sizeof(huge) - 1] = '\0';
	ADD(world, .id = "a");
	ADD(world, .id = huge);
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_REJECTED);
	assert_int_equal(strncmp(world->batch.rejects[0].reason, "storage: 54000 ", 15), 0);
}

/* 511 bytes fit: the second byte of the last character does not. */
static void a_reason_cut_within_a_character_is_kept(void **state)
{
	struct world *world = *state;
	char reason[601];

	for (size_t i = 0; i + 2 < sizeof(reason); i += 2)
		memcpy(reason + i, "ä", 3);
	add_reject_because(world, "[]", reason);
	must_store(world);
	assert_string_equal(
		ask_text(world, "SELECT concat_ws('|', octet_length(reason), payload IS NOT NULL)"
				" FROM inbox.inbox_rejects"),
		"510|t");
}

static void a_reason_with_a_cut_server_message_is_kept(void **state)
{
	struct world *world = *state;
	char reason[512] = "";

	/* There is room for a part of the server's message only; one of two lengths cuts a
	 * character. */
	memset(reason, 'r', 440);
	run_sql(world,
		"CREATE FUNCTION inbox.refuse_bytes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" IF NEW.payload IS NOT NULL THEN RAISE 'x%%', repeat('ä', 200)"
		" USING ERRCODE = 'data_exception'; END IF; RETURN NEW; END $$");
	run_sql(world, "CREATE TRIGGER refuse_bytes BEFORE INSERT ON inbox.inbox_rejects"
		       " FOR EACH ROW EXECUTE FUNCTION inbox.refuse_bytes()");
	for (int i = 0; i < 2; i++) {
		batch_clear(&world->batch);
		reason[440] = i == 0 ? '\0' : 'r';
		add_reject_because(world, "[]", reason);
		world->batch.rejects[0].message->offset += i;
		must_store(world);
		assert_true(world->batch.rejects[0].kept);
	}
}

/* As in a batch with a refused row whose COMMIT is refused, too. */
static void a_commit_that_failed_leaves_no_reject_in_the_batch(void **state)
{
	struct world *world = *state;

	make_refuse(world);
	run_sql(world,
		"CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inbox.inbox_messages"
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION inbox.refuse()");
	ADD(world, .id = "good");
	ADD(world, .id = "bad", .headers = "[[\"a\",\"\\u0000\"]]");
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_int_equal(world->batch.reject_count, 0);
	assert_int_equal(result_of(world, 1), ROW_UNKNOWN);
	run_sql(world, "DROP TRIGGER refuse ON inbox.inbox_messages");
	OK(db_open(world->db, &err));
	must_store(world);
	assert_int_equal(world->batch.reject_count, 1);
	assert_int_equal(result_of(world, 1), ROW_REJECTED);
}

/* A trigger that raises for matching rows, at COMMIT or at once. */
static void refuse_ids(
	struct world *world, const char *table, const char *condition, bool at_commit)
{
	make_refuse(world);
	run_sql(world,
		"CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inbox.%s %s FOR EACH ROW"
		" WHEN (%s) EXECUTE FUNCTION inbox.refuse()",
		table, at_commit ? "DEFERRABLE INITIALLY DEFERRED" : "", condition);
}

static int isolate(struct world *world)
{
	batch_writer_isolate(world->writer);
	OK(db_open(world->db, &err));
	return store(world);
}

static void add_good_and_bad(struct world *world)
{
	ADD(world, .id = "good1");
	ADD(world, .id = "bad1");
	ADD(world, .id = "bad2");
	ADD(world, .id = "good2");
}

static void assert_only_the_bad_are_rejected(struct world *world)
{
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_REJECTED);
	assert_int_equal(result_of(world, 2), ROW_REJECTED);
	assert_int_equal(result_of(world, 3), ROW_CLAIMED);
	assert_string_equal(
		ask_text(world, "SELECT string_agg(concat_ws(' ', kafka_offset, reason), ',' ORDER"
				" BY kafka_offset) FROM inbox.inbox_rejects"),
		"1 storage: P0001 no [P0001],2 storage: P0001 no [P0001]");
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 4);
}

static void a_row_that_a_trigger_refuses_is_isolated(void **state)
{
	struct world *world = *state;

	refuse_ids(world, "inbox_messages", "NEW.event_id LIKE 'bad%%'", false);
	add_good_and_bad(world);
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_int_equal(isolate(world), 0);
	assert_only_the_bad_are_rejected(world);
}

static void a_row_that_is_refused_at_commit_is_isolated(void **state)
{
	struct world *world = *state;

	refuse_ids(world, "inbox_messages", "NEW.event_id LIKE 'bad%%'", true);
	add_good_and_bad(world);
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_int_equal(isolate(world), 0);
	assert_only_the_bad_are_rejected(world);
}

/* Deferred constraints are checked at COMMIT, unless a COMMIT was refused. */
static void constraints_stay_deferred_unless_a_commit_was_refused(void **state)
{
	struct world *world = *state;

	run_sql(world,
		"CREATE FUNCTION inbox.want_pair() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" IF NOT EXISTS (SELECT FROM inbox.inbox_messages WHERE event_id = 'pair')"
		" THEN RAISE 'no pair'; END IF; RETURN NULL; END $$");
	run_sql(world, "CREATE CONSTRAINT TRIGGER want_pair AFTER INSERT ON inbox.inbox_messages"
		       " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.event_id = 'single')"
		       " EXECUTE FUNCTION inbox.want_pair()");
	refuse_ids(world, "inbox_messages", "NEW.event_id LIKE 'bad%%'", false);
	ADD(world, .id = "single");
	ADD(world, .id = "bad");
	ADD(world, .id = "pair");
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_int_equal(isolate(world), 0);
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_REJECTED);
	assert_int_equal(result_of(world, 2), ROW_CLAIMED);
}

static void assert_nothing_is_kept(struct world *world, const char *expected_state)
{
	assert_string_equal(err.state, expected_state);
	assert_int_equal(world->batch.reject_count, 0);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_rejects"), 0);
}

static void when_every_row_is_refused_none_is_rejected(void **state)
{
	struct world *world = *state;

	refuse_ids(world, "inbox_messages", "true", false);
	add_good_and_bad(world);
	assert_int_equal(isolate(world), FAULT_DATABASE);
	assert_nothing_is_kept(world, "P0001");
	assert_int_equal(result_of(world, 0), ROW_UNKNOWN);
	assert_int_equal(
		ask(world, "SELECT coalesce(next_offset, -1) FROM inbox.inbox_offsets"), -1);
}

static void a_bad_row_that_is_alone_in_its_batch_becomes_a_reject(void **state)
{
	struct world *world = *state;

	ADD(world, .id = "bad", .headers = "[[\"a\",\"\\u0000\"]]");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_REJECTED);
	assert_true(world->batch.rejects[0].kept);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 1);
}

/* A trigger that raises the class of a bad value, with or without the name of a table. */
static void refuse_with(struct world *world, const char *condition, const char *raise)
{
	run_sql(world,
		"CREATE FUNCTION inbox.refuse_with() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" RAISE 'no' USING %s; END $$",
		raise);
	run_sql(world,
		"CREATE TRIGGER refuse_with AFTER INSERT ON inbox.inbox_messages FOR EACH ROW"
		" WHEN (%s) EXECUTE FUNCTION inbox.refuse_with()",
		condition);
}

static void assert_all_wait(struct world *world, const char *expected_state)
{
	ADD(world, .id = "a", .payload = "1");
	ADD(world, .id = "b", .payload = "2");
	assert_int_equal(store(world), FAULT_DATABASE);
	assert_nothing_is_kept(world, expected_state);
	assert_int_equal(isolate(world), FAULT_DATABASE);
	assert_nothing_is_kept(world, expected_state);
	run_sql(world, "DROP TRIGGER refuse_with ON inbox.inbox_messages");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_CLAIMED);
}

static void when_a_trigger_raises_the_class_of_a_value_for_every_row_none_is_rejected(void **state)
{
	struct world *world = *state;

	refuse_with(world, "true", "ERRCODE = 'check_violation'");
	assert_all_wait(world, "23514");
}

static void an_error_of_a_table_of_the_user_is_not_one_of_a_value(void **state)
{
	struct world *world = *state;

	refuse_with(world, "NEW.payload <> '{}'",
		"ERRCODE = 'check_violation', SCHEMA = 'public', TABLE = 'audit'");
	assert_all_wait(world, "23514");
}

static void a_payload_that_a_trigger_cannot_read_rejects_itself_alone(void **state)
{
	struct world *world = *state;

	refuse_with(world, "NEW.payload <> '{}'", "ERRCODE = 'invalid_text_representation'");
	ADD(world, .id = "bad", .payload = "no JSON");
	must_store(world);
	assert_int_equal(result_of(world, 0), ROW_REJECTED);
}

static void a_duplicate_does_not_prove_that_rows_are_accepted(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "known");
	refuse_ids(world, "inbox_messages", "true", false);
	batch_clear(&world->batch);
	ADD(world, .id = "known");
	ADD(world, .id = "new");
	assert_int_equal(isolate(world), FAULT_DATABASE);
	assert_nothing_is_kept(world, "P0001");
}

static void a_conflict_that_a_trigger_refuses_is_kept_as_a_reject(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "known", .payload = "1");
	refuse_ids(world, "inbox_conflicts", "true", false);
	batch_clear(&world->batch);
	ADD(world, .id = "known", .payload = "2");
	ADD(world, .id = "new");
	assert_int_equal(isolate(world), 0);
	assert_int_equal(result_of(world, 1), ROW_CLAIMED);
	assert_string_equal(
		ask_text(world,
			"SELECT encode(payload, 'escape') || reason FROM inbox.inbox_rejects"),
		"2storage: P0001 no [P0001]");
}

static void a_reject_that_a_trigger_refuses_keeps_its_bytes(void **state)
{
	struct world *world = *state;

	refuse_ids(world, "inbox_rejects", "NEW.payload IS NOT NULL", false);
	ADD(world, .id = "good");
	add_reject(world, "[]");
	assert_int_equal(isolate(world), FAULT_DATABASE);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
	run_sql(world, "DROP TRIGGER refuse ON inbox.inbox_rejects");
	must_store(world);
	assert_string_equal(
		ask_text(world, "SELECT encode(payload, 'escape') FROM inbox.inbox_rejects"), "p");
}

/* The answer to COMMIT is lost: the server ends our session when it has committed. */
static void lose_the_answer(struct world *world)
{
	run_sql(world,
		"CREATE FUNCTION inbox.hang_up() RETURNS trigger LANGUAGE plpgsql AS"
		" $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END$$");
	run_sql(world,
		"CREATE CONSTRAINT TRIGGER hang_up AFTER INSERT ON inbox.inbox_messages"
		" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION inbox.hang_up()");
}

static void a_lost_commit_is_unknown(void **state)
{
	struct world *world = *state;

	lose_the_answer(world);
	ADD(world, .id = "a");
	assert_int_equal(store(world), WRITER_UNKNOWN);
	assert_int_equal(result_of(world, 0), ROW_UNKNOWN);
	assert_false(db_is_open(world->db));
}

/* As if the COMMIT of our previous connection had succeeded without an answer. */
static void resync_gives_back_rows_missing_in_memory(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	(void)STORED(world, .id = "heard");
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count) VALUES ('shop', 'unheard', 'orders',"
		" 0, 7, %d, 1)",
		world->me.id);
	run_sql(world, "UPDATE inbox.inbox_offsets SET next_offset = 8");
	refuse_behind_the_lease(world);
	OK(watermarks_resync(world->writer, &ref, 1, &marks, &err));
	assert_int_equal(marks.count, 1);
	assert_int_equal(marks.items[0].next_offset, 8);
	assert_true(marks.items[0].mine);
	assert_string_equal(
		ask_text(world, "SELECT string_agg(event_id || ' ' || status, ',' ORDER BY seq)"
				" FROM inbox.messages"),
		"heard claimed,unheard waiting");
	watermarks_free(&marks);
}

static void resync_waits_for_the_transaction_whose_answer_was_lost(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	assert_string_equal(run_other(world,
				    "BEGIN; SELECT 1 FROM inbox.inbox_instances WHERE id = %d"
				    " FOR KEY SHARE",
				    world->me.id),
		"");
	assert_int_equal(watermarks_resync(world->writer, &ref, 1, &marks, &err), FAULT_DATABASE);
	assert_true(db_error_is_lock(&err));
	assert_string_equal(run_other(world, "COMMIT"), "");
	OK(watermarks_resync(world->writer, &ref, 1, &marks, &err));
	watermarks_free(&marks);
}

static void acquiring_raises_the_epoch_and_returns_the_watermark(void **state)
{
	struct world *world = *state;
	const struct partition_ref refs[] = { { "orders", 0 }, { "orders", 1 } };
	struct watermarks marks = { NULL, 0 };

	(void)STORED(world, .id = "a", .place = PLACEMENT_WAITING, .offset = 3);
	OK(watermarks_take(world->writer, refs, 2, &marks, &err));
	assert_int_equal(marks.count, 2);
	assert_int_equal(marks.items[0].epoch, world->mark.epoch + 1);
	assert_int_equal(marks.items[0].next_offset, 4);
	assert_int_equal(marks.items[0].last_offset, 3);
	assert_int_equal(marks.items[0].last_timestamp, 1700000000123);
	assert_int_equal(marks.items[1].next_offset, -1);
	assert_int_equal(marks.items[1].last_timestamp, -1);
	watermarks_free(&marks);
}

static void a_released_partition_has_no_owner(void **state)
{
	struct world *world = *state;
	const struct partition_ref ref = { "orders", 0 };
	struct watermarks marks = { NULL, 0 };

	OK(watermarks_peek(world->writer, &marks, &err));
	assert_int_equal(marks.count, 1);
	watermarks_free(&marks);
	OK(watermarks_release(world->writer, &ref, 1, &err));
	OK(watermarks_peek(world->writer, &marks, &err));
	assert_int_equal(marks.count, 0);
	watermarks_free(&marks);
}

static void a_schema_belongs_to_one_cluster_and_group(void **state)
{
	struct world *world = *state;

	OK(schema_bind(world->db, "c1", "g1", &err));
	OK(schema_bind(world->db, "c1", "g1", &err));
	assert_int_equal(schema_bind(world->db, "c1", "g2", &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, "\"g1\""));
	assert_non_null(strstr(err.text, "\"g2\""));
}

static void two_thousand_rows_go_in_at_once(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < 2000; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "e%d", i);
		ADD(world, .id = id, .key = id, .asks = i % 2 == 0 ? ASKS_KEY : ASKS_NOTHING);
	}
	must_store(world);
	for (size_t i = 0; i < 2000; i++)
		assert_int_equal(result_of(world, i), ROW_CLAIMED);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 2000);
}

/* The batch of `world` is sent behind the COMMIT of `first`, which stores `a`. */
static void follow(struct world *world, struct batch *first)
{
	ADD(world, .id = "a");
	world->next = plan_move(world);
	*first = world->batch;
	world->batch = (struct batch)BATCH_INIT;
	OK(batch_writer_start(world->writer, first, &err));
	OK(batch_writer_receive(world->writer, first, &err));
	ADD(world, .id = "b", .offset = 100);
	ADD(world, .id = "a", .offset = 101);
	(void)plan_move(world);
	OK(batch_writer_start(world->writer, &world->batch, &err));
}

static void a_batch_follows_behind_a_commit(void **state)
{
	struct world *world = *state;
	struct batch first;

	follow(world, &first);
	OK(batch_writer_committed(world->writer, &first, &err));
	OK(batch_writer_finish(world->writer, &world->batch, &err));
	assert_int_equal(first.rows[0].result, ROW_CLAIMED);
	assert_int_equal(result_of(world, 0), ROW_CLAIMED);
	assert_int_equal(result_of(world, 1), ROW_DUPLICATE);
	assert_true(first.rows[0].message->seq < world->batch.rows[0].message->seq);
	assert_int_equal(ask(world, "SELECT next_offset FROM inbox.inbox_offsets"), 102);
	batch_fini(&first);
}

static void a_refused_commit_also_undoes_the_next_batch(void **state)
{
	struct world *world = *state;
	struct batch first;

	make_refuse(world);
	run_sql(world, "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inbox.inbox_messages"
		       " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.event_id = 'a')"
		       " EXECUTE FUNCTION inbox.refuse()");
	follow(world, &first);
	assert_int_equal(batch_writer_committed(world->writer, &first, &err), FAULT_DATABASE);
	assert_string_equal(err.state, "P0001");
	assert_false(db_is_open(world->db));
	assert_int_equal(first.rows[0].result, ROW_UNKNOWN);
	run_sql(world, "DROP TRIGGER refuse ON inbox.inbox_messages");
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_messages"), 0);
	assert_int_equal(
		ask(world, "SELECT coalesce(next_offset, -1) FROM inbox.inbox_offsets"), -1);
	batch_fini(&first);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_row_is_born_claimed),
		TEST(a_row_is_stored_unchanged),
		TEST(records_with_the_same_coordinates_are_distinguished_by_id),
		TEST(a_row_alone_is_stored_by_one_statement),
		TEST(an_event_that_comes_at_the_same_time_is_compared),
		TEST(a_row_alone_that_a_trigger_delays_is_not_claimed),
		TEST(a_row_alone_that_a_trigger_leaves_out_is_passed),
		TEST(a_second_copy_is_a_duplicate),
		TEST(the_same_id_with_another_payload_is_kept_as_a_conflict),
		TEST(a_recently_stored_event_is_not_queried),
		TEST(an_event_stored_by_another_instance_is_queried_once),
		TEST(the_payload_stored_after_a_delete_is_compared),
		TEST(acquiring_partitions_clears_the_dedup_cache),
		TEST(a_failed_batch_is_not_in_the_dedup_cache),
		TEST(one_batch_can_have_every_insert_result),
		TEST(a_row_to_be_checked_is_parked_behind_a_waiting_row_of_its_key),
		TEST(rows_of_one_record_are_told_apart_by_their_consumer),
		TEST(a_row_is_parked_only_behind_rows_of_its_consumer),
		cmocka_unit_test_setup_teardown(
			with_partition_order_it_is_parked_behind_any_waiting_row,
			world_setup_by_partition, world_teardown),
		TEST(rows_and_watermark_move_together),
		TEST(a_batch_of_skipped_records_moves_the_watermark_only),
		TEST(a_batch_at_a_moved_watermark_is_not_stored),
		TEST(a_batch_of_another_epoch_is_not_stored),
		TEST(a_fenced_instance_stores_nothing),
		TEST(a_bad_row_is_bisected_out_and_becomes_a_reject),
		TEST(after_bisecting_each_row_has_its_own_seq),
		TEST(a_timestamp_beyond_the_calendar_is_cut),
		TEST(a_reject_is_kept_once),
		TEST(a_reject_that_cannot_be_kept_whole_keeps_its_coordinates),
		TEST(an_event_id_out_of_bounds_rejects_itself_alone),
		TEST(a_reason_cut_within_a_character_is_kept),
		TEST(a_reason_with_a_cut_server_message_is_kept),
		TEST(a_commit_that_failed_leaves_no_reject_in_the_batch),
		TEST(a_row_that_a_trigger_refuses_is_isolated),
		TEST(a_row_that_is_refused_at_commit_is_isolated),
		TEST(constraints_stay_deferred_unless_a_commit_was_refused),
		TEST(when_every_row_is_refused_none_is_rejected),
		TEST(a_bad_row_that_is_alone_in_its_batch_becomes_a_reject),
		TEST(when_a_trigger_raises_the_class_of_a_value_for_every_row_none_is_rejected),
		TEST(an_error_of_a_table_of_the_user_is_not_one_of_a_value),
		TEST(a_payload_that_a_trigger_cannot_read_rejects_itself_alone),
		TEST(a_duplicate_does_not_prove_that_rows_are_accepted),
		TEST(a_conflict_that_a_trigger_refuses_is_kept_as_a_reject),
		TEST(a_reject_that_a_trigger_refuses_keeps_its_bytes),
		TEST(a_lost_commit_is_unknown),
		TEST(resync_gives_back_rows_missing_in_memory),
		TEST(resync_waits_for_the_transaction_whose_answer_was_lost),
		TEST(acquiring_raises_the_epoch_and_returns_the_watermark),
		TEST(a_released_partition_has_no_owner),
		TEST(a_schema_belongs_to_one_cluster_and_group),
		TEST(two_thousand_rows_go_in_at_once),
		TEST(a_batch_follows_behind_a_commit),
		TEST(a_refused_commit_also_undoes_the_next_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
