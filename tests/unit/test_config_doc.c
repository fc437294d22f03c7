/*
 * docs/configuration.md equals the text made from the option table. `test_config_doc --write`
 * writes it.
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

#include "base/cleanup.h"
#include "config/load.h"
#include "config/options/options.h"
#include "config/sources/strings.h"
#include "configdoc/options_doc.h"

#define DOCUMENT SOURCE_DIR "/docs/configuration.md"

static void the_document_matches_the_option_table(void **state)
{
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT;
	CLEANUP(buf_fini) struct buf there = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	options_markdown(&wanted);
	if (text_file_read(DOCUMENT, &there, &err) < 0 ||
		strcmp(buf_str(&there), buf_str(&wanted)) != 0)
		fail_msg("docs/configuration.md is not up to date: run `test_config_doc --write`");
}

static void every_option_is_in_the_document(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	(void)state;
	options_markdown(&text);
	for (const struct option *option = option_table; option->section != NULL; option++) {
		char heading[1024];

		(void)snprintf(heading, sizeof(heading), "\n### `%s.%s`\n\n%s\n", option->section,
			option->key, option->help);
		assert_non_null(strstr(buf_str(&text), heading));
		assert_non_null(options_section(option->section));
		assert_ptr_equal(options_find(option->section, option->key), option);
	}
}

static int write_yaml(const char *path, const char *document, const char *heading)
{
	const char *from = strstr(strstr(document, heading), "```yaml\n") + strlen("```yaml\n");
	const char *to = strstr(from, "```\n");
	FILE *file = fopen(path, "w");

	if (file == NULL)
		return -1;
	(void)fwrite(from, 1, (size_t)(to - from), file);
	return fclose(file);
}

static void assert_loads(const char *heading)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	CLEANUP(config_freep) struct config *config = NULL;
	char path[] = "/tmp/test_config_doc.XXXXXX";
	struct config_sources sources = { .file = path };
	struct err err = ERR_INIT;
	int r;

	assert_true(mkstemp(path) >= 0);
	options_markdown(&text);
	assert_int_equal(write_yaml(path, buf_str(&text), heading), 0);
	r = config_load(&config, &sources, &err);
	(void)unlink(path);
	if (r < 0)
		fail_msg("%s", err.text);
	assert_int_equal(config->warnings.count, 0);
}

static void the_examples_in_the_document_can_be_loaded(void **state)
{
	(void)state;
	assert_loads("# Configuration");
	assert_loads("## Every key with its default");
}

static int write_document(void)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	FILE *file = fopen(DOCUMENT, "w");

	if (file == NULL) {
		perror(DOCUMENT);
		return 1;
	}
	options_markdown(&text);
	(void)fwrite(buf_str(&text), 1, text.length, file);
	return fclose(file) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_document_matches_the_option_table),
		cmocka_unit_test(every_option_is_in_the_document),
		cmocka_unit_test(the_examples_in_the_document_can_be_loaded),
	};

	if (argc == 2 && strcmp(argv[1], "--write") == 0)
		return write_document();
	return cmocka_run_group_tests_name("config_doc", tests, NULL, NULL);
}
