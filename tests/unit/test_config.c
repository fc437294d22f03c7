/*
 * Loading: the values of every layer, their precedence and origins, errors and their texts, and
 * masked values. Reloading: test_config_reload.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/text/utf8.h"
#include "config/sources/config_entries.h"
#include "config_world.h"

static const char *const kafka_names[] = { "bootstrap.servers", "group.id", "enable.auto.commit",
	"ssl.ca.location", "sasl.password", "metadata.broker.list", "auto.offset.reset", NULL };
static const char *const postgres_names[] = { "dbname", "host", "port", "password",
	"connect_timeout", NULL };

static void knows_the_libraries_names(struct world *world)
{
	world->sources.kafka_names = kafka_names;
	world->sources.postgres_names = postgres_names;
}

static const char *setting(const struct settings *settings, const char *name)
{
	for (size_t i = 0; i < settings->count; i++) {
		if (strcmp(settings->items[i].name, name) == 0)
			return settings->items[i].value;
	}
	return NULL;
}

static void defaults_are_the_documented_ones(void **state)
{
	struct world *world = *state;
	char host[256] = "";

	world_file(world, ENOUGH);
	assert_loads(world);
	assert_string_equal(world->config->inbox.schema, "inbox");
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	assert_string_equal(world->config->inbox.instance, host);
	assert_int_equal(world->config->inbox.ordering, ORDERING_KEY);
	assert_int_equal(world->config->inbox.max_claimed_bytes, 33554432);
	assert_int_equal(world->config->ingest.batch_wait, 5);
	assert_int_equal(world->config->retry.backoff_max, 300000);
	assert_int_equal(world->config->worker.lease, 15000);
	assert_int_equal(world->config->socket.mode, 0660);
	assert_int_equal(world->config->socket.allow_uid_count, 0);
	assert_string_equal(world->config->http.listen, "127.0.0.1:9464");
	assert_int_equal(world->config->retention.dead, CONFIG_NEVER);
	assert_int_equal(world->config->log.level, LOG_INFO);
	assert_false(world->config->log.json);
	assert_int_equal(world->config->topic_count, 1);
	assert_string_equal(setting(&world->config->kafka, "auto.offset.reset"), "earliest");
	assert_int_equal(world->config->warnings.count, 0);
	assert_line(world, "retry.max_attempts", "10", "default");
	assert_line(world, "inbox.instance", host, "default (the host's name)");
	assert_line(world, "topics.*.accept", "[*]", "default");
}

static void the_file_wins_over_the_default(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "inbox:\n  schema: mine\n  max_in_flight: 7\n");
	assert_loads(world);
	assert_string_equal(world->config->inbox.schema, "mine");
	assert_int_equal(world->config->inbox.max_in_flight, 7);
	assert_line(world, "inbox.schema", "mine", "@/inboxd.yaml:6");
	assert_line(world, "kafka.topics", "[orders]", "@/inboxd.yaml:2");
}

static void the_environment_wins_over_the_file(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "inbox:\n  schema: mine\n");
	world_variable(world, "INBOXD_INBOX_SCHEMA=theirs");
	world_variable(world, "INBOXD_KAFKA_GROUP_ID=g2");
	world_variable(world, "INBOXD_KAFKA_TOPICS=a, b");
	world_variable(world, "INBOXD_HTTP_LISTEN=");
	assert_loads(world);
	assert_string_equal(world->config->inbox.schema, "theirs");
	assert_string_equal(setting(&world->config->kafka, "group.id"), "g2");
	assert_int_equal(world->config->kafka_topics.count, 2);
	assert_string_equal(world->config->http.listen, "");
	assert_line(world, "inbox.schema", "theirs", "env INBOXD_INBOX_SCHEMA");
	assert_line(world, "http.listen", "\"\"", "env INBOXD_HTTP_LISTEN");
}

static void set_wins_over_everything(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "inbox:\n  schema: mine\n");
	world_variable(world, "INBOXD_INBOX_SCHEMA=theirs");
	world_set(world, "inbox.schema=first");
	world_set(world, "inbox.schema=last");
	world_set(world, "kafka.ssl.ca.location=/a=b");
	assert_loads(world);
	assert_string_equal(world->config->inbox.schema, "last");
	assert_string_equal(setting(&world->config->kafka, "ssl.ca.location"), "/a=b");
	assert_line(world, "inbox.schema", "last", "--set");
}

static void a_replaced_value_is_not_parsed_but_its_name_is_checked(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "worker:\n  lease: soon\n");
	world_set(world, "worker.lease=20s");
	assert_loads(world);
	assert_int_equal(world->config->worker.lease, 20000);
	world_file(world, ENOUGH "worker:\n  laese: 15s\n");
	assert_refused(world, "@/inboxd.yaml:6: section \"worker\" has no key \"laese\"");
}

static void passed_on_keys_keep_their_order(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "postgres:\n  dbname: a\n  host: b\n");
	world_variable(world, "INBOXD_POSTGRES_PORT=5432");
	world_set(world, "postgres.user=c");
	world_set(world, "postgres.dbname=d");
	assert_loads(world);
	assert_int_equal(world->config->postgres.count, 4);
	assert_string_equal(world->config->postgres.items[0].name, "dbname");
	assert_string_equal(world->config->postgres.items[0].value, "d");
	assert_string_equal(world->config->postgres.items[1].name, "host");
	assert_string_equal(world->config->postgres.items[2].name, "port");
	assert_string_equal(world->config->postgres.items[3].name, "user");
}

static void environment_variables_alone_are_enough(void **state)
{
	struct world *world = *state;

	world_variable(world, "INBOXD_KAFKA_TOPICS=orders");
	world_variable(world, "INBOXD_KAFKA_BOOTSTRAP_SERVERS=b:9092");
	world_variable(world, "INBOXD_KAFKA_GROUP_ID=g");
	world_variable(world, "INBOXD_POSTGRES_CONNECT_TIMEOUT=3");
	assert_loads(world);
	assert_string_equal(setting(&world->config->kafka, "bootstrap.servers"), "b:9092");
	assert_string_equal(setting(&world->config->postgres, "connect_timeout"), "3");
}

static void environment_variables_can_set_passed_on_keys(void **state)
{
	struct world *world = *state;

	knows_the_libraries_names(world);
	world_file(world, ENOUGH);
	world_variable(world, "INBOXD_KAFKA_SSL_CA_LOCATION=/ca");
	world_variable(world, "INBOXD_POSTGRES_CONNECT_TIMEOUT=3");
	assert_loads(world);
	assert_string_equal(setting(&world->config->kafka, "ssl.ca.location"), "/ca");
	assert_string_equal(setting(&world->config->postgres, "connect_timeout"), "3");
	assert_int_equal(world->config->warnings.count, 0);
}

static void a_value_that_is_not_utf8_is_refused_from_every_source(void **state)
{
	struct world *world = *state;

	world_variable(world, "INBOXD_KAFKA_\xff=ignored");
	world_variable(world, "INBOXD_INBOX_SCHEMA=a\xc3");
	assert_refused(world, "env INBOXD_INBOX_SCHEMA: inbox.schema: the value is not UTF-8");
	assert_true(utf8_is_valid(bytes_of(world->err.text)));
	world->environment[1] = NULL;
	world_file(world, ENOUGH);
	assert_loads(world);
	assert_int_equal(world->config->warnings.count, 1);
	assert_true(utf8_is_valid(bytes_of(world->config->warnings.items[0])));
	world_set(world, "inbox.schema=\xed\xa0\x80");
	assert_refused(world, "--set: an argument is not UTF-8");
	assert_true(utf8_is_valid(bytes_of(world->err.text)));
}

static void unknown_environment_variables_only_warn(void **state)
{
	/* clang-format off */
	static const char *const warnings[] = {
		"env INBOXD_PORT_9464_TCP: ignored: it names no section",
		"env INBOXD_INBOX_SCHEMAS: ignored: it names no key",
		"env INBOXD_KAFKA_SERVICE_HOST: ignored: it names no key",
		"env INBOXD_POSTGRES_PORT: ignored: it looks like a Kubernetes service link",
		"env INBOXD_TOPICS_ORDERS_ID: ignored: rules of topics, consumers and handlers are set in the file or with --set",
		"env INBOXD_KAFKA_: ignored: it names no key",
	};
	/* clang-format on */
	struct world *world = *state;

	knows_the_libraries_names(world);
	world_file(world, ENOUGH);
	world_variable(world, "INBOXD_PORT_9464_TCP=tcp://10.0.0.1:9464");
	world_variable(world, "INBOXD_INBOX_SCHEMAS=x");
	world_variable(world, "INBOXD_KAFKA_SERVICE_HOST=10.0.0.1");
	world_variable(world, "INBOXD_POSTGRES_PORT=tcp://10.0.0.1:5432");
	world_variable(world, "INBOXD_TOPICS_ORDERS_ID=key");
	world_variable(world, "INBOXD_KAFKA_=x");
	world_variable(world, "INBOXD_CONFIG=/etc/x.yaml");
	world_variable(world, "INBOXD_NOTHING");
	world_variable(world, "PATH=/bin");
	assert_loads(world);
	assert_int_equal(world->config->warnings.count, sizeof(warnings) / sizeof(warnings[0]));
	for (size_t i = 0; i < world->config->warnings.count; i++)
		assert_string_equal(world->config->warnings.items[i], warnings[i]);
}

