/*
 * Implements tls_errors.h.
 */
#include "ingest/kafka/tls_errors.h"

#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VERSION_WITH_SCRAM 0x020601ff /* librdkafka pull request 4895 */

/* librdkafka gives this error the code of a refused login. The error comes again only when the rest of its text changes. */
static const char no_token[] = "Failed to acquire SASL OAUTHBEARER token";

/* Runs on threads of librdkafka, which defines the signature. */
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

void tls_errors_register(struct tls_errors *errors, rd_kafka_conf_t *conf)
{
	char mechanism[64] = "";
	char method[64] = "";
	size_t mechanism_size = sizeof(mechanism);
	size_t method_size = sizeof(method);

	(void)rd_kafka_conf_get(conf, "sasl.mechanisms", mechanism, &mechanism_size);
	(void)rd_kafka_conf_get(conf, "sasl.oauthbearer.method", method, &method_size);
	errors->scram = strncmp(mechanism, "SCRAM", strlen("SCRAM")) == 0;
	errors->token = strcasecmp(mechanism, "OAUTHBEARER") == 0;
	errors->oidc = errors->token && strcasecmp(method, "oidc") == 0;
	/* fails only for a librdkafka without TLS, which checks no certificates */
	(void)rd_kafka_conf_set_ssl_cert_verify_cb(conf, on_certificate);
}

static const char *advice_for_certificate(int error)
{
	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "retried; the broker's certificate is for another name: use the names of "
		       "the certificates in kafka.bootstrap.servers and advertised.listeners";
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "retried; the broker's certificate is not valid now: renew it, or "
		       "check the clocks";
	default:
		return "retried; the broker's certificate is not signed by a known CA: name its CA "
		       "in kafka.ssl.ca.location";
	}
}

bool tls_errors_is_without_token(rd_kafka_resp_err_t code, const char *reason)
{
	return code == RD_KAFKA_RESP_ERR__AUTHENTICATION && strstr(reason, no_token) != NULL;
}

static const char *advice_for_oidc(rd_kafka_resp_err_t code, const char *reason)
{
	if (tls_errors_is_without_token(code, reason))
		return "retried every 10 s; the identity provider gives no token: correct the "
		       "settings kafka.sasl.oauthbearer.* (address, client, secret, scope, "
		       "assertion), name its CA in kafka.https.ca.location, or check the network";
	return "retried; the broker refuses the token of the identity provider: its log says why; "
	       "check issuer, audience and scope of the token (kafka.sasl.oauthbearer.scope), and "
	       "the clocks";
}

static const char *advice_for_login(
	const struct tls_errors *errors, rd_kafka_resp_err_t code, const char *reason)
{
	if (errors->oidc)
		return advice_for_oidc(code, reason);
	if (errors->token)
		return "retried; the broker refuses the token of kafka.oauth_token_file or "
		       "kafka.oauth_token_command: its log says why; check issuer, audience and "
		       "scope of the token, and the clocks. The file is read again when it "
		       "changes, and the command runs again";
	/* older versions repeat only their own nonce, which Kafka 4 rejects */
	if (errors->scram && rd_kafka_version() < VERSION_WITH_SCRAM)
		return "retried; correct kafka.sasl.username and kafka.sasl.password; if they are "
		       "correct: librdkafka before 2.6.1, as used here, cannot log in to Kafka 4 "
		       "with SCRAM; use a later version, or SASL PLAIN with TLS";
	return "retried; correct kafka.sasl.username and kafka.sasl.password, or their files, "
	       "which are read again automatically";
}

/* librdkafka may report a failed handshake as a closed connection and give the reason only in the text (ADR 26). Any
 * other closed connection must not use up the error of the certificate. */
static bool is_about_a_certificate(rd_kafka_resp_err_t code, const char *reason)
{
	return code == RD_KAFKA_RESP_ERR__SSL ||
	       (code == RD_KAFKA_RESP_ERR__TRANSPORT && strstr(reason, "certificate") != NULL);
}

bool tls_errors_is_refusal(rd_kafka_resp_err_t code, const char *reason)
{
	return code == RD_KAFKA_RESP_ERR__AUTHENTICATION &&
	       strstr(reason, rd_kafka_err2str(RD_KAFKA_RESP_ERR__TRANSPORT)) == NULL;
}

const char *tls_errors_advice(
	struct tls_errors *trust, rd_kafka_resp_err_t code, const char *reason)
{
	int error;

	if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION && trust->token &&
		!tls_errors_is_refusal(code, reason))
		return NULL;
	if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
		return advice_for_login(trust, code, reason);
	if (!is_about_a_certificate(code, reason))
		return NULL;
	error = atomic_exchange(&trust->error, 0); /* a later error may have another cause */
	return error != 0 ? advice_for_certificate(error) : NULL;
}
