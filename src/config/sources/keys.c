/* The names that inboxd refuses, the search for a key, and variables, which spell names differently. */
#include "config/sources/keys.h"

#include <ctype.h>
#include <string.h>

#include "config/options/value.h"
#include "config/sources/strings.h"

/* --- Names that are not passed on ------------------------------------------------------------------- */

/* Under these names a setting would break a promise of inboxd, or would have no effect. */
struct refused {
	const char *section;
	const char *name; /* '*' at its beginning stands for any beginning */
	const char *why;
};

#define OURS "is decided by inboxd: "

static const char offsets[] =
	OURS "offsets are committed only after the database has the messages; remove it";
static const char partition_end[] =
	OURS "it detects the end of a partition in another way; remove it";
static const char transactions[] =
	OURS "dead messages are produced without Kafka transactions; remove it";
static const char not_text[] =
	"is for programs that use librdkafka and cannot be configured; remove it";
static const char session_name[] =
	OURS "its sessions are named inboxd/<id>, so that those of a dead instance are found; "
	     "remove it (inbox.instance names this instance)";
static const char replication[] =
	"opens a session that cannot run the sidecar's statements; remove it";
static const char encoding[] = OURS "it speaks UTF-8 with PostgreSQL; remove it";

static const struct refused refused[] = {
	{ "kafka", "enable.auto.commit", offsets },
	{ "kafka", "enable.auto.offset.store", offsets },
	{ "kafka", "auto.commit.enable", offsets },
	{ "kafka", "offset.store.method", offsets },
	{ "kafka", "offset.store.path", offsets },
	{ "kafka", "enable.partition.eof", partition_end },
	{ "kafka", "transactional.id", transactions },
	{ "kafka", "enabled_events", not_text },
	{ "kafka", "opaque", not_text },
	{ "kafka", "default_topic_conf", not_text },
	{ "kafka", "*_cb", not_text },
	{ "postgres", "application_name", session_name },
	{ "postgres", "fallback_application_name", session_name },
	{ "postgres", "replication", replication },
	{ "postgres", "client_encoding", encoding },
};

/* Why a name cannot be passed on, as the rest of a sentence; NULL when it can. */
static const char *refusal(const char *section, const char *name)
{
	size_t length = strlen(name);

	for (const char *c = name; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "contains a control character, which no name has";
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const char *wanted = refused[i].name;
		const char *found = name;

		if (wanted[0] == '*') {
			wanted++;
			found += length > strlen(wanted) ? length - strlen(wanted) : 0;
		}
		if (strcmp(refused[i].section, section) == 0 && strcmp(wanted, found) == 0)
			return refused[i].why;
	}
	return NULL;
}

/* --- The key of a name ------------------------------------------------------------------------------ */

/* A dot is a frequent mistake: in --set the same key is written section.key. */
static int unknown_section(const struct written_key *written, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	if (strchr(written->section, '.') != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: there is no section \"%s\"; write the key under its section, without "
			"the dot",
			written->origin, written->section);
	nearest_start(&nearest, written->section);
	for (const struct section *section = option_sections; section->name != NULL; section++)
		nearest_offer(&nearest, section->name);
	nearest_hint(&nearest, hint);
	return err_set(err, FAULT_CONFIG, "%s: there is no section \"%s\"%s", written->origin,
		written->section, hint);
}

void key_offer_own(struct nearest *nearest, const char *section)
{
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section) == 0)
			nearest_offer(nearest, option->key);
	}
}

/* Names a near key of the section, else another section that has this key. */
static int unknown_key(const struct written_key *written, struct err *err)
{
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;
	const char *other = NULL;

	nearest_start(&nearest, written->name);
	key_offer_own(&nearest, written->section);
	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (other == NULL && strcmp(option->key, written->name) == 0)
			other = option->section;
	}
	nearest_hint(&nearest, hint);
	if (nearest.best == NULL && other != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: section \"%s\" has no key \"%s\"; it belongs under \"%s\"",
			written->origin, written->section, written->name, other);
	return err_set(err, FAULT_CONFIG, "%s: section \"%s\" has no key \"%s\"%s", written->origin,
		written->section, written->name, hint);
}

