/*
 * Values of each type with the error for each wrong text; the forms of names and addresses; the
 * most similar known name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "config/options/options.h"
#include "config/options/value.h"
#include "config/sources/nearest.h"
#include "config/sources/strings.h"

static int store(struct config *config, const char *section, const char *key, const char *text,
	struct err *err)
{
	const struct option *option = options_find(section, key);
	struct strings texts = { NULL, 0 };
	int r;

	assert_non_null(option);
	if (option_is_list(option))
		assert_int_equal(strings_add_parts(&texts, text, err), 0);
	else
		assert_int_equal(strings_add(&texts, text, strlen(text), err), 0);
	r = value_store(config, option, &texts, err);
	strings_fini(&texts);
	return r;
}

struct number_case {
	const char *section;
	const char *key;
	const char *text;
	int64_t number;
};

static int64_t number_of(const struct number_case *row)
{
	struct config config = { .entries = NULL };
	struct err err = ERR_INIT;

	if (store(&config, row->section, row->key, row->text, &err) < 0)
		fail_msg("%s", err.text);
	return *(int64_t *)((char *)&config + options_find(row->section, row->key)->offset);
}

static void numbers_sizes_and_durations_are_read(void **state)
{
	/* clang-format off */
	static const struct number_case rows[] = {
		{ "retry", "max_attempts", "1", 1 },
		{ "retry", "max_attempts", "1000000", 1000000 },
		{ "ingest", "max_pending", "1000000000000", 1000000000000 },
		{ "inbox", "max_claimed_bytes", "4096", 4096 },
		{ "inbox", "max_claimed_bytes", "4096B", 4096 },
		{ "inbox", "max_claimed_bytes", "32MiB", 33554432 },
		{ "inbox", "max_claimed_bytes", "64KiB", 65536 },
		{ "inbox", "max_claimed_bytes", "2GiB", 2147483648 },
		{ "ingest", "batch_wait", "5ms", 5 },
		{ "ingest", "batch_wait", "0", 0 },
		{ "worker", "lease", "3s", 3000 },
		{ "retry", "backoff", "2m", 120000 },
		{ "retry", "backoff", "1h", 3600000 },
		{ "retention", "payload", "7d", 604800000 },
		{ "retention", "payload", "2w", 1209600000 },
		{ "retention", "audit", "1y", 31536000000 },
		{ "retention", "dead", "never", CONFIG_NEVER },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(number_of(&rows[i]), rows[i].number);
}

static void words_modes_texts_and_lists_are_read(void **state)
{
	struct config config = { .entries = NULL };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(store(&config, "inbox", "ordering", "partition", &err), 0);
	assert_int_equal(config.inbox.ordering, ORDERING_PARTITION);
	assert_int_equal(store(&config, "log", "level", "warn", &err), 0);
	assert_int_equal(config.log.level, LOG_WARN);
	assert_int_equal(store(&config, "log", "format", "json", &err), 0);
	assert_true(config.log.json);
	assert_int_equal(store(&config, "log", "format", "logfmt", &err), 0);
	assert_false(config.log.json);
	assert_int_equal(store(&config, "socket", "mode", "600", &err), 0);
	assert_int_equal(config.socket.mode, 0600);
	assert_int_equal(store(&config, "inbox", "schema", "in_box2", &err), 0);
	assert_string_equal(config.inbox.schema, "in_box2");
	assert_int_equal(store(&config, "socket", "allow_uid", "0, 1000,4294967294", &err), 0);
	assert_int_equal(config.socket.allow_uid_count, 3);
	assert_int_equal(config.socket.allow_uid[2], 4294967294);
	assert_int_equal(store(&config, "kafka", "topics", " a , ^b.*", &err), 0);
	assert_int_equal(config.kafka_topics.count, 2);
	assert_string_equal(config.kafka_topics.items[0], "a");
	value_release(&config, options_find("inbox", "schema"));
	value_release(&config, options_find("socket", "allow_uid"));
	value_release(&config, options_find("kafka", "topics"));
	assert_null(config.inbox.schema);
}

