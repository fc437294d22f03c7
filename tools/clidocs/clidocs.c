/*
 * Generates the man page and the completions for bash and zsh from the tables of the command line: `clidocs man`,
 * `clidocs bash`, `clidocs zsh`, on stdout. It runs during the build, so they always agree with the program.
 */
#include <stdio.h>
#include <string.h>

#include "ops/cli/cli_table.h"

/* --- The man page ---------------------------------------------------------------------------------- */

/* Text for roff: no line may begin with a request, and a minus stays one. */
static void roff(const char *text)
{
	bool fresh = true;

	for (const char *c = text; *c != '\0'; c++) {
		if (fresh && (*c == '.' || *c == '\''))
			(void)fputs("\\&", stdout);
		if (*c == '\\')
			(void)fputs("\\e", stdout);
		else if (*c == '-')
			(void)fputs("\\-", stdout);
		else
			(void)putchar(*c);
		fresh = *c == '\n';
	}
}

static void man_silent(const struct option_row *option)
{
	const char *before = "It changes nothing for";

	for (size_t i = 0; i < cli_command_count; i++) {
		if ((option->silent & (1U << cli_commands[i].command)) == 0)
			continue;
		(void)printf("%s %s", before, cli_commands[i].name);
		before = " and";
	}
	(void)fputs(".\n", stdout);
}

static void man_option(const struct option_row *option)
{
	(void)fputs(".TP\n.B ", stdout);
	if (option->letter != '\0')
		(void)printf("\\-%c, ", option->letter);
	(void)fputs("\\-\\-", stdout);
	roff(option->name);
	if (option->argument != NULL)
		(void)printf(
			option->kind == KIND_OPTIONAL ? "[=%s]" : " \\fI%s\\fR", option->argument);
	(void)putchar('\n');
	roff(option->help);
	if (option->choices != NULL)
		(void)printf(": %s", option->choices);
	(void)fputs(".\n", stdout);
	if (option->silent != 0)
		man_silent(option);
}

static void man_command(const struct command_row *command)
{
	(void)printf(".SS inboxd %s [\\fIOPTION\\fR]... %s\n", command->name, command->usage);
	roff(command->summary);
	(void)fputs(".\n", stdout);
	roff(command->help);
	for (size_t i = 0; i < cli_option_count; i++) {
		if (!option_is_general(&cli_options[i]) &&
			(cli_options[i].commands & (1U << command->command)) != 0)
			man_option(&cli_options[i]);
	}
}