/* What people write who know other programs. */
static const struct {
	const char *section;
	const char *written;
	const char *name;
} often_written[] = {
	{ "kafka", "brokers", "bootstrap.servers" },
	{ "kafka", "servers", "bootstrap.servers" },
	{ "kafka", "topic", "topics" },
	{ "kafka", "group", "group.id" },
	{ "kafka", "consumer.group", "group.id" },
	{ "kafka", "username", "sasl.username" },
	{ "kafka", "user", "sasl.username" },
	{ "kafka", "password", "sasl.password" },
	{ "postgres", "database", "dbname" },
	{ "postgres", "db", "dbname" },
	{ "postgres", "username", "user" },
	{ "postgres", "hostname", "host" },
	{ "postgres", "url", "dbname" },
	{ "postgres", "uri", "dbname" },
	{ "postgres", "dsn", "dbname" },
	{ "postgres", "ssl", "sslmode" },
};

static void offer_often_written(struct nearest *nearest, const char *section)
{
	for (size_t i = 0; i < sizeof(often_written) / sizeof(often_written[0]); i++) {
		if (strcmp(often_written[i].section, section) == 0 &&
			strcasecmp(often_written[i].written, nearest->wanted) == 0)
			nearest_prefer(nearest, often_written[i].name);
	}
}

/* Names that are new in a librdkafka after 2.0.2, from the list of settings of each version. '*' at the end stands for any end. */
static const struct {
	const char *name;
	const char *version;
} later_names[] = {
	{ "client.dns.lookup", "2.2" },
	{ "fetch.queue.backoff.ms", "2.2" },
	{ "retry.backoff.max.ms", "2.3" },
	{ "group.protocol", "2.4" },
	{ "group.remote.assignor", "2.4" },
	{ "enable.metrics.push", "2.5" },
	{ "metadata.recovery.strategy", "2.10" },
	{ "metadata.recovery.rebootstrap.trigger.ms", "2.11" },
	{ "https.ca.location", "2.11" },
	{ "https.ca.pem", "2.11" },
	{ "sasl.oauthbearer.grant.type", "2.11" },
	{ "sasl.oauthbearer.client.credentials.*", "2.11" },
	{ "sasl.oauthbearer.assertion.*", "2.11" },
	{ "sasl.oauthbearer.metadata.authentication.type", "2.12" },
	{ "sasl.oauthbearer.sub.claim.name", "2.14" },
};

const char *key_first_version(const char *name)
{
	for (size_t i = 0; i < sizeof(later_names) / sizeof(later_names[0]); i++) {
		const char *known = later_names[i].name;
		size_t length = strcspn(known, "*");

		if (strncmp(known, name, length) == 0 &&
			(known[length] == '*' || name[length] == '\0'))
			return later_names[i].version;
	}
	return NULL;
}

/* The names that a section's library lists, ended by NULL; NULL when they were not given. */
static const char *const *listed_names(
	const struct config_sources *sources, const struct section *section)
{
	return strcmp(section->name, "kafka") == 0 ? sources->kafka_names : sources->postgres_names;
}

/* The library would refuse an unknown name itself, but later, and without the place and the nearest name. libpq
 * lists all its keywords. librdkafka also accepts names that it does not list, such as those of its plugins,
 * so that an unlisted name is only suspicious. */
static int check_listed(const struct section *section, const struct written_key *written,
	const struct config_sources *sources, struct strings *warnings, struct err *err)
{
	const char *const *listed = listed_names(sources, section);
	const char *since = section->listed ? NULL : key_first_version(written->name);
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;

	nearest_start(&nearest, written->name);
	for (; listed != NULL && *listed != NULL; listed++) {
		if (strcmp(*listed, written->name) == 0)
			return 0;
		nearest_offer(&nearest, *listed);
	}
	if (listed == NULL)
		return 0;
	key_offer_own(&nearest, section->name);
	offer_often_written(&nearest, section->name);
	nearest_hint(&nearest, hint);
	if (section->listed)
		return err_set(err, FAULT_CONFIG, "%s: section \"%s\" has no key \"%s\"%s",
			written->origin, section->name, written->name, hint);
	if (since != NULL)
		return strings_addf(warnings, err,
			"%s: %s.%s: this %s does not have this name; it needs %s %s",
			written->origin, section->name, written->name, section->library,
			section->library, since);
	return strings_addf(warnings, err, "%s: %s.%s: %s does not list this name%s",
		written->origin, section->name, written->name, section->library, hint);
}

