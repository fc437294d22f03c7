/*
 * The effective configuration as plain values. It is read-only once loaded (load.h), so that any thread can
 * read it until config_free(). The configuration owns every string in it.
 *
 * Durations are in milliseconds, sizes in bytes; CONFIG_NEVER stands for "never". The option table in
 * options.c names the key, type, default and help text of each field; the fields have no other defaults.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "model/message/ordering.h"

#define CONFIG_NEVER INT64_MAX

struct strings {
	char **items;
	size_t count;
};

/* Whether statements are prepared under names; auto: unless a pooler is in between. */
enum prepare { PREPARE_NEVER, PREPARE_AUTO, PREPARE_ALWAYS };

/* One pass-through option of a library (kafka.*, postgres.*). */
struct setting {
	char *name;
	char *value; /* from when the configuration was loaded; secret.h reads it again */
	char *file;  /* the path of a value file:/path, else NULL */
};

struct settings {
	struct setting *items;
	size_t count;
};

/* Rules for one topic (or "*"). A key that is not written for a topic has the value of "*", else the
 * default. */
struct topic_rules {
	char *topic;
	struct strings accept;   /* event types; '*' at the end = prefix */
	struct strings id;       /* locators: header:NAME, key, json:/POINTER */
	bool missing_id_rejects; /* else the coordinates are the id */
	struct strings type;     /* locators, also topic and literal:TEXT */
	struct strings source;
};

/* A consumer. A key that is not written for it has the general value. */
struct consumer_rules {
	char *name;
	struct strings topics; /* names, or regular expressions that start with ^; none = all */
	struct strings types;  /* '*' at the end = prefix; none = all */
	enum ordering ordering;
	int64_t max_attempts;
	int64_t backoff;
	int64_t backoff_max;
	int64_t timeout;
};

/* A SQL handler: a function of the service's database that inboxd calls itself. */
struct sql_handler_rules {
	char *name;
	struct strings topics; /* names; none = all */
	struct strings types;  /* '*' at the end = prefix; none = all */
	char *call;            /* schema.function */
	char *consumer;        /* "" = as for a handler that names none */
	char *role;            /* "" = that of the sidecar */
	int64_t timeout;
	int64_t batch;
	int64_t connections;
};

struct config_entries;

/* One struct for each section. options.c has the meaning of each field. */
struct inbox_config {
	char *schema;
	char *instance;
	enum ordering ordering;
	enum next_after next_after;
	int64_t max_unsettled_per_key;
	int64_t max_in_flight;
	int64_t max_claimed;
	int64_t max_claimed_bytes;
	int64_t handler_memory;
	int64_t handler_absence;
	int64_t shutdown_timeout;
};

struct ingest_config {
	int64_t batch_messages;
	int64_t batch_bytes;
	int64_t batch_wait;
	int64_t max_pending;
	int64_t max_payload;
};

struct retry_config {
	int64_t max_attempts;
	int64_t backoff;
	int64_t backoff_max;
	int64_t max_crashes;
	char *dead_topic;
};

struct worker_config {
	int64_t connections;
	int64_t claim_batch;
	int64_t poll;
	int64_t lease;
};

struct socket_config {
	char *path;
	unsigned mode;
	char *group; /* "" = leave it */
	uint32_t *allow_uid;
	size_t allow_uid_count;
};

struct requests_config {
	bool socket;
};

struct http_config {
	char *listen; /* "" = off */
};

struct otlp_config {
	char *endpoint;     /* "" = off */
	char *service_name; /* "" = the group's */
	int64_t sample;     /* one in so many */
};

enum outbox_format { OUTBOX_CLOUDEVENTS, OUTBOX_STRUCTURED, OUTBOX_PLAIN };
enum outbox_producer { OUTBOX_IDEMPOTENT, OUTBOX_TRANSACTIONAL };

struct outbox_config {
	bool enabled;
	char *topic;  /* with {aggregate} and {type} */
	char *source; /* "" = the name of the group */
	enum outbox_format format;
	int64_t batch_messages;
	int64_t batch_bytes;
	int64_t poll;
	int64_t poll_idle;
	int64_t max_attempts;
	enum outbox_producer producer;
};

struct retention_config {
	int64_t processed;
	int64_t payload;
	int64_t dead;
	int64_t rejects;
	int64_t conflicts;
	int64_t audit;
	int64_t outbox;
	int64_t outbox_dead;
};

struct log_config {
	enum log_level level;
	bool json;
};

struct config {
	struct config_entries *entries; /* the texts of the values and their origins: show.h */
	struct config_entries *pending; /* of the last reload, for a restart; NULL: none */
	struct strings warnings;        /* for a person; the caller logs them once */
	struct inbox_config inbox;
	struct strings kafka_topics;
	char *kafka_oauth_token_file;             /* "" = none; so is the next one when empty */
	struct strings kafka_oauth_token_command; /* the program and its arguments */
	int64_t kafka_certificate_spread;
	struct settings kafka;    /* everything else under kafka */
	struct settings postgres; /* everything under postgres but prepare */
	enum prepare prepare;
	struct ingest_config ingest;
	struct topic_rules *topics; /* as written, "*" always among them and last */
	size_t topic_count;
	struct consumer_rules
		*consumers; /* as written; none: there is only the one without a name */
	size_t consumer_count;
	struct sql_handler_rules *handlers; /* as written */
	size_t handler_count;
	struct retry_config retry;
	struct outbox_config outbox;
	struct worker_config worker;
	struct socket_config socket;
	struct requests_config requests;
	struct http_config http;
	struct otlp_config otlp;
	struct retention_config retention;
	struct log_config log;
};

/* True without topics to read, and with the outbox: the sidecar publishes events, and does nothing else. */
static inline bool config_sends_only(const struct config *config)
{
	return config->kafka_topics.count == 0 && config->consumer_count == 0 &&
	       config->handler_count == 0 && config->outbox.enabled;
}

/* The rules of a consumer, or NULL if the configuration does not list it. Borrowed. */
const struct consumer_rules *config_consumer_rules(const struct config *config, const char *name);
/* The rules of a topic: its own, else those of "*". Never NULL. Borrowed. */
const struct topic_rules *config_topic_rules(const struct config *config, const char *topic);

#endif
