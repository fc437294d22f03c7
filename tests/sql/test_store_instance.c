/* Leases: heartbeats, fencing of dead instances, and the rescue of their rows. */
#include "base/time/clock.h"
#include "world.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>

static const atomic_bool go_on = false;

static struct instance another(struct world *world, const char *host_id)
{
	struct instance instance;

	OK(instance_register(world->db,
		&(struct instance_names){ .name = "other", .host_id = host_id }, &instance, &err));
	return instance;
}

/* The latest heartbeat of this instance was at beaten_ms. */
static int fence_at(struct world *world, const char *host_id, int64_t beaten_ms)
{
	const struct fencing fencing = {
		.host_id = host_id, .lease_ms = 15000, .steady_ms = beaten_ms
	};
	int fenced = -1;

	OK(instance_fence(world->db, world->me.id, &fencing, &fenced, &err));
	return fenced;
}

static int64_t server_ms(struct world *world)
{
	return ask(world, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
}

/* With `steady`, the latest heartbeat was just now: it counts for a third of the lease. */
static int fence(struct world *world, const char *host_id, bool steady)
{
	int64_t began_ms;
	int fenced;

	do {
		began_ms = clock_now_ms();
		fenced = fence_at(world, host_id, steady ? server_ms(world) : 0);
	} while (steady && fenced == 0 && clock_now_ms() - began_ms >= 4000);
	return fenced;
}

static int64_t rescue(struct world *world)
{
	struct rescue rescue = { .db = world->db, .stop = &go_on, .until_ms = INT64_MAX };

	OK(instance_rescue(&rescue, &err));
	return rescue.freed;
}

static void give_to(struct world *world, const char *id, int32_t instance, int delivery_count)
{
	run_sql(world,
		"UPDATE inbox.inbox_messages SET claimed_by = %d, delivery_count = %d,"
		" claim_number = CASE WHEN %d > 1 THEN 7 END WHERE event_id = '%s'",
		instance, delivery_count, delivery_count, id);
}

static void the_first_low_seq_is_above_all_existing_rows(void **state)
{
	struct world *world = *state;
	int64_t seq = STORED(world, .id = "a");
	struct instance instance = another(world, "");

	assert_in_range(instance.id, 1, INT32_MAX);
	assert_int_not_equal(instance.id, world->me.id);
	assert_int_equal(instance.first_low_seq, seq + 1);
}

/* Rule R6: the time until the answer does not count. */
static void the_lease_of_a_new_instance_counts_from_before_it_was_sent(void **state)
{
	struct world *world = *state;
	struct instance instance;
	int64_t before_ms;

	run_sql(world, "CREATE FUNCTION inbox.slow() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;"
		       "CREATE TRIGGER slow BEFORE INSERT ON inbox.inbox_instances"
		       " FOR EACH ROW EXECUTE FUNCTION inbox.slow()");
	before_ms = clock_now_ms();
	instance = another(world, "");
	/* The server has slept between the two, however long this process was stopped. */
	assert_in_range(instance.sent_ms, before_ms, clock_now_ms() - 400);
}

static void a_heartbeat_renews_the_lease(void **state)
{
	struct world *world = *state;
	const struct heartbeat_report heartbeat = { .bounds = { .low_seq = 7, .low_rest = 7 },
		.low_claim = 1,
		.handlers = bytes_of("[\"billing\"]") };
	struct heartbeat_answer answer;

	run_sql(world, "UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '1 hour'");
	OK(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err));
	assert_string_equal(
		ask_text(world, "SELECT concat_ws('|', heartbeat_at > now() - interval '1 min',"
				" low_seq, handlers) FROM inbox.inbox_instances"),
		"t|7|[\"billing\"]");
	assert_in_range(answer.pg_now_ms, 1600000000000, 4000000000000);
}

static void beat(struct world *world, int64_t low_rest, size_t count, const int64_t *stragglers)
{
	struct heartbeat_report heartbeat = {
		.bounds = { .low_seq = count > 0 ? stragglers[0] : low_rest,
			.low_rest = low_rest,
			.straggler_count = count },
		.low_claim = 1,
	};
	struct heartbeat_answer answer;

	for (size_t i = 0; i < count; i++)
		heartbeat.bounds.stragglers[i] = stragglers[i];
	OK(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err));
}

static void expect_bounds(struct world *world, const char *bounds)
{
	assert_string_equal(ask_text(world, "SELECT concat_ws('|', low_seq, low_rest, stragglers)"
					    " FROM inbox.inbox_instances"),
		bounds);
}

/* Rule R3: a heartbeat that was sent first and arrives last, over an abandoned connection, lists
 * rows that belong to its own bound. */