static void ignored_variables_are_reported_when_loading_fails(void **state)
{
	struct world *world = *state;
	struct strings warnings = { NULL, 0 };

	world->sources.warnings_on_failure = &warnings;
	world_variable(world, "INBOXD_KAFKA_TOPIC=orders");
	world_variable(world, "INBOXD_RETRY_MAX_ATEMPTS=3");
	knows_the_libraries_names(world);
	assert_refused(world, "kafka.topics is not set");
	assert_int_equal(warnings.count, 2);
	assert_string_equal(warnings.items[0], "env INBOXD_KAFKA_TOPIC: ignored: it names no key");
	world_file(world, "retry:\n  nothing: 1\n");
	assert_refused(world, "@/inboxd.yaml:2: section \"retry\" has no key \"nothing\"");
	assert_int_equal(warnings.count, 2);
	world_file(world, ENOUGH);
	strings_fini(&warnings);
	assert_loads(world);
	assert_int_equal(warnings.count, 0);
}

static void unknown_librdkafka_names_are_passed_on_with_a_warning(void **state)
{
	struct world *world = *state;

	knows_the_libraries_names(world);
	world_file(world, ENOUGH);
	world_set(world, "kafka.bootstrap.server=b");
	assert_loads(world);
	assert_string_equal(setting(&world->config->kafka, "bootstrap.server"), "b");
	assert_int_equal(world->config->warnings.count, 1);
	assert_string_equal(world->config->warnings.items[0],
		"--set: kafka.bootstrap.server: librdkafka does not list this name; did you mean "
		"\"bootstrap.servers\"?");
	world->sources.set_count = 0;
	world_set(world, "kafka.fetch.queue.backoff.ms=1");
	assert_loads(world);
	assert_string_equal(world->config->warnings.items[0],
		"--set: kafka.fetch.queue.backoff.ms: this librdkafka does not have this name; it "
		"needs librdkafka 2.2");
	world->sources.set_count = 0;
	world_set(world, "kafka.oauth.token.file=/a");
	assert_loads(world);
	assert_string_equal(world->config->warnings.items[0],
		"--set: kafka.oauth.token.file: librdkafka does not list this name; did you mean "
		"\"oauth_token_file\"?");
}

