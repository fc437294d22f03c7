/*
 * The tables of `inboxd exec`: exit codes, answer lines, the last line on stderr, the event, and the environment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/last_line.h"
#include "bridge/event.h"
#include "bridge/exec/answer_line.h"
#include "bridge/exec/environment.h"
#include "bridge/exec/exit_status.h"
#include "client/reader.h"

/* --- Exit codes -------------------------------------------------------------------------------- */

static void assert_exit(struct ending ending, const char *last_line, enum bridge_status status,
	const char *reason, const char *code)
{
	struct bridge_verdict verdict;

	exit_status_verdict(ending, false, last_line, &verdict);
	assert_int_equal(verdict.status, status);
	assert_string_equal(verdict.reason, reason);
	assert_string_equal(verdict.code, code);
	assert_int_equal(verdict.delay_ms, -1);
	assert_null(verdict.result.data);
}

static void the_exit_code_is_the_verdict(void **state)
{
	(void)state;
	assert_exit((struct ending){ false, 0 }, "all is well", BRIDGE_DONE, "", "");
	assert_exit((struct ending){ false, 65 }, "no such schema", BRIDGE_DEAD, "no such schema",
		"EXIT_65");
	assert_exit(
		(struct ending){ false, 75 }, "try later", BRIDGE_RETRY, "try later", "EXIT_75");
	assert_exit((struct ending){ false, 1 }, "oops", BRIDGE_RETRY, "oops", "EXIT_1");
	assert_exit((struct ending){ false, 127 }, "", BRIDGE_RETRY,
		"the command ended with exit code 127, and wrote nothing to stderr", "EXIT_127");
}

static void a_signal_is_a_retry_whatever_its_number(void **state)
{
	(void)state;
	assert_exit((struct ending){ true, 9 }, "", BRIDGE_RETRY,
		"the command ended with signal 9, and wrote nothing to stderr", "SIGNAL_9");
	assert_exit((struct ending){ true, 65 }, "x", BRIDGE_RETRY, "x", "SIGNAL_65");
}

static void exit_code_0_can_mean_settled(void **state)
{
	struct bridge_verdict verdict;

	(void)state;
	exit_status_verdict((struct ending){ false, 0 }, true, "", &verdict);
	assert_int_equal(verdict.status, BRIDGE_SETTLED);
	exit_status_verdict((struct ending){ false, 65 }, true, "", &verdict);
	assert_int_equal(verdict.status, BRIDGE_DEAD);
}

static void an_end_without_an_answer_is_a_retry_also_with_code_0(void **state)
{
	struct bridge_verdict verdict;

	(void)state;
	exit_status_failure((struct ending){ false, 0 }, " before it answered", "", &verdict);
	assert_int_equal(verdict.status, BRIDGE_RETRY);
	assert_string_equal(
		verdict.reason, "the command ended with exit code 0 before it answered");
	exit_status_failure((struct ending){ false, 65 }, " before it answered", "bad", &verdict);
	assert_int_equal(verdict.status, BRIDGE_RETRY);
	assert_string_equal(verdict.reason, "bad");
}

/* --- The last line on stderr ------------------------------------------------------------------- */

static void assert_last_line(const char *expected, const char *text)
{
	struct last_line line;

	last_line_reset(&line);
	last_line_add(&line, text, strlen(text));
	assert_string_equal(last_line_end(&line), expected);
	/* byte by byte it is the same */
	last_line_reset(&line);
	for (const char *c = text; *c != '\0'; c++)
		last_line_add(&line, c, 1);
	assert_string_equal(last_line_end(&line), expected);
}

static void the_last_line_that_is_not_blank_counts(void **state)
{
	(void)state;
	assert_last_line("", "");
	assert_last_line("", " \n\n\t\n");
	assert_last_line("two", "one\ntwo\n");
	assert_last_line("two", "one\ntwo\n \n\n");
	assert_last_line("three", "one\ntwo\nthree");
	assert_last_line("KeyError: 'vat'", "Traceback:\n  File x\n  KeyError: 'vat' \r\n");
	assert_last_line("a b", "a\tb\n");
}

static void a_long_last_line_is_cut_at_a_character(void **state)
{
	char text[2 * LAST_LINE_BYTES + 1] = "";
	struct last_line line;

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 == 0 ? '\xc3' : '\xa4';
	last_line_reset(&line);
	last_line_add(&line, text, sizeof(text) - 1);
	assert_int_equal(strlen(last_line_end(&line)), LAST_LINE_BYTES - 2);
}

