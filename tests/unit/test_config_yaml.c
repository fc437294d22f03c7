/*
 * The part of YAML a configuration is made of: what is told to the visitor, and every way a file
 * can be wrong, with the place and the words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "config/sources/yaml_file.h"

/* Writes "a.b.c=text" or "a.b=[x|y]" a setting, with its line. */
static int note(const struct yaml_setting *setting, void *arg, struct err *err)
{
	struct buf *out = arg;

	(void)err;
	for (size_t i = 0; i < setting->depth; i++)
		buf_addf(out, "%s%s", i == 0 ? "" : "/", setting->path[i]);
	buf_add_str(out, setting->nothing ? "!" : "=");
	buf_add_str(out, setting->list ? "[" : "");
	for (size_t i = 0; i < setting->texts.count; i++)
		buf_addf(out, "%s%s", i == 0 ? "" : "|", setting->texts.items[i]);
	buf_addf(out, "%s@%zu;", setting->list ? "]" : "", setting->line);
	return buf_ok(out) ? 0 : FAULT_MEMORY;
}

static int parse(const char *text, size_t length, struct buf *out, struct err *err)
{
	return yaml_file_parse("f.yaml", (struct bytes){ text, length }, note, out, err);
}

static void assert_reads(const char *text, const char *settings)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	int r = parse(text, strlen(text), &out, &err);

	if (r < 0)
		print_message("%s\n", err.text);
	assert_int_equal(r, 0);
	assert_string_equal(buf_str(&out), settings);
}

static void assert_refused(const char *text, size_t length, const char *words)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(parse(text, length, &out, &err), FAULT_CONFIG);
	if (strstr(err.text, words) == NULL)
		print_message("\"%s\" is not in \"%s\"\n", words, err.text);
	assert_non_null(strstr(err.text, words));
}

static void keys_have_their_path_and_line(void **state)
{
	(void)state;
	assert_reads("inbox:\n  schema: inbox\n\n  instance: \"a b\"\ntopics:\n  orders:\n    id: "
		     "[key]\n",
		"inbox/schema=inbox@2;inbox/instance=a b@4;topics/orders/id=[key]@7;");
}

static void lists_are_read_in_both_forms(void **state)
{
	(void)state;
	assert_reads("a:\n  b: [x, 'y z', \"\"]\n  c:\n    - 1\n    - two\n  d: []\n",
		"a/b=[x|y z|]@2;a/c=[1|two]@3;a/d=[]@6;");
}

static void a_file_without_settings_is_read(void **state)
{
	(void)state;
	assert_reads("", "");
	assert_reads("# nothing\n", "");
	assert_reads("---\n", "");
	assert_reads("{}\n", "");
	assert_reads("\xef\xbb\xbfkafka:\n  a: b\n", "kafka/a=b@2;");
}

static void a_key_without_value_is_null(void **state)
{
	(void)state;
	assert_reads("kafka:\ninbox: {}\nlog:\n  level:\n  format: ''\n",
		"kafka!@1;inbox!@2;log/level!@4;log/format=@5;");
}