static void unknown_libpq_keywords_are_refused(void **state)
{
	struct world *world = *state;

	knows_the_libraries_names(world);
	world_file(world, ENOUGH);
	world_set(world, "postgres.dbnam=x");
	assert_refused(world,
		"--set: section \"postgres\" has no key \"dbnam\"; did you mean \"dbname\"?");
	world->sources.set_count = 0;
	world_file(world, ENOUGH "postgres:\n  frobnicate: x\n");
	assert_refused(world, "@/inboxd.yaml:6: section \"postgres\" has no key \"frobnicate\"");
}

static void lists_for_a_library_are_joined_with_commas(void **state)
{
	struct world *world = *state;

	world_file(world, "kafka:\n  topics: orders\n  group.id: g\n"
			  "  bootstrap.servers: [a:1, b:2]\npostgres:\n  host: []\n");
	assert_loads(world);
	assert_int_equal(world->config->kafka_topics.count, 1);
	assert_string_equal(setting(&world->config->kafka, "bootstrap.servers"), "a:1,b:2");
	assert_string_equal(setting(&world->config->postgres, "host"), "");
}

static void a_key_without_value_is_an_empty_list_or_text(void **state)
{
	struct world *world = *state;

	world_file(world,
		ENOUGH "topics:\n  orders:\n    id:\n  payments:\nsocket:\n  group:\nlog:\n");
	assert_loads(world);
	assert_int_equal(config_topic_rules(world->config, "orders")->id.count, 0);
	assert_string_equal(world->config->socket.group, "");
	assert_int_equal(world->config->topic_count, 2);
}

static void topic_rules_come_from_the_topic_the_star_or_the_default(void **state)
{
	const struct topic_rules *rules;
	struct world *world = *state;

	world_file(world,
		ENOUGH "topics:\n"
		       "  \"*\":\n    id: [key]\n    missing_id: reject\n"
		       "  orders:\n    id: ['json:/id', 'header:x']\n    accept: order.*\n");
	world_set(world, "topics.a.b-c.source=literal:abc");
	world_set(world, "kafka.topics=orders,a.b-c");
	assert_loads(world);
	assert_int_equal(world->config->topic_count, 3);
	assert_string_equal(world->config->topics[2].topic, "*");
	rules = config_topic_rules(world->config, "orders");
	assert_string_equal(rules->id.items[0], "json:/id");
	assert_int_equal(rules->id.count, 2);
	assert_string_equal(rules->accept.items[0], "order.*");
	assert_true(rules->missing_id_rejects);
	rules = config_topic_rules(world->config, "a.b-c");
	assert_string_equal(rules->source.items[0], "literal:abc");
	assert_string_equal(rules->id.items[0], "key");
	rules = config_topic_rules(world->config, "any");
	assert_string_equal(rules->topic, "*");
	assert_int_equal(rules->type.count, 5);
	assert_line(world, "topics.orders.id", "[json:/id, header:x]", "@/inboxd.yaml:10");
	assert_line(world, "topics.a.b-c.source", "[literal:abc]", "--set");
	assert_int_equal(world->config->warnings.count, 0);
}

static void a_consumer_has_its_own_values_and_else_the_general_ones(void **state)
{
	struct world *world = *state;
	const struct consumer_rules *rules;

	world_file(world,
		ENOUGH "inbox: {ordering: none}\n"
		       "consumers:\n"
		       "  billing: {topics: [orders, '^pay'], types: ['order.*'], timeout: 7s}\n"
		       "  search.v2:\n"
		       "    ordering: partition\n"
		       "    backoff: 3s\n"
		       "  audit:\n"
		       "retry: {max_attempts: 4}\n");
	world->set[0] = "consumers.search.v2.max_attempts=2";
	world->sources.set_count = 1;
	assert_loads(world);
	assert_int_equal(world->config->consumer_count, 3);
	rules = config_consumer_rules(world->config, "billing");
	assert_string_equal(rules->topics.items[1], "^pay");
	assert_string_equal(rules->types.items[0], "order.*");
	assert_int_equal(rules->ordering, ORDERING_NONE);
	assert_int_equal(rules->max_attempts, 4);
	assert_int_equal(rules->timeout, 7000);
	rules = config_consumer_rules(world->config, "search.v2");
	assert_int_equal(rules->topics.count + rules->types.count, 0);
	assert_int_equal(rules->ordering, ORDERING_PARTITION);
	assert_int_equal(rules->max_attempts, 2);
	assert_int_equal(rules->backoff, 3000);
	assert_int_equal(rules->timeout, 30000);
	assert_non_null(config_consumer_rules(world->config, "audit"));
	assert_null(config_consumer_rules(world->config, "mail"));
}

