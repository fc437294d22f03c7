/* The command line: commands, options, help, and all errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "base/cleanup.h"
#include "ops/cli/cli.h"

#define MAX_WORDS 16

/* Parses a line as a shell without quotes would hand it over. */
static int parse(struct cli *cli, char *line, struct err *err)
{
	char *argv[MAX_WORDS];
	int argc = 0;

	for (char *word = strtok(line, " "); word != NULL && argc < MAX_WORDS;
		word = strtok(NULL, " "))
		argv[argc++] = word;
	return cli_parse(cli, argc, argv, err);
}

/* What it finds stays valid until the next call. */
static void assert_parses(struct cli *cli, const char *line)
{
	static char copy[128];
	struct err err = ERR_INIT;

	(void)snprintf(copy, sizeof(copy), "%s", line);
	if (parse(cli, copy, &err) < 0)
		fail_msg("%s", err.text);
}

static void a_command_needs_no_options(void **state)
{
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd run");
	assert_int_equal(cli.command, COMMAND_RUN);
	assert_null(cli.config_file);
	assert_int_equal(cli.set_count, 0);
	assert_false(cli.json || cli.help || cli.migrate);
	assert_parses(&cli, "inboxd migrate");
	assert_int_equal(cli.command, COMMAND_MIGRATE);
	assert_parses(&cli, "inboxd check");
	assert_int_equal(cli.command, COMMAND_CHECK);
	assert_parses(&cli, "inboxd version");
	assert_int_equal(cli.command, COMMAND_VERSION);
	assert_parses(&cli, "inboxd --version");
	assert_int_equal(cli.command, COMMAND_VERSION);
}

static void options_are_accepted_in_every_form(void **state)
{
	static const char *const lines[] = {
		"inboxd run -c f.yaml",
		"inboxd run -cf.yaml",
		"inboxd run --config f.yaml",
		"inboxd run --config=f.yaml",
		"inboxd -c f.yaml run",
		"inboxd -cf.yaml run",
		"inboxd --config=f.yaml run",
		"inboxd run -c other -c f.yaml",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[64];
		struct cli cli;

		(void)snprintf(line, sizeof(line), "%s", lines[i]);
		assert_parses(&cli, line);
		assert_int_equal(cli.command, COMMAND_RUN);
		assert_string_equal(cli.config_file, "f.yaml");
	}
}

static void set_can_be_repeated_and_keeps_its_order(void **state)
{
	char line[] = "inboxd --set a.b=1 run --set=c.d=e=f --migrate --json";
	struct cli cli;

	(void)state;
	assert_parses(&cli, line);
	assert_int_equal(cli.set_count, 2);
	assert_string_equal(cli.set[0], "a.b=1");
	assert_string_equal(cli.set[1], "c.d=e=f");
	assert_true(cli.migrate && cli.json);
	cli_fini(&cli);
	assert_null(cli.set);
}

