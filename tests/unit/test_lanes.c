/* Order in memory: who may go, who waits, who must be parked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "base/time/clock.h"
#include "dispatch/order/lanes.h"

#define KEY_A         0xaaULL
#define KEY_B         0xbbULL
#define DEPTH         8
#define MAX_UNSETTLED 3

struct world {
	struct lanes lanes;
	struct message messages[16];
	struct entry entries[16];
	size_t used;
	enum ordering ordering;
};

static void set_up(struct world *world, enum ordering ordering)
{
	memset(world, 0, sizeof(*world));
	world->ordering = ordering;
	lanes_init(&world->lanes,
		&(struct lane_rules){ .max_unsettled = MAX_UNSETTLED, .depth = DEPTH, .claim = 4 });
}

static struct entry *a_row(struct world *world, uint64_t key, int64_t offset)
{
	struct entry *entry = &world->entries[world->used];
	struct message *message = &world->messages[world->used++];

	message->offset = offset;
	message->seq = offset;
	message->key_hash = key;
	if (key != 0)
		message->key = (struct bytes){ "k", 1 };
	entry->message = message;
	entry->ordering = world->ordering;
	return entry;
}

static enum lane_arrival admit(struct world *world, struct entry *entry)
{
	enum lane_arrival arrival = ADMIT_PARK;

	assert_int_equal(lanes_admit(&world->lanes, entry, &arrival, NULL), 0);
	if (arrival == ADMIT_HEAD)
		lanes_set_state(entry, ENTRY_READY);
	if (arrival == ADMIT_PARK) {
		entry->verdict.outcome = SETTLE_PARKED;
		entry->end = END_RETURNED;
		lanes_settling(&world->lanes, entry);
	}
	return arrival;
}

/* The table has the verdict. */
static struct entry *finish(struct world *world, struct entry *entry)
{
	return lanes_leave(&world->lanes, entry, false, false);
}

/* The delivery ends. Returns the entry that may start now. */
static struct entry *end(struct world *world, struct entry *entry, enum entry_end how)
{
	entry->end = how;
	entry->verdict.outcome = how == END_DONE   ? SETTLE_PROCESSED
				 : how == END_DEAD ? SETTLE_DEAD
						   : SETTLE_WAITING;
	lanes_settling(&world->lanes, entry);
	return lanes_next(&world->lanes, entry->lane);
}

/* Rows of one key with the offsets 1 to count, all in memory; the first one is READY. */
static struct entry *a_lane(struct world *world, int64_t count)
{
	struct entry *first = &world->entries[world->used];

	for (int64_t offset = 1; offset <= count; offset++)
		(void)admit(world, a_row(world, KEY_A, offset));
	return first;
}

static void the_first_message_of_a_key_is_delivered_and_the_second_waits(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 1)), ADMIT_HEAD);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 2)), ADMIT_BEHIND);
	assert_int_equal(admit(&world, a_row(&world, KEY_B, 3)), ADMIT_HEAD);
	lanes_fini(&world.lanes);
}

static void the_second_message_is_delivered_when_the_first_is_finished(void **state)
{
	struct world world;
	struct entry *first;
	struct entry *second;

	(void)state;
	set_up(&world, ORDERING_KEY);
	first = a_row(&world, KEY_A, 1);
	second = a_row(&world, KEY_A, 2);
	(void)admit(&world, first);
	(void)admit(&world, second);
	assert_ptr_equal(finish(&world, first), second);
	assert_false(lanes_must_park(second));
	assert_null(finish(&world, second));
	assert_null(world.lanes.table);
	lanes_fini(&world.lanes);
}

static void messages_without_a_key_do_not_wait(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	for (int64_t offset = 1; offset < 4; offset++)
		assert_int_equal(admit(&world, a_row(&world, 0, offset)), ADMIT_HEAD);
	assert_null(world.lanes.table);
	lanes_fini(&world.lanes);
}

static void with_partition_order_all_keys_share_one_lane(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_PARTITION);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 1)), ADMIT_HEAD);
	assert_int_equal(admit(&world, a_row(&world, KEY_B, 2)), ADMIT_BEHIND);
	assert_int_equal(admit(&world, a_row(&world, 0, 3)), ADMIT_BEHIND);
	lanes_fini(&world.lanes);
}

