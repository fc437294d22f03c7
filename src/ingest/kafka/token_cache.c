/*
 * See token_cache.h. The cache outlives its thread, so that a client that comes after the last one has ended gets the same token,
 * and a command that failed a moment ago does not run again at once.
 */
#include "ingest/kafka/token_cache.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/program.h"
#include "base/threads/thread.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "config/secret.h"
#include "ingest/kafka/token.h"

enum {
	LOOK_MS = 1000, /* at the file, and for orphans */
	COMMAND_MS = 20000,
	STOP_MS =
		1500, /* above the time of program_run() after a kill, below that of a stop of ingest */
	WAIT_MS = 25000, /* for the first token */
	WAIT_NS = 10000000,
	LIFE_PERCENT = 80,
	SHORTEST_PAUSE_MS = 1000,
	LONGEST_PAUSE_MS = 60000,
};

/* librdkafka computes with microseconds; a token that never ends must not be too long for that. */
#define LONGEST_LIFE_MS (365LL * 24 * 3600 * 1000)

struct client {
	rd_kafka_t *kafka;
	bool quiet;
	LIST_ENTRY(client) link;
};

static struct {
	pthread_mutex_t
		starting; /* held while the thread is started or stopped, never by the thread */
	struct thread thread;
	bool runs;

	pthread_mutex_t lock; /* for the next group */
	LIST_HEAD(, client) clients;
	struct token token; /* no value: there is none */
	bool refused;       /* by a broker, since the last look */
	struct err failure; /* of the last attempt */
	bool tried;