static void stragglers_are_stored_together_with_their_bound(void **state)
{
	struct world *world = *state;

	beat(world, 50, 2, (const int64_t[]){ 7, 9 });
	expect_bounds(world, "7|50|{7,9}");
	beat(world, 80, 2, (const int64_t[]){ 9, 60 });
	expect_bounds(world, "9|80|{9,60}");
	beat(world, 50, 1, (const int64_t[]){ 9 });
	expect_bounds(world, "9|80|{9,60}");
	beat(world, 80, 1, (const int64_t[]){ 60 });
	expect_bounds(world, "60|80|{60}");
	beat(world, 80, 0, NULL);
	expect_bounds(world, "80|80|{}");
}

static void stragglers_of_a_dead_instance_are_rescued_below_its_bound(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	int64_t first = STORED(world, .id = "a");
	int64_t locked = STORED(world, .id = "b");

	(void)STORED(world, .id = "done");
	give_to(world, "a", dead.id, 1);
	give_to(world, "b", dead.id, 1);
	run_sql(world,
		"UPDATE inbox.inbox_instances SET low_seq = %ld, low_rest = %ld, stragglers = "
		"'{%ld,%ld}'"
		" WHERE id = %d",
		(long)first, (long)locked + 2, (long)first, (long)locked, dead.id);
	assert_string_equal(run_other(world,
				    "BEGIN; SELECT 1 FROM inbox.inbox_messages WHERE seq = %ld"
				    " FOR UPDATE",
				    (long)locked),
		"");
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(rescue(world), 1);
	/* A sidecar of an earlier version reads from low_seq on. */
	assert_int_equal(
		ask(world, "SELECT low_seq FROM inbox.inbox_instances WHERE id = %d", dead.id),
		first);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	assert_int_equal(rescue(world), 1);
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE rescued_at IS NOT NULL"),
		1);
}

static void a_fenced_instance_learns_it_from_its_heartbeat(void **state)
{
	struct world *world = *state;
	const struct heartbeat_report heartbeat = { .bounds = { .low_seq = 1, .low_rest = 1 },
		.low_claim = 1,
		.handlers = bytes_of("[]") };
	struct heartbeat_answer answer;

	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now()");
	assert_int_equal(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err),
		HEARTBEAT_FENCED);
	run_sql(world, "DELETE FROM inbox.inbox_instances");
	assert_int_equal(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err),
		HEARTBEAT_FENCED);
}

/* Sets the other instance to `state`, and returns what a heartbeat with the handler billing finds within a second. Some
 * states are a second before the end of a lease. */
static struct heartbeat_answer found_with(struct world *world, const char *state)
{
	const struct heartbeat_report heartbeat = { .bounds = { .low_seq = 1, .low_rest = 1 },
		.low_claim = 1,
		.handlers = bytes_of("[\"billing\", {\"name\": \"mail\", \"consumer\": \"b\"}]"),
		.lease_ms = 15000 };
	struct heartbeat_answer answer;
	int64_t began_ms;

	do {
		run_sql(world,
			"UPDATE inbox.inbox_instances SET heartbeat_at = now(), fenced_at = NULL, "
			"rescued_at = NULL,"
			" handlers = '[]', away_at = NULL");
		began_ms = clock_now_ms();
		run_sql(world, "UPDATE inbox.inbox_instances SET %s WHERE id <> %d", state,
			world->me.id);
		OK(instance_heartbeat(world->db, world->me.id, &heartbeat, &answer, &err));
	} while (clock_now_ms() - began_ms >= 1000);
	return answer;
}

static void a_heartbeat_finds_instances_that_are_dead(void **state)
{
	struct world *world = *state;

	(void)another(world, "");
	assert_false(found_with(world, "heartbeat_at = now() - interval '14 s'").dead);
	assert_true(found_with(world, "heartbeat_at = now() - interval '16 s'").dead);
	assert_true(found_with(world, "fenced_at = now()").dead);
	assert_false(found_with(world,
		"fenced_at = now(), rescued_at = now(), heartbeat_at = now() - interval '16 s'")
			     .dead);
}

static void a_heartbeat_finds_handlers_that_are_missing(void **state)
{
	struct world *world = *state;

	(void)another(world, "");
	assert_false(found_with(world, "handlers = '[\"billing\"]'").lacking);
	assert_false(found_with(world, "handlers = '[{\"name\": \"mail\", \"consumer\": \"b\"}]'")
			     .lacking);
	assert_true(found_with(world, "handlers = '[\"billing\", \"mail\"]'").lacking);
	assert_true(found_with(world, "handlers = '[{\"name\": \"mail\", \"consumer\": \"c\"}]'")
			    .lacking);
	assert_false(found_with(world, "handlers = '[\"mail\"]', away_at = now()").lacking);
	assert_false(
		found_with(world, "handlers = '[\"mail\"]', heartbeat_at = now() - interval '16 s'")
			.lacking);
	run_sql(world, "UPDATE inbox.inbox_instances SET lacking_since = now() WHERE id = %d",
		world->me.id);
	assert_true(found_with(world, "fenced_at = now()").lacking);
}