static void behind_a_head_that_waits_for_its_retry_everything_is_parked(void **state)
{
	struct world world;
	struct entry *head;
	struct entry *late;

	(void)state;
	set_up(&world, ORDERING_KEY);
	head = a_row(&world, KEY_A, 1);
	(void)admit(&world, head);
	(void)end(&world, head, END_RETRY);
	late = a_row(&world, KEY_A, 2);
	assert_int_equal(admit(&world, late), ADMIT_PARK);
	assert_null(lanes_leave(&world.lanes, head, true, true));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 3)), ADMIT_PARK);
	lanes_fini(&world.lanes);
}

static void behind_a_message_that_its_handler_calls_completed_nothing_is_parked(void **state)
{
	struct world world;
	struct entry *head;
	struct entry *late;

	(void)state;
	set_up(&world, ORDERING_KEY);
	head = a_row(&world, KEY_A, 1);
	(void)admit(&world, head);
	(void)end(&world, head, END_SETTLED);
	late = a_row(&world, KEY_A, 2);
	assert_int_equal(admit(&world, late), ADMIT_BEHIND);
	assert_ptr_equal(finish(&world, head), late);
	assert_false(lanes_must_park(late));
	lanes_fini(&world.lanes);
}

static void if_it_is_not_completed_the_next_one_must_be_parked(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 2);
	(void)end(&world, &rows[0], END_SETTLED);
	assert_ptr_equal(lanes_leave(&world.lanes, &rows[0], true, true), &rows[1]);
	assert_true(lanes_must_park(&rows[1]));
	lanes_fini(&world.lanes);
}

static void an_empty_lane_with_a_blocked_head_in_the_table_is_not_claimed(void **state)
{
	struct world world;
	struct entry *head;

	(void)state;
	set_up(&world, ORDERING_KEY);
	head = a_row(&world, KEY_A, 1);
	(void)admit(&world, head);
	(void)lanes_leave(&world.lanes, head, true, true);
	assert_int_equal(world.lanes.claimable_count, 0);
	assert_int_equal(world.lanes.idle_count, 1);
	lanes_fini(&world.lanes);
}

static void after_a_blocked_head_returned_its_lane_is_claimed(void **state)
{
	struct world world;
	struct entry *head;
	struct entry *again;
	struct lane_key key;

	(void)state;
	set_up(&world, ORDERING_KEY);
	head = a_row(&world, KEY_A, 1);
	(void)admit(&world, head);
	(void)lanes_leave(&world.lanes, head, true, true);
	(void)lanes_parked(&world.lanes, 0, KEY_A, 2, NULL);
	lanes_block(&world.lanes, 0, KEY_A);
	world.lanes.claims_given = 1;
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 1, true, 1 });
	again = a_row(&world, KEY_A, 1);
	assert_int_equal(admit(&world, again), ADMIT_HEAD);
	assert_null(finish(&world, again));
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 1);
	assert_int_equal(key.hash, KEY_A);
	lanes_fini(&world.lanes);
}

static void a_head_that_was_returned_during_a_claim_stays_before_its_rows(void **state)
{
	struct world world;
	struct entry *retried;

	(void)state;
	set_up(&world, ORDERING_KEY);
	retried = a_row(&world, KEY_A, 5);
	(void)admit(&world, retried);
	world.lanes.claims_given = 1; /* it takes 6; 5 is in memory */
	(void)lanes_leave(&world.lanes, retried, true, true);
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 6, false, 1 });
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 6)), ADMIT_PARK);
	lanes_fini(&world.lanes);
}

static void a_lower_offset_that_arrives_late_is_delivered_next(void **state)
{
	struct world world;
	struct entry *open;
	struct entry *higher;
	struct entry *replayed;

	(void)state;
	set_up(&world, ORDERING_KEY);
	open = a_row(&world, KEY_A, 5);
	higher = a_row(&world, KEY_A, 6);
	replayed = a_row(&world, KEY_A, 2);
	(void)admit(&world, open);
	(void)admit(&world, higher);
	assert_int_equal(admit(&world, replayed), ADMIT_BEHIND);
	assert_ptr_equal(finish(&world, open), replayed);
	lanes_fini(&world.lanes);
}

