/*
 * Each rule is a row of a table or a function. config_validate() calls them in order and reports the
 * first that is broken.
 */
#include "config/validate.h"

#include <regex.h>
#include <string.h>
#include <strings.h>

#include "config/sources/config_entries.h"
#include "config/sources/nearest.h"
#include "config/sources/strings.h"

struct key_name {
	const char *section;
	const char *name;
};

/* The number under `low` must not be above that under `high`. */
/* clang-format off */
static const struct {
	struct key_name low;
	struct key_name high;
	const char *why;
} pairs[] = {
	{ { "worker", "claim_batch" }, { "inbox", "max_claimed" },
		"one claim must fit into memory" },
	{ { "inbox", "max_in_flight" }, { "inbox", "max_claimed" },
		"delivered messages are claimed, too" },
	{ { "retry", "backoff" }, { "retry", "backoff_max" },
		"no delay can be longer than the maximum" },
};
/* clang-format on */

static struct config_entry *entry_of(const struct config *config, struct key_name key)
{
	return config_entries_find(config->entries, key.section, NULL, key.name);
}

static int64_t *number_of(struct config *config, const struct config_entry *entry)
{
	return (int64_t *)((char *)config + entry->option->offset);
}

/* Gives a default the number of the key that it does not fit to. */
static int give_way(struct config *config, struct config_entry *entry,
	const struct config_entry *to, struct err *err)
{
	CLEANUP(strings_fini) struct strings texts = { NULL, 0 };
	struct strings before = entry->texts;
	char *origin = NULL;
	int r = strings_add_all(&texts, &to->texts, err);

	if (r == 0)
		r = string_format(&origin, err, "default (as %s)", to->path);
	if (r < 0)
		return r;
	*number_of(config, entry) = *number_of(config, to);
	entry->texts = texts;
	texts = before;
	free(entry->origin);
	entry->origin = origin;
	return 0;
}

/* A default gives way to a written value; two written values that do not fit are an error. A pair that
 * fits is not broken by a later one: the numbers of `low` only fall here, those of `high` only rise. */
static int check_pairs(struct config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && r == 0; i++) {
		struct config_entry *low = entry_of(config, pairs[i].low);
		struct config_entry *high = entry_of(config, pairs[i].high);

		if (*number_of(config, low) <= *number_of(config, high))
			continue;
		if (low->standard)
			r = give_way(config, low, high, err);
		else if (high->standard)
			r = give_way(config, high, low, err);
		else
			r = err_set(err, FAULT_CONFIG,
				"%s: %s is %s, above %s, which is %s (%s); %s: lower the one or "
				"raise the other",
				low->origin, low->path, low->texts.items[0], high->path,
				high->texts.items[0], high->origin, pairs[i].why);
	}
	return r;
}

/* A batch is closed once it is large enough, so that one more record can be in it, and PostgreSQL takes no
 * statement of a gigabyte. The remaining room is for keys, headers and ids. */
static int check_statement_size(struct config *config, struct err *err)
{
	const struct config_entry *batch =
		entry_of(config, (struct key_name){ "ingest", "batch_bytes" });
	const struct config_entry *record =
		entry_of(config, (struct key_name){ "ingest", "max_payload" });
	int64_t most = 768LL << 20;

	if (config->ingest.batch_bytes + config->ingest.max_payload <= most)
		return 0;
	return err_set(err, FAULT_CONFIG,
		"%s: ingest.batch_bytes is %s and ingest.max_payload is %s (%s), together above "
		"768MiB; both go into one statement, and PostgreSQL accepts none of 1 GB: lower "
		"one "
		"of them",
		batch->origin, batch->texts.items[0], record->texts.items[0], record->origin);
}

/* What Kafka cannot do without; the second name is an older alias in librdkafka. A sidecar that only publishes events
 * reads no topics. */
static const struct {
	const char *name;
	const char *alias;
	const char *example;
	const char *variable;
} required[] = {
	{ "topics", "topics", "topics: [orders]", "INBOXD_KAFKA_TOPICS" },
	{ "bootstrap.servers", "metadata.broker.list", "bootstrap.servers: localhost:9092",
		"INBOXD_KAFKA_BOOTSTRAP_SERVERS" },
	{ "group.id", "group.id", "group.id: billing", "INBOXD_KAFKA_GROUP_ID" },
};

static bool is_set(const struct config *config, const char *name)
{
	const struct config_entry *entry =
		config_entries_find(config->entries, "kafka", NULL, name);

	return entry != NULL && entry->texts.count > 0 && entry->texts.items[0][0] != '\0';
}

/* The entry whose name is nearest to a missing one, of those that are passed on to librdkafka: it accepts
 * some unknown names, so that only the missing key shows the mistake. NULL when none is near. */
