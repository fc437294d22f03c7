/* The class of each SQLSTATE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/pg/pg_error_class.h"

static void each_sqlstate_has_its_class(void **state)
{
	static const struct {
		const char *state;
		const char *name;
	} cases[] = {
		{ "", "connection" },
		{ "08006", "connection" },
		{ "57P01", "connection" },
		{ "57P03", "connection" },
		{ "25P03", "connection" },
		{ "57014", "timeout" },
		{ "40001", "busy" },
		{ "40P01", "busy" },
		{ "55P03", "busy" },
		{ "IB020", "data" },
		{ "53100", "resources" },
		{ "53300", "resources" },
		{ "58030", "resources" },
		{ "25006", "read_only" },
		{ "0A000", "read_only" },
		{ "28P01", "refused" },
		{ "3D000", "refused" },
		{ "42501", "refused" },
		{ "F0000", "refused" },
		{ "26000", "stale" },
		{ "42P05", "stale" },
		{ "42P01", "refused" },
		{ "22021", "data" },
		{ "23514", "data" },
		{ "54000", "data" },
		{ "23505", "other" },
		{ "55000", "other" },
		{ "P0001", "other" },
		{ "XX000", "other" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			pg_error_class_name(pg_error_class_of(cases[i].state)), cases[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sqlstate_has_its_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