	/* Of the thread. */
	char *file;     /* NULL: a command is used */
	char **command; /* ended by NULL */
	struct program program;
	struct stat seen; /* the file at the last attempt */
	int64_t got_ms;   /* clock_now_ms(), as the next one: when the token came */
	int64_t due_ms;   /* the next attempt */
	int failures;     /* in a row */
	int refusals;     /* tokens in a row that were refused */
	bool was_refused; /* the current token */
} cache = {
	.starting = PTHREAD_MUTEX_INITIALIZER,
	.thread = THREAD_INIT,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

bool token_cache_is_used(const struct config *config)
{
	const char *file = config->kafka_oauth_token_file;

	return (file != NULL && *file != '\0') || config->kafka_oauth_token_command.count > 0;
}

static void lock(void)
{
	(void)pthread_mutex_lock(&cache.lock);
}

static void unlock(void)
{
	(void)pthread_mutex_unlock(&cache.lock);
}

/* --- The clients ------------------------------------------------------------------------------- */

/* The lock is held. The name of the error is printed and not its text, which can contain the token. */
static void give(const struct client *client)
{
	const int64_t now_ms = clock_wall_ms();
	const struct token *token = &cache.token;
	int64_t until_ms = token->expires_at_ms;
	const char *extensions[sizeof(token->extensions) / sizeof(token->extensions[0])];
	char words[256];
	rd_kafka_resp_err_t code;

	if (token->value == NULL || until_ms <= now_ms)
		return;
	for (size_t i = 0; i < token->extension_texts; i++)
		extensions[i] = token->extensions[i];
	if (until_ms > now_ms + LONGEST_LIFE_MS)
		until_ms = now_ms + LONGEST_LIFE_MS;
	code = rd_kafka_oauthbearer_set_token(client->kafka, token->value, until_ms,
		token->principal, extensions, token->extension_texts, words, sizeof(words));
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_warn("kafka_token_failed", LOG_STR("code", rd_kafka_err2name(code)),
			LOG_STR("error", "librdkafka does not accept the token"),
			LOG_STR("next", "it gets the next token"));
}

/* The lock is held. */
static bool is_quiet(void)
{
	struct client *client;

	LIST_FOREACH (client, &cache.clients, link) {
		if (!client->quiet)
			return false;
	}
	return true;
}

/* --- Getting a token --------------------------------------------------------------------------- */

static const char *source(void)
{
	return cache.file != NULL ? cache.file : cache.command[0];
}

/* Half of it is random, so that many sidecars do not ask at the same moment. */
static int64_t pause_ms(int attempt)
{
	const int64_t bound_ms =
		backoff_bound_ms(2LL * SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS, attempt);

	return bound_ms - (int64_t)(random_u64() % (uint64_t)(bound_ms / 2 + 1));
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that is missing for a moment is no change; the attempt that is due anyway reports it. */
static bool file_has_changed(void)
{
	struct stat now;

	return cache.file != NULL && stat(cache.file, &now) == 0 &&
	       !is_same_file(&now, &cache.seen);
}

/* If the file is replaced between the two calls, it is read once more. */
static int read_file(struct buf *out, struct err *err)
{
	struct stat found;

	if (stat(cache.file, &found) == 0)
		cache.seen = found;
	return secret_read_again(cache.file, out, err);
}

/* A token that comes instead of one that a broker has refused may be refused, too: then the next one is asked for later. */
static void take(struct token *fresh)
{
	const int64_t now_ms = clock_now_ms();
	const int64_t life_ms = fresh->expires_at_ms - clock_wall_ms();
	struct client *client;
	bool quiet;

	lock();
	token_fini(&cache.token);
	cache.token = *fresh;
	cache.failure = (struct err)ERR_INIT;
	cache.tried = true;
	cache.refused = false;
	LIST_FOREACH (client, &cache.clients, link)
		give(client);
	quiet = is_quiet();
	unlock();
	cache.refusals = cache.was_refused ? cache.refusals + 1 : 0;
	cache.was_refused = false;
	cache.failures = 0;
	cache.got_ms = now_ms;
	/* The file has its own signs of a change. */
	cache.due_ms = now_ms + (cache.file != NULL ? life_ms - TOKEN_LIFE_MIN_MS
						    : life_ms / 100 * LIFE_PERCENT);
	if (!quiet)
		log_info("kafka_token_read", LOG_STR("from", source()),
			LOG_INT("valid_for_s", life_ms / 1000),
			LOG_STR("next", "new connections to the brokers use it"));
}

static void report(const struct err *err, int64_t retry_ms)
{
	bool quiet;
	int64_t left_ms;

	lock();
	left_ms = cache.token.value == NULL ? 0 : cache.token.expires_at_ms - clock_wall_ms();
	cache.failure = *err;
	cache.tried = true;
	quiet = is_quiet();
	unlock();
	if (!quiet)
		log_warn("kafka_token_failed", LOG_STR("from", source()),
			LOG_STR("error", err->text), LOG_INT("retry_in_ms", retry_ms),
			LOG_INT("token_left_s", left_ms > 0 ? left_ms / 1000 : 0),
			LOG_STR("next",
				left_ms > 0 ? "the last token stays in use until it ends"
					    : "without a token, no connection to a broker can be "
					      "made; open ones stay until the broker ends them"));
}

static void attempt(void)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct token fresh = { .value = NULL };
	struct err err = ERR_INIT;
	int64_t retry_ms;
	int r = cache.file != NULL ? read_file(&text, &err)
				   : program_run(&cache.program, &cache.thread, &text, &err);

	if (thread_is_stopping(&cache.thread))
		return;
	if (r == 0)
		r = token_read(
			&fresh, (struct bytes){ text.data, text.length }, clock_wall_ms(), &err);
	if (r == 0) {
		take(&fresh);
		return;
	}
	(void)err_prefix(&err, "kafka.oauth_token_%s", cache.file != NULL ? "file" : "command");
	retry_ms = pause_ms(cache.failures++);
	cache.due_ms = clock_now_ms() + retry_ms;
	report(&err, retry_ms);
}

/* Another token will do only if the program makes one; a file is read when it changes. */
static void look_at_refusals(void)
{
	bool refused;
	int64_t at_ms;

	lock();
	refused = cache.refused && cache.token.value != NULL;
	cache.refused = false;
	unlock();
	if (!refused || cache.was_refused || cache.file != NULL)
		return;
	cache.was_refused = true;
	at_ms = cache.got_ms + pause_ms(cache.refusals);
	if (at_ms < cache.due_ms)
		cache.due_ms = at_ms;
}

static int64_t look(void *arg)
{
	int64_t left_ms;

	(void)arg;
	program_reap_orphans(&cache.program);
	look_at_refusals();
	if (clock_now_ms() >= cache.due_ms || file_has_changed())
		attempt();
	left_ms = cache.due_ms - clock_now_ms();
	if (left_ms < 1)
		return 1;
	return left_ms < LOOK_MS ? left_ms : LOOK_MS;
}

static void run(void *arg)
{
	thread_loop(&cache.thread, look, arg);
}

/* --- Start and stop of the thread -------------------------------------------------------------- */

static int copy_command(const struct strings *command, struct err *err)
{
	cache.command = calloc(command->count + 1, sizeof(*cache.command));
	for (size_t i = 0; cache.command != NULL && i < command->count; i++) {
		cache.command[i] = strdup(command->items[i]);
		if (cache.command[i] == NULL) {
			while (i > 0)
				free(cache.command[--i]);
			free(cache.command);
			cache.command = NULL;
		}
	}
	if (cache.command == NULL)
		return err_memory(err);
	cache.program = (struct program){ .command = cache.command, .timeout_ms = COMMAND_MS };
	return 0;
}

/* Once in the life of the process, since neither setting takes effect at a reload. */
static int copy_settings(const struct config *config, struct err *err)
{
	if (cache.file != NULL || cache.command != NULL)
		return 0;
	if (config->kafka_oauth_token_command.count > 0)
		return copy_command(&config->kafka_oauth_token_command, err);
	cache.file = strdup(config->kafka_oauth_token_file);
	return cache.file == NULL ? err_memory(err) : 0;
}

/* Waits for the end of a thread that was asked to stop. False: it hangs in a system call. */
static bool join(void)
{
	if (!thread_wait(&cache.thread, STOP_MS))
		return false;
	thread_join(&cache.thread);
	thread_fini(&cache.thread);
	cache.thread = (struct thread)THREAD_INIT;
	cache.runs = false;
	return true;
}

static int start(const struct config *config, struct err *err)
{
	int r = copy_settings(config, err);

	if (r < 0 || (cache.runs && !thread_is_stopping(&cache.thread)))
		return r;
	if (cache.runs && !join())
		return err_set(err, FAULT_INTERNAL,
			"%s: the thread that gets the token hangs in a system call", source());
	r = thread_init(&cache.thread, err);
	if (r == 0)
		r = thread_start(&cache.thread, "kafka token", run, NULL, err);
	cache.runs = r == 0;
	if (r < 0)
		thread_fini(&cache.thread);
	return r;
}

static void stop(void)
{
	if (!cache.runs)
		return;
	thread_request_stop(&cache.thread);
	(void)join(); /* a thread that hangs ends when its system call does: see start() */
}

/* --- Calls ------------------------------------------------------------------------------------- */

int token_cache_attach(rd_kafka_t *kafka, const struct config *config, bool quiet, struct err *err)
{
	struct client *client;
	int r;

	if (!token_cache_is_used(config))
		return 0;
	client = calloc(1, sizeof(*client));
	if (client == NULL)
		return err_memory(err);
	client->kafka = kafka;
	client->quiet = quiet;
	(void)pthread_mutex_lock(&cache.starting);
	lock();
	LIST_INSERT_HEAD(&cache.clients, client, link);
	give(client);
	unlock();
	r = start(config, err);
	(void)pthread_mutex_unlock(&cache.starting);
	if (r < 0)
		token_cache_detach(kafka);
	return r;
}

void token_cache_detach(rd_kafka_t *kafka)
{
	struct client *client;
	bool last;

	(void)pthread_mutex_lock(&cache.starting);
	lock();
	LIST_FOREACH (client, &cache.clients, link) {
		if (client->kafka == kafka)
			break;
	}
	if (client != NULL)
		LIST_REMOVE(client, link);
	last = LIST_EMPTY(&cache.clients);
	unlock();
	free(client);
	if (last)
		stop();
	(void)pthread_mutex_unlock(&cache.starting);
}

void token_cache_reap(void)
{
	if (pthread_mutex_trylock(&cache.starting) != 0)
		return;
	if (!cache.runs)
		program_reap_orphans(&cache.program);
	(void)pthread_mutex_unlock(&cache.starting);
}

void token_cache_refused(void)
{
	lock();
	cache.refused = true;
	unlock();
}

int token_cache_wait(struct err *err)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	const int64_t until_ms = clock_now_ms() + WAIT_MS;
	bool tried;
	bool has_token;

	for (;;) {
		lock();
		tried = cache.tried;
		has_token = cache.token.value != NULL;
		if (tried && !has_token && err != NULL)
			*err = cache.failure;
		unlock();
		if (tried)
			break;
		if (clock_now_ms() >= until_ms)
			return err_set(err, FAULT_KAFKA, "there is no token for the brokers yet");
		(void)nanosleep(&pause, NULL);
	}
	return has_token ? 0 : FAULT_KAFKA;
}