/* The tables of the work that it finds may be locked for longer than a lease. */
static void a_heartbeat_waits_for_no_other_table(void **state)
{
	struct world *world = *state;
	assert_string_equal(
		run_other(world,
			"BEGIN; LOCK TABLE inbox.inbox_messages, inbox.inbox_offsets,"
			" inbox.inbox_handlers, inbox.inbox_consumers, inbox.inbox_pauses"),
		"");
	(void)another(world, "");
	assert_true(found_with(world, "fenced_at = now()").dead);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
}

static void an_expired_lease_is_fenced_by_a_steady_instance(void **state)
{
	struct world *world = *state;
	struct instance late = another(world, "elsewhere");

	run_sql(world,
		"UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '16 s' WHERE id "
		"= %d",
		late.id);
	run_sql(world, "UPDATE inbox.inbox_offsets SET owner = %d", late.id);
	assert_int_equal(fence(world, "here", false), 0);
	assert_int_equal(fence(world, "here", true), 1);
	assert_string_equal(
		ask_text(world,
			"SELECT concat_ws('|', owner IS NULL, epoch) FROM inbox.inbox_offsets"),
		"t|2");
	assert_int_equal(fence(world, "here", true), 0);
}

/* Rule R4: PostgreSQL stalled behind the heartbeat, so it has not executed those of others either. */
static void a_fencing_that_is_executed_late_fences_no_expired_lease(void **state)
{
	struct world *world = *state;

	(void)another(world, "elsewhere");
	run_sql(world, "UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '16 s'");
	assert_int_equal(fence_at(world, "here", server_ms(world) - 5001), 0);
	assert_int_equal(fence(world, "here", true), 1);
}

static void a_valid_lease_is_not_fenced(void **state)
{
	struct world *world = *state;

	(void)another(world, "elsewhere");
	assert_int_equal(fence(world, "here", true), 0);
}

static void an_earlier_instance_at_the_same_socket_is_fenced_at_once(void **state)
{
	struct world *world = *state;

	(void)another(world, "here");
	(void)another(world, "");
	assert_int_equal(fence(world, "", false), 0);
	assert_int_equal(fence(world, "here", false), 1);
}

/* Lets the other session run again, and so end, when the first try to fence has passed over its instance. */
static void *resume_after_a_try(void *arg)
{
	struct world *world = arg;
	int64_t until_ms = clock_now_ms() + 15000;

	while (ask(world, "SELECT count(*) FROM inbox.tries WHERE is_called") == 0 &&
		clock_now_ms() < until_ms)
		continue;
	(void)kill(PQbackendPID(world->other), SIGCONT);
	return NULL;
}

/* It fences by host_id only once, and waits for the end of the sessions. */
static void fencing_at_the_start_waits_for_old_sessions_to_end(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	const struct fencing fencing = {
		.host_id = "here", .lease_ms = 15000, .until_ms = clock_now_ms() + 30000
	};
	pthread_t thread;
	int fenced = 0;
	int r;

	/* A sequence shows each try, also one that changes no row. */
	run_sql(world, "CREATE SEQUENCE inbox.tries");
	run_sql(world, "CREATE FUNCTION inbox.count_try() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$BEGIN PERFORM nextval('inbox.tries'); RETURN NULL; END$$");
	run_sql(world, "CREATE TRIGGER tries AFTER UPDATE ON inbox.inbox_instances"
		       " EXECUTE FUNCTION inbox.count_try()");
	assert_string_equal(run_other(world, "SET application_name = 'inboxd/%d'", dead.id), "");
	assert_string_equal(run_other(world,
				    "BEGIN; SELECT 1 FROM inbox.inbox_instances WHERE id = %d"
				    " FOR KEY SHARE",
				    dead.id),
		"");
	/* A stopped server process does not react to the termination of its session. */
	assert_int_equal(kill(PQbackendPID(world->other), SIGSTOP), 0);
	if (pthread_create(&thread, NULL, resume_after_a_try, world) != 0) {
		(void)kill(PQbackendPID(world->other), SIGCONT);
		fail();
	}
	r = instance_fence(world->db, world->me.id, &fencing, &fenced, &err);
	assert_int_equal(pthread_join(thread, NULL), 0);
	OK(r);
	assert_int_equal(fenced, 1);
}

static void the_previous_instance_run_is_fenced_by_its_id(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "");
	const struct fencing fencing = { .host_id = "", .earlier = dead.id, .lease_ms = 15000 };
	int fenced = 0;

	(void)another(world, "");
	OK(instance_fence(world->db, world->me.id, &fencing, &fenced, &err));
	assert_int_equal(fenced, 1);
	assert_int_equal(
		ask(world, "SELECT id FROM inbox.inbox_instances WHERE fenced_at IS NOT NULL"),
		dead.id);
}

