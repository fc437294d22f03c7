/*
 * docs/configuration.md, written from the option table. What the table cannot say, how the layers
 * and the types work, stands here as text.
 */
#include "config/options.h"

#include <string.h>

#include "base/cleanup.h"
#include "config/value.h"

/* clang-format off */
static const char preface[] =
	"# Configuration\n"
	"\n"
	"<!-- Written by `test_config_doc --write` from the option table in src/config/options.c. -->\n"
	"\n"
	"inboxd needs three things: topics, a broker and a group. Everything else has a\n"
	"default.\n"
	"\n"
	"```yaml\n"
	"kafka:\n"
	"  topics: [orders, payments]\n"
	"  bootstrap.servers: localhost:9092\n"
	"  group.id: billing\n"
	"postgres:\n"
	"  dbname: billing\n"
	"```\n"
	"\n"
	"`inboxd check` prints every effective value and where it came from, with secrets\n"
	"masked, and then tries what it can reach.\n"
	"\n"
	"## Where a value comes from\n"
	"\n"
	"From the highest of these that names the key:\n"
	"\n"
	"1. `--set section.key=value` on the command line, as often as needed;\n"
	"2. the environment variable `INBOXD_<SECTION>_<KEY>`;\n"
	"3. the file: `-c FILE`, else `INBOXD_CONFIG`, else `/etc/inboxd/inboxd.yaml` if it is there;\n"
	"4. the default.\n"
	"\n"
	"A key that does not exist is an error in the file and in `--set`, with the nearest\n"
	"known name. An `INBOXD_*` variable that names no key only warns, because container\n"
	"platforms set variables of their own. In variables and `--set` the items of a list\n"
	"are separated by commas, so an item that holds a comma needs the file.\n"
	"\n"
	"A value `file:/path` is read from that file, without the newline at its end: the way\n"
	"to pass secrets. It is read again at a reload; under `postgres`, and for `sasl.username`\n"
	"and `sasl.password` under `kafka`, also for each new connection, so that a password is\n"
	"changed by changing its file.\n"
	"\n"
	"SIGHUP reads everything again. Keys that say *reload* are taken over; for any other\n"
	"that changed a log line says that it needs a restart, and the old value stays. A\n"
	"wrong configuration changes nothing.\n"
	"\n"
	"The file is a small part of YAML: sections, keys, values and lists of values.\n"
	"Anchors, aliases, tags, `null`, keys written twice and a second document are errors\n"
	"that name line and column. Quote a text that starts with `*`, `&` or `!`.\n"
	"\n"
	"## How values are written\n"
	"\n"
	"| type | written as |\n"
	"|---|---|\n"
	"| text | as it is; `\"\"` for empty |\n"
	"| number | a whole number |\n"
	"| size | a whole number of bytes, or with `B`, `KiB`, `MiB`, `GiB` |\n"
	"| duration | a whole number with `ms`, `s`, `m`, `h`, `d`, `w` or `y` (365 days); `0`; `never` where it says so |\n"
	"| list | `[a, b]`, or lines with `- `; a single value is a list of one |\n"
	"| mode | octal digits, such as `\"0660\"` |\n"
	"\n"
	"When two keys must fit together and only one is written, the default of the other\n"
	"gives way: with `inbox.max_claimed: 50` alone, `worker.claim_batch` and\n"
	"`inbox.max_in_flight` are 50. When both are written and do not fit, that is an\n"
	"error.\n";
/* clang-format on */

/* clang-format off */
static const char passed_on[] =
	"\n"
	"In an environment variable the dots of a name are underscores:\n"
	"`INBOXD_KAFKA_BOOTSTRAP_SERVERS`, `INBOXD_POSTGRES_SSLMODE`. A list becomes one text\n"
	"with commas. The library itself checks names and values. A few names are refused,\n"
	"because inboxd must decide them; the error says why: in `kafka`\n"
	"`enable.auto.commit`, `enable.auto.offset.store`, `enable.partition.eof`,\n"
	"`transactional.id` and callbacks, in `postgres` `application_name`,\n"
	"`client_encoding` and `replication`. `auto.offset.reset` is `earliest` unless set. A\n"
	"changed `kafka.sasl.username`, `kafka.sasl.password` or `postgres.password` is taken\n"
	"over at a reload.\n";
/* clang-format on */