static const struct config_entry *mistyped(const struct config *config, const char *name)
{
	const struct config_entry *best = NULL;
	struct nearest nearest;

	nearest_start(&nearest, name);
	for (size_t i = 0; i < config->entries->count; i++) {
		const struct config_entry *entry = &config->entries->items[i];

		if (entry->option != NULL || entry->standard ||
			strcmp(entry->section->name, "kafka") != 0 ||
			strcmp(entry->name, name) == 0)
			continue;
		nearest_offer(&nearest, entry->name);
		if (nearest.best == entry->name)
			best = entry;
	}
	return best;
}

static int check_required(const struct config *config, struct err *err)
{
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		const char *name = required[i].name;
		const struct config_entry *instead;

		if (is_set(config, name) || is_set(config, required[i].alias) ||
			(strcmp(name, "topics") == 0 && config_sends_only(config)))
			continue;
		instead = mistyped(config, name);
		if (instead != NULL)
			return err_set(err, FAULT_CONFIG,
				"kafka.%s is not set; %s sets %s: if that is what is meant, "
				"correct the name",
				name, instead->origin, instead->path);
		return err_set(err, FAULT_CONFIG,
			"kafka.%s is not set; write \"%s\" under \"kafka:\" in the configuration "
			"file (-c FILE or INBOXD_CONFIG names it), or set %s",
			name, required[i].example, required[i].variable);
	}
	return 0;
}

/* Whether one of the names or regular expressions in kafka.topics matches a topic. */
static bool is_read(const struct config *config, const char *topic)
{
	bool read = false;

	for (size_t i = 0; i < config->kafka_topics.count && !read; i++) {
		const char *pattern = config->kafka_topics.items[i];
		regex_t regex;

		if (pattern[0] != '^') {
			read = strcmp(pattern, topic) == 0;
		} else if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0) {
			read = regexec(&regex, topic, 0, NULL, 0) == 0;
			regfree(&regex);
		}
	}
	return read;
}

/* Without this rule a message that dies once would be stored, die and be produced again without end. */
static int check_dead_topic(const struct config *config, struct err *err)
{
	const struct config_entry *entry =
		entry_of(config, (struct key_name){ "retry", "dead_topic" });

	if (entry == NULL || config->retry.dead_topic[0] == '\0' ||
		!is_read(config, config->retry.dead_topic))
		return 0;
	return err_set(err, FAULT_CONFIG,
		"%s: %s: \"%s\" is also read by kafka.topics, so dead messages would come back; "
		"name another topic",
		entry->origin, entry->path, config->retry.dead_topic);
}

/* --- The token for the brokers ----------------------------------------------------------------------- */

/* The value of a key that is passed on to librdkafka, under its name or its older alias; "" when it is not set. */
static const char *passed_on(const struct config *config, const char *name, const char *alias)
{
	for (size_t i = config->kafka.count; i > 0; i--) {
		const struct setting *setting = &config->kafka.items[i - 1];

		if (strcmp(setting->name, name) == 0 || strcmp(setting->name, alias) == 0)
			return setting->value;
	}
	return "";
}

/* The sources of librdkafka itself. */
static bool has_other_token(const struct config *config)
{
	static const char oidc[] = "sasl.oauthbearer.method";
	static const char unsecured[] = "enable.sasl.oauthbearer.unsecure.jwt";
	const char *value = passed_on(config, unsecured, unsecured);

	return strcasecmp(passed_on(config, oidc, oidc), "oidc") == 0 ||
	       strcasecmp(value, "true") == 0 || strcasecmp(value, "t") == 0 ||
	       strcmp(value, "1") == 0;
}

/* The texts are not printed: `file:/path` has put the token there. */
static int check_token_path(const struct config *config, struct err *err)
{
	const bool command = config->kafka_oauth_token_command.count > 0;
	const char *key = command ? "oauth_token_command" : "oauth_token_file";
	const struct config_entry *entry = entry_of(config, (struct key_name){ "kafka", key });
	const char *path = command ? config->kafka_oauth_token_command.items[0]
				   : config->kafka_oauth_token_file;

	/* One item with a blank is a command line, whose arguments nobody would hide. */
	if (config->kafka_oauth_token_command.count == 1 && strpbrk(path, " \t") != NULL)
		return err_set(err, FAULT_CONFIG,
			"%s: kafka.%s: write the program and its arguments as a list, such as "
			"[/program, argument]; a path with a space needs a link without one",
			entry->origin, key);
	if (path[0] == '/')
		return 0;
	return err_set(err, FAULT_CONFIG, "%s: kafka.%s: write an absolute path%s", entry->origin,
		key,
		command ? " of the program, which is not searched in PATH"
			: ", without \"file:\" in front of it");
}