static void a_full_lane_parks_and_is_claimed_when_empty(void **state)
{
	struct world world;
	struct entry *rows[DEPTH];
	struct entry *surplus;

	(void)state;
	set_up(&world, ORDERING_KEY);
	for (int i = 0; i < DEPTH; i++) {
		rows[i] = a_row(&world, KEY_A, i);
		(void)admit(&world, rows[i]);
	}
	surplus = a_row(&world, KEY_A, DEPTH);
	assert_int_equal(admit(&world, surplus), ADMIT_PARK);
	(void)lanes_leave(&world.lanes, surplus, true, false);
	for (int i = 0; i < DEPTH; i++)
		(void)finish(&world, rows[i]);
	assert_int_equal(world.lanes.claimable_count, 1);
	lanes_fini(&world.lanes);
}

/* Its messages do not stay in memory for long, so ingest waits for room instead. */
static void a_fast_lane_may_fill_memory(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.rules.fast_ms = INT64_MAX;
	(void)a_lane(&world, DEPTH);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, DEPTH + 1)), ADMIT_BEHIND);
	lanes_fini(&world.lanes);
}

static void a_swept_key_does_not_block_its_messages_in_memory(void **state)
{
	struct world world;
	struct entry *first;
	struct entry *second;

	(void)state;
	set_up(&world, ORDERING_KEY);
	first = a_row(&world, KEY_A, 1);
	second = a_row(&world, KEY_A, 2);
	(void)admit(&world, first);
	(void)admit(&world, second);
	assert_int_equal(lanes_parked(&world.lanes, 0, KEY_A, -1, NULL), 0);
	assert_ptr_equal(finish(&world, first), second);
	assert_false(lanes_must_park(second));
	(void)finish(&world, second);
	assert_int_equal(world.lanes.claimable_count, 1);
	lanes_fini(&world.lanes);
}

static void a_lane_without_memory_is_an_error(void **state)
{
	struct world world;
	enum lane_arrival arrival;

	(void)state;
	set_up(&world, ORDERING_KEY);
	alloc_fail_at(1);
	assert_int_equal(
		lanes_admit(&world.lanes, a_row(&world, KEY_A, 1), &arrival, NULL), FAULT_MEMORY);
	alloc_fail_never();
	lanes_fini(&world.lanes);
}

static void a_claimed_lane_with_more_rows_is_claimed_again_when_it_is_empty(void **state)
{
	const struct lane_run run = { .last_offset = 2, .followed = true, .number = 1 };
	struct lane_key key;
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	lanes_claimed(&world.lanes, 0, KEY_A, &run);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 1)), ADMIT_HEAD);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 2)), ADMIT_BEHIND);
	assert_ptr_equal(finish(&world, &world.entries[0]), &world.entries[1]);
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 0);
	assert_null(finish(&world, &world.entries[1]));
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 1);
	lanes_fini(&world.lanes);
}

/* Rule R12: another instance is at a row of the key. */
static void all_messages_of_a_held_lane_are_parked(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	assert_int_equal(lanes_hold(&world.lanes, 0, KEY_A), 0);
	assert_false(lanes_is_free(&world.lanes, 0, KEY_A));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 1)), ADMIT_PARK);
	assert_int_equal(admit(&world, a_row(&world, KEY_B, 2)), ADMIT_HEAD);
	lanes_fini(&world.lanes);
}

static void a_lane_is_held_until_all_its_rows_have_ended(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	(void)lanes_hold(&world.lanes, 0, KEY_A);
	(void)lanes_hold(&world.lanes, 0, KEY_A);
	lanes_unhold(&world.lanes, 0, KEY_A, -1);
	assert_false(lanes_is_free(&world.lanes, 0, KEY_A));
	lanes_unhold(&world.lanes, 0, KEY_A, -1);
	assert_true(lanes_is_free(&world.lanes, 0, KEY_A));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 2)), ADMIT_HEAD);
	lanes_fini(&world.lanes);
}

static void a_held_row_that_waits_again_is_claimed_and_delivered_first(void **state)
{
	struct lane_key key;
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	(void)lanes_hold(&world.lanes, 0, KEY_A);
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 0);
	lanes_unhold(&world.lanes, 0, KEY_A, 3);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 4)), ADMIT_PARK);
	(void)lanes_leave(&world.lanes, &world.entries[0], true, false);
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 1);
	assert_int_equal(key.hash, KEY_A);
	lanes_fini(&world.lanes);
}

