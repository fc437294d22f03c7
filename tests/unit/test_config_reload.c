/*
 * Reloading: keys that are applied, keys that are kept and named, and that a wrong configuration
 * changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "config/secret.h"
#include "config_world.h"

static int reload(struct world *world)
{
	struct config *fresh = NULL;
	int r;

	strings_fini(&world->restart);
	world->err = (struct err)ERR_INIT;
	r = config_reload(&fresh, world->config, &world->sources, &world->restart, &world->err);
	if (r < 0)
		return r;
	config_free(world->config);
	world->config = fresh;
	return 0;
}

static void assert_reloads(struct world *world)
{
	if (reload(world) < 0)
		fail_msg("%s", world->err.text);
}

static void assert_restart(const struct world *world, const char *names)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	for (size_t i = 0; i < world->restart.count; i++)
		buf_addf(&text, "%s%s", i == 0 ? "" : " ", world->restart.items[i]);
	assert_string_equal(buf_str(&text), names);
}

static void a_reload_without_changes_names_no_key(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "inbox:\n  max_claimed: 50\n");
	assert_loads(world);
	assert_reloads(world);
	assert_restart(world, "");
	assert_int_equal(world->config->worker.claim_batch, 50);
}

static void reloadable_keys_are_applied(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH);
	assert_loads(world);
	world_file(world, ENOUGH "log:\n  level: debug\n  format: json\nretry:\n  max_attempts: 3\n"
				 "retention:\n  processed: 30d\ninbox:\n  max_in_flight: 5\n");
	assert_reloads(world);
	assert_restart(world, "");
	assert_int_equal(world->config->log.level, LOG_DEBUG);
	assert_true(world->config->log.json);
	assert_int_equal(world->config->retry.max_attempts, 3);
	assert_int_equal(world->config->retention.processed, 2592000000);
	assert_int_equal(world->config->inbox.max_in_flight, 5);
	assert_line(world, "log.level", "debug", "@/inboxd.yaml:6");
}

static void other_keys_are_kept_and_named_at_every_reload(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "  client.id: a\ntopics:\n  orders:\n    id: [key]\n");
	assert_loads(world);
	world_file(world, "kafka:\n  topics: [orders, payments]\n  bootstrap.servers: other:9092\n"
			  "  group.id: billing\ninbox:\n  schema: other\n  max_in_flight: 5\n"
			  "postgres:\n  host: db\ntopics:\n  payments:\n    id: [key]\n");
	for (int i = 0; i < 2; i++) {
		assert_reloads(world);
		assert_restart(world,
			"inbox.schema kafka.topics kafka.bootstrap.servers kafka.client.id "
			"topics.orders.id postgres.host topics.payments.id");
		assert_string_equal(world->config->inbox.schema, "inbox");
		assert_int_equal(world->config->inbox.max_in_flight, 5);
		assert_int_equal(world->config->kafka_topics.count, 1);
		assert_int_equal(world->config->postgres.count, 0);
		assert_string_equal(
			config_topic_rules(world->config, "orders")->id.items[0], "key");
	}
}

static void a_key_that_is_not_written_any_more_is_not_set_after_a_restart(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "  client.id: a\n");
	assert_loads(world);
	world_file(world, ENOUGH);
	for (int i = 0; i < 2; i++) {
		assert_reloads(world);
		assert_line(world, "kafka.client.id", "a", "@/inboxd.yaml:5");
		assert_string_equal(line_of(world, "kafka.client.id").pending, "not set");
	}
	world_file(world, ENOUGH "  client.id: ''\n");
	assert_reloads(world);
	assert_string_equal(line_of(world, "kafka.client.id").pending, "\"\"");
}

static void a_secret_that_changed_in_its_file_needs_a_restart(void **state)
{
	struct world *world = *state;
	char text[512];

	(void)snprintf(text, sizeof(text), "%s  ssl.key.password: file:%s\n", ENOUGH,
		world_write(world, "secret", "old\n"));
	world_file(world, text);
	assert_loads(world);
	(void)world_write(world, "secret", "new\n");
	assert_reloads(world);
	assert_restart(world, "kafka.ssl.key.password");
	assert_false(line_of(world, "kafka.ssl.key.password").reloadable);
	assert_false(line_of(world, "kafka.group.id").reloadable);
	assert_true(line_of(world, "log.level").reloadable);
	assert_false(line_of(world, "inbox.schema").reloadable);
}

static void a_secret_that_is_read_at_each_use_needs_no_restart(void **state)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	struct world *world = *state;
	const struct setting *setting;
	char text[512];

	(void)snprintf(text, sizeof(text), "%spostgres:\n  password: file:%s\n", ENOUGH,
		world_write(world, "secret", "old\n"));
	world_file(world, text);
	assert_loads(world);
	(void)world_write(world, "secret", "new\n");
	assert_reloads(world);
	assert_restart(world, "");
	setting = &world->config->postgres.items[0];
	assert_string_equal(setting->value, "old");
	assert_string_equal(secret_now(setting, &scratch), "new");
	(void)world_write(world, "secret", "newer");
	assert_string_equal(secret_now(setting, &scratch), "newer");
}

struct swap {
	const char *directory;
	atomic_bool end;
};

/* Puts a secret and a pipe in the place of `swapped`, in turn. */
static void *swap_forever(void *arg)
{
	struct swap *swap = arg;
	char names[2][256];
	char link[256];
	char fresh[256];

	(void)snprintf(names[0], sizeof(names[0]), "%s/secret", swap->directory);
	(void)snprintf(names[1], sizeof(names[1]), "%s/pipe", swap->directory);
	(void)snprintf(link, sizeof(link), "%s/swapped", swap->directory);
	(void)snprintf(fresh, sizeof(fresh), "%s/fresh", swap->directory);
	for (int i = 0; !atomic_load(&swap->end); i++) {
		if (symlink(names[i % 2], fresh) != 0 || rename(fresh, link) != 0)
			abort();
	}
	(void)unlink(link);
	return NULL;
}