static void fencing_ends_the_sessions_of_the_dead_first(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");

	assert_string_equal(run_other(world, "SET application_name = 'inboxd/%d'", dead.id), "");
	assert_string_equal(run_other(world,
				    "BEGIN; SELECT 1 FROM inbox.inbox_instances WHERE id = %d"
				    " FOR KEY SHARE",
				    dead.id),
		"");
	/* Its lock may outlive the first attempt by a moment. */
	for (int i = 0; i < 1500 && fence(world, "here", false) == 0; i++)
		run_sql(world, "SELECT pg_sleep(0.02)");
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE fenced_at IS NOT NULL"),
		1);
	assert_string_equal(run_other(world, "SELECT 1"), "lost");
}

static void rescued_rows_wait_and_become_suspects_at_the_second_rescue(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");

	for (int c = 'a'; c <= 'e'; c++) {
		char id[] = { (char)c, '\0' };

		(void)STORED(world, .id = id);
	}
	give_to(world, "a", dead.id, 1);
	run_sql(world, "UPDATE inbox.inbox_messages SET rescue_count = 1 WHERE event_id = 'a'");
	give_to(world, "b", dead.id, 3);
	give_to(world, "c", dead.id, 1);
	run_sql(world, "UPDATE inbox.inbox_messages SET processed_at = now() WHERE event_id = 'c'");
	give_to(world, "d", dead.id, 1);
	run_sql(world, "UPDATE inbox.inbox_messages SET dead_at = now() WHERE event_id = 'd'");
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(rescue(world), 2);
	assert_string_equal(
		ask_text(world,
			"SELECT string_agg(concat_ws(' ', event_id, status, suspect,"
			" delivery_count, crash_count), ',' ORDER BY seq) FROM inbox.messages"),
		"a waiting t 1 0,b waiting f 3 0,c processed f 1 0,d dead f 1 0,e claimed f 1 0");
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE rescued_at IS NOT NULL"),
		1);
	assert_int_equal(rescue(world), 0);
}

static void a_row_in_its_handlers_transaction_is_rescued_after_the_transaction(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	int64_t seq = STORED(world, .id = "a");

	world_without_tags(world);
	(void)STORED(world, .id = "b");
	give_to(world, "a", dead.id, 1);
	give_to(world, "b", dead.id, 2);
	assert_string_equal(
		run_other(world, "BEGIN; SELECT inbox.complete('%ld.1.%d')", (long)seq, dead.id),
		"");
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(rescue(world), 1);
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE rescued_at IS NOT NULL"),
		0);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	assert_int_equal(rescue(world), 1);
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE rescued_at IS NOT NULL"),
		1);
}

static void the_next_rescue_begins_at_the_row_that_was_locked(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	int64_t first;

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count)"
		" SELECT 's', i::text, 'orders', 0, i, %d, 1 FROM generate_series(1, 50001) i",
		dead.id);
	first = ask(world, "SELECT min(seq) FROM inbox.inbox_messages");
	run_sql(world, "UPDATE inbox.inbox_instances SET low_seq = %ld WHERE id = %d", (long)first,
		dead.id);
	assert_string_equal(run_other(world, "BEGIN; SELECT 1 FROM inbox.inbox_messages"
					     " WHERE event_id = '30001' FOR UPDATE"),
		"");
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(rescue(world), 50000);
	/* it is in the last window of at most 20000 */
	assert_in_range(
		ask(world, "SELECT low_seq FROM inbox.inbox_instances WHERE id = %d", dead.id),
		first + 10001, first + 30000);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
	assert_int_equal(rescue(world), 1);
}

/* Fenced one after the other, instance `i` holds the row `i` and nothing else. */
static void many_dead(struct world *world, int count)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at)"
		" SELECT i, 'dead', 1, now() + i * interval '1 ms' FROM generate_series(1, %d) i",
		count);
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count)"
		" SELECT 's', i::text, 'orders', 0, i, i, 1 FROM generate_series(1, %d) i",
		count);
}

static void many_dead_instances_are_all_rescued(void **state)
{
	struct world *world = *state;
	int64_t all = 0;

	many_dead(world, 40);
	for (int round = 0; round < 3; round++)
		all += rescue(world);
	assert_int_equal(all, 40);
}

static void dead_instances_with_locked_rows_do_not_block_others(void **state)
{
	struct world *world = *state;
	int64_t all = 0;

	many_dead(world, 20);
	assert_string_equal(run_other(world, "BEGIN; SELECT 1 FROM inbox.inbox_messages"
					     " WHERE claimed_by <= 16 FOR UPDATE"),
		"");
	/* A round takes sixteen of the remaining ones: the probability that all rounds miss one of
	 * the four is below 1e-19. */
	for (int round = 0; round < 40 && all < 4; round++)
		all += rescue(world);
	assert_int_equal(all, 4);
	assert_string_equal(run_other(world, "ROLLBACK"), "");
}