static void rows_parked_behind_a_held_row_are_claimed_when_it_ended(void **state)
{
	struct lane_key key;
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	(void)lanes_hold(&world.lanes, 0, KEY_A);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 4)), ADMIT_PARK);
	(void)lanes_leave(&world.lanes, &world.entries[0], true, false);
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 0);
	lanes_unhold(&world.lanes, 0, KEY_A, -1);
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 1);
	lanes_fini(&world.lanes);
}

/* Streams that were revoked, and how often it was asked for one. */
struct revoked {
	size_t streams[2];
	size_t asked;
};

static bool is_revoked(void *arg, size_t stream)
{
	struct revoked *revoked = arg;

	revoked->asked++;
	return stream == revoked->streams[0] || stream == revoked->streams[1];
}

static void releasing_a_lane_that_is_not_held_does_nothing(void **state)
{
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	lanes_unhold(&world.lanes, 0, KEY_A, 1);
	(void)lanes_hold(&world.lanes, 0, KEY_A);
	lanes_forget_streams(&world.lanes, is_revoked, &(struct revoked){ { 0, 0 }, 0 });
	lanes_unhold(&world.lanes, 0, KEY_A, 1);
	assert_true(lanes_is_free(&world.lanes, 0, KEY_A));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 2)), ADMIT_HEAD);
	lanes_fini(&world.lanes);
}

/* Each lane is looked at once, however many partitions were lost. */
static void lanes_of_lost_partitions_are_forgotten_in_one_pass(void **state)
{
	struct revoked revoked = { { 7, 8 }, 0 };
	struct world world;

	(void)state;
	set_up(&world, ORDERING_KEY);
	for (size_t stream = 6; stream <= 9; stream++)
		(void)lanes_parked(&world.lanes, stream, KEY_A, 1, NULL);
	(void)admit(&world, a_row(&world, KEY_B, 2));
	lanes_forget_streams(&world.lanes, is_revoked, &revoked);
	assert_int_equal(revoked.asked, 4);
	assert_int_equal(
		HASH_COUNT(world.lanes.table), 3); /* of the streams 6, 9, and that with an entry */
	lanes_fini(&world.lanes);
}

/* Rule R25. */
static void after_done_the_next_message_starts(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 2);
	assert_ptr_equal(end(&world, &rows[0], END_DONE), &rows[1]);
	assert_true(lanes_is_head(&rows[1]));
	assert_false(lanes_must_park(&rows[1]));
	lanes_set_state(&rows[1], ENTRY_READY);
	assert_null(finish(&world, &rows[0]));
	assert_null(finish(&world, &rows[1]));
	assert_null(world.lanes.table);
	lanes_fini(&world.lanes);
}

static void after_every_other_end_the_lane_waits_for_the_table(void **state)
{
	static const enum entry_end others[] = { END_RETRY, END_DEAD, END_SNOOZE, END_SETTLED,
		END_TIMEOUT, END_CRASH, END_RETURNED };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct world world;
		struct entry *rows;

		set_up(&world, ORDERING_KEY);
		rows = a_lane(&world, 2);
		assert_null(end(&world, &rows[0], others[i]));
		assert_ptr_equal(finish(&world, &rows[0]), &rows[1]);
		lanes_fini(&world.lanes);
	}
}

static void with_next_after_commit_a_done_waits_for_the_table_too(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.rules.wait_for_commit = true;
	rows = a_lane(&world, 2);
	assert_null(end(&world, &rows[0], END_DONE));
	assert_ptr_equal(finish(&world, &rows[0]), &rows[1]);
	lanes_fini(&world.lanes);
}

/* Rule R25. */
static void a_lane_with_too_many_unsettled_verdicts_waits(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, MAX_UNSETTLED + 2);
	for (int i = 0; i < MAX_UNSETTLED - 1; i++) {
		assert_ptr_equal(end(&world, &rows[i], END_DONE), &rows[i + 1]);
		lanes_set_state(&rows[i + 1], ENTRY_READY);
	}
	assert_null(end(&world, &rows[MAX_UNSETTLED - 1], END_DONE));
	assert_ptr_equal(finish(&world, &rows[0]), &rows[MAX_UNSETTLED]);
	lanes_fini(&world.lanes);
}

