/*
 * `inboxd init`. See commands.h. The values are arguments (--set) for the check, which also reads the environment, because a
 * password is often there. The file has what these arguments have set in the configuration that was checked, without secrets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/load.h"
#include "config/show.h"
#include "config/sources/config_entries.h"
#include "config/sources/strings.h"
#include "ops/commands.h"
#include "store/pg/connect/connect.h"

#define OWN_FILE "inboxd.yaml"

struct config_draft {
	struct strings set;     /* section.key=value */
	const char *database;   /* its name, among the texts of `set`; NULL: none was written */
	struct config *config;  /* loaded from `set`; NULL: not yet */
	struct buf not_written; /* the keys of secrets, separated by commas */
};

static void draft_fini(struct config_draft *draft)
{
	strings_fini(&draft->set);
	config_free(draft->config);
	buf_fini(&draft->not_written);
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

static int set(struct config_draft *draft, const char *key, const char *value, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	buf_addf(&text, "%s=%s", key, value);
	return buf_ok(&text) ? strings_add(&draft->set, buf_str(&text), text.length, err)
			     : err_memory(err);
}

static int add_keyword(const char *keyword, const char *value, void *arg, struct err *err)
{
	struct config_draft *draft = arg;
	char key[128];
	int r = check_text(value, err);

	(void)snprintf(key, sizeof(key), "postgres.%s", keyword);
	if (r == 0)
		r = set(draft, key, value, err);
	if (r != 0)
		return r;
	if (strcmp(keyword, "dbname") == 0)
		draft->database = strchr(draft->set.items[draft->set.count - 1], '=') + 1;
	return 0;
}

static int read_arguments(struct config_draft *draft, const struct cli *cli, struct err *err)
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
		r = check_text(cli->set[i], err);
	for (size_t i = 0; i < cli->set_count && r == 0; i++)
		r = strings_add(&draft->set, cli->set[i], strlen(cli->set[i]), err);
	return r;
}

static void print_warnings(const struct strings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		(void)printf("warning %s\n", warnings->items[i]);
}

/* Prints what the check finds. 0: both servers can be reached. */
static int try_servers(
	struct config_draft *draft, const struct config_sources *given, struct err *err)
{
	CLEANUP(strings_fini) struct strings ignored = { NULL, 0 };
	struct config_sources sources = *given;
	int r;

	sources.file = NULL;
	sources.set = (const char *const *)draft->set.items;
	sources.set_count = draft->set.count;
	sources.warnings_on_failure = &ignored;
	r = config_load(&draft->config, &sources, err);
	print_warnings(r != 0 ? &ignored : &draft->config->warnings);
	return r != 0 ? r : check_servers(draft->config);
}

/* --- The file ---------------------------------------------------------------------------------- */

/* What is written above a key or a section. */
static const struct {
	const char *above; /* of a section with a colon */
	const char *text;
} comments[] = {
	{ "kafka.topics",
		"  # The topics to read; a name that begins with ^ is a regular expression.\n" },
	{ "kafka.group.id",
		"  # The name of your service. All its sidecars have the same; do not change it "
		"later.\n" },
	{ "postgres:", "\n# The database of your service: keywords of libpq.\n" },
};

static const char hints[] =
	"\n"
	"# Every other key of librdkafka can be in the section kafka, for example:\n"
	"#   security.protocol: sasl_ssl\n"
	"#   sasl.username: billing\n"
	"#   sasl.password: file:/run/secrets/kafka-password\n"
	"# Back at once after a crash (docs/deployment.md, static members): a name that only this "
	"sidecar has, and keeps.\n"
	"#   group.instance.id: billing-0\n"
	"# The password of PostgreSQL, in the section postgres:\n"
	"#   password: file:/run/secrets/postgres-password\n"
	"\n";

/* A section to uncomment: only where the file does not have it, because a section can be there once. */
static const struct {
	const char *section;
	const char *text;
} examples[] = {
	{ "topics", "# Where to find the event id: locations, tried in order. A location is "
		    "header:NAME, "
		    "key or json:/POINTER.\n"
		    "# topics:\n"
		    "#   \"*\":\n"
		    "#     id: [header:id, json:/event_id]\n"
		    "\n" },
	{ "socket",
		"# socket:\n"
		"#   path: /run/inboxd/inbox.sock   # where handlers connect; its directory must "
		"exist\n" },
	{ "http", "# http:\n"
		  "#   listen: 127.0.0.1:9464         # /metrics, /readyz, /status, /config\n" },
};

static void add_comment(struct buf *out, const char *above)
{
	for (size_t i = 0; i < sizeof(comments) / sizeof(comments[0]); i++) {
		if (strcmp(comments[i].above, above) == 0)
			buf_add_str(out, comments[i].text);
	}
}

