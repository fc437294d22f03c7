/* Parameters as bytes on the wire, and statements for a schema of another name. No server needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "queries.h"
#include "store/pg/params.h"
#include "store/pg/statements.h"
#include "store/pg/types.h"

static void assert_hex(const struct params *params, int at, const char *expected)
{
	char hex[512] = "";

	for (size_t i = 0; i < params->values[at].length; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)params->values[at].data[i]);
	assert_string_equal(hex, expected);
}

static void scalars_are_big_endian(void **state)
{
	struct params params = PARAMS_INIT;

	(void)state;
	params_int(&params, -2);
	params_bigint(&params, 0x0102030405060708);
	params_bool(&params, true);
	params_text(&params, "ab");
	params_jsonb(&params, bytes_of("{}"));
	params_bytea(&params, (struct bytes){ "\0\1", 2 });
	assert_hex(&params, 0, "fffffffe");
	assert_hex(&params, 1, "0102030405060708");
	assert_hex(&params, 2, "01");
	assert_hex(&params, 3, "6162");
	assert_hex(&params, 4, "017b7d");
	assert_hex(&params, 5, "0001");
	assert_int_equal(params.types[0], TYPE_INT4);
	assert_int_equal(params.types[4], TYPE_JSONB);
	params_fini(&params);
}

static void absent_bytes_are_null_and_empty_bytes_are_not(void **state)
{
	struct params params = PARAMS_INIT;

	(void)state;
	params_text(&params, NULL);
	params_text(&params, "");
	params_bytea(&params, (struct bytes){ NULL, 0 });
	assert_true(params.nulls[0]);
	assert_false(params.nulls[1]);
	assert_int_equal(params.values[1].length, 0);
	assert_true(params.nulls[2]);
	params_fini(&params);
}

static void an_array_counts_its_elements(void **state)
{
	struct params params = PARAMS_INIT;
	int ints;

	(void)state;
	ints = params_array(&params, ARRAY_INT);
	array_int(&params, ints, 7);
	array_null(&params, ints);
	assert_hex(&params, ints,
		"00000001"
		"00000001"
		"00000017"
		"00000002"
		"00000001"
		"00000004"
		"00000007"
		"ffffffff");
	assert_int_equal(params.types[ints], TYPE_INT4_ARRAY);
	params_fini(&params);
}

static void an_empty_array_has_no_elements(void **state)
{
	struct params params = PARAMS_INIT;
	int texts;

	(void)state;
	texts = params_array(&params, ARRAY_TEXT);
	assert_hex(&params, texts, "0000000100000001000000190000000000000001");
	params_fini(&params);
}

static void arrays_are_filled_in_any_order(void **state)
{
	struct params params = PARAMS_INIT;
	int texts;
	int json;
	int smalls;
	int bools;

	(void)state;
	texts = params_array(&params, ARRAY_TEXT);
	json = params_array(&params, ARRAY_JSONB);
	smalls = params_array(&params, ARRAY_SMALLINT);
	bools = params_array(&params, ARRAY_BOOL);
	array_bool(&params, bools, true);
	array_bytes(&params, json, bytes_of("[]"));
	array_text(&params, texts, "x");
	array_smallint(&params, smalls, 2);
	array_text(&params, texts, NULL);
	assert_hex(&params, texts,
		"000000010000000100000019000000020000000100000001"
		"78"
		"ffffffff");
	assert_hex(&params, json,
		"000000010000000100000eda000000010000000100000003"
		"015b5d");
	assert_hex(&params, smalls,
		"000000010000000100000015000000010000000100000002"
		"0002");
	assert_hex(&params, bools,
		"000000010000000100000010000000010000000100000001"
		"01");
	params_fini(&params);
}

static void timestamps_count_from_2000(void **state)
{
	struct params params = PARAMS_INIT;
	int at;

	(void)state;
	at = params_array(&params, ARRAY_TIMESTAMP);
	array_timestamp(&params, at, 946684800001);
	array_timestamp(&params, at, -1);
	array_timestamp(&params, at, INT64_MAX);
	array_timestamp(&params, at, INT64_MIN);
	assert_hex(&params, at,
		"00000001"
		"00000001"
		"000004a0"
		"00000004"
		"00000001"
		"00000008"
		"00000000000003e8"
		"ffffffff"
		"00000008"
		"7fffff5bb3b29fff"
		"00000008"
		"fd0f7cc1411fa000");
	params_fini(&params);
}

static void a_reset_keeps_small_buffers_and_frees_large_ones(void **state)
{
	struct params params = PARAMS_INIT;
	static char large[5 << 20];

	(void)state;
	params_text(&params, "small");
	params_bytea(&params, (struct bytes){ large, sizeof(large) });
	params_text(&params, NULL);
	params_reset(&params);
	assert_int_equal(params.count, 0);
	assert_non_null(params.values[0].data);
	assert_null(params.values[1].data);
	params_text(&params, "a");
	params_text(&params, "b");
	params_text(&params, "c");
	assert_hex(&params, 0, "61");
	assert_false(params.nulls[2]);
	params_fini(&params);
}

static void running_out_of_memory_breaks_the_parameters(void **state)
{
	struct params params = PARAMS_INIT;

	(void)state;
	for (size_t n = 1;; n++) {
		int array;

		params_fini(&params);
		alloc_fail_at(n);
		params_int(&params, 1);
		array = params_array(&params, ARRAY_TEXT);
		array_text(
			&params, array, "some text that does not fit in the first piece of memory");
		if (!alloc_fail_never())
			break;
		assert_false(params_ok(&params));
	}
	assert_true(params_ok(&params));
	params_fini(&params);
}

static void assert_applied(const char *sql, const char *schema, const char *expected)
{
	struct buf out = BUF_INIT;

	schema_apply(&out, sql, schema);
	assert_string_equal(buf_str(&out), expected);
	buf_fini(&out);
}

static void the_schema_replaces_inbox_where_it_is_a_name(void **state)
{
	(void)state;
	assert_applied("SELECT * FROM inbox.inbox_messages m, inbox.x", "billing",
		"SELECT * FROM \"billing\".inbox_messages m, \"billing\".x");
	assert_applied("'inbox.inbox_messages'::regclass", "b", "'\"b\".inbox_messages'::regclass");
	assert_applied("EXECUTE 'DELETE FROM inbox.a'", "b", "EXECUTE 'DELETE FROM \"b\".a'");
	assert_applied("inbox.f(1)", "b", "\"b\".f(1)");
}

static void other_occurrences_of_inbox_are_kept(void **state)
{
	(void)state;
	assert_applied("my_inbox.a, x.inbox.b, \"inbox.c\", inbox_d.e", "b",
		"my_inbox.a, x.inbox.b, \"inbox.c\", inbox_d.e");
	assert_applied("RAISE 'inbox.complete: % is not a claim'", "b",
		"RAISE 'inbox.complete: % is not a claim'");
	assert_applied("-- it's inbox.a\ninbox.a", "b", "-- it's inbox.a\n\"b\".a");
}

static void quotes_in_a_name_are_doubled(void **state)
{
	(void)state;
	assert_applied("inbox.a", "o\"x", "\"o\"\"x\".a");
	assert_applied("'inbox.a'", "o'x", "'\"o''x\".a'");
}

static void every_embedded_statement_names_the_configured_schema(void **state)
{
	struct statements *statements = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(statements_new(&statements, "billing", &err), 0);
	for (int i = 0; i < QUERY_COUNT; i++) {
		const char *sql = statements_text(statements, (enum query)i);

		assert_null(strstr(sql, " inbox."));
		assert_null(strstr(sql, "--"));
		assert_true(strlen(sql) > 10);
	}
	assert_non_null(strstr(
		statements_text(statements, QUERY_SETTLE_DONE), "\"billing\".inbox_messages"));
	statements_free(statements);
}

static void statements_survive_running_out_of_memory(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	for (size_t n = 1;; n++) {
		struct statements *statements = NULL;
		int r;

		alloc_fail_at(n);
		r = statements_new(&statements, "billing", &err);
		if (!alloc_fail_never()) {
			statements_free(statements);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_null(statements);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars_are_big_endian),
		cmocka_unit_test(absent_bytes_are_null_and_empty_bytes_are_not),
		cmocka_unit_test(an_array_counts_its_elements),
		cmocka_unit_test(an_empty_array_has_no_elements),
		cmocka_unit_test(arrays_are_filled_in_any_order),
		cmocka_unit_test(timestamps_count_from_2000),
		cmocka_unit_test(a_reset_keeps_small_buffers_and_frees_large_ones),
		cmocka_unit_test(running_out_of_memory_breaks_the_parameters),
		cmocka_unit_test(the_schema_replaces_inbox_where_it_is_a_name),
		cmocka_unit_test(other_occurrences_of_inbox_are_kept),
		cmocka_unit_test(quotes_in_a_name_are_doubled),
		cmocka_unit_test(every_embedded_statement_names_the_configured_schema),
		cmocka_unit_test(statements_survive_running_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