static void a_sidecar_that_only_sends_needs_no_topics(void **state)
{
	struct world *world = *state;

	world_file(world, "kafka: {group.id: g, bootstrap.servers: b}\noutbox: {enabled: true}\n");
	assert_loads(world);
	assert_true(config_sends_only(world->config));
	world_set(world, "kafka.topics=orders");
	assert_loads(world);
	assert_false(config_sends_only(world->config));
	world->sources.set_count = 0;
	world_file(world, "kafka: {group.id: g, bootstrap.servers: b}\noutbox: {enabled: true}\n"
			  "consumers: {billing: {}}\n");
	assert_refused(world, "kafka.topics is not set");
	world_file(world, "kafka: {group.id: g, bootstrap.servers: b}\noutbox: {enabled: true}\n"
			  "handlers: {billing: {call: a.b}}\n");
	assert_refused(world, "kafka.topics is not set");
}

static void a_sql_handler_has_its_keys_and_else_the_defaults(void **state)
{
	struct world *world = *state;
	const struct sql_handler_rules *rules;

	world_file(world, ENOUGH "consumers: {search: {}, mail: {}}\n"
				 "handlers:\n"
				 "  search:\n"
				 "    call: orders.on_event\n"
				 "  to mail:\n"
				 "    call: 'orders.\"On Event\"'\n"
				 "    topics: [orders, payments]\n"
				 "    types: ['order.*']\n"
				 "    consumer: mail\n"
				 "    role: mailer\n"
				 "    timeout: 2s\n"
				 "    batch: 7\n");
	world->set[0] = "handlers.to mail.connections=3";
	world->sources.set_count = 1;
	assert_loads(world);
	assert_int_equal(world->config->handler_count, 2);
	rules = &world->config->handlers[0];
	assert_string_equal(rules->name, "search");
	assert_string_equal(rules->call, "orders.on_event");
	assert_string_equal(rules->consumer, "");
	assert_string_equal(rules->role, "");
	assert_int_equal(rules->topics.count + rules->types.count, 0);
	assert_int_equal(rules->timeout, 30000);
	assert_int_equal(rules->batch, 50);
	assert_int_equal(rules->connections, 1);
	rules = &world->config->handlers[1];
	assert_string_equal(rules->name, "to mail");
	assert_string_equal(rules->call, "orders.\"On Event\"");
	assert_string_equal(rules->topics.items[1], "payments");
	assert_string_equal(rules->types.items[0], "order.*");
	assert_string_equal(rules->consumer, "mail");
	assert_string_equal(rules->role, "mailer");
	assert_int_equal(rules->timeout, 2000);
	assert_int_equal(rules->batch, 7);
	assert_int_equal(rules->connections, 3);
}

static void a_wrong_sql_handler_is_an_error(void **state)
{
	static const struct {
		const char *handlers;
		const char *words;
	} wrong[] = {
		{ "{a: {types: [x]}}", "handlers.a.call is not set" },
		{ "{a: {call: on_event}}", "has no schema" },
		{ "{a: {call: 'o.on_event(json)'}}", "names parameters" },
		{ "{a: {call: o.f, consumer: mail}}", "there is no consumer \"mail\"" },
		{ "{a: {call: o.f}, b: {call: o.g}}", "handlers.a and handlers.b want the same" },
		{ "{a: {call: o.f, types: [x, y]}, b: {call: o.g, types: [y]}}",
			"handlers.a and handlers.b want the same" },
		{ "{a: {call: o.f, role: x, rolle: y}}", "role" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct world *world = *state;
		char text[512];

		(void)snprintf(text, sizeof(text), ENOUGH "handlers: %s\n", wrong[i].handlers);
		world_file(world, text);
		assert_refused(world, wrong[i].words);
	}
}

static void rules_for_a_topic_that_is_not_read_warn(void **state)
{
	struct world *world = *state;

	world_file(world, "kafka: {topics: ['^ord.*', pay], group.id: g, metadata.broker.list: b}\n"
			  "topics: {orders: {id: key}, payments: {id: key}}\n");
	assert_loads(world);
	assert_int_equal(world->config->warnings.count, 1);
	assert_string_equal(world->config->warnings.items[0],
		"topics.payments: rules for a topic that kafka.topics does not name");
}

static void a_value_may_come_from_a_file(void **state)
{
	struct world *world = *state;
	char variable[160];
	char origin[256];

	world_file(world, ENOUGH);
	(void)snprintf(variable, sizeof(variable), "INBOXD_POSTGRES_PASSWORD=file:%s",
		world_write(world, "secret", "s3cret\n\n"));
	world_variable(world, variable);
	assert_loads(world);
	assert_string_equal(setting(&world->config->postgres, "password"), "s3cret\n");
	(void)snprintf(origin, sizeof(origin), "env INBOXD_POSTGRES_PASSWORD (file:%s/secret)",
		world->directory);
	assert_line(world, "postgres.password", "***", origin);
}

static void a_list_may_come_from_a_file(void **state)
{
	struct world *world = *state;
	char set[160];

	world_file(world, ENOUGH);
	(void)snprintf(
		set, sizeof(set), "kafka.topics=file:%s", world_write(world, "other", "a,b\n"));
	world_set(world, set);
	assert_loads(world);
	assert_int_equal(world->config->kafka_topics.count, 2);
	assert_string_equal(world->config->kafka_topics.items[1], "b");
}

static void a_file_that_cannot_be_read_is_named_with_its_key(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "  sasl.password: file:/nowhere/secret\n");
	assert_refused(world,
		"@/inboxd.yaml:5 (file:/nowhere/secret): kafka.sasl.password: cannot open "
		"/nowhere/secret: No such file or directory");
	world_set(world, "kafka.sasl.password=plain");
	assert_loads(world);
}