static void add_value(struct buf *out, const struct config_entry *entry)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT;

	if (entry->file != NULL) {
		buf_addf(&file, "file:%s", entry->file);
		add_quoted(out, buf_str(&file));
		return;
	}
	buf_add_str(out, entry->list ? "[" : "");
	for (size_t i = 0; i < entry->texts.count; i++) {
		buf_add_str(out, i == 0 ? "" : ", ");
		add_quoted(out, entry->texts.items[i]);
	}
	buf_add_str(out, entry->list ? "]" : "");
}

static bool was_given(const struct config_entry *entry, const struct section *section)
{
	return entry->section == section && strncmp(entry->origin, "--set", 5) == 0;
}

static bool is_same_scope(const struct config_entry *a, const struct config_entry *b)
{
	return a->scope == NULL || b->scope == NULL ? a->scope == b->scope
						    : strcmp(a->scope, b->scope) == 0;
}

/* A secret is written only if its value is in a file. */
static void add_entry(struct buf *out, struct config_draft *draft, const struct config_entry *entry)
{
	const char *text = entry->texts.count == 0 ? "" : entry->texts.items[0];

	if (entry->option == NULL && entry->file == NULL && config_is_secret(entry->name, text)) {
		buf_addf(&draft->not_written, "%s%s", draft->not_written.length == 0 ? "" : ", ",
			entry->path);
		return;
	}
	add_comment(out, entry->path);
	buf_add_str(out, entry->scope == NULL ? "  " : "    ");
	if (entry->name[strspn(entry->name, "abcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0')
		buf_add_str(out, entry->name);
	else
		add_quoted(out, entry->name);
	buf_add_str(out, ": ");
	add_value(out, entry);
	buf_add_char(out, '\n');
}

/* The keys with the scope of the entry at `first`, if that is the first one of them. */
static void add_scope(
	struct buf *out, struct config_draft *draft, const struct section *section, size_t first)
{
	const struct config_entries *entries = draft->config->entries;
	const struct config_entry *named = &entries->items[first];

	for (size_t i = 0; i < first; i++) {
		if (was_given(&entries->items[i], section) &&
			is_same_scope(&entries->items[i], named))
			return;
	}
	if (named->scope != NULL) {
		buf_add_str(out, "  ");
		add_quoted(out, named->scope);
		buf_add_str(out, ":\n");
	}
	for (size_t i = first; i < entries->count; i++) {
		if (was_given(&entries->items[i], section) &&
			is_same_scope(&entries->items[i], named))
			add_entry(out, draft, &entries->items[i]);
	}
}

static void add_section(struct buf *out, struct config_draft *draft, const struct section *section)
{
	const struct config_entries *entries = draft->config->entries;
	CLEANUP(buf_fini) struct buf keys = BUF_INIT;
	CLEANUP(buf_fini) struct buf title = BUF_INIT;

	for (size_t i = 0; i < entries->count; i++) {
		if (was_given(&entries->items[i], section))
			add_scope(&keys, draft, section, i);
	}
	if (keys.length == 0)
		return;
	buf_addf(&title, "%s:", section->name);
	add_comment(out, buf_str(&title));
	buf_addf(out, "%s\n%s", buf_str(&title), buf_str(&keys));
	if (!buf_ok(&keys) || !buf_ok(&title))
		out->broken = true;
}

static bool has_section(const struct config_draft *draft, const char *name)
{
	const struct config_entries *entries = draft->config->entries;

	for (size_t i = 0; i < entries->count; i++) {
		const struct config_entry *entry = &entries->items[i];

		if (strcmp(entry->section->name, name) == 0 && was_given(entry, entry->section))
			return true;
	}
	return false;
}

static void add_file(struct buf *out, struct config_draft *draft)
{
	buf_add_str(out, "# Written by `inboxd init`. All keys: docs/configuration.md.\n");
	for (const struct section *section = option_sections; section->name != NULL; section++)
		add_section(out, draft, section);
	buf_add_str(out, hints);
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		if (!has_section(draft, examples[i].section))
			buf_add_str(out, examples[i].text);
	}
}

static int exists(const char *path, struct err *err)
{
	return err_set(err, FAULT_USAGE,
		"%s exists, and was not changed: give another file with --config, or --force",
		path);
}

static int write_all(int fd, const struct buf *text)
{
	size_t done = 0;

	while (done < text->length) {
		ssize_t n = write(fd, text->data + done, text->length - done);

		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return fsync(fd);
}

/* A file with `force` keeps its mode. */
static int set_mode(int fd, const char *path)
{
	struct stat old;

	return fchmod(fd, stat(path, &old) == 0 ? old.st_mode & 07777 : 0640);
}

static int put_in_place(const char *made, const char *path, bool force)
{
	if (force)
		return rename(made, path);
	return link(made, path) == 0 ? unlink(made) : -1;
}

/* The file is complete or absent: it is written under another name first. */
static int write_file(const char *path, bool force, const struct buf *text, struct err *err)
{
	CLEANUP(buf_fini) struct buf name = BUF_INIT;
	char *made;
	int error;
	int fd;

	buf_addf(&name, "%s.XXXXXX", path);
	(void)buf_str(&name);
	if (!buf_ok(&name))
		return err_memory(err);
	made = name.data;
	fd = mkostemp(made, O_CLOEXEC);
	if (fd < 0)
		return err_set(err, FAULT_USAGE, "cannot write %s: %s", path, strerror(errno));
	if (set_mode(fd, path) == 0 && write_all(fd, text) == 0 && close(fd) == 0) {
		if (put_in_place(made, path, force) == 0)
			return 0;
		error = errno;
	} else {
		error = errno;
		(void)close(fd);
	}
	(void)unlink(made);
	if (error == EEXIST)
		return exists(path, err);
	return err_set(err, FAULT_USAGE, "cannot write %s: %s", path, strerror(error));
}

/* Prints variables of the environment. `lacking`: those of passed-on keys that the file lacks; otherwise those whose keys
 * are or could be in the file. */
static void print_variables(const struct config_draft *draft, const struct config *config,
	bool lacking, const char *title)
{
	bool first = true;

	for (size_t i = 0; i < config->entries->count; i++) {
		const struct config_entry *entry = &config->entries->items[i];
		const struct config_entry *checked =
			config_entries_same(draft->config->entries, entry);
		const char *variable = entry->origin + strlen("env ");
		bool lacks = entry->option == NULL &&
			     (checked == NULL || !was_given(checked, checked->section));

		if (strncmp(entry->origin, "env ", strlen("env ")) != 0 || lacks != lacking)
			continue;
		(void)printf("%s%.*s (%s)", first ? title : ", ", (int)strcspn(variable, " "),
			variable, entry->path);
		first = false;
	}
	(void)fputs(first ? "" : ".\n\n", stdout);
}

/* The variables of the environment that inboxd would read instead of the file, or in addition to it. */
static void print_environment(
	const struct config_draft *draft, const struct config_sources *given, const char *path)
{
	CLEANUP(config_freep) struct config *config = NULL;
	struct config_sources sources = *given;
	struct err ignored = ERR_INIT; /* `check` reports a wrong variable */

	sources.file = path;
	sources.set_count = 0;
	if (config_load(&config, &sources, &ignored) != 0)
		return;
	print_variables(draft, config, false,
		"These variables of the environment take precedence over the file: ");
	print_variables(draft, config, true,
		"The file lacks what these variables of the environment say; inboxd needs them "
		"later, too: ");
}

static void print_next(
	const char *path, struct config_draft *draft, const struct config_sources *sources)
{
	(void)printf("wrote   %s\n\n", path);
	if (draft->not_written.length > 0)
		(void)printf("Secrets were not written: %s. Add each as file:/PATH, or set the "
			     "variable of the environment for it.\n\n",
			buf_str(&draft->not_written));
	print_environment(draft, sources, path);
	(void)printf("Next:\n"
		     "  inboxd migrate --roles -c %s    creates the schema and its roles; for a "
		     "second service on the server, --roles=PREFIX\n"
		     "  inboxd check -c %s      tests everything that `run` needs\n"
		     "  inboxd run -c %s\n\n",
		path, path, path);
	(void)puts(
		"`migrate` needs the owner of the database, with CREATEROLE; `run` only the role "
		"inboxd_sidecar (with --roles=PREFIX, which a second\nservice on the server needs: "
		"PREFIX_sidecar). Give `run` a user of its own, and write it into the file:\n"
		"  CREATE ROLE SIDECAR_USER LOGIN PASSWORD '…' IN ROLE inboxd_sidecar;\n"
		"`migrate` then gets the owner with INBOXD_POSTGRES_USER and "
		"INBOXD_POSTGRES_PASSWORD.");
}

int command_init(const struct cli *cli, const struct config_sources *sources, struct err *err)
{
	CLEANUP(draft_fini) struct config_draft draft = { .not_written = BUF_INIT };
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
		return exists(path, err);
	r = read_arguments(&draft, cli, err);
	if (r == 0)
		r = try_servers(&draft, sources, err);
	if (draft.config == NULL || (r != 0 && !cli->force)) {
		(void)puts("no file was written");
		return r;
	}
	add_file(&text, &draft);
	r = buf_ok(&text) && buf_ok(&draft.not_written) ? write_file(path, cli->force, &text, err)
							: err_memory(err);
	if (r == 0)
		print_next(path, &draft, sources);
	return r;
}