/* --- Answer lines ------------------------------------------------------------------------------ */

struct world {
	struct json_stream *stream;
	struct ih_pool pool;
	struct ih_reader *reader;
	struct ih_line *line;
	struct event event;
};

static int setup(void **state)
{
	static const struct json_limits limits = { .max_depth = JSON_DEEPEST, .any_space = true };
	struct world *world = calloc(1, sizeof(*world));

	*state = world;
	if (world == NULL || json_stream_new_with(&world->stream, &limits, NULL) != 0)
		return -1;
	ih_pool_init(&world->pool);
	world->reader = ih_reader_new(&world->pool);
	return world->reader == NULL ? -1 : event_init(&world->event, NULL);
}

static int teardown(void **state)
{
	struct world *world = *state;

	json_stream_free(world->stream);
	ih_reader_free(world->reader);
	ih_pool_fini(&world->pool);
	event_fini(&world->event);
	free(world);
	return 0;
}

static struct bridge_verdict read_answer(struct world *world, const char *line, int expected)
{
	struct bridge_verdict verdict;
	struct err err = ERR_INIT;

	assert_int_equal(
		answer_line_read(world->stream, bytes_of(line), bytes_of("A7"), &verdict, &err),
		expected);
	return verdict;
}

static void an_answer_can_be_one_word(void **state)
{
	static const struct {
		const char *word;
		enum bridge_status status;
	} words[] = {
		{ "done", BRIDGE_DONE },
		{ "retry", BRIDGE_RETRY },
		{ "dead", BRIDGE_DEAD },
		{ "snooze", BRIDGE_SNOOZE },
		{ "settled", BRIDGE_SETTLED },
		{ "skipped", BRIDGE_SKIPPED },
		{ "done\r", BRIDGE_DONE },
		{ "done ", BRIDGE_DONE },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(read_answer(*state, words[i].word, 0).status, words[i].status);
}

static void the_text_behind_the_word_is_the_reason_or_the_delay(void **state)
{
	struct bridge_verdict verdict = read_answer(*state, "retry  upstream 503", 0);

	assert_string_equal(verdict.reason, "upstream 503");
	assert_int_equal(verdict.delay_ms, -1);
	verdict = read_answer(*state, "dead\tschema v9 {unknown}", 0);
	assert_string_equal(verdict.reason, "schema v9 {unknown}");
	verdict = read_answer(*state, "retry \xd0\xbd\xd0\xb5\xd1\x82 5", 0);
	assert_string_equal(verdict.reason, "\xd0\xbd\xd0\xb5\xd1\x82 5");
	verdict = read_answer(*state, "snooze 5s", 0);
	assert_int_equal(verdict.delay_ms, 5000);
	assert_string_equal(verdict.reason, "");
	assert_int_equal(read_answer(*state, "snooze", 0).delay_ms, -1);
}

static void an_answer_can_be_a_verdict_of_the_protocol(void **state)
{
	struct bridge_verdict verdict = read_answer(*state,
		"{\"status\":\"retry\",\"delay_ms\":60000,\"reason\":\"say "
		"\\\"no\\\"\",\"code\":\"UPSTREAM\",\"x\":[1]}",
		0);

	assert_int_equal(verdict.status, BRIDGE_RETRY);
	assert_int_equal(verdict.delay_ms, 60000);
	assert_string_equal(verdict.reason, "say \"no\"");
	assert_string_equal(verdict.code, "UPSTREAM");
	verdict = read_answer(
		*state, "{\"id\":\"A7\",\"result\":{\"n\": [1.50]},\"status\":\"done\"}", 0);
	assert_int_equal(verdict.status, BRIDGE_DONE);
	assert_memory_equal(verdict.result.data, "{\"n\": [1.50]}", verdict.result.length);
	assert_int_equal(verdict.result.length, strlen("{\"n\": [1.50]}"));
}

static void anything_else_is_a_retry_with_the_code_protocol(void **state)
{
	static const struct {
		const char *line;
		const char *why;
	} lines[] = {
		{ "", "it is empty" },
		{ "  ", "it is empty" },
		{ "ok", "neither JSON nor" },
		{ "doneX", "neither JSON nor" },
		{ "[]", "neither JSON nor" },
		{ "\"done\"", "neither JSON nor" },
		{ "done\xff", "not UTF-8" },
		{ "{\"status\":\"done\"", "not valid JSON" },
		{ "{\"status\":\"done\"} {}", "not valid JSON" },
		{ "{\"status\":\"ok\"}", "the status must be" },
		{ "{\"status\":1}", "the status must be" },
		{ "{\"reason\":\"x\"}", "it has no status" },
		{ "{\"status\":\"done\",\"id\":\"A8\"}", "the id of another event" },
		{ "{\"status\":\"done\",\"id\":7}", "the id of another event" },
		{ "{\"status\":\"done\",\"emit\":{}}", "emit must be an array" },
		{ "{\"status\":\"retry\",\"emit\":[]}", "only done can have events" },
		{ "{\"emit\":[],\"status\":\"settled\"}", "only done can have events" },
		{ "{\"status\":\"snooze\",\"delay_ms\":-1}", "delay_ms must be" },
		{ "{\"status\":\"snooze\",\"delay_ms\":1e3}", "delay_ms must be" },
		{ "{\"status\":\"snooze\",\"delay_ms\":99999999999999999999999}",
			"delay_ms must be" },
		{ "{\"status\":\"dead\",\"reason\":{}}", "the reason must be" },
		{ "snooze soon", "not a duration" },
		{ "snooze 99999999y", "not a duration" },
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const struct bridge_verdict verdict =
			read_answer(*state, lines[i].line, ANSWER_LINE_WRONG);

		assert_int_equal(verdict.status, BRIDGE_RETRY);
		assert_string_equal(verdict.code, "PROTOCOL");
		if (strstr(verdict.reason, lines[i].why) == NULL)
			fail_msg("%s: %s", lines[i].line, verdict.reason);
	}
}

static void a_long_reason_is_cut(void **state)
{
	char line[3 * BRIDGE_REASON_BYTES] = "dead ";
	struct bridge_verdict verdict;

	memset(line + 5, 'x', sizeof(line) - 6);
	line[sizeof(line) - 1] = '\0';
	verdict = read_answer(*state, line, 0);
	assert_int_equal(strlen(verdict.reason), BRIDGE_REASON_BYTES - 1);
}

/* --- The event and the environment ------------------------------------------------------------- */

/* The event as a delivery of the sidecar brings it. */
static void read_event(struct world *world, const char *event)
{
	char line[2048];
	struct err err = ERR_INIT;

	(void)snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":\"d1\",\"method\":\"deliver\",\"params\":{"
		"\"delivery\":{\"claim\":\"9.2.17\","
		"\"seq\":\"9\",\"attempt\":2,\"max_attempts\":10,\"replay\":false},\"event\":%s,"
		"\"headers\":[]}}",
		event);
	assert_int_equal(ih_reader_read(world->reader, line, strlen(line), &world->line), 0);
	assert_int_equal(event_read(&world->event, TAILQ_FIRST(&world->line->deliveries), &err), 0);
}