static void a_file_with_a_nul_byte_is_no_value(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "  sasl.password: file:/dev/zero\n");
	assert_refused(world, "cannot read /dev/zero: it is larger than");
	world_file(world, ENOUGH "  sasl.password: file:/proc/self/cmdline\n");
	assert_refused(world,
		"kafka.sasl.password: /proc/self/cmdline contains a NUL byte; a value is text");
}

static void a_connection_string_with_a_password_is_masked(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "postgres:\n  dbname: host=h password=hush\n");
	assert_loads(world);
	assert_line(world, "postgres.dbname", "***", "@/inboxd.yaml:6");
}

static void secrets_are_masked(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct world *world = *state;

	world_file(world,
		ENOUGH "  sasl.password: hush1\n  ssl.key.password: hush2\n"
		       "  ssl.keystore.password: hush3\n  ssl.key.pem: hush4\n"
		       "  sasl.oauthbearer.client.secret: hush5\n  my.Token: hush6\n"
		       "  sasl.username: seen\n"
		       "postgres:\n  password: hush7\n  sslpassword: hush8\n"
		       "  passfile: /hush9\n  dbname: postgres://u:hush10@h/d\n  user: seen2\n"
		       "  options: ''\n  scram_client_key: hush11\n  scram_server_key: hush12\n"
		       "  my_passphrase: hush13\n");
	assert_loads(world);
	assert_int_equal(config_dump(world->config, false, &text, NULL), 0);
	assert_null(strstr(buf_str(&text), "hush"));
	assert_non_null(strstr(buf_str(&text), "seen2"));
	assert_line(world, "kafka.sasl.password", "***", "@/inboxd.yaml:5");
	assert_line(world, "kafka.sasl.username", "seen", "@/inboxd.yaml:11");
	assert_line(world, "postgres.options", "\"\"", "@/inboxd.yaml:18");
}

static void the_address_of_a_token_server_is_shown_unless_it_has_a_secret(void **state)
{
	struct world *world = *state;

	world_file(world,
		ENOUGH "  sasl.oauthbearer.token.endpoint.url: https://idp.example/token\n"
		       "  my.token.url: https://idp.example/token?key=hush\n"
		       "  other.token.url: https://u:hush@idp.example/token\n"
		       "  my.token.url.key: hush\n");
	assert_loads(world);
	assert_line(world, "kafka.sasl.oauthbearer.token.endpoint.url", "https://idp.example/token",
		"@/inboxd.yaml:5");
	assert_line(world, "kafka.my.token.url", "***", "@/inboxd.yaml:6");
	assert_line(world, "kafka.other.token.url", "***", "@/inboxd.yaml:7");
	assert_line(world, "kafka.my.token.url.key", "***", "@/inboxd.yaml:8");
}

static void a_value_from_a_file_is_masked_whatever_its_key_is(void **state)
{
	struct world *world = *state;
	char text[512];

	(void)world_write(world, "other", "warn");
	(void)snprintf(text, sizeof(text),
		"%s  sasl.username: file:%s\nlog:\n  level: file:%s/other\n", ENOUGH,
		world_write(world, "secret", "hush"), world->directory);
	world_file(world, text);
	assert_loads(world);
	assert_string_equal(line_of(world, "kafka.sasl.username").text, "***");
	assert_string_equal(line_of(world, "log.level").text, "warn");
}