/* Whoever reads it would wait for ever, and hold up a thread. */
static void a_pipe_that_takes_the_place_of_a_secret_is_not_waited_for(void **state)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	struct world *world = *state;
	struct swap swap = { .directory = world->directory };
	char path[256];
	char file[256];
	const struct setting setting = { (char[]){ "password" }, (char[]){ "old" }, file };
	pthread_t thread;

	(void)snprintf(file, sizeof(file), "%s/swapped", world->directory);
	(void)snprintf(path, sizeof(path), "%s/pipe", world->directory);
	(void)world_write(world, "secret", "new\n");
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)alarm(20);
	assert_int_equal(pthread_create(&thread, NULL, swap_forever, &swap), 0);
	for (int i = 0; i < 20000; i++) {
		const char *found = secret_now(&setting, &scratch);

		assert_true(strcmp(found, "old") == 0 || strcmp(found, "new") == 0);
	}
	atomic_store(&swap.end, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)alarm(0);
	(void)unlink(path);
}

static void a_secret_that_cannot_be_read_keeps_its_value(void **state)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	const struct setting plain = { (char[]){ "user" }, (char[]){ "me" }, NULL };
	struct world *world = *state;
	const struct setting *setting;
	char text[512];

	(void)snprintf(text, sizeof(text), "%spostgres:\n  password: file:%s\n", ENOUGH,
		world_write(world, "secret", "old\n"));
	world_file(world, text);
	assert_loads(world);
	setting = &world->config->postgres.items[0];
	(void)world_write(world, "secret", "");
	assert_string_equal(secret_now(setting, &scratch), "old");
	assert_null(secret_fresh(setting, &scratch)); /* whoever has a later one keeps it */
	assert_string_equal(secret_fresh(&plain, &scratch), "me");
	assert_int_equal(unlink(setting->file), 0);
	assert_string_equal(secret_now(setting, &scratch), "old");
	assert_int_equal(mkfifo(setting->file, 0600), 0); /* nobody will ever write to it */
	assert_string_equal(secret_now(setting, &scratch), "old");
	assert_string_equal(secret_now(&plain, &scratch), "me");
	(void)unlink(setting->file);
	(void)world_write(world, "secret", "new");
	alloc_fail_at(1);
	assert_null(secret_now(setting, &scratch));
	assert_true(alloc_fail_never());
}