/* The dead instance `id` has 300 rows, and a statement with more than 10 rows fails with `state`. */
static void expect_narrower(struct world *world, int id, const char *state)
{
	run_sql(world,
		"CREATE OR REPLACE FUNCTION inbox.narrow() RETURNS trigger LANGUAGE plpgsql AS $$"
		" BEGIN IF (SELECT count(*) > 10 FROM changed) THEN"
		" RAISE 'too many' USING ERRCODE = '%s'; END IF; RETURN NULL; END $$",
		state);
	run_sql(world,
		"INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at) VALUES (%d,"
		" 'dead', 1, now())",
		id);
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count)"
		" SELECT 's', '%d.' || i, 'orders', 0, i, %d, 1 FROM generate_series(1, 300) i",
		id, id);
	assert_int_equal(rescue(world), 300);
	assert_int_equal(err.fault, 0);
}

static void a_window_that_takes_too_long_or_meets_a_lock_is_tried_narrower(void **state)
{
	struct world *world = *state;

	run_sql(world, "CREATE FUNCTION inbox.narrow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
		       " RETURN NULL; END'");
	run_sql(world, "CREATE TRIGGER narrow AFTER UPDATE ON inbox.inbox_messages REFERENCING NEW"
		       " TABLE AS changed EXECUTE FUNCTION inbox.narrow()");
	err = (struct err)ERR_INIT;
	expect_narrower(world, 1, "57014");
	expect_narrower(world, 2, "55P03");
}

static void a_fault_with_one_instance_does_not_keep_others_from_their_rescue(void **state)
{
	struct world *world = *state;
	struct rescue busy = { .db = world->db, .stop = &go_on, .until_ms = INT64_MAX };

	many_dead(world, 16);
	run_sql(world, "CREATE FUNCTION inbox.busy() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$ BEGIN RAISE 'busy' USING ERRCODE = '55P03'; END $$");
	run_sql(world, "CREATE TRIGGER busy BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.claimed_by = 7) EXECUTE FUNCTION inbox.busy()");
	err = (struct err)ERR_INIT;
	assert_int_equal(instance_rescue(&busy, &err), FAULT_DATABASE);
	assert_non_null(strstr(err.text, "of instance 7"));
	assert_int_equal(busy.freed, 15);
	run_sql(world, "DROP TRIGGER busy ON inbox.inbox_messages");
	assert_int_equal(rescue(world), 1);
}

/* Like the end of the process, or of the server. */
static void a_rescue_that_loses_its_connection_continues_where_it_was(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	struct rescue lost = { .db = world->db, .stop = &go_on, .until_ms = INT64_MAX };
	int64_t first;

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count)"
		" SELECT 's', i::text, 'orders', 0, i, %d, 1 FROM generate_series(1, 4000) i",
		dead.id);
	first = ask(world, "SELECT min(seq) FROM inbox.inbox_messages");
	run_sql(world,
		"CREATE FUNCTION inbox.lose() RETURNS trigger LANGUAGE plpgsql AS"
		" $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$");
	run_sql(world, "CREATE TRIGGER lose BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.event_id = '3500') EXECUTE FUNCTION inbox.lose()");
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(instance_rescue(&lost, &err), FAULT_DATABASE);
	assert_false(db_is_open(world->db));
	OK(db_open(world->db, &err));
	assert_in_range(
		ask(world, "SELECT low_rest FROM inbox.inbox_instances WHERE id = %d", dead.id),
		first + 1000, first + 3499);
}

static void rescue_goes_through_many_pages_and_windows(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count, claim_number)"
		" SELECT 's', i::text, 'orders', 0, i, %d, 1 + i %% 2, 1 + i / 100 FROM "
		"generate_series(1, "
		"50001) i",
		dead.id);
	assert_int_equal(fence(world, "here", false), 1);
	assert_int_equal(rescue(world), 50001);
	assert_int_equal(
		ask(world, "SELECT count(*) FROM inbox.inbox_messages WHERE available_at IS NULL"),
		0);
}

static void rescue_stops_when_requested(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	const atomic_bool stop = true;
	struct rescue stopped = { .db = world->db, .stop = &stop, .until_ms = INT64_MAX };

	(void)STORED(world, .id = "a");
	give_to(world, "a", dead.id, 1);
	assert_int_equal(fence(world, "here", false), 1);
	OK(instance_rescue(&stopped, &err));
	assert_int_equal(stopped.freed, 0);
	assert_int_equal(rescue(world), 1);
}

/* Rule R3: a heartbeat is due in between. */
static void a_rescue_that_reached_its_time_limit_continues_later(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "here");
	struct rescue late = { .db = world->db, .stop = &go_on, .until_ms = 0 };
	int64_t all = 0;
	int rounds = 0;
	int r;

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count, claim_number)"
		" SELECT 's', i::text, 'orders', 0, i, %d, 1 + i %% 2, 1 + i / 100 FROM "
		"generate_series(1, 50001) i",
		dead.id);
	assert_int_equal(fence(world, "here", false), 1);
	do {
		r = instance_rescue(&late, &err);
		assert_true(late.freed < 50001);
		all += late.freed;
		rounds++;
	} while (r == RESCUE_MORE && rounds < 100);
	assert_int_equal(r, 0);
	assert_int_equal(all, 50001);
	assert_in_range(rounds, 3, 99);
	assert_int_equal(
		ask(world,
			"SELECT count(*) FROM inbox.inbox_instances WHERE rescued_at IS NOT NULL"),
		1);
}