static void the_dump_has_one_line_for_each_key(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct world *world = *state;
	size_t lines = 0;
	const char *at;

	world_file(world, ENOUGH "postgres:\n  options: \"a\\nb\"\n");
	assert_loads(world);
	assert_int_equal(config_dump(world->config, false, &text, NULL), 0);
	for (at = buf_str(&text); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	assert_int_equal(lines, world->config->entries->count);
	assert_non_null(strstr(buf_str(&text), "\npostgres.options "));
	assert_non_null(strstr(buf_str(&text), " a b "));
	assert_int_equal(strncmp(buf_str(&text), "inbox.schema ", 13), 0);
}

#define TOKEN_NEEDED "  security.protocol: SASL_SSL\n  sasl.mechanisms: OAUTHBEARER\n"

/* Its arguments can be secrets; the text of a file is one. */
static void of_a_command_only_the_program_is_shown(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH TOKEN_NEEDED "  oauth_token_command: [/bin/token, --key, hush]\n");
	assert_loads(world);
	assert_line(world, "kafka.oauth_token_command", "[/bin/token, ***]", "@/inboxd.yaml:7");
	assert_int_equal(world->config->kafka_oauth_token_command.count, 3);
}

/* clang-format off */
static const struct {
	const char *text; /* behind what is enough */
	const char *words;
} refusals[] = {
	{ "inbix:\n  schema: a\n",
		"@/inboxd.yaml:6: there is no section \"inbix\"; did you mean \"inbox\"?" },
	{ "frobnication:\n  a: b\n", "@/inboxd.yaml:6: there is no section \"frobnication\"" },
	{ "inbox.schema: a\n",
		"@/inboxd.yaml:5: there is no section \"inbox.schema\"; write the key under "
		"its section, without the dot" },
	{ "inbox: a\n", "@/inboxd.yaml:5: \"inbox\" is a section; write its keys under it" },
	{ "inbox:\n  shcema: a\n",
		"@/inboxd.yaml:6: section \"inbox\" has no key \"shcema\"; did you mean "
		"\"schema\"?" },
	{ "inbox:\n  lease: 5s\n",
		"@/inboxd.yaml:6: section \"inbox\" has no key \"lease\"; it belongs under "
		"\"worker\"" },
	{ "inbox:\n  frobnication: 1\n",
		"@/inboxd.yaml:6: section \"inbox\" has no key \"frobnication\"" },
	{ "inbox:\n  schema:\n    a: b\n",
		"@/inboxd.yaml:7: inbox.schema: a value is expected here, not keys" },
	{ "postgres:\n  ssl:\n    mode: b\n",
		"@/inboxd.yaml:7: postgres.ssl: a value is expected here, not keys" },
	{ "topics:\n  accept: [a]\n",
		"@/inboxd.yaml:6: topics.accept: rules are written under a topic's name" },
	{ "consumers:\n  ordering: key\n",
		"@/inboxd.yaml:6: consumers.ordering: keys are written under a consumer's name" },
	{ "consumers:\n  Billing: {ordering: key}\n",
		"@/inboxd.yaml:6: consumers: \"Billing\" is not the name of a consumer" },
	{ "topics:\n  ^or.*:\n    id: key\n",
		"@/inboxd.yaml:7: topics: \"^or.*\" is a regular expression" },
	{ "topics:\n  'a b':\n    id: key\n",
		"@/inboxd.yaml:7: topics: \"a b\" is not a topic name" },
	{ "topics:\n  orders:\n    ids: key\n",
		"@/inboxd.yaml:7: section \"topics\" has no key \"ids\"; did you mean \"id\"?" },
	{ "topics:\n  orders:\n    id: body\n",
		"@/inboxd.yaml:7: topics.orders.id: \"body\" is not a location of an id" },
	{ "inbox:\n  schema: [a]\n  schema: b\n", "@/inboxd.yaml:7:3: \"schema\" is here twice" },
	{ "inbox:\n  schema: [a, b]\n",
		"@/inboxd.yaml:6: inbox.schema: is one value, not a list; write it without []" },
	{ "inbox:\n  max_in_flight: many\n",
		"@/inboxd.yaml:6: inbox.max_in_flight: \"many\" is not a whole number" },
	{ "  enable.auto.commit: true\n",
		"@/inboxd.yaml:5: kafka.enable.auto.commit is decided by inboxd: offsets are "
		"committed only" },
	{ "  enable.auto.offset.store: false\n",
		"kafka.enable.auto.offset.store is decided by inboxd" },
	{ "  enable.partition.eof: true\n", "kafka.enable.partition.eof is decided by inboxd" },
	{ "  rebalance_cb: x\n", "kafka.rebalance_cb is for programs that use librdkafka" },
	{ "postgres:\n  application_name: x\n",
		"@/inboxd.yaml:6: postgres.application_name is decided by inboxd: its sessions" },
	{ "postgres:\n  replication: x\n", "postgres.replication opens a session" },
	{ "worker:\n  claim_batch: 100\ninbox:\n  max_claimed: 50\n",
		"@/inboxd.yaml:6: worker.claim_batch is 100, above inbox.max_claimed, which is "
		"50 (" },
	{ "retry:\n  backoff: 2m\n  backoff_max: 1m\n",
		"retry.backoff is 2m, above retry.backoff_max, which is 1m (" },
	{ "ingest:\n  batch_bytes: 512MiB\n  max_payload: 300MiB\n",
		"@/inboxd.yaml:6: ingest.batch_bytes is 512MiB and ingest.max_payload is 300MiB (" },
	{ TOKEN_NEEDED, "kafka.sasl.mechanism is OAUTHBEARER, but nothing gives the token" },
	{ TOKEN_NEEDED "  oauth_token_file: hush\n",
		"@/inboxd.yaml:7: kafka.oauth_token_file: write an absolute path" },
	{ TOKEN_NEEDED "  oauth_token_command: [hush, hush]\n",
		"@/inboxd.yaml:7: kafka.oauth_token_command: write an absolute path" },
	{ TOKEN_NEEDED "  oauth_token_command: /bin/token --key hush\n",
		"@/inboxd.yaml:7: kafka.oauth_token_command: write the program and its arguments "
		"as a list" },
	{ TOKEN_NEEDED "  oauth_token_file: /a\n  oauth_token_command: [/b]\n",
		"kafka.oauth_token_file and kafka.oauth_token_command are both set" },
	{ TOKEN_NEEDED "  oauth_token_file: /a\n  sasl.oauthbearer.method: oidc\n",
		"cannot be combined with" },
	{ "  oauth_token_file: /a\n",
		"kafka.oauth_token_file and kafka.oauth_token_command need "
		"kafka.sasl.mechanism: OAUTHBEARER" },
	{ "retry:\n  dead_topic: orders\n",
		"@/inboxd.yaml:6: retry.dead_topic: \"orders\" is also read by kafka.topics, "
		"so dead messages would come back; name another topic" },
};
/* clang-format on */

