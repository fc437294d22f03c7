#include "ingest/tls_errors.h"

#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VERSION_WITH_SCRAM 0x020601ff /* librdkafka pull request 4895 */

/* On librdkafka's threads; its signature is librdkafka's. */
static int on_certificate(rd_kafka_t *kafka, const char *broker, int32_t id, int *x509_error,
	int depth, const char *certificate, size_t size, char *words, size_t words_size,
	void *opaque)
{
	struct tls_errors *trust = opaque;

	(void)kafka;
	(void)broker;
	(void)id;
	(void)depth;
	(void)certificate;
	(void)size;
	if (*x509_error == X509_V_OK)
		return 1;
	atomic_store(&trust->error, *x509_error);
	(void)snprintf(words, words_size, "%s", X509_verify_cert_error_string(*x509_error));
	return 0;
}

void tls_errors_register(rd_kafka_conf_t *conf)
{
	/* A librdkafka without TLS has no certificates to check. */
	(void)rd_kafka_conf_set_ssl_cert_verify_cb(conf, on_certificate);
}

static const char *advice_for_certificate(int error)
{
	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "tried again; the broker's certificate is for another name: name brokers in "
		       "kafka.bootstrap.servers and advertised.listeners as their certificates do";
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "tried again; the broker's certificate is not valid now: renew it, or look "
		       "at the clocks";
	default:
		return "tried again; the broker's certificate is not signed by a CA that is known "
		       "here: name its CA in kafka.ssl.ca.location";
	}
}

static const char *advice_for_login(const char *reason)
{
	/* It repeats its own nonce, which brokers used to overlook. */
	if (strstr(reason, "SCRAM") != NULL && rd_kafka_version() < VERSION_WITH_SCRAM)
		return "tried again; correct kafka.sasl.username and kafka.sasl.password; if they "
		       "are "
		       "right: librdkafka before 2.6.1, as here, cannot log in to Kafka 4 by "
		       "SCRAM, "
		       "take a later one or SASL PLAIN with TLS";
	return "tried again; correct kafka.sasl.username and kafka.sasl.password, or their files, "
	       "which are read again by themselves";
}

/* A handshake that fails may be told as a connection that ended, with the reason in its words. */
static bool is_about_a_certificate(rd_kafka_resp_err_t code, const char *reason)
{
	return code == RD_KAFKA_RESP_ERR__SSL ||
	       (code == RD_KAFKA_RESP_ERR__TRANSPORT && strstr(reason, "certificate") != NULL);
}

const char *tls_errors_advice(
	struct tls_errors *trust, rd_kafka_resp_err_t code, const char *reason)
{
	int error;

	if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
		return advice_for_login(reason);
	if (!is_about_a_certificate(code, reason))
		return NULL;
	error = atomic_exchange(
		&trust->error, 0); /* what comes later may be about something else */
	return error != 0 ? advice_for_certificate(error) : NULL;
}
