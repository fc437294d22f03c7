/*
 * Why a broker's certificate or our password was not accepted, and what to do about it: librdkafka's own words are the
 * same for a CA that is not ours and for a name that is another one. Refuses what OpenSSL refuses, and nothing
 * else. Any thread.
 */
#ifndef INGEST_TLS_ERRORS_H
#define INGEST_TLS_ERRORS_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

struct tls_errors {
	atomic_int error; /* OpenSSL's, of the last certificate that was refused; 0 = none was */
};

/* Listens to the judgement of certificates. The opaque of `conf` must begin with a struct tls_errors. */
void tls_errors_listen(rd_kafka_conf_t *conf);

/* What somebody has to do about this error of the client; NULL: nothing that is known here. */
const char *tls_errors_advice(
	struct tls_errors *trust, rd_kafka_resp_err_t code, const char *reason);

#endif
