/* `inboxd forward` of a build without libcurl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "bridge/forward/forward.h"

static void it_says_that_forward_is_missing_and_what_to_do(void **state)
{
	const struct forward_options options = { .url = "http://localhost/" };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(forward_run(&options, &err), FAULT_USAGE);
	assert_non_null(strstr(err.text, "forward is not in this build"));
	assert_non_null(strstr(err.text, "-Dforward=enabled"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_that_forward_is_missing_and_what_to_do),
	};

	return cmocka_run_group_tests_name("bridge without libcurl", tests, NULL, NULL);
}