static void assert_json(struct world *world, const char *expected)
{
	assert_string_equal(buf_str(&world->event.json), expected);
}

#define OWN                                                                                        \
	"\"inboxclaim\":\"9.2.17\",\"inboxattempt\":2,\"inboxmaxattempts\":10,\"inboxreplay\":"    \
	"false}"

static void the_event_gets_what_the_program_must_know_of_the_delivery(void **state)
{
	struct world *world = *state;

	read_event(world, "{\"specversion\":\"1.0\",\"id\":\"A7\",\"kafkapartition\":3,\"data\":{"
			  "\"a\": 1.10}}");
	assert_json(world, "{\"specversion\":\"1.0\",\"id\":\"A7\",\"kafkapartition\":3,\"data\":{"
			   "\"a\": 1.10}," OWN);
	assert_true(world->event.data_is_json);
	assert_true(bytes_equal(world->event.data, BYTES_LITERAL("{\"a\": 1.10}")));
	assert_true(
		bytes_equal(event_attribute(&world->event, "kafkapartition"), BYTES_LITERAL("3")));
	assert_true(
		bytes_equal(event_attribute(&world->event, "inboxattempt"), BYTES_LITERAL("2")));
	assert_null(event_attribute(&world->event, "data").data);
}

static void a_producer_cannot_forge_the_claim(void **state)
{
	struct world *world = *state;

	read_event(world, "{\"inboxclaim\":\"1.1.1\",\"id\":\"A7\"}");
	assert_json(world, "{\"id\":\"A7\"," OWN);
	assert_true(
		bytes_equal(event_attribute(&world->event, "inboxclaim"), BYTES_LITERAL("9.2.17")));
}

