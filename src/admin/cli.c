/*
 * One table of commands, one of options; a new command or option is a row. Options may stand before
 * or after the command: the command is found first, then each option is asked whether it belongs.
 */
#include "admin/cli.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/nearest.h"

struct command_row {
	enum command command;
	const char *name;
	const char *summary;
	const char *help; /* behind the usage line */
};

/* clang-format off */
static const struct command_row commands[] = {
	{ COMMAND_RUN, "run", "Read Kafka, store, and hand messages to the handlers",
		"Runs the sidecar until SIGTERM or SIGINT. SIGHUP reads the configuration again.\n"
		"The database schema must be of this version; `inboxd migrate` makes it so.\n" },
	{ COMMAND_MIGRATE, "migrate", "Create the database schema or bring it up to date",
		"Applies the migrations that are missing, each in its own transaction, one process\n"
		"at a time. Needs a role that may create the schema.\n" },
	{ COMMAND_CHECK, "check", "Print the effective configuration and try what it names",
		"Prints every effective value and where it came from, with secrets masked, then\n"
		"tries Kafka, PostgreSQL, the schema and the socket's directory. Changes nothing.\n" },
	{ COMMAND_VERSION, "version", "Print the version",
		"Prints the version.\n" },
};
/* clang-format on */

enum option_kind { KIND_FLAG, KIND_TEXT, KIND_SET };

#define FOR(command) (1U << (command))
#define FOR_ALL      (~0U)

struct option_row {
	char letter; /* '\0' = none */
	const char *name;
	const char *argument; /* what help calls it; NULL = takes none */
	unsigned commands;
	enum option_kind kind;
	size_t offset; /* in struct cli, unless KIND_SET */
	const char *help;
};

/* clang-format off */
static const struct option_row option_rows[] = {
	{ 0, "migrate", NULL, FOR(COMMAND_RUN), KIND_FLAG, offsetof(struct cli, migrate),
		"bring the schema up to date first" },
	{ 0, "roles", NULL, FOR(COMMAND_MIGRATE), KIND_FLAG, offsetof(struct cli, roles),
		"also create the roles inboxd_sidecar, _handler, _operator and _reader, and grant" },
	{ 'c', "config", "FILE", FOR_ALL, KIND_TEXT, offsetof(struct cli, config_file),
		"configuration file; default: INBOXD_CONFIG, else " CLI_STANDARD_FILE },
	{ 0, "set", "SECTION.KEY=VALUE", FOR_ALL, KIND_SET, 0,
		"set one value, over the file and the environment; may be repeated" },
	{ 0, "json", NULL, FOR_ALL, KIND_FLAG, offsetof(struct cli, json),
		"print JSON where something is printed" },
	{ 'h', "help", NULL, FOR_ALL, KIND_FLAG, offsetof(struct cli, help),
		"print this help" },
};
/* clang-format on */

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct parse {
	struct cli *cli;
	const struct command_row *command; /* NULL while none was found */
	char *const *argv;
	int argc;
	int at;
	struct err *err;
};

static const struct command_row *find_command(const char *name)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static int unknown_command(const char *name, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	nearest_start(&nearest, name);
	for (size_t i = 0; i < COUNT(commands); i++)
		nearest_offer(&nearest, commands[i].name);
	nearest_hint(&nearest, hint);
	return err_set(err, FAULT_USAGE,
		"there is no command \"%s\"%s (`inboxd --help` lists the commands)", name, hint);
}

static unsigned commands_of(const struct parse *parse)
{
	return parse->command == NULL ? FOR_ALL : FOR(parse->command->command);
}

static int unknown_option(const struct parse *parse, const char *argument)
{
	const char *command = parse->command == NULL ? "" : parse->command->name;
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	nearest_start(&nearest, argument + strspn(argument, "-"));
	for (size_t i = 0; i < COUNT(option_rows); i++) {
		if (option_rows[i].commands & commands_of(parse))
			nearest_offer(&nearest, option_rows[i].name);
	}
	nearest_hint(&nearest, hint);
	return err_set(parse->err, FAULT_USAGE,
		"there is no option \"%s\"%s%s%s (`inboxd %s%s--help` lists the options)", argument,
		command[0] == '\0' ? "" : " for ", command, hint, command,
		command[0] == '\0' ? "" : " ");
}