static const char *check_scope(const struct section *section, const char *scope)
{
	if (scope == NULL)
		return NULL;
	if (section->kind == SECTION_PER_HANDLER)
		return check_handler(scope);
	return section->kind == SECTION_PER_CONSUMER ? check_consumer(scope)
						     : check_topic_rules(scope);
}

/* The order of the checks is from the outside in: section, scope, name. */
int key_find(struct key *out, const struct written_key *written,
	const struct config_sources *sources, struct strings *warnings, struct err *err)
{
	const struct section *section = options_section(written->section);
	const char *wrong;

	if (section == NULL)
		return unknown_section(written, err);
	if (written->name == NULL || written->name[0] == '\0')
		return err_set(err, FAULT_CONFIG,
			"%s: \"%s\" is a section; write its keys under it", written->origin,
			written->section);
	if (!section_has_scopes(section) && written->scope != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: %s.%s: a value is expected here, not keys; write it behind the key, "
			"and the dots of a name as they are",
			written->origin, written->section, written->scope);
	if (section->kind == SECTION_PER_CONSUMER && written->scope == NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: consumers.%s: keys are written under a consumer's name; write "
			"consumers, then the name, then the key",
			written->origin, written->name);
	if (section->kind == SECTION_PER_HANDLER && written->scope == NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: handlers.%s: keys are written under a handler's name; write handlers, "
			"then the name, then the key",
			written->origin, written->name);
	if (section->kind == SECTION_PER_TOPIC && written->scope == NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: topics.%s: rules are written under a topic's name, or \"*\" for all "
			"others; "
			"write topics, then the name, then the key",
			written->origin, written->name);
	wrong = check_scope(section, written->scope);
	if (wrong != NULL)
		return err_set(err, FAULT_CONFIG, "%s: %s: \"%s\" %s", written->origin,
			section->name, written->scope, wrong);
	*out = (struct key){
		.section = section,
		.option = options_find(section->name, written->name),
		.scope = written->scope,
		.name = written->name,
	};
	if (out->option != NULL)
		return 0;
	if (section->kind != SECTION_OPEN)
		return unknown_key(written, err);
	wrong = refusal(section->name, written->name);
	if (wrong != NULL)
		return err_set(err, FAULT_CONFIG, "%s: %s.%s %s", written->origin, section->name,
			written->name, wrong);
	return check_listed(section, written, sources, warnings, err);
}

/* --- Variables -------------------------------------------------------------------------------------- */

/* An upper-case name with underscores does not say where the dots were. The lists of the libraries do, so the
 * usual form is only a guess for callers without them, such as unit tests. */
const char *key_of_variable(const struct section *section, const char *suffix,
	const struct config_sources *sources, struct buf *scratch)
{
	const char *const *listed = listed_names(sources, section);
	/* librdkafka separates words by dots, libpq by underscores. */
	char between = strcmp(section->name, "kafka") == 0 ? '.' : '_';

	for (const struct option *option = option_table; option->section != NULL; option++) {
		if (strcmp(option->section, section->name) == 0 &&
			options_same_variable(option->key, suffix))
			return option->key;
	}
	if (section->kind != SECTION_OPEN || suffix[0] == '\0')
		return NULL;
	for (; listed != NULL && *listed != NULL; listed++) {
		if (options_same_variable(*listed, suffix))
			return *listed;
	}
	if (listed != NULL)
		return NULL;
	buf_reset(scratch);
	for (const char *c = suffix; *c != '\0'; c++)
		buf_add_char(scratch, *c == '_' ? between : (char)tolower((unsigned char)*c));
	return buf_str(scratch);
}