/* clang-format off */
static const struct {
	const char *line;
	const char *words;
} wrong[] = {
	{ "inboxd", "no command is given (`inboxd --help` lists the commands)" },
	{ "inboxd --json", "no command is given (`inboxd --help` lists the commands)" },
	{ "inboxd rnu", "there is no command \"rnu\"; did you mean \"run\"? (`inboxd --help` lists the "
			"commands)" },
	{ "inboxd frobnicate",
		"there is no command \"frobnicate\" (`inboxd --help` lists the commands)" },
	{ "inboxd run --migrat", "there is no option \"--migrat\" for run; did you mean \"--migrate\"? "
				 "(`inboxd run --help` lists the options)" },
	{ "inboxd check --migrate",
		"there is no option \"--migrate\" for check (`inboxd check --help` lists the options)" },
	{ "inboxd list --daed", "there is no option \"--daed\" for list; did you mean \"--dead\"? (`inboxd list "
				"--help` lists the options)" },
	{ "inboxd help lits", "there is no command \"lits\"; did you mean \"list\"? (`inboxd --help` lists the "
			      "commands)" },
	{ "inboxd hlep", "there is no command \"hlep\"; did you mean \"help\"? (`inboxd --help` lists the "
			 "commands)" },
	{ "inboxd help list show", "help takes one command, not also \"show\" (`inboxd help` lists them)" },
	{ "inboxd show -1", "there is no option \"-1\" for show (`inboxd show --help` lists the options; "
			    "write -- before an event id that begins with -)" },
	{ "inboxd -q", "there is no option \"-q\" (`inboxd --help` lists the options)" },
	{ "inboxd run --dry-run",
		"there is no option \"--dry-run\" for run (`inboxd run --help` lists the options)" },
	{ "inboxd list --limit 0", "--limit: \"0\" is not a number, 1 or more" },
	{ "inboxd list --limit 1x", "--limit: \"1x\" is not a number, 1 or more" },
	{ "inboxd list --after -1", "--after: \"-1\" is not a number, 0 or more" },
	{ "inboxd list --status done",
		"--status: \"done\" is none of: waiting retrying parked claimed processed dead discarded" },
	{ "inboxd list --status dea",
		"--status: \"dea\" is none of: waiting retrying parked claimed processed dead discarded" },
	{ "inboxd purge --older-than 7",
		"--older-than: \"7\" is not a duration such as 7d: a number with ms, s, m, h, d, w or y" },
	{ "inboxd purge --older-than 99999999999999999y",
		"--older-than: \"99999999999999999y\" is not a duration such as 7d: a number with ms, s, m, h, d, w or y" },
	{ "inboxd show a b", "show takes no argument \"b\" (`inboxd show --help`)" },
	{ "inboxd run -c", "-c requires FILE" },
	{ "inboxd run --set", "--set requires SECTION.KEY=VALUE" },
	{ "inboxd replay --status dead --reason --dry-run --yes", "--reason requires TEXT" },
	{ "inboxd list --key -c f", "--key requires KEY" },
	{ "inboxd run --config=", "--config: FILE is empty" },
	{ "inboxd run --set a.b",
		"--set a.b: there is no \"=\"; write --set section.key=value" },
	{ "inboxd run --json=1", "--json=1: --json takes no value" },
	{ "inboxd run -hx", "-hx: --help takes no value" },
	{ "inboxd run now", "run takes no argument \"now\" (`inboxd run --help`)" },
	{ "inboxd run -", "run takes no argument \"-\" (`inboxd run --help`)" },
	{ "inboxd --", "no command is given (`inboxd --help` lists the commands)" },
	{ "inboxd run -- --migrate", "run takes no argument \"--migrate\" (`inboxd run --help`)" },
};
/* clang-format on */

static void every_wrong_line_is_a_usage_error_with_a_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct err err = ERR_INIT;
		char line[128];
		struct cli cli;

		(void)snprintf(line, sizeof(line), "%s", wrong[i].line);
		assert_int_equal(parse(&cli, line, &err), FAULT_USAGE);
		assert_string_equal(err.text, wrong[i].words);
		cli_fini(&cli);
	}
}

static void after_two_minuses_everything_is_an_argument(void **state)
{
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd replay --yes -- -a --reason -- b");
	assert_true(cli.yes);
	assert_null(cli.reason);
	assert_int_equal(cli.word_count, 4);
	assert_string_equal(cli.words[0], "-a");
	assert_string_equal(cli.words[2], "--");
	cli_fini(&cli);
	assert_parses(&cli, "inboxd -- show -x");
	assert_int_equal(cli.command, COMMAND_SHOW);
	assert_string_equal(cli.words[0], "-x");
	cli_fini(&cli);
	assert_parses(&cli, "inboxd discard --reason -- a");
	assert_string_equal(cli.reason, "--");
	assert_int_equal(cli.word_count, 1);
	cli_fini(&cli);
	assert_parses(&cli, "inboxd run --");
	assert_int_equal(cli.command, COMMAND_RUN);
}