static void a_message_that_arrives_behind_too_many_waits(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.rules.max_unsettled = 1;
	rows = a_lane(&world, 1);
	assert_null(end(&world, &rows[0], END_DONE));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 2)), ADMIT_BEHIND);
	assert_ptr_equal(finish(&world, &rows[0]), &rows[1]);
	lanes_fini(&world.lanes);
}

/* Rule R25: the verdicts have the order of their ends, also the one that stops the lane. */
static void the_verdicts_of_a_lane_have_an_order(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 3);
	(void)end(&world, &rows[0], END_DONE);
	(void)end(&world, &rows[1], END_RETRY);
	assert_null(lanes_verdict_before(&rows[0]));
	assert_ptr_equal(lanes_verdict_before(&rows[1]), &rows[0]);
	assert_null(lanes_verdict_before(&rows[2]));
	assert_null(finish(&world, &rows[0]));
	assert_null(lanes_verdict_before(&rows[1]));
	lanes_fini(&world.lanes);
}

static void a_done_that_is_taken_back_stops_the_lane(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 3);
	(void)end(&world, &rows[0], END_DONE);
	(void)end(&world, &rows[1], END_DONE);
	lanes_take_back(&rows[1]);
	assert_null(finish(&world, &rows[0]));
	assert_true(lanes_must_park(&rows[2]));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 4)), ADMIT_PARK);
	lanes_fini(&world.lanes);
}

/* Its events are refused. The verdicts behind it wait for it. */
static void a_done_that_failed_after_all_keeps_its_place(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 3);
	(void)end(&world, &rows[0], END_DONE);
	(void)end(&world, &rows[1], END_DONE);
	lanes_take_back_failed(&rows[0]);
	assert_ptr_equal(lanes_verdict_before(&rows[1]), &rows[0]);
	assert_true(lanes_is_head(&rows[0]));
	assert_null(lanes_next(&world.lanes, rows[0].lane));
	assert_true(lanes_must_park(&rows[2]));
	lanes_fini(&world.lanes);
}

/* Rule R25. */
static void a_hot_lane_is_claimed_again_when_half_of_it_is_left(void **state)
{
	struct lane_key key;
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.rules.depth = 12;
	rows = a_lane(&world, 8);
	assert_int_equal(lanes_parked(&world.lanes, 0, KEY_A, 9, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(world.lanes.claimable_count, 0);
		lanes_set_state(&rows[i], ENTRY_READY);
		(void)end(&world, &rows[i], END_DONE);
		(void)finish(&world, &rows[i]);
	}
	assert_int_equal(lanes_take_claimable(&world.lanes, &key, 1), 1);
	world.lanes.claims_given = 1;
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 9, false, 1 });
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 9)), ADMIT_BEHIND);
	lanes_fini(&world.lanes);
}

/* The claim could take what is behind the row that goes back. */
static void a_hot_lane_is_not_claimed_while_a_row_of_it_goes_back(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.rules.depth = 12;
	rows = a_lane(&world, 8);
	(void)lanes_parked(&world.lanes, 0, KEY_A, 9, NULL);
	for (int i = 0; i < 3; i++) {
		lanes_set_state(&rows[i], ENTRY_READY);
		(void)end(&world, &rows[i], END_DONE);
	}
	lanes_set_state(&rows[3], ENTRY_READY);
	(void)end(&world, &rows[3], END_RETRY);
	for (int i = 0; i < 3; i++)
		(void)finish(&world, &rows[i]);
	lanes_set_state(&rows[7], ENTRY_QUEUED);
	(void)finish(&world, &rows[7]);
	assert_int_equal(world.lanes.claimable_count, 0);
	lanes_fini(&world.lanes);
}

/* Rule R25: a lane of `count` rows, of which the first one waits in the table for its retry. */
static struct entry *a_retrying_lane(struct world *world, int64_t count)
{
	struct entry *rows = a_lane(world, count);

	(void)end(world, &rows[0], END_RETRY);
	rows[0].in_lane.retry_ms = 1000;
	assert_null(lanes_leave(&world->lanes, &rows[0], true, true));
	world->lanes.claims_given++;
	return rows;
}