static void man(void)
{
	(void)fputs(
		".TH INBOXD 1 \"\" \"inboxd " INBOXD_VERSION "\" \"User Commands\"\n"
		".SH NAME\ninboxd \\- the inbox pattern as a sidecar for Kafka and PostgreSQL\n"
		".SH SYNOPSIS\n.B inboxd\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
		".SH DESCRIPTION\n"
		"Reads Kafka topics, stores each message once in PostgreSQL, and delivers it to "
		"handlers "
		"over a Unix socket.\n.SH COMMANDS\n",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		man_command(&cli_commands[i]);
	(void)fputs(".SH GENERAL OPTIONS\nA command that is a handler (exec, forward) reads no "
		    "configuration, and has no "
		    "\\-\\-config and no \\-\\-set.\n",
		stdout);
	for (size_t i = 0; i < cli_option_count; i++) {
		if (option_is_general(&cli_options[i]))
			man_option(&cli_options[i]);
	}
	(void)fputs(".TP\n.B \\-\\-\nEnds the options: every argument after it is a word, such as "
		    "the command of "
		    "exec, or an event id that begins with \\-, as in\n.BR \"inboxd show \\-\\- "
		    "\\-1\" .\n",
		stdout);
	(void)fputs(".SH EXIT STATUS\n"
		    "0 done, 1 usage, 2 configuration, 3 database, 4 Kafka, 5 socket, 6 a check "
		    "failed or "
		    "nothing matched, 70 internal, 74 the output could not be written. It is not "
		    "an error if the reader of the output ends early (| head).\n"
		    ".SH ENVIRONMENT\n.TP\n.B INBOXD_CONFIG\nThe configuration file.\n.TP\n"
		    ".BI INBOXD_ SECTION _ KEY\nOne value of the configuration; it overrides the "
		    "file.\n"
		    ".SH FILES\n.TP\n.I " CLI_STANDARD_FILE
		    "\nThe configuration file when none is named.\n",
		stdout);
}

/* --- Completions ----------------------------------------------------------------------------------- */

static void bash_options(const struct command_row *command)
{
	(void)printf("\t%s) options='", command->name);
	for (size_t i = 0; i < cli_option_count; i++) {
		if (option_is_offered(&cli_options[i], command->command))
			(void)printf("--%s ", cli_options[i].name);
	}
	(void)fputs("' ;;\n", stdout);
}

/* The choices of an option may differ from command to command. */
static void bash_choices(const struct command_row *command)
{
	for (size_t i = 0; i < cli_option_count; i++) {
		if (cli_options[i].choices != NULL &&
			(cli_options[i].commands & (1U << command->command)) != 0)
			(void)printf("\t'%s --%s') mapfile -t COMPREPLY < <(compgen -W '%s' -- "
				     "\"$word\"); return ;;\n",
				command->name, cli_options[i].name, cli_options[i].choices);
	}
}

static void bash(void)
{
	(void)fputs("# bash completion for inboxd; generated from its option tables.\n"
		    "_inboxd() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} "
		    "before=${COMP_WORDS[COMP_CWORD-1]}\n"
		    "\tlocal command='' options='--help --version' i\n"
		    "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${COMP_WORDS[i]} in\n\t\t",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		(void)printf("%s%s", i == 0 ? "" : " | ", cli_commands[i].name);
	(void)fputs(") command=${COMP_WORDS[i]}; break ;;\n\t\tesac\n\tdone\n\tcase \"$command "
		    "$before\" in\n",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		bash_choices(&cli_commands[i]);
	(void)fputs("\t*' -c' | *' --config') mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); "
		    "return ;;\n"
		    "\tesac\n\tcase $command in\n",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		bash_options(&cli_commands[i]);
	(void)fputs("\t'') options=\"$options", stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		(void)printf(" %s", cli_commands[i].name);
	(void)fputs("\" ;;\n\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- "
		    "\"$word\")\n}\n"
		    "complete -F _inboxd inboxd\n",
		stdout);
}

/* Inside '…[text]…' of _arguments. */
static void zsh_text(const char *text)
{
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '\'')
			(void)fputs("'\\''", stdout);
		else if (strchr("[]:\\", *c) != NULL)
			(void)printf("\\%c", *c);
		else
			(void)putchar(*c);
	}
}

static void zsh_option(const struct option_row *option)
{
	(void)printf(" \\\n\t\t\t'--%s%s[", option->name,
		option->argument == NULL        ? ""
		: option->kind == KIND_OPTIONAL ? "=-"
						: "=");
	zsh_text(option->help);
	(void)putchar(']');
	if (option->choices != NULL)
		(void)printf(":%s:(%s)", option->argument, option->choices);
	else if (option->argument != NULL)
		(void)printf("%s:%s:%s", option->kind == KIND_OPTIONAL ? ":" : "", option->argument,
			strcmp(option->argument, "FILE") == 0 ? "_files" : "");
	(void)putchar('\'');
}

static void zsh(void)
{
	(void)fputs(
		"#compdef inboxd\n# zsh completion for inboxd; generated from its option tables.\n"
		"_inboxd() {\n\tlocal -a commands=(\n",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++) {
		(void)printf("\t\t'%s:", cli_commands[i].name);
		zsh_text(cli_commands[i].summary);
		(void)fputs("'\n", stdout);
	}
	(void)fputs("\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command "
		    "commands\n\t\treturn\n\tfi\n"
		    "\tcase $words[2] in\n",
		stdout);
	for (size_t i = 0; i < cli_command_count; i++) {
		(void)printf("\t%s) _arguments", cli_commands[i].name);
		for (size_t k = 0; k < cli_option_count; k++) {
			if (option_is_offered(&cli_options[k], cli_commands[i].command))
				zsh_option(&cli_options[k]);
		}
		(void)fputs(" ;;\n", stdout);
	}
	(void)fputs("\tesac\n}\n_inboxd \"$@\"\n", stdout);
}

static const struct {
	const char *name;
	void (*write)(void);
} forms[] = {
	{ "man", man },
	{ "bash", bash },
	{ "zsh", zsh },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(forms[i].name, argv[1]) == 0) {
			forms[i].write();
			return fflush(stdout) == 0 ? 0 : 1;
		}
	}
	(void)fputs("usage: clidocs man|bash|zsh\n", stderr);
	return 1;
}