static void every_mistake_in_the_file_is_reported_with_its_line(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		char text[512];

		(void)snprintf(text, sizeof(text), "%s%s", ENOUGH, refusals[i].text);
		world_file(world, text);
		assert_refused(world, refusals[i].words);
	}
}

static void every_mistake_in_set_is_reported(void **state)
{
	/* clang-format off */
	static const struct {
		const char *set;
		const char *words;
	} rows[] = {
		{ "inbox.shcema=a",
			"--set: section \"inbox\" has no key \"shcema\"; did you mean "
			"\"schema\"?" },
		{ "inbix.schema=a",
			"--set: there is no section \"inbix\"; did you mean \"inbox\"?" },
		{ "inbox=a", "--set: \"inbox\" is a section; write its keys under it" },
		{ "inbox.=a", "--set: \"inbox\" is a section; write its keys under it" },
		{ "=a", "--set: there is no section \"\"" },
		{ "topics.id=key", "--set: topics.id: rules are written under a topic's name" },
		{ "topics.a.b.ids=key",
			"--set: section \"topics\" has no key \"ids\"; did you mean \"id\"?" },
		{ "worker.lease=1s",
			"--set: worker.lease: \"1s\" is too small; write at least 3s" },
		{ "kafka.enable.auto.commit=true",
			"--set: kafka.enable.auto.commit is decided by inboxd" },
		{ "kafka.client\rid=a",
			"--set: kafka.client id contains a control character, which no name has" },
	};
	/* clang-format on */
	struct world *world = *state;

	world_file(world, ENOUGH);
	world->sources.set_count = 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		world->set[0] = rows[i].set;
		assert_refused(world, rows[i].words);
	}
}

static void set_without_an_equals_sign_is_a_usage_error(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH);
	world_set(world, "inbox.schema");
	assert_int_equal(world_load(world), FAULT_USAGE);
	assert_words(world, "--set inbox.schema: there is no \"=\"; write --set section.key=value");
}

static void wrong_values_in_variables_are_errors(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH);
	world_variable(world, "INBOXD_WORKER_LEASE=15");
	assert_refused(world, "env INBOXD_WORKER_LEASE: worker.lease: \"15\" is not a duration");
	world->environment[0] = NULL;
	world_variable(world, "INBOXD_KAFKA_ENABLE_AUTO_COMMIT=true");
	assert_refused(
		world, "env INBOXD_KAFKA_ENABLE_AUTO_COMMIT: kafka.enable.auto.commit is decided");
}

static void required_kafka_keys_are_named_with_advice(void **state)
{
	struct world *world = *state;

	assert_refused(world,
		"kafka.topics is not set; write \"topics: [orders]\" under \"kafka:\" in the "
		"configuration file (-c FILE or INBOXD_CONFIG names it), or set "
		"INBOXD_KAFKA_TOPICS");
	world_set(world, "kafka.topics=orders");
	assert_refused(world, "kafka.bootstrap.servers is not set; write");
	world_set(world, "kafka.bootstrap.servers=b");
	assert_refused(world, "kafka.group.id is not set; write");
	world_set(world, "kafka.group.id=");
	assert_refused(world, "kafka.group.id is not set; write");
	world_set(world, "kafka.group.id=g");
	assert_loads(world);
}

static void a_mistyped_name_is_reported_with_the_missing_key(void **state)
{
	struct world *world = *state;

	world_file(world, "kafka:\n  topic: [orders]\n  bootstrap_servers: b\n  client.id: me\n");
	assert_refused(
		world, "kafka.topics is not set; @/inboxd.yaml:2 sets kafka.topic: if that is");
	world_set(world, "kafka.topics=orders");
	assert_refused(world, "kafka.bootstrap.servers is not set; @/inboxd.yaml:3 sets "
			      "kafka.bootstrap_servers:");
	world_set(world, "kafka.bootstrap.servers=");
	assert_refused(world, "kafka.bootstrap.servers is not set; @/inboxd.yaml:3 sets "
			      "kafka.bootstrap_servers:");
	world_set(world, "kafka.bootstrap.servers=b");
	assert_refused(world, "kafka.group.id is not set; write");
	world_set(world, "kafka.groupid=g");
	assert_refused(world, "kafka.group.id is not set; --set sets kafka.groupid:");
}