static void bytes_that_are_not_json_come_decoded(void **state)
{
	struct world *world = *state;

	read_event(world, "{\"id\":\"A7\",\"data_base64\":\"AP8=\"}");
	assert_json(world, "{\"id\":\"A7\",\"data_base64\":\"AP8=\"," OWN);
	assert_false(world->event.data_is_json);
	assert_int_equal(world->event.data.length, 2);
	read_event(world, "{\"id\":\"A7\"}");
	assert_null(world->event.data.data);
}

static const char *variable(const struct environment *environment, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = 0; environment->variables[i] != NULL; i++) {
		if (strncmp(environment->variables[i], name, length) == 0 &&
			environment->variables[i][length] == '=')
			return environment->variables[i] + length + 1;
	}
	return NULL;
}

static void each_attribute_is_a_variable(void **state)
{
	struct world *world = *state;
	CLEANUP(environment_fini) struct environment environment = { .variables = NULL };
	char path[] = "PATH=/bin";
	char stale[] = "CE_SUBJECT=of another event";
	char *inherited[] = { path, stale, NULL };
	struct err err = ERR_INIT;

	read_event(world,
		"{\"id\":\"A \\\"7\\\" "
		"\\u00e4\",\"kafkapartition\":3,\"nul\":\"a\\u0000b\",\"data\":{\"x\":1}}");
	assert_int_equal(environment_set(&environment, inherited, &world->event, &err), 0);
	assert_string_equal(variable(&environment, "PATH"), "/bin");
	assert_string_equal(variable(&environment, "CE_ID"), "A \"7\" \xc3\xa4");
	assert_string_equal(variable(&environment, "CE_KAFKAPARTITION"), "3");
	assert_string_equal(variable(&environment, "CE_INBOXCLAIM"), "9.2.17");
	assert_string_equal(variable(&environment, "CE_INBOXREPLAY"), "false");
	assert_null(variable(&environment, "CE_SUBJECT"));
	assert_null(variable(&environment, "CE_NUL"));
	assert_null(variable(&environment, "CE_DATA"));
}

/* execve(2) would refuse it, and no command could ever process the message. */
static void what_is_too_long_for_the_environment_is_left_out(void **state)
{
	static char json[2 * ENVIRONMENT_BYTES_MAX];
	struct world *world = *state;
	CLEANUP(environment_fini) struct environment environment = { .variables = NULL };
	char *inherited[] = { NULL };
	struct event *event = &world->event;
	struct err err = ERR_INIT;

	read_event(world, "{\"id\":\"A7\"}");
	memset(json, 'x', sizeof(json));
	event->attributes[event->count++] =
		(struct event_attribute){ BYTES_LITERAL("long"), { json, sizeof(json) } };
	assert_int_equal(environment_set(&environment, inherited, event, &err), 0);
	assert_null(variable(&environment, "CE_LONG"));
	assert_string_equal(variable(&environment, "CE_ID"), "A7");
	assert_string_equal(variable(&environment, "CE_INBOXCLAIM"), "9.2.17");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_exit_code_is_the_verdict),
		cmocka_unit_test(a_signal_is_a_retry_whatever_its_number),
		cmocka_unit_test(exit_code_0_can_mean_settled),
		cmocka_unit_test(an_end_without_an_answer_is_a_retry_also_with_code_0),
		cmocka_unit_test(the_last_line_that_is_not_blank_counts),
		cmocka_unit_test(a_long_last_line_is_cut_at_a_character),
		cmocka_unit_test(an_answer_can_be_one_word),
		cmocka_unit_test(the_text_behind_the_word_is_the_reason_or_the_delay),
		cmocka_unit_test(an_answer_can_be_a_verdict_of_the_protocol),
		cmocka_unit_test(anything_else_is_a_retry_with_the_code_protocol),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(the_event_gets_what_the_program_must_know_of_the_delivery),
		cmocka_unit_test(a_producer_cannot_forge_the_claim),
		cmocka_unit_test(bytes_that_are_not_json_come_decoded),
		cmocka_unit_test(each_attribute_is_a_variable),
		cmocka_unit_test(what_is_too_long_for_the_environment_is_left_out),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