/* --- Rule R16 ------------------------------------------------------------------------------------- */

static void has(struct world *world, int32_t id, const char *handlers)
{
	run_sql(world,
		"UPDATE inbox.inbox_instances SET handlers = '%s', heartbeat_at = now() WHERE id = "
		"%d",
		handlers, id);
}

/* A handler that is known, for events of one type. */
static void known(struct world *world, const char *name, const char *type)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, "
		"connected_at,"
		" last_seen_at) VALUES ('%s', '[{\"types\": [\"%s\"]}]', '10 min', now(), now(), "
		"now())",
		name, type);
}

/* A parked message of this type, in the partition `partition` of the instance. */
static void parked(struct world *world, int32_t id, int partition, const char *type)
{
	run_sql(world,
		"INSERT INTO inbox.inbox_offsets (topic, kafka_partition, owner, ordering)"
		" VALUES ('orders', %d, %d, 'key') ON CONFLICT (topic, kafka_partition) DO UPDATE"
		" SET owner = excluded.owner",
		partition, id);
	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic,"
		" kafka_partition, kafka_offset, available_at)"
		" SELECT 's', '%s.%d', '%s', 'orders', %d, 1, 'infinity'",
		type, partition, type, partition);
}

/* One member, and what it keeps between two decisions. */
struct member {
	int32_t id;
	struct absence absence;
};

static bool is_away(struct world *world, struct member *member)
{
	const struct absence_limits limits = { .lease_ms = 15000, .absence_ms = 30000 };

	OK(instance_absence(world->db, member->id, &limits, &member->absence, &err));
	return member->absence.away;
}

static void later(struct world *world)
{
	run_sql(world,
		"UPDATE inbox.inbox_instances SET lacking_since = lacking_since - interval '31 s'");
}

/* After a time that is long enough. */
static bool is_away_later(struct world *world, struct member *member)
{
	(void)is_away(world, member);
	later(world);
	return is_away(world, member);
}

static void member_fini(struct member *member)
{
	buf_fini(&member->absence.needed);
}

static void a_member_whose_messages_need_a_handler_of_another_becomes_away(void **state)
{
	struct world *world = *state;
	CLEANUP(member_fini) struct member me = { world->me.id };
	CLEANUP(member_fini) struct member other = { another(world, "").id };

	known(world, "billing", "bill.*");
	known(world, "mail", "mail.*");
	known(world, "audit", "audit.*");
	parked(world, me.id, 0, "mail.sent");
	parked(world, me.id, 1, "audit.done");
	parked(world, other.id, 2, "audit.done");
	has(world, me.id, "[\"billing\"]");
	has(world, other.id, "[\"mail\", \"billing\", \"audit\"]");
	assert_false(is_away(world, &me));
	assert_string_equal(me.absence.missing, "audit, mail");
	assert_false(is_away(world, &other));
	later(world);
	assert_true(is_away(world, &me));
	/* its partitions are of another member now */
	run_sql(world, "UPDATE inbox.inbox_offsets SET owner = %d", other.id);
	assert_true(is_away(world, &me));
	assert_false(is_away_later(world, &other));
}

static void a_member_stays_for_a_handler_that_none_of_its_messages_needs(void **state)
{
	struct world *world = *state;
	CLEANUP(member_fini) struct member me = { world->me.id };
	struct instance other = another(world, "");

	known(world, "pod-1", "bill.*");
	known(world, "pod-2", "bill.*");
	known(world, "mail", "mail.*");
	known(world, "debug", "nothing");
	known(world, "exact", "bill.paid");
	has(world, me.id, "[\"pod-1\"]");
	has(world, other.id, "[\"pod-2\", \"mail\", \"debug\"]");
	parked(world, other.id, 1, "mail.sent");
	parked(world, me.id, 0, "bill.new");  /* behind an earlier message of its key */
	parked(world, me.id, 2, "bill.paid"); /* for a handler that nobody has */
	parked(world, me.id, 3, "else");
	assert_false(is_away_later(world, &me));
	parked(world, me.id, 4, "mail.sent");
	run_sql(world, "INSERT INTO inbox.inbox_pauses (kind, name)"
		       " VALUES ('handler', 'mail')");
	assert_false(is_away_later(world, &me));
	run_sql(world, "DELETE FROM inbox.inbox_pauses");
	assert_true(is_away_later(world, &me));
}