static const char *const type_names[] = {
	[OPTION_STRING] = "text",
	[OPTION_INT] = "number",
	[OPTION_SIZE] = "size",
	[OPTION_DURATION] = "duration",
	[OPTION_LIST] = "list",
	[OPTION_MODE] = "mode",
	[OPTION_UIDS] = "list of numbers",
};

static void add_words(struct buf *out, const struct option *option)
{
	for (size_t i = 0; option->words[i] != NULL; i++)
		buf_addf(out, "%s`%s`", i == 0 ? "" : ", ", option->words[i]);
}

static void add_limits(struct buf *out, const struct option *option)
{
	char least[VALUE_TEXT_BYTES];
	char most[VALUE_TEXT_BYTES];

	value_text(option, option->min, least);
	value_text(option, option->max, most);
	buf_addf(out, ", %s to %s%s", least, most, option->never ? ", or `never`" : "");
}

static void add_type(struct buf *out, const struct option *option)
{
	if (option->words != NULL) {
		add_words(out, option);
		return;
	}
	buf_add_str(out, type_names[option->type]);
	if (option->type == OPTION_INT || option->type == OPTION_SIZE ||
		option->type == OPTION_DURATION)
		add_limits(out, option);
}

/* A plain text that YAML would take for something else gets quotes. */
static void add_scalar(struct buf *out, const char *text, size_t length)
{
	bool quoted = length == 0 || text[0] == '*' || text[0] == '0';

	buf_add_str(out, quoted ? "\"" : "");
	buf_add(out, text, length);
	buf_add_str(out, quoted ? "\"" : "");
}

static void add_items(struct buf *out, const char *text)
{
	buf_add_char(out, '[');
	while (*text != '\0') {
		size_t length = strcspn(text, ",");

		add_scalar(out, text, length);
		text += length;
		if (*text == ',') {
			buf_add_str(out, ", ");
			text++;
		}
	}
	buf_add_char(out, ']');
}

static void add_default(struct buf *out, const struct option *option)
{
	if (option_is_list(option))
		add_items(out, option->text);
	else
		add_scalar(out, option->text, strlen(option->text));
}

static void add_option(struct buf *out, const struct option *option, bool variable)
{
	buf_addf(out, "\n### `%s.%s`\n\n%s\n\n", option->section, option->key, option->help);
	buf_add_str(out, "- Type: ");
	add_type(out, option);
	buf_add_str(out, "\n- Default: ");
	if (option->hostname) {
		buf_add_str(out, "the host's name");
	} else {
		buf_add_char(out, '`');
		add_default(out, option);
		buf_add_char(out, '`');
	}
	buf_add_str(out, option->reloadable ? "\n- Change: reload\n" : "\n- Change: restart\n");
	if (!variable)
		return;
	buf_add_str(out, "- Variable: `");
	options_add_variable(out, option->section, option->key);
	buf_add_str(out, "`\n");
}

static void add_section(struct buf *out, const struct section *section)
{
	buf_addf(out, "\n## `%s`\n\n%s\n", section->name, section->help);
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section->name) == 0)
			add_option(out, option, section->kind != SECTION_PER_TOPIC);
	}
}

static void add_example_keys(struct buf *out, const struct section *section)
{
	const char *indent = section->kind == SECTION_PER_TOPIC ? "    " : "  ";

	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section->name) != 0)
			continue;
		/* No default is right for these two. */
		if (option->hostname || section->kind == SECTION_OPEN)
			continue;
		buf_addf(out, "%s%s: ", indent, option->key);
		add_default(out, option);
		buf_add_char(out, '\n');
	}
}

static void add_example(struct buf *out)
{
	buf_add_str(out, "\n## Every key with its default\n\n```yaml\n");
	for (const struct section *section = option_sections; section->name != NULL; section++) {
		buf_addf(out, "%s:\n", section->name);
		if (strcmp(section->name, "kafka") == 0)
			buf_add_str(out, "  topics: [orders]\n  bootstrap.servers: localhost:9092\n"
					 "  group.id: billing\n");
		if (strcmp(section->name, "postgres") == 0)
			buf_add_str(out, "  dbname: billing\n");
		if (section->kind == SECTION_PER_TOPIC)
			buf_add_str(out, "  \"*\":\n");
		add_example_keys(out, section);
	}
	buf_add_str(out, "```\n");
}

void options_markdown(struct buf *out)
{
	buf_add_str(out, preface);
	for (const struct section *section = option_sections; section->name != NULL; section++)
		add_section(out, section);
	buf_add_str(out, "\n## Names that are passed on\n");
	buf_add_str(out, passed_on);
	add_example(out);
}
