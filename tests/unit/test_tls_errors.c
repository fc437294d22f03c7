/* What to do about a certificate that was refused, however librdkafka tells of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/x509_vfy.h>
#include <string.h>

#include "ingest/kafka/tls_errors.h"

#define REFUSED "SSL routines::certificate verify failed (after 22ms in state SSL_HANDSHAKE)"

static void a_refused_certificate_is_reported_also_for_a_closed_connection(void **state)
{
	static const rd_kafka_resp_err_t codes[] = { RD_KAFKA_RESP_ERR__SSL,
		RD_KAFKA_RESP_ERR__TRANSPORT };

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct tls_errors trust = { X509_V_ERR_HOSTNAME_MISMATCH };
		const char *advice = tls_errors_advice(&trust, codes[i], REFUSED);

		assert_non_null(advice);
		assert_non_null(strstr(advice, "for another name"));
		assert_null(tls_errors_advice(&trust, codes[i], REFUSED));
	}
}

static void another_connection_error_keeps_the_certificate_error(void **state)
{
	struct tls_errors trust = { X509_V_ERR_CERT_HAS_EXPIRED };

	(void)state;
	assert_null(tls_errors_advice(&trust, RD_KAFKA_RESP_ERR__TRANSPORT, "Connection refused"));
	assert_non_null(strstr(
		tls_errors_advice(&trust, RD_KAFKA_RESP_ERR__SSL, REFUSED), "is not valid now"));
}

static void a_connection_that_ends_during_the_login_is_no_refused_token(void **state)
{
	struct tls_errors errors = { .token = true };
	const rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__AUTHENTICATION;
	static const char ended[] = "SASL OAUTHBEARER mechanism handshake failed: Local: Broker "
				    "transport failure: broker's "
				    "supported mechanisms: (n/a)";
	static const char refused[] = "SASL authentication error: {\"status\":\"invalid_token\"}";

	(void)state;
	assert_false(tls_errors_is_refusal(code, ended));
	assert_null(tls_errors_advice(&errors, code, ended));
	assert_true(tls_errors_is_refusal(code, refused));
	assert_non_null(strstr(tls_errors_advice(&errors, code, refused), "refuses the token"));
	assert_false(tls_errors_is_refusal(RD_KAFKA_RESP_ERR__SSL, refused));
}

static void the_advice_names_the_source_of_the_token(void **state)
{
	struct tls_errors errors = { .token = true, .oidc = true };
	const rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__AUTHENTICATION;

	(void)state;
	assert_non_null(strstr(tls_errors_advice(&errors, code,
				       "Failed to acquire SASL OAUTHBEARER token: {\"error\": 1}"),
		"the identity provider gives no token"));
	assert_non_null(strstr(tls_errors_advice(&errors, code,
				       "SASL authentication error: {\"status\":\"invalid_token\"}"),
		"kafka.sasl.oauthbearer.scope"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_certificate_is_reported_also_for_a_closed_connection),
		cmocka_unit_test(a_connection_that_ends_during_the_login_is_no_refused_token),
		cmocka_unit_test(another_connection_error_keeps_the_certificate_error),
		cmocka_unit_test(the_advice_names_the_source_of_the_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