/* Without a handler of the consumer its messages are not parked when they become due. */
static void a_member_needs_a_handler_for_due_messages_of_a_consumer_without_any(void **state)
{
	struct world *world = *state;
	CLEANUP(member_fini) struct member me = { world->me.id };
	struct instance other = another(world, "");

	run_sql(world, "INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, "
		       "known_since,"
		       " connected_at, last_seen_at) VALUES ('mail', 'mails', '[{}]', '10 min', "
		       "now(), now(), now())");
	parked(world, me.id, 0, "mail.sent");
	run_sql(world, "UPDATE inbox.inbox_messages SET consumer = 'mails', available_at = now()");
	has(world, other.id, "[{\"name\": \"mail\", \"consumer\": \"mails\"}]");
	has(world, me.id, "[{\"name\": \"late\", \"consumer\": \"mails\"}]");
	assert_false(is_away_later(world, &me));
	has(world, me.id, "[\"mail\", {\"name\": \"mail\", \"consumer\": \"other\"}]");
	assert_true(is_away_later(world, &me));
	assert_string_equal(me.absence.missing, "mail");
}

static void at_most_half_of_the_members_are_away(void **state)
{
	enum { MEMBERS = 5 };
	struct world *world = *state;
	struct member members[MEMBERS] = { { world->me.id } };

	known(world, "mail", "mail.*");
	for (int i = 0; i < MEMBERS; i++) {
		if (i > 0)
			members[i].id = another(world, "").id;
		parked(world, members[i].id, i, "mail.sent");
		has(world, members[i].id, i == MEMBERS - 1 ? "[\"mail\"]" : "[]");
	}
	for (int i = 0; i < MEMBERS; i++)
		assert_int_equal(is_away_later(world, &members[i]), i < 2);
	/* One of those that work is gone: of four two may be away, of three one. */
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = %d",
		members[2].id);
	assert_true(is_away(world, &members[1]));
	run_sql(world, "UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = %d",
		members[3].id);
	assert_true(is_away(world, &members[0]));
	assert_false(is_away(world, &members[1]));
	for (int i = 0; i < MEMBERS; i++)
		member_fini(&members[i]);
}

static void two_members_never_leave_for_each_other(void **state)
{
	struct world *world = *state;
	CLEANUP(member_fini) struct member me = { world->me.id };
	CLEANUP(member_fini) struct member other = { another(world, "").id };

	known(world, "billing", "bill.*");
	known(world, "mail", "mail.*");
	parked(world, me.id, 0, "mail.sent");
	parked(world, other.id, 1, "bill.paid");
	has(world, me.id, "[\"billing\"]");
	has(world, other.id, "[\"mail\"]");
	(void)is_away(world, &me);
	(void)is_away(world, &other);
	later(world);
	assert_true(is_away(world, &other));
	assert_false(is_away(world, &me));
	later(world);
	assert_false(is_away(world, &me));
	assert_true(is_away(world, &other));
}

static void a_member_returns_with_its_handler_or_without_the_other_member(void **state)
{
	struct world *world = *state;
	CLEANUP(member_fini) struct member me = { world->me.id };
	struct instance other = another(world, "");

	known(world, "mail", "mail.*");
	parked(world, me.id, 0, "mail.sent");
	has(world, other.id, "[\"mail\"]");
	assert_true(is_away_later(world, &me));
	has(world, me.id, "[\"mail\"]");
	assert_false(is_away(world, &me));
	has(world, me.id, "[]");
	assert_false(is_away(world, &me));
	later(world);
	assert_true(is_away(world, &me));
	run_sql(world,
		"UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '16 s' WHERE id "
		"= %d",
		other.id);
	assert_false(is_away(world, &me));
}

static void a_cleanly_stopped_instance_holds_no_rows(void **state)
{
	struct world *world = *state;

	(void)STORED(world, .id = "left");
	OK(instance_stop(world->db, world->me.id, &err));
	assert_int_equal(rescue(world), 1);
	assert_int_equal(ask(world, "SELECT count(*) FROM inbox.inbox_instances"
				    " WHERE stopped_at IS NOT NULL AND rescued_at IS NOT NULL"),
		1);
}

