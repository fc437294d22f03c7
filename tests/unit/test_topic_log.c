/*
 * Generations of a topic: ids that a broker sends, and the generation of a record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/identity/topic_log.h"

static void an_id_proves_nothing_until_one_is_known(void **state)
{
	struct topic_log log = TOPIC_LOG_FIRST;

	(void)state;
	assert_int_equal(topic_log_match(&log, "A"), TOPIC_ID_UNPROVEN);
	assert_true(topic_log_note_id(&log, "A"));
	assert_false(topic_log_note_id(&log, "A"));
	assert_int_equal(topic_log_match(&log, ""), TOPIC_ID_UNPROVEN);
	assert_int_equal(topic_log_match(&log, "A"), TOPIC_ID_SAME);
	assert_int_equal(topic_log_match(&log, "B"), TOPIC_ID_OTHER);
}

/* A broker that is not up to date still sends it. */
static void an_id_of_an_earlier_generation_proves_nothing(void **state)
{
	struct topic_log log = TOPIC_LOG_FIRST;

	(void)state;
	assert_true(topic_log_note_id(&log, "A"));
	topic_log_begin(&log, 0, "B");
	assert_int_equal(log.generation, 2);
	assert_int_equal(topic_log_match(&log, "A"), TOPIC_ID_UNPROVEN);
	assert_int_equal(topic_log_match(&log, "B"), TOPIC_ID_SAME);
	topic_log_begin(&log, 0, "");
	assert_false(topic_log_note_id(&log, "B"));
	assert_true(topic_log_note_id(&log, "C"));
	assert_string_equal(log.ids, "C B A");
}

static void an_id_is_compared_as_a_whole(void **state)
{
	struct topic_log log = TOPIC_LOG_FIRST;

	(void)state;
	assert_true(topic_log_note_id(&log, "AB"));
	assert_int_equal(topic_log_match(&log, "A"), TOPIC_ID_OTHER);
	assert_int_equal(topic_log_match(&log, "ABC"), TOPIC_ID_OTHER);
}

static void the_oldest_ids_are_forgotten(void **state)
{
	struct topic_log log = TOPIC_LOG_FIRST;
	char id[] = "0123456789012345678901";

	(void)state;
	for (int i = 0; i < 26; i++) {
		id[0] = (char)('a' + i);
		topic_log_begin(&log, 0, id);
	}
	assert_int_equal(topic_log_match(&log, id), TOPIC_ID_SAME);
	assert_true(strlen(log.ids) < sizeof(log.ids));
	assert_int_equal(strlen(log.ids) % 23, 22);
	id[0] = 'y';
	assert_int_equal(topic_log_match(&log, id), TOPIC_ID_UNPROVEN);
	id[0] = 'a';
	assert_int_equal(topic_log_match(&log, id), TOPIC_ID_OTHER);
}

static void records_below_its_first_offset_have_the_generation_before(void **state)
{
	struct topic_log log = TOPIC_LOG_FIRST;

	(void)state;
	assert_int_equal(topic_log_generation(&log, 0), 1);
	topic_log_begin(&log, 7, NULL);
	assert_int_equal(topic_log_generation(&log, 6), 1);
	assert_int_equal(topic_log_generation(&log, 7), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_proves_nothing_until_one_is_known),
		cmocka_unit_test(an_id_of_an_earlier_generation_proves_nothing),
		cmocka_unit_test(an_id_is_compared_as_a_whole),
		cmocka_unit_test(the_oldest_ids_are_forgotten),
		cmocka_unit_test(records_below_its_first_offset_have_the_generation_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