/* The claim number 1 brings the row with offset 1. */
static struct entry *comes_back(struct world *world, bool followed)
{
	struct entry *again = a_row(world, KEY_A, 1);

	lanes_claimed(&world->lanes, 0, KEY_A, &(struct lane_run){ 1, followed, 1 });
	assert_int_equal(admit(world, again), ADMIT_HEAD);
	return again;
}

static void behind_a_short_retry_the_next_messages_wait_in_memory(void **state)
{
	struct world world;
	struct entry *rows;
	struct entry *again;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_retrying_lane(&world, 3);
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 4)), ADMIT_BEHIND);
	assert_int_equal(world.lanes.claimable_count + world.lanes.idle_count, 0);
	again = comes_back(&world, false);
	assert_ptr_equal(end(&world, again, END_DONE), &rows[1]);
	assert_false(lanes_must_park(&rows[1]));
	lanes_fini(&world.lanes);
}

static void a_row_parked_behind_a_short_retry_is_behind_the_messages_in_memory(void **state)
{
	struct world world;
	struct entry *rows;
	struct entry *again;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_retrying_lane(&world, 3);
	again = comes_back(&world, true); /* the claim saw it, and ingest has not told about it */
	assert_ptr_equal(end(&world, again, END_DONE), &rows[1]);
	assert_false(lanes_must_park(&rows[1]));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 5)), ADMIT_PARK);
	lanes_fini(&world.lanes);
}

static void a_row_known_in_the_table_stays_known_over_a_short_retry(void **state)
{
	struct world world;
	struct entry *rows;
	struct entry *again;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_retrying_lane(&world, 2);
	assert_int_equal(lanes_parked(&world.lanes, 0, KEY_A, 3, NULL), 0);
	again = comes_back(&world, true);
	(void)end(&world, again, END_DONE);
	(void)finish(&world, again);
	assert_false(lanes_must_park(&rows[1]));
	lanes_set_state(&rows[1], ENTRY_READY);
	(void)end(&world, &rows[1], END_DONE);
	assert_null(finish(&world, &rows[1]));
	assert_int_equal(world.lanes.claimable_count, 1);
	lanes_fini(&world.lanes);
}

/* It was given before the row was in the table, so it cannot bring the row. */
static void an_earlier_claim_does_not_end_the_wait_for_a_retry(void **state)
{
	struct world world;
	struct entry *rows;

	(void)state;
	set_up(&world, ORDERING_KEY);
	world.lanes.claims_given = 1;
	rows = a_retrying_lane(&world, 2);
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 3, false, 1 });
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 3)), ADMIT_BEHIND);
	assert_null(lanes_next(&world.lanes, rows[1].lane));
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 1, false, 2 });
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 1)), ADMIT_HEAD);
	lanes_fini(&world.lanes);
}

static void a_row_that_a_claim_has_brought_again_is_not_waited_for(void **state)
{
	struct world world;
	struct entry *rows;
	struct entry *again;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_lane(&world, 2);
	(void)end(&world, &rows[0], END_RETRY);
	rows[0].in_lane.retry_ms = 1000;
	again = a_row(&world, KEY_A, 1);
	again->message->seq = 0; /* before the entry of the same offset */
	lanes_claimed(&world.lanes, 0, KEY_A, &(struct lane_run){ 1, false, 1 });
	assert_int_equal(admit(&world, again), ADMIT_BEHIND);
	assert_ptr_equal(lanes_leave(&world.lanes, &rows[0], true, true), again);
	lanes_fini(&world.lanes);
}

static void when_the_retry_does_not_come_the_messages_go_to_the_table(void **state)
{
	struct world world;
	int64_t before_ms = clock_now_ms();
	struct entry *rows;
	struct entry *next = NULL;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_retrying_lane(&world, 2);
	assert_false(lanes_end_retry(&world.lanes, before_ms, &next));
	assert_true(lanes_end_retry(&world.lanes, clock_now_ms() + 1001, &next));
	assert_ptr_equal(next, &rows[1]);
	assert_true(lanes_must_park(next));
	assert_false(lanes_end_retry(&world.lanes, INT64_MAX, &next));
	lanes_fini(&world.lanes);
}

