/* Tables of names, and the few words secrets are recognised by. */
#include "config/passed.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct refused {
	const char *section;
	const char *name; /* a '*' in front: the end of a name */
	const char *why;
};

#define OURS "is decided by inboxd: "

static const char offsets[] =
	OURS "offsets are committed only after the database has the messages; remove it";
static const char partition_end[] =
	OURS "it has its own way to see the end of a partition; remove it";
static const char transactions[] =
	OURS "dead messages are produced without Kafka transactions; remove it";
static const char not_text[] =
	"is for programs that use librdkafka and cannot be configured; remove it";
static const char session_name[] =
	OURS "its sessions are named inboxd/<id>, and those of a dead instance are found by it; "
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

static const char *const secret_words[] = { "password", "secret", "token", "passfile", "key.pem",
	"jaas", "oauthbearer.config" };

static bool name_fits(const char *pattern, const char *name)
{
	size_t end = strlen(pattern) - 1;
	size_t length = strlen(name);

	if (pattern[0] != '*')
		return strcmp(pattern, name) == 0;
	return length >= end && strcmp(name + length - end, pattern + 1) == 0;
}

static bool has_control(const char *name)
{
	for (; *name != '\0'; name++) {
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			return true;
	}
	return false;
}

const char *passed_refusal(const char *section, const char *name)
{
	if (has_control(name))
		return "holds a control character, which no name has";
	for (size_t i = 0; i < COUNT(refused); i++) {
		if (strcmp(refused[i].section, section) == 0 && name_fits(refused[i].name, name))
			return refused[i].why;
	}
	return NULL;
}

bool passed_is_secret(const char *name)
{
	for (size_t i = 0; i < COUNT(secret_words); i++) {
		if (strcasestr(name, secret_words[i]) != NULL)
			return true;
	}
	return false;
}

/* A connection string as a value, such as postgres.dbname may be, can carry a password. */
bool passed_holds_secret(const char *text)
{
	const char *authority = strstr(text, "://");

	if (strcasestr(text, "password") != NULL)
		return true;
	return authority != NULL && strchr(authority, '@') != NULL;
}

bool passed_is_read_again(const char *section, const char *name)
{
	return strcmp(section, "postgres") == 0 || strcmp(name, "sasl.username") == 0 ||
	       strcmp(name, "sasl.password") == 0;
}

/* librdkafka puts dots between words, libpq underscores. */
static const char *usual_name(
	const struct section *section, const char *suffix, struct buf *scratch)
{
	char between = strcmp(section->name, "kafka") == 0 ? '.' : '_';

	buf_reset(scratch);
	for (; *suffix != '\0'; suffix++)
		buf_add_char(
			scratch, *suffix == '_' ? between : (char)tolower((unsigned char)*suffix));
	return buf_str(scratch);
}

const char *passed_from_variable(const struct section *section, const char *const *known,
	const char *suffix, struct buf *scratch)
{
	if (known == NULL)
		return usual_name(section, suffix, scratch);
	for (; *known != NULL; known++) {
		if (options_same_variable(*known, suffix))
			return *known;
	}
	return NULL;
}
