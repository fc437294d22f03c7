/*
 * `inboxd init`. See commands.h. The values are arguments (--set) for the check, and lines of YAML for the file. The
 * password is only an argument.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/load.h"
#include "config/sources/text.h"
#include "ops/commands.h"
#include "store/pg/connect/connect.h"

#define OWN_FILE "inboxd.yaml"

struct draft {
	struct strings set;   /* section.key=value */
	struct buf postgres;  /* lines of the file */
	const char *database; /* its name, among the texts of `set`; NULL: none was written */
	bool password;
};

static void draft_fini(struct draft *draft)
{
	strings_fini(&draft->set);
	buf_fini(&draft->postgres);
}

/* A value in single quotes, in which YAML knows no other special character. */
static void add_quoted(struct buf *out, const char *text)
{
	buf_add_char(out, '\'');
	for (; *text != '\0'; text++)
		buf_addf(out, *text == '\'' ? "''" : "%c", *text);
	buf_add_char(out, '\'');
}

static int check_text(const char *text, struct err *err)
{
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return err_set(err, FAULT_USAGE,
				"an argument contains a control character; write it without");
	}
	return 0;
}

static int set(struct draft *draft, const char *key, const char *value, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	buf_addf(&text, "%s=%s", key, value);
	return buf_ok(&text) ? strings_add(&draft->set, buf_str(&text), text.length, err)
			     : err_memory(err);
}

static int add_keyword(const char *keyword, const char *value, void *arg, struct err *err)
{
	struct draft *draft = arg;
	char key[128];
	int r = check_text(value, err);

	(void)snprintf(key, sizeof(key), "postgres.%s", keyword);
	if (r == 0)
		r = set(draft, key, value, err);
	if (r != 0)
		return r;
	if (strcmp(keyword, "dbname") == 0)
		draft->database = strchr(draft->set.items[draft->set.count - 1], '=') + 1;
	if (strcmp(keyword, "password") == 0 || strcmp(keyword, "sslpassword") == 0) {
		draft->password = true;
		return 0;
	}
	buf_addf(&draft->postgres, "  %s: ", keyword);
	add_quoted(&draft->postgres, value);
	buf_add_char(&draft->postgres, '\n');
	return 0;
}

static int read_arguments(struct draft *draft, const struct cli *cli, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < 3 && r == 0; i++)
		r = check_text(cli->words[i], err);
	if (r == 0)
		r = connect_parse(cli->words[2], add_keyword, draft, err);
	if (r == 0)
		r = set(draft, "kafka.topics", cli->words[0], err);
	if (r == 0)
		r = set(draft, "kafka.bootstrap.servers", cli->words[1], err);
	if (r == 0)
		r = set(draft, "kafka.group.id",
			draft->database != NULL ? draft->database : "inboxd", err);
	for (size_t i = 0; i < cli->set_count && r == 0; i++)
		r = strings_add(&draft->set, cli->set[i], strlen(cli->set[i]), err);
	return r;
}

/* Prints what the check finds. 0: both servers can be reached. */
static int try_servers(const struct draft *draft, struct err *err)
{
	CLEANUP(config_freep) struct config *config = NULL;
	const struct config_sources sources = {
		.set = (const char *const *)draft->set.items,
		.set_count = draft->set.count,
	};
	int r = config_load(&config, &sources, err);

	return r != 0 ? r : check_servers(config);
}

static void add_file(struct buf *out, struct draft *draft, const struct cli *cli)
{
	buf_add_str(out,
		"# Written by `inboxd init`. All keys: docs/configuration.md.\n"
		"kafka:\n"
		"  # The topics to read; a name that begins with ^ is a regular expression.\n"
		"  topics: [");
	add_quoted(out, cli->words[0]);
	buf_add_str(out, "]\n  bootstrap.servers: ");
	add_quoted(out, cli->words[1]);
	buf_add_str(out,
		"\n"
		"  # The name of your service. All its sidecars have the same; do not change "
		"it later.\n"
		"  group.id: ");
	add_quoted(out, draft->database != NULL ? draft->database : "inboxd");
	buf_add_str(out, "\n"
			 "  # Every other key of librdkafka can follow, for example:\n"
			 "  # security.protocol: sasl_ssl\n"
			 "  # sasl.username: billing\n"
			 "  # sasl.password: file:/run/secrets/kafka-password\n"
			 "\n"
			 "# The database of your service: keywords of libpq.\n"
			 "postgres:\n");
	buf_add_str(out, draft->postgres.length == 0 ? "  {}\n" : buf_str(&draft->postgres));
	buf_add_str(out,
		"  # password: file:/run/secrets/postgres-password\n"
		"\n"
		"# Where to find the event id: locations, tried in order. A location is\n"
		"# header:NAME, key or json:/POINTER.\n"
		"# topics:\n"
		"#   \"*\":\n"
		"#     id: [header:id, json:/event_id]\n"
		"\n"
		"# socket:\n"
		"#   path: /run/inboxd/inbox.sock   # where handlers connect; its directory must "
		"exist\n"
		"# http:\n"
		"#   listen: 127.0.0.1:9464         # /metrics, /readyz, /status, /config\n");
}

static int write_file(const char *path, bool force, const struct buf *text, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0640);
	bool written;

	if (fd < 0 && errno == EEXIST)
		return err_set(err, FAULT_USAGE,
			"%s exists, and was not changed: give another file with --config, or "
			"--force",
			path);
	if (fd < 0)
		return err_set(err, FAULT_USAGE, "cannot write %s: %s", path, strerror(errno));
	written = write(fd, text->data, text->length) == (ssize_t)text->length;
	if (close(fd) == 0 && written)
		return 0;
	return err_set(err, FAULT_USAGE, "cannot write %s: %s", path, strerror(errno));
}

static void print_next(const char *path, bool password)
{
	(void)printf("wrote   %s\n\n", path);
	if (password)
		(void)puts("The password was not written: set PGPASSWORD, or postgres.password to "
			   "file:/PATH.\n");
	(void)printf("Next:\n"
		     "  inboxd migrate -c %s    creates the schema\n"
		     "  inboxd check -c %s      tests everything that `run` needs\n"
		     "  inboxd run -c %s\n",
		path, path, path);
}

int command_init(const struct cli *cli, struct err *err)
{
	CLEANUP(draft_fini) struct draft draft = { .postgres = BUF_INIT };
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const char *path = cli_config_file(cli, getenv("INBOXD_CONFIG"), OWN_FILE);
	int r;

	if (cli->word_count < 3)
		return err_set(err, FAULT_USAGE,
			"init needs a topic, a broker and a database: inboxd init orders "
			"localhost:9092 postgres://billing@localhost/billing");
	if (path == NULL)
		path = OWN_FILE;
	if (!cli->force && access(path, F_OK) == 0)
		return err_set(err, FAULT_USAGE,
			"%s exists, and was not changed: give another file with --config, or "
			"--force",
			path);
	r = read_arguments(&draft, cli, err);
	if (r == 0)
		r = try_servers(&draft, err);
	if (r != 0 && (!cli->force || err->text[0] != '\0')) {
		(void)puts("no file was written");
		return r;
	}
	add_file(&text, &draft, cli);
	r = buf_ok(&text) && buf_ok(&draft.postgres) ? write_file(path, cli->force, &text, err)
						     : err_memory(err);
	if (r == 0)
		print_next(path, draft.password);
	return r;
}