/* clang-format off */
static const struct {
	const char *section;
	const char *key;
	const char *text;
	const char *words;
} wrong[] = {
	{ "retry", "max_attempts", "", "\"\" is not a whole number; write one such as 10" },
	{ "retry", "max_attempts", "ten", "\"ten\" is not a whole number; write one such as 10" },
	{ "retry", "max_attempts", "-1", "\"-1\" is not a whole number; write one such as 10" },
	{ "retry", "max_attempts", "1.5", "\"1.5\" is not a whole number; write one such as 10" },
	{ "retry", "max_attempts", "0", "\"0\" is too small; write at least 1" },
	{ "retry", "max_attempts", "99999999999999999999",
		"\"99999999999999999999\" is too large; write at most 1000000" },
	{ "retry", "max_attempts", "1000001", "\"1000001\" is too large; write at most 1000000" },
	{ "ingest", "batch_bytes", "8MB",
		"\"8MB\" is not a size; write a whole number with B, KiB, MiB or GiB, such as 8MiB" },
	{ "ingest", "batch_bytes", "1023", "\"1023\" is too small; write at least 1KiB" },
	{ "ingest", "batch_bytes", "9223372036854775807GiB",
		"\"9223372036854775807GiB\" is too large; write at most 512MiB" },
	{ "ingest", "batch_bytes", "", "\"\" is not a size; write a whole number with B, KiB, MiB or GiB, "
				       "such as 8MiB" },
	{ "worker", "poll", "5",
		"\"5\" is not a duration; write a whole number with ms, s, m, h, d, w or y, such as 30s" },
	{ "worker", "poll", "1.5s",
		"\"1.5s\" is not a duration; write a whole number with ms, s, m, h, d, w or y, such as 30s" },
	{ "worker", "poll", "never", "\"never\" is not possible here; write a duration such as 5s" },
	{ "worker", "poll", "9ms", "\"9ms\" is too small; write at least 10ms" },
	{ "worker", "poll", "0", "\"0\" is too small; write at least 10ms" },
	{ "worker", "lease", "2s", "\"2s\" is too small; write at least 3s" },
	{ "worker", "lease", "2h", "\"2h\" is too large; write at most 1h" },
	{ "retention", "dead", "forever",
		"\"forever\" is not a duration; write a whole number with ms, s, m, h, d, w or y, such as 30s, "
		"or never" },
	{ "inbox", "ordering", "Key", "\"Key\" is not known here; write none, key or partition" },
	{ "log", "format", "xml", "\"xml\" is not known here; write logfmt or json" },
	{ "socket", "mode", "0888", "\"0888\" is not a file mode; write octal digits such as 0660" },
	{ "socket", "mode", "1777", "\"1777\" is not a file mode; write octal digits such as 0660" },
	{ "socket", "mode", "", "\"\" is not a file mode; write octal digits such as 0660" },
	{ "inbox", "schema", "pg_x",
		"\"pg_x\" is a schema name that PostgreSQL reserves; choose another name" },
	{ "socket", "path", "", "is empty; write a value or leave the key out" },
	{ "socket", "group",
		"gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"
		"gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"
		"gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
		"\"gggggggggggggggggggggggggggggggggggggggg…\" is too long; write at most 255 bytes" },
	{ "socket", "allow_uid", "1000,root",
		"\"root\" is not a user id; write its number, as `id -u NAME` prints it" },
	{ "socket", "allow_uid", "4294967295",
		"\"4294967295\" is not a user id; write its number, as `id -u NAME` prints it" },
	{ "kafka", "topics", "a,,b",
		"\"\" is not a topic name; Kafka allows 1 to 249 letters, digits, dots, underscores and "
		"hyphens" },
};
/* clang-format on */

