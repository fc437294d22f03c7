/*
 * Implements settings.h.
 */
#include "store/pg/settings.h"

#include <inttypes.h>
#include <stdio.h>

#define READ_LOCK_MS 100

/* Every statement here is written for an index and reads few rows. Sequential scans are therefore
 * disabled, whatever the statistics say at the moment. JIT compilation would cost more than it saves.
 * Neither is true of the user's functions. Where row-level security hides rows, a statement would find nothing and
 * seem to succeed: with row_security = off it fails. */
static void write_list(char *out, size_t size, const struct db_options *options, const char *local,
	const char *more)
{
	char planner[256] = "";

	if (!options->user_functions)
		(void)snprintf(planner, sizeof(planner),
			", set_config('lock_timeout', '%" PRId64
			"', %s), set_config('enable_seqscan', 'off', %s),"
			" set_config('jit', 'off', %s), set_config('row_security', 'off', %s)",
			options->lock_timeout_ms, local, local, local, local);
	(void)snprintf(out, size,
		"SELECT set_config('idle_in_transaction_session_timeout', '%" PRId64 "', %s),"
		" set_config('statement_timeout', '%" PRId64 "', %s)%s%s",
		options->idle_timeout_ms, local, options->statement_timeout_ms, local, planner,
		more);
}

void settings_write(struct transaction_settings *settings, const struct db_options *options)
{
	static const char generic[] = ", set_config('plan_cache_mode', 'force_generic_plan', true)";
	struct db_options reading = *options;

	reading.lock_timeout_ms = READ_LOCK_MS;
	for (int kind = PLANS_CUSTOM; kind < PLANS_KINDS; kind++) {
		const char *plans = kind == PLANS_GENERIC ? generic : "";

		write_list(settings->of[false][kind], sizeof(settings->of[0][0]), options, "true",
			plans);
		write_list(settings->of[true][kind], sizeof(settings->of[0][0]), &reading, "true",
			plans);
	}
	write_list(settings->session, sizeof(settings->session), options, "false",
		", set_config('plan_cache_mode', 'force_generic_plan', false)"
		", set_config('default_transaction_isolation', 'read committed', false)"
		", set_config('default_transaction_read_only', 'off', false)");
}
