/*
 * Prints the help of the command line from its tables. See cli.h.
 */
#include "ops/cli.h"
#include "ops/cli_table.h"

static void add_options(struct buf *out, enum command command)
{
	buf_add_str(out, "\nOptions:\n");
	for (size_t i = 0; i < cli_option_count; i++) {
		const struct option_row *option = &cli_options[i];
		char letter[] = { option->letter, '\0' };

		if (!option_is_offered(option, command))
			continue;
		buf_addf(out, "  %s%s%s--%s%s%s\n        %s", letter[0] == '\0' ? "" : "-", letter,
			letter[0] == '\0' ? "" : ", ", option->name,
			option->argument == NULL ? "" : " ",
			option->argument == NULL ? "" : option->argument, option->help);
		if (option->choices != NULL)
			buf_addf(out, ": %s", option->choices);
		buf_add_char(out, '\n');
	}
}

static void add_program_help(struct buf *out)
{
	buf_add_str(out, "Usage: inboxd COMMAND [OPTION]...\n\nThe inbox pattern as a sidecar: "
			 "reads Kafka topics, stores each message once in\nPostgreSQL, and "
			 "delivers it to handlers over a Unix socket.\n\nCommands:\n");
	for (size_t i = 0; i < cli_command_count; i++)
		buf_addf(out, "  %-10s%s\n", cli_commands[i].name, cli_commands[i].summary);
	buf_add_str(out, "\n`inboxd help COMMAND` or `inboxd COMMAND --help` describes a command. "
			 "After -- no\nargument is an option: `inboxd show -- -1`.\n");
}

static void add_exit_codes(struct buf *out)
{
	buf_add_str(out,
		"\nExit codes: 0 done, 1 usage, 2 configuration, 3 database, 4 Kafka, 5 "
		"socket,\n6 a check failed, or nothing matched, 70 internal, 74 the output "
		"could not be\nwritten.\n");
}

void cli_add_help(struct buf *out, enum command command)
{
	for (size_t i = 0; i < cli_command_count; i++) {
		if (cli_commands[i].command != command)
			continue;
		buf_addf(out, "Usage: inboxd %s [OPTION]...%s%s\n\n%s", cli_commands[i].name,
			cli_commands[i].usage[0] == '\0' ? "" : " ", cli_commands[i].usage,
			cli_commands[i].help);
		add_options(out, command);
		add_exit_codes(out);
		return;
	}
	add_program_help(out);
	add_exit_codes(out);
}