/* "-c" or "--config" or "--config=FILE". */
static bool names_option(const struct option_row *option, const char *argument)
{
	size_t length = strlen(option->name);

	if (argument[1] != '-')
		return argument[1] == option->letter && argument[1] != '\0';
	return strncmp(argument + 2, option->name, length) == 0 &&
	       (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

static const struct option_row *find_option(const char *argument)
{
	for (size_t i = 0; i < COUNT(option_rows); i++) {
		if (names_option(&option_rows[i], argument))
			return &option_rows[i];
	}
	return NULL;
}

/* What stands behind '=', behind the letter, or in the next argument; NULL when nothing does. */
static const char *take_value(struct parse *parse)
{
	const char *argument = parse->argv[parse->at];
	const char *equals = argument[1] == '-' ? strchr(argument, '=') : NULL;

	if (equals != NULL)
		return equals + 1;
	if (argument[1] != '-' && argument[2] != '\0')
		return argument + 2;
	return parse->at + 1 < parse->argc ? parse->argv[++parse->at] : NULL;
}

static int add_set(struct cli *cli, const char *text, struct err *err)
{
	const char **set;

	if (strchr(text, '=') == NULL)
		return err_set(err, FAULT_USAGE,
			"--set %s: there is no \"=\"; write --set section.key=value", text);
	set = realloc(cli->set, (cli->set_count + 1) * sizeof(*set));
	if (set == NULL)
		return err_memory(err);
	cli->set = set;
	cli->set[cli->set_count++] = text;
	return 0;
}

static int take_flag(struct parse *parse, const struct option_row *option)
{
	const char *argument = parse->argv[parse->at];

	if (strchr(argument, '=') != NULL || (argument[1] != '-' && argument[2] != '\0'))
		return err_set(
			parse->err, FAULT_USAGE, "%s: --%s takes no value", argument, option->name);
	*(bool *)((char *)parse->cli + option->offset) = true;
	return 0;
}

static int take_option(struct parse *parse)
{
	const struct option_row *option = find_option(parse->argv[parse->at]);
	const char *text;

	if (option == NULL || !(option->commands & commands_of(parse)))
		return unknown_option(parse, parse->argv[parse->at]);
	if (option->kind == KIND_FLAG)
		return take_flag(parse, option);
	text = take_value(parse);
	if (text == NULL)
		return err_set(parse->err, FAULT_USAGE, "%s wants %s behind it",
			parse->argv[parse->at], option->argument);
	if (option->kind == KIND_SET)
		return add_set(parse->cli, text, parse->err);
	if (text[0] == '\0')
		return err_set(parse->err, FAULT_USAGE, "--%s: %s is empty", option->name,
			option->argument);
	*(const char **)((char *)parse->cli + option->offset) = text;
	return 0;
}

static bool is_option(const char *argument)
{
	return argument[0] == '-' && argument[1] != '\0';
}

/* The first argument that is neither an option nor the value of one. */
static int find_command_word(struct parse *parse)
{
	for (int i = 1; i < parse->argc; i++) {
		const char *argument = parse->argv[i];
		const struct option_row *option =
			is_option(argument) ? find_option(argument) : NULL;

		if (!is_option(argument)) {
			parse->command = find_command(argument);
			return parse->command == NULL ? unknown_command(argument, parse->err) : i;
		}
		/* Its value is the next argument unless it is in this one. */
		if (option != NULL && option->kind != KIND_FLAG &&
			(argument[1] == '-' ? strchr(argument, '=') == NULL : argument[2] == '\0'))
			i++;
	}
	return 0;
}

static int surplus(const struct parse *parse, const char *argument)
{
	const char *command = parse->command == NULL ? "" : parse->command->name;

	return err_set(parse->err, FAULT_USAGE, "%s takes no argument \"%s\" (`inboxd %s --help`)",
		command, argument, command);
}

static int take_arguments(struct parse *parse, int command_at)
{
	int r = 0;

	for (parse->at = 1; parse->at < parse->argc && r == 0; parse->at++) {
		const char *argument = parse->argv[parse->at];

		if (parse->at == command_at)
			continue;
		r = is_option(argument) ? take_option(parse) : surplus(parse, argument);
	}
	return r;
}

int cli_parse(struct cli *out, int argc, char *const *argv, struct err *err)
{
	struct parse parse = { .cli = out, .argv = argv, .argc = argc, .err = err };
	int command_at;
	int r;

	*out = (struct cli){ .command = COMMAND_NONE };
	/* What every other program understands. */
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		out->command = COMMAND_VERSION;
		return 0;
	}
	command_at = find_command_word(&parse);
	if (command_at < 0)
		return command_at;
	r = take_arguments(&parse, command_at);
	if (r < 0)
		return r;
	if (parse.command != NULL)
		out->command = parse.command->command;
	else if (!out->help)
		return err_set(err, FAULT_USAGE,
			"no command is given (`inboxd --help` lists the commands)");
	return 0;
}

void cli_fini(struct cli *cli)
{
	free(cli->set);
	*cli = (struct cli){ .command = COMMAND_NONE };
}

static void add_options(struct buf *out, unsigned wanted)
{
	buf_add_str(out, "\nOptions:\n");
	for (size_t i = 0; i < COUNT(option_rows); i++) {
		const struct option_row *option = &option_rows[i];
		char letter[] = { option->letter, '\0' };

		if (!(option->commands & wanted))
			continue;
		buf_addf(out, "  %s%s%s--%s%s%s\n        %s\n", letter[0] == '\0' ? "" : "-",
			letter, letter[0] == '\0' ? "" : ", ", option->name,
			option->argument == NULL ? "" : " ",
			option->argument == NULL ? "" : option->argument, option->help);
	}
}

static void add_program_help(struct buf *out)
{
	buf_add_str(out,
		"Usage: inboxd COMMAND [OPTION]...\n\n"
		"The inbox pattern as a sidecar: reads Kafka topics, stores each message once in\n"
		"PostgreSQL, and hands it to handlers over a Unix socket.\n\nCommands:\n");
	for (size_t i = 0; i < COUNT(commands); i++)
		buf_addf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
	buf_add_str(out, "\n`inboxd COMMAND --help` tells more of a command.\n");
}

static void add_exit_codes(struct buf *out)
{
	buf_add_str(out, "\nExit codes: 0 done, 1 usage, 2 configuration, 3 database, 4 Kafka, 5 "
			 "socket,\n6 a check failed, 70 internal.\n");
}

void cli_add_help(struct buf *out, enum command command)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (commands[i].command != command)
			continue;
		buf_addf(out, "Usage: inboxd %s [OPTION]...\n\n%s", commands[i].name,
			commands[i].help);
		add_options(out, FOR(command));
		add_exit_codes(out);
		return;
	}
	add_program_help(out);
	add_exit_codes(out);
}

const char *cli_config_file(const struct cli *cli, const char *from_env, const char *standard)
{
	if (cli->config_file != NULL)
		return cli->config_file;
	if (from_env != NULL && from_env[0] != '\0')
		return from_env;
	return access(standard, F_OK) == 0 ? standard : NULL;
}
