/* See client.h. */
#include "ingest/kafka/client.h"

#include "ingest/kafka/tls_errors.h"
#include "ingest/kafka/token_cache.h"

int kafka_client_new(rd_kafka_t **out, const struct client_use *use, rd_kafka_conf_t *conf,
	const struct config *config, struct err *err)
{
	char words[512];
	rd_kafka_t *kafka = rd_kafka_new(use->type, conf, words, sizeof(words));
	int r;

	if (kafka == NULL) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, FAULT_CONFIG, "kafka: %s", words);
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
