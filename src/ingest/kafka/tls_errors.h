/*
 * Explains why a broker's certificate or the login was refused, and what to do. librdkafka reports
 * an unknown CA and a wrong host name with the same text; the certificate callback shows OpenSSL's
 * reason. It refuses exactly the certificates that OpenSSL refuses. Any thread.
 */
#ifndef INGEST_KAFKA_TLS_ERRORS_H
#define INGEST_KAFKA_TLS_ERRORS_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tls_errors {
	atomic_int error; /* error code of OpenSSL for the last refused certificate; 0 = none */
	bool scram;       /* the login uses SCRAM */
	bool token;       /* the login uses OAUTHBEARER */
	bool oidc;        /* librdkafka gets the token from an identity provider */
};

/* Registers the certificate callback, and reads the login mechanism from `conf`. `errors` must be at the beginning of
 * the opaque of `conf`. */
void tls_errors_register(struct tls_errors *errors, rd_kafka_conf_t *conf);

/* Whether the error means that a broker has refused a login. librdkafka gives a connection that ends during the login the same
 * code. */
bool tls_errors_is_refusal(rd_kafka_resp_err_t code, const char *reason);

/* Whether librdkafka has no token of the identity provider: it connects to no broker, and asks again ten seconds later. */
bool tls_errors_is_without_token(rd_kafka_resp_err_t code, const char *reason);

/* What an operator can do about this error of the client; NULL: no advice is known. */
const char *tls_errors_advice(
	struct tls_errors *trust, rd_kafka_resp_err_t code, const char *reason);

#endif
