/*
 * `inboxd migrate`: creates or updates the schema. A running migration checks several times a
 * second whether to stop; Ctrl-C then leaves the schema at the last complete migration.
 */
#include <stdio.h>

#include "base/text/numbers.h"
#include "daemon/migration.h"
#include "ops/commands.h"
#include "ops/op.h"

static bool is_uninterrupted(void *arg)
{
	(void)arg;
	return !op_interrupted();
}

int command_migrate(const struct cli *cli, const struct config *config, struct err *err)
{
	const struct migration_stop stop = { is_uninterrupted, NULL };
	struct migrate_result result = { 0 };
	bool ahead;
	int r;

	op_interrupt_begin();
	r = migration_run(config, &stop, &result, err);
	ahead = result.version > migrate_latest();
	if (r == 0 && cli->roles && !ahead)
		r = migration_grant(config, &stop, err);
	if (r == MIGRATE_STOPPED)
		(void)fprintf(stderr,
			"inboxd: interrupted after %d migration%s; run it again to continue\n",
			result.applied, plural(result.applied));
	op_interrupt_obey();
	/* a newer inboxd has migrated this schema and says that this one can use it */
	if (r == 0 && ahead)
		(void)printf(
			"schema \"%s\": version %d, newer than this inboxd (%d), which can use it; "
			"nothing changed\n",
			config->inbox.schema, result.version, migrate_latest());
	else if (r == 0)
		(void)printf("schema \"%s\": version %d, %d migration%s applied now\n",
			config->inbox.schema, result.version, result.applied,
			plural(result.applied));
	return op_explain(r, COMMAND_MIGRATE, err);
}
