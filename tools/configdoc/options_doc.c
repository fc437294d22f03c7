/*
 * docs/configuration.md, written from the option table. The text that the table cannot contain, how
 * sources, types and passed names work, is here. A unit test compares the document with this output, and
 * loads its examples; so no default and no limit can be documented wrongly.
 */
#include "configdoc/options_doc.h"

#include <string.h>

#include "base/cleanup.h"
#include "config/options/options.h"
#include "config/options/value.h"

/* clang-format off */
static const char preface[] =
	"# Configuration\n"
	"\n"
	"<!-- Written by `test_config_doc --write` from the option table in src/config/options/options.c. -->\n"
	"\n"
	"inboxd needs three settings: topics, a broker and a consumer group. All others have\n"
	"defaults.\n"
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
	"`inboxd check` prints every effective value and its origin, with secrets masked. Then\n"
	"it tries to reach the database, the brokers and the other things it needs.\n"
	"\n"
	"## Where a value comes from\n"
	"\n"
	"A key has the value of the first of these sources that names it:\n"
	"\n"
	"1. `--set section.key=value` on the command line; the last one wins when a key is set twice;\n"
	"2. the environment variable `INBOXD_<SECTION>_<KEY>`;\n"
	"3. the file: `-c FILE`, else `INBOXD_CONFIG`, else `/etc/inboxd/inboxd.yaml` if it exists;\n"
	"4. the default.\n"
	"\n"
	"In the file and in `--set`, an unknown key is an error. The error names the nearest\n"
	"known key. An `INBOXD_*` variable that names no key only causes a warning, because\n"
	"container platforms set variables of their own. In variables and in `--set`, commas\n"
	"separate the items of a list. An item that contains a comma can only be written in the\n"
	"file.\n"
	"\n"
	"If a value is `file:/path`, inboxd reads the value from that file, without the newline\n"
	"at its end. Use this for secrets. The file is read again at a reload. The files of all\n"
	"keys under `postgres`, and of `sasl.username` and `sasl.password` under `kafka`, are also\n"
	"read for each new connection: to change a password, change its file. A command that does\n"
	"not connect to Kafka, such as `migrate`, opens no file of a setting of librdkafka.\n"
	"\n"
	"At SIGHUP, inboxd reads the configuration again. Changes of keys that say *reload* take\n"
	"effect. When another key has changed, its old value stays, and a log line says that a\n"
	"restart is needed. If the new configuration has an error, nothing changes.\n"
	"\n"
	"The file uses a small part of YAML: sections, keys, values and lists of values. Anchors,\n"
	"aliases, tags, `null`, duplicate keys and a second document are errors; each error names\n"
	"line and column. Put quotes around a text that starts with `*`, `&`, `!` or `{`.\n"
	"\n"
	"## How values are written\n"
	"\n"
	"| type | written as |\n"
	"|---|---|\n"
	"| text | as it is; `\"\"` for an empty text |\n"
	"| number | a whole number |\n"
	"| size | a whole number of bytes, or a whole number with `B`, `KiB`, `MiB` or `GiB` |\n"
	"| duration | a whole number with `ms`, `s`, `m`, `h`, `d`, `w` or `y` (365 days); `0`; `never` where the key allows it |\n"
	"| list | `[a, b]`, or lines with `- `; a single value is a list with one item |\n"
	"| mode | octal digits, such as `\"0660\"` |\n"
	"\n"
	"Some keys must fit together. If only one of them is written, the default of the other\n"
	"follows it: with `inbox.max_claimed: 50` alone, `worker.claim_batch` and\n"
	"`inbox.max_in_flight` are 50. If both are written and do not fit, that is an error.\n";

static const char passed_on[] =
	"\n"
	"inboxd passes every other key of `kafka` to librdkafka, and every key of `postgres` to\n"
	"libpq. In an environment variable, underscores replace the dots of a name:\n"
	"`INBOXD_KAFKA_BOOTSTRAP_SERVERS`, `INBOXD_POSTGRES_SSLMODE`. A list becomes one text\n"
	"with commas. The library checks names and values. inboxd refuses a few names, because\n"
	"it must decide them itself; the error gives the reason. They are: in `kafka`\n"
	"`enable.auto.commit`, `enable.auto.offset.store`, `enable.partition.eof`,\n"
	"`transactional.id` and callbacks, in `postgres` `application_name`,\n"
	"`client_encoding` and `replication`. The default of `auto.offset.reset` is `earliest`. Another value counts for the\n"
	"partitions that exist when an entry of `kafka.topics` is used for the first time. A partition that is added later, or a topic that appears\n"
	"later, is read from its first record.\n"
	"At a reload, changes of `kafka.sasl.username`, `kafka.sasl.password` and\n"
	"`postgres.password` take effect when these values are read from files.\n";
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