static void filters_and_event_ids_are_accepted(void **state)
{
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd replay a b --source s --yes c --reason why");
	assert_int_equal(cli.word_count, 3);
	assert_string_equal(cli.words[2], "c");
	assert_string_equal(cli.source, "s");
	assert_string_equal(cli.reason, "why");
	assert_true(cli.yes && !cli.dry_run);
	cli_fini(&cli);
	assert_parses(&cli, "inboxd list --status dead --topic t --limit 7 --after 0");
	assert_string_equal(cli.filter.status, "dead");
	assert_string_equal(cli.filter.topic, "t");
	assert_int_equal(cli.bounds.limit, 7);
	assert_int_equal(cli.bounds.older_than, -1);
	assert_null(cli.filter.code);
	cli_fini(&cli);
	assert_parses(&cli, "inboxd discard --code TIMEOUT -c file");
	assert_string_equal(cli.filter.code, "TIMEOUT");
	assert_string_equal(cli.config_file, "file");
	cli_fini(&cli);
	assert_parses(&cli, "inboxd purge --older-than=2h --max 5");
	assert_int_equal(cli.bounds.older_than, 2 * 3600 * 1000);
	assert_int_equal(cli.bounds.limit, 5);
}

static void an_empty_command_line_has_no_command(void **state)
{
	struct err err = ERR_INIT;
	struct cli cli;

	(void)state;
	assert_int_equal(cli_parse(&cli, 0, NULL, &err), FAULT_USAGE);
}

static void help_of_the_program_lists_all_commands(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd --help");
	assert_true(cli.help);
	assert_int_equal(cli.command, COMMAND_NONE);
	cli_add_help(&text, cli.command);
	assert_non_null(strstr(buf_str(&text), "Usage: inboxd COMMAND"));
	assert_non_null(strstr(buf_str(&text), "\n  run "));
	assert_non_null(strstr(buf_str(&text), "\n  migrate "));
	assert_non_null(strstr(buf_str(&text), "\n  check "));
	assert_non_null(strstr(buf_str(&text), "\n  version "));
	assert_non_null(strstr(buf_str(&text), "Exit codes: 0 done"));
}

static void help_of_a_command_lists_its_options_only(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd migrate -h");
	assert_true(cli.help);
	cli_add_help(&text, cli.command);
	assert_non_null(strstr(buf_str(&text), "Usage: inboxd migrate"));
	assert_non_null(strstr(buf_str(&text), "\n  -c, --config FILE\n"));
	assert_null(strstr(buf_str(&text), "--migrate"));
}

static void an_option_without_effect_is_accepted_and_not_listed(void **state)
{
	CLEANUP(buf_fini) struct buf run = BUF_INIT;
	CLEANUP(buf_fini) struct buf migrate = BUF_INIT;
	CLEANUP(buf_fini) struct buf check = BUF_INIT;
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd run --json");
	assert_parses(&cli, "inboxd migrate --json");
	cli_add_help(&run, COMMAND_RUN);
	cli_add_help(&migrate, COMMAND_MIGRATE);
	cli_add_help(&check, COMMAND_CHECK);
	assert_null(strstr(buf_str(&run), "--json"));
	assert_null(strstr(buf_str(&migrate), "--json"));
	assert_non_null(strstr(buf_str(&check), "--json"));
}

static void help_is_also_a_command(void **state)
{
	struct cli cli;

	(void)state;
	assert_parses(&cli, "inboxd help");
	assert_true(cli.help);
	assert_int_equal(cli.command, COMMAND_NONE);
	assert_parses(&cli, "inboxd help show");
	assert_true(cli.help);
	assert_int_equal(cli.command, COMMAND_SHOW);
}