static void a_retrying_lane_that_becomes_empty_still_knows_the_row(void **state)
{
	struct world world;
	struct entry *rows;
	struct entry *next = NULL;

	(void)state;
	set_up(&world, ORDERING_KEY);
	rows = a_retrying_lane(&world, 2);
	(void)end(&world, &rows[1], END_RETURNED);
	assert_null(lanes_leave(&world.lanes, &rows[1], true, false));
	assert_int_equal(world.lanes.idle_count, 1);
	assert_false(lanes_end_retry(&world.lanes, INT64_MAX, &next));
	assert_int_equal(admit(&world, a_row(&world, KEY_A, 3)), ADMIT_PARK);
	lanes_fini(&world.lanes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_message_of_a_key_is_delivered_and_the_second_waits),
		cmocka_unit_test(the_second_message_is_delivered_when_the_first_is_finished),
		cmocka_unit_test(messages_without_a_key_do_not_wait),
		cmocka_unit_test(with_partition_order_all_keys_share_one_lane),
		cmocka_unit_test(behind_a_head_that_waits_for_its_retry_everything_is_parked),
		cmocka_unit_test(
			behind_a_message_that_its_handler_calls_completed_nothing_is_parked),
		cmocka_unit_test(if_it_is_not_completed_the_next_one_must_be_parked),
		cmocka_unit_test(an_empty_lane_with_a_blocked_head_in_the_table_is_not_claimed),
		cmocka_unit_test(after_a_blocked_head_returned_its_lane_is_claimed),
		cmocka_unit_test(a_head_that_was_returned_during_a_claim_stays_before_its_rows),
		cmocka_unit_test(a_lower_offset_that_arrives_late_is_delivered_next),
		cmocka_unit_test(a_full_lane_parks_and_is_claimed_when_empty),
		cmocka_unit_test(a_fast_lane_may_fill_memory),
		cmocka_unit_test(a_swept_key_does_not_block_its_messages_in_memory),
		cmocka_unit_test(a_lane_without_memory_is_an_error),
		cmocka_unit_test(a_claimed_lane_with_more_rows_is_claimed_again_when_it_is_empty),
		cmocka_unit_test(all_messages_of_a_held_lane_are_parked),
		cmocka_unit_test(a_lane_is_held_until_all_its_rows_have_ended),
		cmocka_unit_test(a_held_row_that_waits_again_is_claimed_and_delivered_first),
		cmocka_unit_test(rows_parked_behind_a_held_row_are_claimed_when_it_ended),
		cmocka_unit_test(releasing_a_lane_that_is_not_held_does_nothing),
		cmocka_unit_test(lanes_of_lost_partitions_are_forgotten_in_one_pass),
		cmocka_unit_test(after_done_the_next_message_starts),
		cmocka_unit_test(after_every_other_end_the_lane_waits_for_the_table),
		cmocka_unit_test(with_next_after_commit_a_done_waits_for_the_table_too),
		cmocka_unit_test(a_lane_with_too_many_unsettled_verdicts_waits),
		cmocka_unit_test(a_message_that_arrives_behind_too_many_waits),
		cmocka_unit_test(the_verdicts_of_a_lane_have_an_order),
		cmocka_unit_test(a_done_that_is_taken_back_stops_the_lane),
		cmocka_unit_test(a_done_that_failed_after_all_keeps_its_place),
		cmocka_unit_test(a_hot_lane_is_claimed_again_when_half_of_it_is_left),
		cmocka_unit_test(a_hot_lane_is_not_claimed_while_a_row_of_it_goes_back),
		cmocka_unit_test(behind_a_short_retry_the_next_messages_wait_in_memory),
		cmocka_unit_test(
			a_row_parked_behind_a_short_retry_is_behind_the_messages_in_memory),
		cmocka_unit_test(a_row_known_in_the_table_stays_known_over_a_short_retry),
		cmocka_unit_test(an_earlier_claim_does_not_end_the_wait_for_a_retry),
		cmocka_unit_test(a_row_that_a_claim_has_brought_again_is_not_waited_for),
		cmocka_unit_test(when_the_retry_does_not_come_the_messages_go_to_the_table),
		cmocka_unit_test(a_retrying_lane_that_becomes_empty_still_knows_the_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
