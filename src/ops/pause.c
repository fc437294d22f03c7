/*
 * `inboxd pause` and `inboxd resume`: stop delivery for a topic, a consumer or a handler, and start it again. All
 * sidecars of the schema apply a pause within two seconds, and after a restart (rule R29).
 */
#include <string.h>

#include "ops/op.h"

struct target {
	const char *kind;
	const char *name;
};

/* Exactly one of the three options names it. */
static int read_target(
	const struct cli *cli, const char *command, struct target *out, struct err *err)
{
	const struct target targets[] = { { "topic", cli->filter.topic },
		{ "consumer", cli->filter.consumer }, { "handler", cli->bridge.handler } };
	int count = 0;

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		if (targets[i].name == NULL)
			continue;
		*out = targets[i];
		count++;
	}
	if (count != 1)
		return err_set(err, FAULT_USAGE,
			"%s: give one of --topic, --consumer and --handler", command);
	if (cli->ingest && strcmp(out->kind, "topic") != 0)
		return err_set(err, FAULT_USAGE, "%s: --ingest needs --topic", command);
	return 0;
}

static int change(const struct op *op, const char *command, const struct target *target,
	bool *changed, struct err *err)
{
	bool pauses = op->cli->command == COMMAND_PAUSE;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, target->kind);
	params_text(&params, target->name);
	params_text(&params, op->cli->reason);
	if (pauses)
		params_bool(&params, op->cli->ingest);
	r = db_run(op->db, pauses ? QUERY_OP_PAUSE : QUERY_OP_RESUME, &params, &rows, err);
	if (r != 0)
		return r;
	*changed = rows_bool(rows, 0, 0);
	op_print_change(op, command, *changed ? 1 : 0);
	return 0;
}

int op_pause(const struct op *op, struct err *err)
{
	struct target target = { NULL, NULL };
	bool changed = false;
	int r = read_target(op->cli, "pause", &target, err);

	if (r == 0)
		r = change(op, "pause", &target, &changed, err);
	if (r == 0 && !op->cli->json)
		(void)printf("%s \"%s\" is %spaused%s; to end the pause: inboxd resume --%s %s\n",
			target.kind, target.name, changed ? "" : "already ",
			op->cli->ingest ? " and not read from Kafka" : "", target.kind,
			target.name[0] == '\0' ? "''" : target.name);
	return r;
}

int op_resume(const struct op *op, struct err *err)
{
	struct target target = { NULL, NULL };
	bool changed = false;
	int r = read_target(op->cli, "resume", &target, err);

	if (r == 0)
		r = change(op, "resume", &target, &changed, err);
	if (r == 0 && !changed)
		return err_set(err, FAULT_CHECK,
			"%s \"%s\" is not paused (`inboxd status` lists what is)", target.kind,
			target.name);
	if (r == 0 && !op->cli->json)
		(void)printf("%s \"%s\" is resumed: delivery begins within seconds, unless "
			     "another pause applies\n",
			target.kind, target.name);
	return r;
}