static void every_wrong_value_is_refused_with_the_expected_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct config config = { .entries = NULL };
		struct err err = ERR_INIT;

		assert_int_equal(
			store(&config, wrong[i].section, wrong[i].key, wrong[i].text, &err),
			FAULT_CONFIG);
		assert_string_equal(err.text, wrong[i].words);
	}
}

static void lists_have_a_minimum_and_a_maximum(void **state)
{
	const struct option few = { .type = OPTION_LIST, .min = 1, .max = 2 };
	struct strings texts = { NULL, 0 };
	struct strings field = { NULL, 0 };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(value_store(&field, &few, &texts, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "the list is empty; name at least one");
	assert_int_equal(strings_add_parts(&texts, "a,b,c", &err), 0);
	assert_int_equal(value_store(&field, &few, &texts, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "the list has 3 items; write at most 2");
	strings_fini(&texts);
}

static void a_scalar_is_not_a_list(void **state)
{
	struct config config = { .entries = NULL };
	struct strings texts = { NULL, 0 };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(strings_add_parts(&texts, "a,b", &err), 0);
	assert_int_equal(
		value_store(&config, options_find("inbox", "schema"), &texts, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "is one value, not a list; write it without []");
	strings_fini(&texts);
}

static void every_default_of_the_table_is_valid(void **state)
{
	(void)state;
	for (const struct option *option = option_table; option->section != NULL; option++) {
		CLEANUP(freep) struct config *base = calloc(1, sizeof(*base));
		struct strings texts = { NULL, 0 };
		struct err err = ERR_INIT;

		if (option_is_list(option))
			assert_int_equal(strings_add_parts(&texts, option->text, &err), 0);
		else
			assert_int_equal(
				strings_add(&texts, option->text, strlen(option->text), &err), 0);
		if (!option->hostname && value_store(base, option, &texts, &err) < 0)
			fail_msg("%s.%s %s", option->section, option->key, err.text);
		value_release(base, option);
		strings_fini(&texts);
	}
}

struct shape {
	const char *(*check)(const char *);
	const char *text;
	bool right;
};

/* clang-format off */
static const struct shape shapes[] = {
	{ check_schema, "inbox", true },
	{ check_schema, "_a1", true },
	{ check_schema, "", false },
	{ check_schema, "1a", false },
	{ check_schema, "Inbox", false },
	{ check_schema, "in-box", false },
	{ check_schema, "in\"box", false },
	{ check_schema, "pg_inbox", false },
	{ check_schema, "information_schema", false },
	{ check_schema, "a23456789012345678901234567890123456789012345678901234567890123", true },
	{ check_schema, "a234567890123456789012345678901234567890123456789012345678901234", false },
	{ check_instance, "pod-7", true },
	{ check_instance, "pod\n7", false },
	{ check_topic_pattern, "orders.v1_x-y", true },
	{ check_topic_pattern, "^orders\\.(a|b)$", true },
	{ check_topic_pattern, "^orders(", false },
	{ check_topic_pattern, ".", false },
	{ check_topic_pattern, "..", false },
	{ check_topic_pattern, "a b", false },
	{ check_topic_or_none, "", true },
	{ check_topic_or_none, "dead", true },
	{ check_topic_or_none, "^dead", false },
	{ check_topic_rules, "*", true },
	{ check_topic_rules, "orders", true },
	{ check_topic_rules, "^orders", false },
	{ check_topic_rules, "or*", false },
	{ check_type_pattern, "*", true },
	{ check_type_pattern, "order.*", true },
	{ check_type_pattern, "order.created", true },
	{ check_type_pattern, "*.created", false },
	{ check_type_pattern, "", false },
	{ check_id_locator, "header:id", true },
	{ check_id_locator, "key", true },
	{ check_id_locator, "json:/a/b", true },
	{ check_id_locator, "json:/", true },
	{ check_id_locator, "header:", false },
	{ check_id_locator, "keys", false },
	{ check_id_locator, "topic", false },
	{ check_id_locator, "literal:x", false },
	{ check_id_locator, "json:a", false },
	{ check_name_locator, "topic", true },
	{ check_name_locator, "literal:x", true },
	{ check_name_locator, "key", false },
	{ check_name_locator, "header:ce_source", true },
	{ check_name_locator, "literal:", false },
	{ check_socket_path, "/run/inboxd/inbox.sock", true },
	{ check_socket_path,
		"/1234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
		"6789012345678901234567", false },
	{ check_otlp_endpoint, "", true },
	{ check_otlp_endpoint, "http://collector", true },
	{ check_otlp_endpoint, "http://collector:4318", true },
	{ check_otlp_endpoint, "http://10.0.0.1:4318/v1/traces", true },
	{ check_otlp_endpoint, "http://[::1]:4318", true },
	{ check_otlp_endpoint, "http://[::1]", true },
	{ check_otlp_endpoint, "https://collector:4318", false },
	{ check_otlp_endpoint, "collector:4318", false },
	{ check_otlp_endpoint, "http://", false },
	{ check_otlp_endpoint, "http://:4318", false },
	{ check_otlp_endpoint, "http://collector:", false },
	{ check_otlp_endpoint, "http://collector:0", false },
	{ check_otlp_endpoint, "http://collector:65536", false },
	{ check_otlp_endpoint, "http://[::1:4318", false },
	{ check_otlp_endpoint, "http://user@collector", false },
	{ check_otlp_endpoint, "http://collector/a b", false },
	{ check_otlp_endpoint, "http://collector/?a=b", false },
	{ check_listen, "", true },
	{ check_listen, "127.0.0.1:9464", true },
	{ check_listen, ":0", true },
	{ check_listen, "[::1]:9464", true },
	{ check_listen, "localhost:65535", true },
	{ check_listen, "localhost:65536", false },
	{ check_listen, "localhost", false },
	{ check_listen, "localhost:", false },
	{ check_listen, "localhost:http", false },
	{ check_listen, "::1:9464", false },
	{ check_listen, "[::1]9464", false },
	{ check_listen, "[::1", false },
};
/* clang-format on */

static void checks_accept_valid_texts_only(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if ((shapes[i].check(shapes[i].text) == NULL) != shapes[i].right)
			fail_msg("\"%s\" should be %s", shapes[i].text,
				shapes[i].right ? "right" : "wrong");
	}
}

static void assert_hint(const char *wanted, const char *hint)
{
	char out[NEAREST_HINT_BYTES];
	struct nearest nearest;

	nearest_start(&nearest, wanted);
	nearest_offer(&nearest, "run");
	nearest_offer(&nearest, "migrate");
	nearest_offer(&nearest, "bootstrap.servers");
	nearest_hint(&nearest, out);
	assert_string_equal(out, hint);
}

static void a_similar_name_is_suggested(void **state)
{
	(void)state;
	assert_hint("rnu", "; did you mean \"run\"?");
	assert_hint("Migrate", "; did you mean \"migrate\"?");
	assert_hint("bootstrap_server", "; did you mean \"bootstrap.servers\"?");
	assert_hint("", "");
	assert_hint("xyz", "");
	assert_hint("something entirely different", "");
	assert_hint(
		"a name of more than sixty-four letters that nobody ever meant to write as a key",
		"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_sizes_and_durations_are_read),
		cmocka_unit_test(words_modes_texts_and_lists_are_read),
		cmocka_unit_test(every_wrong_value_is_refused_with_the_expected_form),
		cmocka_unit_test(lists_have_a_minimum_and_a_maximum),
		cmocka_unit_test(a_scalar_is_not_a_list),
		cmocka_unit_test(every_default_of_the_table_is_valid),
		cmocka_unit_test(checks_accept_valid_texts_only),
		cmocka_unit_test(a_similar_name_is_suggested),
	};

	return cmocka_run_group_tests_name("config_value", tests, NULL, NULL);
}
