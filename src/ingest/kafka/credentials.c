/*
 * Implements credentials.h.
 */
#include "ingest/kafka/credentials.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/secret.h"

void credentials_fini(struct credentials *credentials)
{
	free(credentials->username);
	free(credentials->password);
	*credentials = (struct credentials){ NULL, NULL };
}

/* If a setting occurs twice the last one counts, as in consumer_conf_value(). */
static const struct setting *find(const struct config *config, const char *name)
{
	for (size_t i = config->kafka.count; i > 0; i--) {
		if (strcmp(config->kafka.items[i - 1].name, name) == 0)
			return &config->kafka.items[i - 1];
	}
	return NULL;
}

static char *read_again(const struct setting *setting)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	const char *value = secret_fresh(setting, &scratch);

	return value == NULL ? NULL : strdup(value);
}

static bool same(const struct credentials *a, const struct credentials *b)
{
	return a->username != NULL && a->password != NULL &&
	       strcmp(a->username, b->username) == 0 && strcmp(a->password, b->password) == 0;
}

static rd_kafka_error_t *set_credentials(rd_kafka_t *kafka, const struct credentials *fresh)
{
#if RD_KAFKA_VERSION >= 0x020000ff
	return rd_kafka_sasl_set_credentials(kafka, fresh->username, fresh->password);
#else
	(void)kafka;
	(void)fresh;
	return rd_kafka_error_new(RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE,
		"librdkafka before 2.0 accepts credentials only at the start");
#endif
}

/* The first call logs nothing if the values are unchanged, because the client was created with them
 * a moment ago. */
static void apply(bool first, const struct credentials *fresh, rd_kafka_t *kafka)
{
	rd_kafka_error_t *error = set_credentials(kafka, fresh);

	if (!first && error != NULL)
		log_warn("kafka_credentials_refused",
			LOG_STR("error", rd_kafka_error_string(error)),
			LOG_STR("next", "the previous credentials stay in use; restart inboxd"));
	else if (!first)
		log_info("kafka_credentials_read", LOG_STR("username", fresh->username),
			LOG_STR("next", "new connections to the brokers use them"));
	if (error != NULL)
		rd_kafka_error_destroy(error);
}

void credentials_refresh(
	struct credentials *credentials, rd_kafka_t *kafka, const struct config *config)
{
	const struct setting *username = find(config, "sasl.username");
	const struct setting *password = find(config, "sasl.password");
	CLEANUP(credentials_fini) struct credentials fresh = { NULL, NULL };
	bool as_at_start; /* the client was created with these values */

	if (username == NULL || password == NULL ||
		(username->file == NULL && password->file == NULL))
		return;
	fresh.username = read_again(username);
	fresh.password = read_again(password);
	if (fresh.username == NULL || fresh.password == NULL || same(credentials, &fresh))
		return;
	as_at_start = strcmp(username->value, fresh.username) == 0 &&
		      strcmp(password->value, fresh.password) == 0;
	apply(credentials->username == NULL && as_at_start, &fresh, kafka);
	credentials_fini(credentials);
	*credentials = fresh;
	fresh = (struct credentials){ NULL, NULL };
}
