/* See client.h. */
#include "ingest/kafka/client.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ingest/kafka/consumer_conf.h"
#include "ingest/kafka/tls_errors.h"
#include "ingest/kafka/token_cache.h"

/* "ssl.ca.location", "sasl.oauthbearer.assertion.private.key.file" */
static bool names_a_file(const struct setting *setting)
{
	const char *last = strrchr(setting->name, '.');

	return last != NULL && setting->value[0] == '/' && setting->file == NULL &&
	       (strcmp(last, ".location") == 0 || strcmp(last, ".file") == 0);
}

/* librdkafka names the function of OpenSSL that has failed, but not the file, and the settings of Kerberos, but not why it
 * uses Kerberos. */
static int refused(const struct config *config, const char *words, struct err *err)
{
	const char *mechanism = consumer_conf_value(
		config, "sasl.mechanism", consumer_conf_value(config, "sasl.mechanisms", ""));

	for (size_t i = 0; i < config->kafka.count; i++) {
		const struct setting *setting = &config->kafka.items[i];

		if (names_a_file(setting) && access(setting->value, R_OK) != 0)
			return err_set(err, FAULT_CONFIG, "kafka.%s: cannot read %s: %s",
				setting->name, setting->value, strerror(errno));
	}
	if (mechanism[0] == '\0' &&
		(strstr(words, "kerberos") != NULL || strstr(words, "GSSAPI") != NULL))
		return err_set(err, FAULT_CONFIG,
			"kafka.sasl.mechanism is not set, and its default is GSSAPI (Kerberos), "
			"which needs more settings: set kafka.sasl.mechanism, for example to "
			"SCRAM-SHA-512 (%s)",
			words);
	return err_set(err, FAULT_CONFIG, "kafka: %s", words);
}

int kafka_client_new(rd_kafka_t **out, const struct client_use *use, rd_kafka_conf_t *conf,
	const struct config *config, struct err *err)
{
	char words[512];
	rd_kafka_t *kafka = rd_kafka_new(use->type, conf, words, sizeof(words));
	int r;

	if (kafka == NULL) {
		rd_kafka_conf_destroy(conf);
		return refused(config, words, err);
	}
	r = token_cache_attach(kafka, config, use->of_command, err);
	if (r == 0 && use->of_command && token_cache_is_used(config))
		r = token_cache_wait(err);
	if (r < 0) {
		kafka_client_free(kafka);
		return r;
	}
	*out = kafka;
	return 0;
}

void kafka_client_forget(rd_kafka_t *kafka)
{
	token_cache_detach(kafka);
}

void kafka_client_free(rd_kafka_t *kafka)
{
	kafka_client_forget(kafka);
	rd_kafka_destroy(kafka);
}

void kafka_client_failed(rd_kafka_resp_err_t code, const char *reason)
{
	if (tls_errors_is_refusal(code, reason))
		token_cache_refused();
}