static void without_kafka_its_keys_are_not_required(void **state)
{
	struct world *world = *state;

	world->sources.without_kafka = true;
	assert_loads(world);
}

static void without_kafka_its_secrets_are_not_read_and_not_shown(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "  sasl.password: file:/nowhere/kafka\n");
	world->sources.without_kafka = true;
	assert_loads(world);
	assert_line(world, "kafka.sasl.password", "***", "@/inboxd.yaml:5 (file:/nowhere/kafka)");
	world_set(world, "postgres.password=file:/nowhere/postgres");
	assert_refused(world, "--set (file:/nowhere/postgres): postgres.password: cannot open");
}

static void a_missing_file_is_an_error(void **state)
{
	struct world *world = *state;

	world->sources.file = "/nowhere/inboxd.yaml";
	assert_refused(world, "cannot open /nowhere/inboxd.yaml: No such file or directory");
}

static void a_default_is_reduced_to_fit_configured_values(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "inbox:\n  max_claimed: 50\nretry:\n  backoff: 10m\n");
	assert_loads(world);
	assert_int_equal(world->config->worker.claim_batch, 50);
	assert_int_equal(world->config->inbox.max_in_flight, 50);
	assert_int_equal(world->config->retry.backoff_max, 600000);
	assert_line(world, "worker.claim_batch", "50", "default (as inbox.max_claimed)");
	assert_line(world, "retry.backoff_max", "10m", "default (as retry.backoff)");
}

static void any_allocation_may_fail(void **state)
{
	struct world *world = *state;
	char set[160];

	knows_the_libraries_names(world);
	world_file(world, ENOUGH "inbox:\n  max_claimed: 50\ntopics:\n  other:\n    id: [key]\n"
				 "socket:\n  allow_uid: [1, 2]\npostgres:\n  host: [a, b]\n");
	world_variable(world, "INBOXD_X=1");
	(void)snprintf(
		set, sizeof(set), "postgres.password=file:%s", world_write(world, "secret", "s\n"));
	world_set(world, set);
	world_set(world, "kafka.nonsense=1");
	for (size_t n = 1;; n++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT;
		int r;

		alloc_fail_at(n);
		r = world_load(world);
		if (r == 0)
			r = config_dump(world->config, false, &text, &world->err);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
	}
	assert_int_equal(world->err.fault, 0);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(defaults_are_the_documented_ones),
		RULE(the_file_wins_over_the_default),
		RULE(a_consumer_has_its_own_values_and_else_the_general_ones),
		RULE(a_sql_handler_has_its_keys_and_else_the_defaults),
		RULE(a_wrong_sql_handler_is_an_error),
		RULE(the_environment_wins_over_the_file),
		RULE(set_wins_over_everything),
		RULE(a_replaced_value_is_not_parsed_but_its_name_is_checked),
		RULE(passed_on_keys_keep_their_order),
		RULE(environment_variables_alone_are_enough),
		RULE(environment_variables_can_set_passed_on_keys),
		RULE(a_value_that_is_not_utf8_is_refused_from_every_source),
		RULE(unknown_environment_variables_only_warn),
		RULE(ignored_variables_are_reported_when_loading_fails),
		RULE(unknown_librdkafka_names_are_passed_on_with_a_warning),
		RULE(unknown_libpq_keywords_are_refused),
		RULE(lists_for_a_library_are_joined_with_commas),
		RULE(a_key_without_value_is_an_empty_list_or_text),
		RULE(topic_rules_come_from_the_topic_the_star_or_the_default),
		RULE(a_sidecar_that_only_sends_needs_no_topics),
		RULE(rules_for_a_topic_that_is_not_read_warn),
		RULE(a_value_may_come_from_a_file),
		RULE(a_list_may_come_from_a_file),
		RULE(a_file_that_cannot_be_read_is_named_with_its_key),
		RULE(a_file_with_a_nul_byte_is_no_value),
		RULE(a_connection_string_with_a_password_is_masked),
		RULE(secrets_are_masked),
		RULE(the_address_of_a_token_server_is_shown_unless_it_has_a_secret),
		RULE(a_value_from_a_file_is_masked_whatever_its_key_is),
		RULE(of_a_command_only_the_program_is_shown),
		RULE(the_dump_has_one_line_for_each_key),
		RULE(every_mistake_in_the_file_is_reported_with_its_line),
		RULE(every_mistake_in_set_is_reported),
		RULE(set_without_an_equals_sign_is_a_usage_error),
		RULE(wrong_values_in_variables_are_errors),
		RULE(required_kafka_keys_are_named_with_advice),
		RULE(a_mistyped_name_is_reported_with_the_missing_key),
		RULE(without_kafka_its_keys_are_not_required),
		RULE(without_kafka_its_secrets_are_not_read_and_not_shown),
		RULE(a_missing_file_is_an_error),
		RULE(a_default_is_reduced_to_fit_configured_values),
		RULE(any_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