static void a_refused_row_does_not_block_the_rescue_of_others(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "");

	for (int i = 0; i < 9; i++) {
		char id[] = { 'a', (char)('0' + i), '\0' };

		(void)STORED(world, .id = id);
		give_to(world, id, dead.id, i % 2 == 0 ? 1 : 2);
	}
	run_sql(world,
		"UPDATE inbox.inbox_messages SET claim_number = seq WHERE delivery_count > 1");
	run_sql(world,
		"UPDATE inbox.inbox_instances SET fenced_at = now(), low_seq = 1 WHERE id = %d",
		dead.id);
	run_sql(world,
		"CREATE FUNCTION inbox.refuse_rescue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" RAISE 'no'; END $$");
	run_sql(world,
		"CREATE TRIGGER refuse_rescue BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		" WHEN (NEW.event_id IN ('a3', 'a4')) EXECUTE FUNCTION inbox.refuse_rescue()");
	err = (struct err)ERR_INIT;
	assert_int_equal(rescue(world), 7);
	assert_int_equal(err.fault, FAULT_DATABASE);
	assert_non_null(strstr(err.text, "row 5 of instance "));
	assert_int_equal(ask(world, "SELECT count(rescued_at) FROM inbox.inbox_instances"), 0);
	run_sql(world, "DROP TRIGGER refuse_rescue ON inbox.inbox_messages");
	assert_int_equal(rescue(world), 2);
	assert_int_equal(ask(world, "SELECT count(rescued_at) FROM inbox.inbox_instances"), 1);
}

/* In the time of each call there is one window, like with a row that takes all of it. */
static void a_row_that_takes_the_time_of_a_rescue_does_not_hide_later_rows(void **state)
{
	struct world *world = *state;
	struct instance dead = another(world, "");
	struct rescue late = { .db = world->db, .stop = &go_on, .until_ms = 0 };
	int64_t all = 0;

	run_sql(world,
		"INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
		" kafka_offset, claimed_by, delivery_count)"
		" SELECT 's', i::text, 'orders', 0, i, %d, 1 FROM generate_series(1, 300) i",
		dead.id);
	run_sql(world,
		"UPDATE inbox.inbox_instances SET fenced_at = now(), low_seq = 1 WHERE id = %d",
		dead.id);
	run_sql(world, "CREATE FUNCTION inbox.slow_row() RETURNS trigger LANGUAGE plpgsql AS"
		       " $$ BEGIN RAISE 'slow' USING ERRCODE = '57014'; END $$");
	run_sql(world, "CREATE TRIGGER slow_row BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW"
		       " WHEN (OLD.event_id = '7') EXECUTE FUNCTION inbox.slow_row()");
	for (int i = 0; i < 400 && all < 299; i++) {
		(void)instance_rescue(&late, &err);
		all += late.freed;
	}
	assert_int_equal(all, 299);
	assert_int_equal(ask(world, "SELECT count(rescued_at) FROM inbox.inbox_instances"), 0);
	run_sql(world, "DROP TRIGGER slow_row ON inbox.inbox_messages");
	for (int i = 0; i < 10 && all < 300; i++) {
		(void)instance_rescue(&late, &err);
		all += late.freed;
	}
	assert_int_equal(all, 300);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_low_seq_is_above_all_existing_rows),
		TEST(the_lease_of_a_new_instance_counts_from_before_it_was_sent),
		TEST(a_heartbeat_renews_the_lease),
		TEST(stragglers_are_stored_together_with_their_bound),
		TEST(stragglers_of_a_dead_instance_are_rescued_below_its_bound),
		TEST(a_fenced_instance_learns_it_from_its_heartbeat),
		TEST(a_heartbeat_finds_instances_that_are_dead),
		TEST(a_heartbeat_finds_handlers_that_are_missing),
		TEST(a_heartbeat_waits_for_no_other_table),
		TEST(an_expired_lease_is_fenced_by_a_steady_instance),
		TEST(a_fencing_that_is_executed_late_fences_no_expired_lease),
		TEST(a_valid_lease_is_not_fenced),
		TEST(an_earlier_instance_at_the_same_socket_is_fenced_at_once),
		TEST(fencing_at_the_start_waits_for_old_sessions_to_end),
		TEST(the_previous_instance_run_is_fenced_by_its_id),
		TEST(fencing_ends_the_sessions_of_the_dead_first),
		TEST(rescued_rows_wait_and_become_suspects_at_the_second_rescue),
		TEST(a_row_in_its_handlers_transaction_is_rescued_after_the_transaction),
		TEST(the_next_rescue_begins_at_the_row_that_was_locked),
		TEST(many_dead_instances_are_all_rescued),
		TEST(dead_instances_with_locked_rows_do_not_block_others),
		TEST(a_window_that_takes_too_long_or_meets_a_lock_is_tried_narrower),
		TEST(a_fault_with_one_instance_does_not_keep_others_from_their_rescue),
		TEST(a_rescue_that_loses_its_connection_continues_where_it_was),
		TEST(rescue_goes_through_many_pages_and_windows),
		TEST(rescue_stops_when_requested),
		TEST(a_rescue_that_reached_its_time_limit_continues_later),
		TEST(a_member_whose_messages_need_a_handler_of_another_becomes_away),
		TEST(a_member_stays_for_a_handler_that_none_of_its_messages_needs),
		TEST(a_member_needs_a_handler_for_due_messages_of_a_consumer_without_any),
		TEST(at_most_half_of_the_members_are_away),
		TEST(two_members_never_leave_for_each_other),
		TEST(a_member_returns_with_its_handler_or_without_the_other_member),
		TEST(a_cleanly_stopped_instance_holds_no_rows),
		TEST(a_refused_row_does_not_block_the_rescue_of_others),
		TEST(a_row_that_takes_the_time_of_a_rescue_does_not_hide_later_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
