/* What the log counts in an outage of the database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest/partitions/db_outage.h"
#include "report/meters.h"

/* Three failures, and two watermarks that differed from the expected value. */
static void a_watermark_that_differs_is_no_failure(void **state)
{
	struct ingest *ingest = calloc(1, sizeof(*ingest));
	struct health health = { .storing_fails = false };
	struct err err = ERR_INIT;
	FILE *file = tmpfile();
	int old = dup(STDERR_FILENO);
	char text[2048];
	size_t length;

	(void)state;
	(void)err_set(&err, FAULT_DATABASE, "no answer");
	ingest->options.health = &health;
	assert_int_equal(metrics_new(&ingest->options.metrics, meters, METER_COUNT, NULL), 0);
	assert_non_null(file);
	assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
	db_outage_doubt(ingest);
	for (int i = 0; i < 3; i++)
		db_outage_begin(ingest, &err);
	db_outage_doubt(ingest);
	db_outage_over(ingest);
	assert_true(dup2(old, STDERR_FILENO) >= 0);
	(void)close(old);
	rewind(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	(void)fclose(file);
	assert_non_null(strstr(text, "event=database_back failures=3 "));
	metrics_free(ingest->options.metrics);
	free(ingest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watermark_that_differs_is_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