/* Without a token librdkafka would wait for one for ever, and say nothing. */
static int check_token_is_needed(const struct config *config, bool has_token, struct err *err)
{
	const bool needed = strcasecmp(passed_on(config, "sasl.mechanism", "sasl.mechanisms"),
				    "OAUTHBEARER") == 0 &&
			    strncasecmp(passed_on(config, "security.protocol", ""), "sasl_",
				    strlen("sasl_")) == 0;

	if (has_token && !needed)
		return err_set(err, FAULT_CONFIG,
			"kafka.oauth_token_file and kafka.oauth_token_command need "
			"kafka.sasl.mechanism: OAUTHBEARER and kafka.security.protocol: sasl_ssl");
	if (has_token && has_other_token(config))
		return err_set(err, FAULT_CONFIG,
			"kafka.oauth_token_file and kafka.oauth_token_command cannot be combined "
			"with "
			"kafka.sasl.oauthbearer.method: oidc or "
			"kafka.enable.sasl.oauthbearer.unsecure.jwt: remove one of them");
	if (needed && !has_token && !has_other_token(config))
		return err_set(err, FAULT_CONFIG,
			"kafka.sasl.mechanism is OAUTHBEARER, but nothing gives the token: set "
			"kafka.oauth_token_file or kafka.oauth_token_command, or "
			"kafka.sasl.oauthbearer.method: oidc for an identity provider");
	return 0;
}

static int check_token(const struct config *config, struct err *err)
{
	const bool file = config->kafka_oauth_token_file[0] != '\0';
	const bool command = config->kafka_oauth_token_command.count > 0;
	int r;

	if (file && command)
		return err_set(err, FAULT_CONFIG,
			"kafka.oauth_token_file and kafka.oauth_token_command are both set; remove "
			"one of them");
	r = file || command ? check_token_path(config, err) : 0;
	return r == 0 ? check_token_is_needed(config, file || command, err) : r;
}

static bool is_consumer(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->consumer_count; i++) {
		if (strcmp(config->consumers[i].name, name) == 0)
			return true;
	}
	return false;
}

/* The consumer whose messages a SQL handler gets. */
static const char *consumer_of(const struct config *config, const struct sql_handler_rules *handler)
{
	if (handler->consumer[0] != '\0')
		return handler->consumer;
	return is_consumer(config, handler->name) ? handler->name : "";
}

/* True when both lists contain the same text, or both are empty. */
static bool share_one(const struct strings *a, const struct strings *b)
{
	for (size_t i = 0; i < a->count; i++) {
		for (size_t j = 0; j < b->count; j++) {
			if (strcmp(a->items[i], b->items[j]) == 0)
				return true;
		}
	}
	return a->count == 0 && b->count == 0;
}

/* What PostgreSQL decides, such as whether the function exists, is checked when the sidecar runs. */
static int check_handler_rules(const struct config *config, size_t at, struct err *err)
{
	const struct sql_handler_rules *handler = &config->handlers[at];
	const char *consumer = consumer_of(config, handler);

	if (handler->call[0] == '\0')
		return err_set(err, FAULT_CONFIG,
			"handlers.%s.call is not set; write the function: call: schema.function",
			handler->name);
	if (config->consumer_count > 0 && !is_consumer(config, consumer))
		return err_set(err, FAULT_CONFIG,
			"handlers.%s: there is no consumer \"%s\"; write a name that is listed "
			"under consumers: consumer: NAME",
			handler->name,
			handler->consumer[0] != '\0' ? handler->consumer : handler->name);
	if (config->consumer_count == 0 && consumer[0] != '\0')
		return err_set(err, FAULT_CONFIG,
			"handlers.%s.consumer: there is no consumer \"%s\"; list it under "
			"consumers, or remove the key",
			handler->name, consumer);
	for (size_t i = 0; i < at; i++) {
		const struct sql_handler_rules *other = &config->handlers[i];

		if (strcmp(consumer_of(config, other), consumer) == 0 &&
			share_one(&other->topics, &handler->topics) &&
			share_one(&other->types, &handler->types))
			return err_set(err, FAULT_CONFIG,
				"handlers.%s and handlers.%s want the same topic and type; give "
				"each message to one of them, or each handler a consumer of its "
				"own",
				other->name, handler->name);
	}
	return 0;
}

int config_validate(struct config *config, bool without_kafka, struct err *err)
{
	int r = check_pairs(config, err);

	for (size_t i = 0; i < config->handler_count && r == 0; i++)
		r = check_handler_rules(config, i, err);
	if (r == 0)
		r = check_statement_size(config, err);
	if (r == 0)
		r = check_dead_topic(config, err);
	if (r < 0 || without_kafka)
		return r;
	r = check_token(config, err);
	if (r == 0)
		r = check_required(config, err);
	/* Only a warning: rules can be shared by sidecars that read different topics. */
	for (size_t i = 0; i + 1 < config->topic_count && r == 0; i++) {
		const char *topic = config->topics[i].topic;

		if (!is_read(config, topic))
			r = strings_addf(&config->warnings, err,
				"topics.%s: rules for a topic that kafka.topics does not name",
				topic);
	}
	return r;
}
