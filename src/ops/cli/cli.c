/*
 * The parser and the help, both from the tables in cli_table.c. Options may precede or follow the command: the parser
 * finds the command first, and then checks each option against it.
 */
#include "ops/cli/cli.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/numbers.h"
#include "config/sources/nearest.h"
#include "ops/cli/cli_table.h"

/* --- Values ------------------------------------------------------------------------------------ */

bool cli_number(const char *text, int64_t *out)
{
	char *end = NULL;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

bool cli_is_choice(const char *choices, const char *text)
{
	size_t length = strlen(text);

	for (const char *at = choices; *at != '\0'; at += strspn(at, " ")) {
		size_t size = strcspn(at, " ");

		if (size == length && memcmp(at, text, size) == 0)
			return true;
		at += size;
	}
	return false;
}

/* --- The parser -------------------------------------------------------------------------------- */

/* The command line while it is read. */
struct parse {
	struct cli *cli;
	const struct command_row *command; /* NULL until it is found */
	char *const *argv;
	int argc;
	int at;
	struct err *err;
};

static const struct command_row *find_command(const char *name)
{
	for (size_t i = 0; i < cli_command_count; i++) {
		if (strcmp(cli_commands[i].name, name) == 0)
			return &cli_commands[i];
	}
	return NULL;
}

static int unknown_command(const char *name, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	for (size_t i = 0; i < cli_near_word_count; i++) {
		if (cli_is_choice(cli_near_words[i].words, name))
			return err_set(err, FAULT_USAGE,
				"there is no command \"%s\"; use `inboxd %s` (`inboxd --help` "
				"lists "
				"the commands)",
				name, cli_near_words[i].hint);
	}
	nearest_start(&nearest, name);
	for (size_t i = 0; i < cli_command_count; i++)
		nearest_offer(&nearest, cli_commands[i].name);
	nearest_offer(&nearest, "help");
	nearest_hint(&nearest, hint);
	return err_set(err, FAULT_USAGE,
		"there is no command \"%s\"%s (`inboxd --help` lists the commands)", name, hint);
}

/* The bit of the command; all bits when only general options make sense. */
static unsigned commands_of(const struct parse *parse)
{
	return parse->command == NULL ? ~0U : 1U << parse->command->command;
}

static int unknown_option(const struct parse *parse, const char *argument)
{
	const char *command = parse->command == NULL ? "" : parse->command->name;
	const char *usage = parse->command == NULL ? "" : parse->command->usage;
	char hint[NEAREST_HINT_BYTES] = "";
	struct nearest nearest;

	nearest_start(&nearest, argument + strspn(argument, "-"));
	for (size_t i = 0; i < cli_option_count; i++) {
		if (cli_options[i].commands & ~cli_options[i].silent & commands_of(parse))
			nearest_offer(&nearest, cli_options[i].name);
	}
	if (nearest.best != NULL)
		(void)snprintf(hint, sizeof(hint), "; did you mean \"--%s\"?", nearest.best);
	return err_set(parse->err, FAULT_USAGE,
		"there is no option \"%s\"%s%s%s (`inboxd %s%s--help` lists the options%s)",
		argument, command[0] == '\0' ? "" : " for ", command, hint, command,
		command[0] == '\0' ? "" : " ",
		strstr(usage, "EVENT_ID") != NULL
			? "; write -- before an event id that begins with -"
			: "");
}

/* True for "-c", "--config" and "--config=FILE". */
static bool names_option(const struct option_row *option, const char *argument)
{
	size_t length = strlen(option->name);

	if (argument[1] != '-')
		return argument[1] == option->letter && argument[1] != '\0';
	return strncmp(argument + 2, option->name, length) == 0 &&
	       (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

/* An option of these commands, otherwise of another command. */
static const struct option_row *find_option(const char *argument, unsigned commands)
{
	const struct option_row *other = NULL;

	for (size_t i = 0; i < cli_option_count; i++) {
		if (!names_option(&cli_options[i], argument))
			continue;
		if (cli_options[i].commands & commands)
			return &cli_options[i];
		other = &cli_options[i];
	}
	return other;
}

static bool is_option(const char *argument)
{
	return argument[0] == '-' && argument[1] != '\0';
}

/* The value after '=', after the letter, or in the next argument. NULL when there is none, or when
 * the next argument is another option: with a forgotten value, `--dry-run` must not be taken as the
 * value. */
static const char *take_value(struct parse *parse)
{
	const char *argument = parse->argv[parse->at];
	const char *equals = argument[1] == '-' ? strchr(argument, '=') : NULL;
	const char *next = parse->at + 1 < parse->argc ? parse->argv[parse->at + 1] : NULL;

	if (equals != NULL)
		return equals + 1;
	if (argument[1] != '-' && argument[2] != '\0')
		return argument + 2;
	if (next == NULL || (is_option(next) && find_option(next, ~0U) != NULL))
		return NULL;
	parse->at++;
	return next;
}

/* --set may be repeated; all are kept, in their order. The configuration checks the key. */
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

/* "--dry-run=no" is refused. It must not be taken as --dry-run, nor be ignored. */
static int take_flag(struct parse *parse, const struct option_row *option)
{
	const char *argument = parse->argv[parse->at];

	if (strchr(argument, '=') != NULL || (argument[1] != '-' && argument[2] != '\0'))
		return err_set(
			parse->err, FAULT_USAGE, "%s: --%s takes no value", argument, option->name);
	*(bool *)((char *)parse->cli + option->offset) = true;
	return 0;
}

static int wrong_value(const struct parse *parse, const struct option_row *option, const char *text)
{
	static const char *const wanted[] = {
		[KIND_COUNT] = "a number, 1 or more",
		[KIND_OFFSET] = "a number, 0 or more",
		[KIND_AGE] = "a duration such as 7d: a number with ms, s, m, h, d, w or y",
		[KIND_SPAN] = "a duration such as 30s: a number with ms, s, m, h, d, w or y",
	};

	if (text[0] == '\0')
		return err_set(parse->err, FAULT_USAGE, "--%s: %s is empty", option->name,
			option->argument);
	if (option->choices != NULL)
		return err_set(parse->err, FAULT_USAGE, "--%s: \"%s\" is none of: %s", option->name,
			text, option->choices);
	return err_set(parse->err, FAULT_USAGE, "--%s: \"%s\" is not %s", option->name, text,
		wanted[option->kind]);
}

static int add_text(struct cli_texts *texts, const char *text, struct err *err)
{
	const char **items = realloc(texts->items, (texts->count + 1) * sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	texts->items = items;
	texts->items[texts->count++] = text;
	return 0;
}

static int store_value(struct parse *parse, const struct option_row *option, const char *text)
{
	void *place = (char *)parse->cli + option->offset;
	int64_t number = 0;
	bool good = text[0] != '\0' || option->kind == KIND_ANY_TEXT;

	if (option->kind == KIND_COUNT)
		good = cli_number(text, &number) && number > 0;
	else if (option->kind == KIND_OFFSET)
		good = cli_number(text, &number);
	else if (option->kind == KIND_AGE || option->kind == KIND_SPAN)
		good = duration_read(text, &number) && number < INT64_MAX &&
		       (number > 0 || option->kind == KIND_AGE);
	else if (option->choices != NULL)
		good = cli_is_choice(option->choices, text);
	if (!good)
		return wrong_value(parse, option, text);
	if (option->kind == KIND_TEXTS)
		return add_text(place, text, parse->err);
	if (option->offset == offsetof(struct cli, bounds.limit))
		parse->cli->bounds.is_max = strcmp(option->name, "max") == 0;
	if (option->kind == KIND_TEXT || option->kind == KIND_ANY_TEXT)
		*(const char **)place = text;
	else
		*(int64_t *)place = number;
	return 0;
}

static int take_optional(struct parse *parse, const struct option_row *option)
{
	const char *value = strchr(parse->argv[parse->at], '=');

	if (value != NULL && value[1] == '\0')
		return err_set(
			parse->err, FAULT_USAGE, "--%s=: a value must follow the =", option->name);
	*(const char **)((char *)parse->cli + option->offset) = value == NULL ? "" : value + 1;
	return 0;
}

static int take_option(struct parse *parse)
{
	const struct option_row *option = find_option(parse->argv[parse->at], commands_of(parse));
	const char *text;

	if (option == NULL || !(option->commands & commands_of(parse)))
		return unknown_option(parse, parse->argv[parse->at]);
	if (option->kind == KIND_FLAG)
		return take_flag(parse, option);
	if (option->kind == KIND_OPTIONAL)
		return take_optional(parse, option);
	text = take_value(parse);
	if (text == NULL)
		return err_set(parse->err, FAULT_USAGE, "%s requires %s", parse->argv[parse->at],
			option->argument);
	if (option->kind == KIND_SET)
		return add_set(parse->cli, text, parse->err);
	return store_value(parse, option, text);
}

/* After "--" every argument is a word, even if it begins with a minus. */
static bool ends_options(const char *argument)
{
	return strcmp(argument, "--") == 0;
}

/* The index of the first argument that is neither an option nor a value of one; 0: there is none. The
 * table says which options have a value, so that in `inboxd -c run check` the command is check. */
static int find_command_word(struct parse *parse)
{
	bool words_only = false;

	for (int i = 1; i < parse->argc; i++) {
		const char *argument = parse->argv[i];
		const struct option_row *option;

		if (words_only || !is_option(argument)) {
			parse->command = find_command(argument);
			return parse->command == NULL ? unknown_command(argument, parse->err) : i;
		}
		words_only = ends_options(argument);
		option = find_option(argument, ~0U);
		/* the value of an option is the next argument, unless it is in the same one */
		if (option != NULL && option->kind > KIND_OPTIONAL &&
			(argument[1] == '-' ? strchr(argument, '=') == NULL : argument[2] == '\0'))
			i++;
	}
	return 0;
}

/* Refuses too many words before the command connects anywhere. Too few are the command's business,
 * because it knows what is missing. */
static int take_word(const struct parse *parse, const char *argument)
{
	const char *command = parse->command == NULL ? "" : parse->command->name;
	size_t room = parse->command == NULL ? 0 : parse->command->words;
	const char **words;

	if (parse->cli->word_count >= room)
		return err_set(parse->err, FAULT_USAGE,
			"%s takes no argument \"%s\" (`inboxd %s --help`)", command, argument,
			command);
	words = realloc(parse->cli->words, (parse->cli->word_count + 1) * sizeof(*words));
	if (words == NULL)
		return err_memory(parse->err);
	parse->cli->words = words;
	parse->cli->words[parse->cli->word_count++] = argument;
	return 0;
}

static int take_arguments(struct parse *parse, int command_at)
{
	bool words_only = false;
	int r = 0;

	for (parse->at = 1; parse->at < parse->argc && r == 0; parse->at++) {
		const char *argument = parse->argv[parse->at];

		if (parse->at == command_at)
			continue;
		if (words_only || !is_option(argument))
			r = take_word(parse, argument);
		else if (ends_options(argument))
			words_only = true;
		else
			r = take_option(parse);
	}
	return r;
}

/* `inboxd help` and `inboxd help COMMAND`, as in git. There is no row for it in the table, because it
 * takes no options. */
static int parse_help(struct cli *out, int argc, char *const *argv, struct err *err)
{
	const struct command_row *command = argc < 3 ? NULL : find_command(argv[2]);

	if (argc > 3)
		return err_set(err, FAULT_USAGE,
			"help takes one command, not also \"%s\" (`inboxd help` lists them)",
			argv[3]);
	if (argc == 3 && command == NULL)
		return unknown_command(argv[2], err);
	out->help = true;
	if (command != NULL)
		out->command = command->command;
	return 0;
}

int cli_parse(struct cli *out, int argc, char *const *argv, struct err *err)
{
	struct parse parse = { .cli = out, .argv = argv, .argc = argc, .err = err };
	int command_at;
	int r;

	*out = (struct cli){
		.command = COMMAND_NONE,
		.range = { .partition = -1, .from = -1, .to = -1 },
		.bounds = { .older_than = -1 },
	};
	/* for compatibility with other programs */
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		out->command = COMMAND_VERSION;
		return 0;
	}
	if (argc >= 2 && strcmp(argv[1], "help") == 0)
		return parse_help(out, argc, argv, err);
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
	free(cli->words);
	free(cli->grants.items);
	free(cli->bridge.topics.items);
	free(cli->bridge.types.items);
	free(cli->bridge.headers.items);
	free(cli->redact.items);
	*cli = (struct cli){ .command = COMMAND_NONE };
}

const char *cli_config_file(const struct cli *cli, const char *from_env, const char *standard)
{
	if (cli->config_file != NULL)
		return cli->config_file;
	if (from_env != NULL && from_env[0] != '\0')
		return from_env;
	return access(standard, F_OK) == 0 ? standard : NULL;
}

/* --- The help ---------------------------------------------------------------------------------- */

/* Lists only what this command offers; options that it accepts and ignores are left out. */
static void add_options(struct buf *out, enum command command)
{
	buf_add_str(out, "\nOptions:\n");
	for (size_t i = 0; i < cli_option_count; i++) {
		const struct option_row *option = &cli_options[i];
		char letter[] = { option->letter, '\0' };

		if (!option_is_offered(option, command))
			continue;
		buf_addf(out, "  %s%s%s--%s", letter[0] == '\0' ? "" : "-", letter,
			letter[0] == '\0' ? "" : ", ", option->name);
		if (option->argument != NULL)
			buf_addf(out, option->kind == KIND_OPTIONAL ? "[=%s]" : " %s",
				option->argument);
		buf_addf(out, "\n        %s", option->help);
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