/* clang-format off */
static const struct {
	const char *text;
	const char *words;
} refusals[] = {
	{ "a:\n  b: &x 1\n", "f.yaml:2:6: anchors are not read here" },
	{ "a:\n  b: *x\n", "f.yaml:2:6: aliases are not read here" },
	{ "a: &x [1]\n", "f.yaml:1:4: anchors are not read here" },
	{ "a: &x\n  b: 1\n", "f.yaml:1:4: anchors are not read here" },
	{ "topics:\n  *: {}\n", "put quotes around a text that starts with * or &" },
	{ "a:\n  b: !!int 1\n", "f.yaml:2:6: tags are not read here" },
	{ "a:\n  b: !x 1\n", "f.yaml:2:6: tags are not read here" },
	{ "a: !x [1]\n", "f.yaml:1:4: tags are not read here" },
	{ "a:\n  !x b: 1\n", "f.yaml:2:3: tags are not read here" },
	{ "a: !x {b: 1}\n", "f.yaml:1:4: tags are not read here" },
	{ "a:\n  b: 1\n  b: 2\n", "f.yaml:3:3: \"b\" is here twice; remove one" },
	{ "a:\n  b: 1\na:\n  c: 2\n", "f.yaml:3:1: \"a\" is here twice" },
	{ "a:\n  b: [[1]]\n", "f.yaml:2:7: a list holds plain values only" },
	{ "a:\n  b: [{c: 1}]\n", "f.yaml:2:7: a list holds plain values only" },
	{ "a: {b: {c: {d: 1}}}\n", "f.yaml:1:12: keys are nested too deeply here" },
	{ "a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document starts here" },
	{ "---\n---\nb: 2\n", "f.yaml:2:1: a second document starts here" },
	{ "- a\n", "f.yaml:1:1: a configuration is sections with keys" },
	{ "word\n", "f.yaml:1:1: a configuration is sections with keys" },
	{ "? [a]\n: b\n", "f.yaml:1:3: a key is a plain word" },
	{ "\"\": b\n", "f.yaml:1:1: a key is a plain word" },
	{ "a:\n  b: null\n", "f.yaml:2:6: null is not a value" },
	{ "a:\n  b: ~\n", "f.yaml:2:6: null is not a value" },
	{ "a:\n  b: \"x\\0y\"\n", "f.yaml:2:6: the text contains a NUL byte" },
	{ "a: [b\n", "f.yaml:2:1: not YAML: " },
	{ "a:\n\tb: 1\n", "f.yaml:2:1: not YAML: " },
	{ "a:\n  b: \xff\xfe\n", "f.yaml:2:6: not YAML: invalid leading UTF-8 octet; write the file as UTF-8" },
	{ "a:\n  b: \xed\xa0\x80\n", "f.yaml:2:6: not YAML: " },
	{ "\xff\xfe" "a:\n", "f.yaml:1:1: not YAML: " },
};
/* clang-format on */

static void unsupported_yaml_is_refused_with_its_position(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		assert_refused(refusals[i].text, strlen(refusals[i].text), refusals[i].words);
	assert_refused("a: b\0c\n", 7, "f.yaml:1:5: not YAML: control characters are not allowed");
}

static void a_file_with_too_many_keys_is_refused(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	(void)state;
	buf_add_str(&text, "a:\n");
	for (int i = 0; i < YAML_FILE_MAX_KEYS; i++)
		buf_addf(&text, "  k%d: 1\n", i);
	assert_refused(buf_str(&text), text.length, "too many keys in one file");
}

static int refuse(const struct yaml_setting *setting, void *arg, struct err *err)
{
	(void)arg;
	return err_set(err, FAULT_CONFIG, "no %s", setting->path[0]);
}

static void the_visitors_error_ends_the_reading(void **state)
{
	const char text[] = "a: [1]\nb: 2\n";
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(
		yaml_file_parse("f.yaml", bytes_of(text), refuse, NULL, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "no a");
}

static void a_missing_file_a_directory_and_a_huge_file_are_named(void **state)
{
	char path[] = "/tmp/test_config_yaml.XXXXXX";
	int fd = mkstemp(path);
	struct err err = ERR_INIT;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(yaml_file_read("/nowhere/f.yaml", refuse, NULL, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "cannot open /nowhere/f.yaml: No such file or directory");
	assert_int_equal(yaml_file_read("/tmp", refuse, NULL, &err), FAULT_CONFIG);
	assert_string_equal(err.text, "cannot read /tmp: Is a directory");
	assert_int_equal(ftruncate(fd, 2000000), 0);
	assert_int_equal(yaml_file_read(path, refuse, NULL, &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, "it is larger than 1048576 bytes"));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(yaml_file_read(path, refuse, NULL, &err), 0);
	(void)close(fd);
	(void)unlink(path);
}

static void any_allocation_may_fail(void **state)
{
	const char text[] = "a:\n  b: 1\n  c: [x, y]\n  d: {e: 2}\n";

	(void)state;
	for (size_t n = 1;; n++) {
		CLEANUP(buf_fini) struct buf out = BUF_INIT;
		struct err err = ERR_INIT;
		int r;

		alloc_fail_at(n);
		r = parse(text, strlen(text), &out, &err);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_their_path_and_line),
		cmocka_unit_test(lists_are_read_in_both_forms),
		cmocka_unit_test(a_file_without_settings_is_read),
		cmocka_unit_test(a_key_without_value_is_null),
		cmocka_unit_test(unsupported_yaml_is_refused_with_its_position),
		cmocka_unit_test(a_file_with_too_many_keys_is_refused),
		cmocka_unit_test(the_visitors_error_ends_the_reading),
		cmocka_unit_test(a_missing_file_a_directory_and_a_huge_file_are_named),
		cmocka_unit_test(any_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("config_yaml", tests, NULL, NULL);
}
