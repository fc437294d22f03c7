#include "ingest/probe.h"

#include <stdio.h>

#include "ingest/consumer_conf.h"

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
	struct probe *probe = opaque;

	(void)kafka;
	/* That no broker is left only follows from what was said before. */
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && probe->last_error[0] != '\0')
		return;
	probe->last_code = (rd_kafka_resp_err_t)code;
	(void)snprintf(probe->last_error, sizeof(probe->last_error), "%s: %s",
		rd_kafka_err2name((rd_kafka_resp_err_t)code), reason);
}

/* The settings of a sidecar make librdkafka tell a lot, which is nothing to somebody at a terminal. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	(void)kafka;
	(void)level;
	(void)facility;
	(void)text;
}

int probe_open(struct probe *probe, const struct config *config, bool eof, struct err *err)
{
	rd_kafka_conf_t *conf = NULL;
	char words[512];
	int r = consumer_conf_new(&conf, config, err);

	if (r < 0)
		return r;
	rd_kafka_conf_set_opaque(conf, probe);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_log_cb(conf, on_log);
	trust_listen(conf);
	if (rd_kafka_conf_set(conf, "enable.partition.eof", eof ? "true" : "false", words,
		    sizeof(words)) == RD_KAFKA_CONF_OK)
		probe->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, words, sizeof(words));
	if (probe->kafka == NULL) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, FAULT_CONFIG, "kafka: %s", words);
	}
	(void)rd_kafka_poll_set_consumer(probe->kafka);
	return 0;
}

void probe_close(struct probe *probe)
{
	if (probe->kafka != NULL)
		rd_kafka_destroy(probe->kafka);
	probe->kafka = NULL;
}

/* Errors are events of the consumer's queue: on_error() is called by who polls it. */
static void hear(struct probe *probe)
{
	rd_kafka_message_t *message = rd_kafka_consumer_poll(probe->kafka, 0);

	if (message != NULL)
		rd_kafka_message_destroy(message);
}

int probe_no_answer(struct probe *probe, const struct config *config, const char *what,
	const char *otherwise, struct err *err)
{
	const char *advice;

	hear(probe);
	advice = trust_advice(&probe->trust, probe->last_code, probe->last_error);
	(void)err_set(err, FAULT_KAFKA, "no broker of kafka.bootstrap.servers (%s) %s: %s",
		consumer_conf_value(config, "bootstrap.servers", ""), what,
		probe->last_error[0] == '\0' ? otherwise : probe->last_error);
	return err_advise(err, "%s",
		advice != NULL ? advice
			       : "correct kafka.bootstrap.servers, or look at the brokers and the "
				 "network between");
}