/* Nobody may write to it again, and the thread that reloads has other work. */
static void a_pipe_is_read_only_once(void **state)
{
	struct world *world = *state;
	char text[512];
	char path[256];

	(void)snprintf(path, sizeof(path), "%s", world_write(world, "secret", "old\n"));
	(void)snprintf(text, sizeof(text), "%s  client.id: file:%s\n", ENOUGH, path);
	world_file(world, text);
	assert_loads(world);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)alarm(20);
	for (int i = 0; i < 2; i++) {
		assert_reloads(world);
		assert_restart(world, "");
		assert_string_equal(line_of(world, "kafka.client.id").pending, "");
	}
	(void)alarm(0);
}

static void a_secret_that_moved_to_another_file_is_named(void **state)
{
	struct world *world = *state;
	char text[512];

	(void)snprintf(text, sizeof(text), "%spostgres:\n  password: file:%s\n", ENOUGH,
		world_write(world, "secret", "one\n"));
	world_file(world, text);
	assert_loads(world);
	(void)snprintf(text, sizeof(text), "%spostgres:\n  password: file:%s\n", ENOUGH,
		world_write(world, "other", "two\n"));
	world_file(world, text);
	assert_reloads(world);
	assert_restart(world, "postgres.password");
}

static void a_wrong_configuration_changes_nothing(void **state)
{
	struct world *world = *state;
	const struct config *running;

	world_file(world, ENOUGH);
	assert_loads(world);
	running = world->config;
	world_file(world, ENOUGH "log:\n  level: loud\n");
	assert_int_equal(reload(world), FAULT_CONFIG);
	assert_words(world, "@/inboxd.yaml:6: log.level: \"loud\" is not known here");
	assert_ptr_equal(world->config, running);
	assert_int_equal(world->config->log.level, LOG_INFO);
	assert_restart(world, "");
}

static void values_that_fit_only_after_a_restart_are_refused(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "worker:\n  claim_batch: 500\n");
	assert_loads(world);
	world_file(world, ENOUGH "worker:\n  claim_batch: 50\ninbox:\n  max_claimed: 60\n");
	assert_int_equal(reload(world), FAULT_CONFIG);
	assert_words(world, "not reloaded, restart instead: ");
	assert_words(world, "worker.claim_batch is 500, above inbox.max_claimed, which is 60");
	assert_restart(world, "");
}

static void a_reload_reports_the_warnings_of_the_new_file(void **state)
{
	struct world *world = *state;

	world_file(world, ENOUGH "topics:\n  other:\n    id: key\n");
	world_variable(world, "INBOXD_X=1");
	assert_loads(world);
	assert_int_equal(world->config->warnings.count, 2);
	assert_reloads(world);
	assert_int_equal(world->config->warnings.count, 2);
}

static void any_allocation_may_fail(void **state)
{
	struct world *world = *state;

	world_variable(world, "INBOXD_KAFKA_CLIENT_ID=x");
	world_file(world, ENOUGH "inbox:\n  max_claimed: 50\n");
	assert_loads(world);
	world_file(
		world, ENOUGH "inbox:\n  max_claimed: 40\n  schema: other\npostgres:\n  host: b\n");
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = reload(world);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
		assert_int_equal(world->restart.count, 0);
		assert_int_equal(world->config->inbox.max_claimed, 50);
	}
	assert_int_equal(world->config->inbox.max_claimed, 40);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(a_reload_without_changes_names_no_key),
		RULE(reloadable_keys_are_applied),
		RULE(other_keys_are_kept_and_named_at_every_reload),
		RULE(a_key_that_is_not_written_any_more_is_not_set_after_a_restart),
		RULE(a_secret_that_changed_in_its_file_needs_a_restart),
		RULE(a_secret_that_is_read_at_each_use_needs_no_restart),
		RULE(a_secret_that_cannot_be_read_keeps_its_value),
		RULE(a_pipe_that_takes_the_place_of_a_secret_is_not_waited_for),
		RULE(a_pipe_is_read_only_once),
		RULE(a_secret_that_moved_to_another_file_is_named),
		RULE(a_wrong_configuration_changes_nothing),
		RULE(values_that_fit_only_after_a_restart_are_refused),
		RULE(a_reload_reports_the_warnings_of_the_new_file),
		RULE(any_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("config_reload", tests, NULL, NULL);
}