/* Limits are shown for numbers only. Those of texts and lists are there to bound memory, and nobody meets them. */
static void add_type(struct buf *out, const struct option *option)
{
	char least[VALUE_TEXT_BYTES];
	char most[VALUE_TEXT_BYTES];

	for (size_t i = 0; option->words != NULL && option->words[i] != NULL; i++)
		buf_addf(out, "%s`%s`", i == 0 ? "" : ", ", option->words[i]);
	if (option->words == NULL)
		buf_add_str(out, type_names[option->type]);
	if (option->type != OPTION_INT && option->type != OPTION_SIZE &&
		option->type != OPTION_DURATION)
		return;
	value_text(option, option->min, least);
	value_text(option, option->max, most);
	buf_addf(out, ", %s to %s%s", least, most, option->never ? ", or `never`" : "");
}

/* Quotes a text that YAML would otherwise read as something else. */
static void add_scalar(struct buf *out, const char *text, size_t length)
{
	bool quoted = length == 0 || text[0] == '*' || text[0] == '{' || text[0] == '0';

	buf_add_str(out, quoted ? "\"" : "");
	buf_add(out, text, length);
	buf_add_str(out, quoted ? "\"" : "");
}

static void add_default(struct buf *out, const struct option *option)
{
	const char *text = option->text;

	if (!option_is_list(option)) {
		add_scalar(out, text, strlen(text));
		return;
	}
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

static void add_option(struct buf *out, const struct option *option, bool variable)
{
	buf_addf(out, "\n### `%s.%s`\n\n%s\n\n", option->section, option->key, option->help);
	buf_add_str(out, "- Type: ");
	add_type(out, option);
	buf_add_str(out, "\n- Default: ");
	if (option->hostname) {
		buf_add_str(out, "the host's name");
	} else if (option->general != NULL) {
		buf_addf(out, "the value of `%s.%s`", option->general, option->key);
	} else if (option_is_list(option) && option->text[0] == '\0' &&
		   section_has_scopes(options_section(option->section)) &&
		   strcmp(option->section, "topics") != 0) {
		buf_add_str(out, "all");
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

/* A file that a unit test loads, so that it can be copied. */
static void add_example(struct buf *out)
{
	buf_add_str(out, "\n## Every key with its default\n\n```yaml\n");
	for (const struct section *section = option_sections; section->name != NULL; section++) {
		bool per_topic = section->kind == SECTION_PER_TOPIC;

		buf_addf(out, "%s:\n%s", section->name, per_topic ? "  \"*\":\n" : "");
		if (strcmp(section->name, "kafka") == 0)
			buf_add_str(out, "  topics: [orders]\n  bootstrap.servers: localhost:9092\n"
					 "  group.id: billing\n");
		if (strcmp(section->name, "postgres") == 0)
			buf_add_str(out, "  dbname: billing\n");
		for (const struct option *option = option_table; option->section != NULL;
			option++) {
			/* kafka.topics and the host's name have no default that is right for all. */
			if (strcmp(option->section, section->name) != 0 || option->hostname ||
				section->kind == SECTION_OPEN ||
				section->kind == SECTION_PER_CONSUMER ||
				section->kind == SECTION_PER_HANDLER)
				continue;
			buf_addf(out, "%s%s: ", per_topic ? "    " : "  ", option->key);
			add_default(out, option);
			buf_add_char(out, '\n');
		}
	}
	buf_add_str(out, "```\n");
}

void options_markdown(struct buf *out)
{
	buf_add_str(out, preface);
	for (const struct section *section = option_sections; section->name != NULL; section++) {
		buf_addf(out, "\n## `%s`\n\n%s\n", section->name, section->help);
		for (const struct option *option = option_table; option->section != NULL;
			option++) {
			if (strcmp(option->section, section->name) == 0)
				add_option(out, option, !section_has_scopes(section));
		}
	}
	buf_add_str(out, "\n## Keys that are passed to a library\n");
	buf_add_str(out, passed_on);
	add_example(out);
}