static void an_option_can_have_a_text_for_each_command(void **state)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT;
	CLEANUP(buf_fini) struct buf verify = BUF_INIT;
	struct cli cli;

	(void)state;
	cli_add_help(&list, COMMAND_LIST);
	assert_non_null(strstr(buf_str(&list), "only messages of this topic"));
	cli_add_help(&verify, COMMAND_VERIFY);
	assert_non_null(strstr(buf_str(&verify), "the topic to read again; required"));
	assert_null(strstr(buf_str(&verify), "only messages of this topic"));
	assert_parses(&cli, "inboxd verify --topic orders");
	assert_string_equal(cli.filter.topic, "orders");
}

static void the_configuration_file_is_taken_from_option_variable_or_default(void **state)
{
	struct cli given = { .config_file = "c.yaml" };
	struct cli none = { .config_file = NULL };

	(void)state;
	assert_string_equal(cli_config_file(&given, "env.yaml", "/"), "c.yaml");
	assert_string_equal(cli_config_file(&none, "env.yaml", "/"), "env.yaml");
	assert_string_equal(cli_config_file(&none, "", "/"), "/");
	assert_string_equal(cli_config_file(&none, NULL, "/"), "/");
	assert_null(cli_config_file(&none, NULL, "/nowhere/inboxd.yaml"));
}

static void a_bridge_has_subscriptions_and_a_command(void **state)
{
	struct cli cli;

	(void)state;
	assert_parses(&cli,
		"inboxd exec --handler h --topic a --type x.* --topic b --jobs 4 -- ls -c -l");
	assert_int_equal(cli.command, COMMAND_EXEC);
	assert_int_equal(cli.bridge.topics.count, 2);
	assert_string_equal(cli.bridge.topics.items[1], "b");
	assert_int_equal(cli.bridge.types.count, 1);
	assert_int_equal(cli.bridge.jobs, 4);
	assert_int_equal(cli.word_count, 3);
	assert_string_equal(cli.words[1], "-c");
	cli_fini(&cli);
}

static void a_bridge_has_no_configuration(void **state)
{
	char line[] = "inboxd forward --handler h -c inboxd.yaml";
	struct err err = ERR_INIT;
	struct cli cli;

	(void)state;
	assert_int_equal(parse(&cli, line, &err), FAULT_USAGE);
	assert_non_null(strstr(err.text, "there is no option \"-c\" for forward"));
	cli_fini(&cli);
}

static void any_allocation_may_fail(void **state)
{
	(void)state;
	for (size_t n = 1;; n++) {
		char line[] = "inboxd replay --set a.b=1 x --set a.c=2 y";
		struct err err = ERR_INIT;
		struct cli cli;
		int r;

		alloc_fail_at(n);
		r = parse(&cli, line, &err);
		cli_fini(&cli);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_needs_no_options),
		cmocka_unit_test(options_are_accepted_in_every_form),
		cmocka_unit_test(set_can_be_repeated_and_keeps_its_order),
		cmocka_unit_test(every_wrong_line_is_a_usage_error_with_a_reason),
		cmocka_unit_test(after_two_minuses_everything_is_an_argument),
		cmocka_unit_test(filters_and_event_ids_are_accepted),
		cmocka_unit_test(an_empty_command_line_has_no_command),
		cmocka_unit_test(help_of_the_program_lists_all_commands),
		cmocka_unit_test(help_of_a_command_lists_its_options_only),
		cmocka_unit_test(an_option_without_effect_is_accepted_and_not_listed),
		cmocka_unit_test(help_is_also_a_command),
		cmocka_unit_test(an_option_can_have_a_text_for_each_command),
		cmocka_unit_test(the_configuration_file_is_taken_from_option_variable_or_default),
		cmocka_unit_test(a_bridge_has_subscriptions_and_a_command),
		cmocka_unit_test(a_bridge_has_no_configuration),
		cmocka_unit_test(any_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
