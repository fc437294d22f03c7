/*
 * `inboxd pause` and `inboxd resume`: stop delivery for a topic, a consumer or a handler, and start it again. All
 * sidecars of the schema apply a pause within two seconds, and after a restart (rule R29).
 */
#include <string.h>

#include "ops/op.h"

struct pause_target {
	const char *kind;
	const char *name;
};

/* Exactly one of the three options names it. */
static int read_target(
	const struct cli *cli, const char *command, struct pause_target *out, struct err *err)
{
	const struct pause_target targets[] = { { "topic", cli->filter.topic },
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

/* What inbox.pause() found and did; of inbox.resume() only `changed`. */
struct pause_change {
	bool changed;
	bool was_paused;
	bool was_not_read;
	bool known; /* the schema has the target */
};

static int change(const struct op *op, const char *command, const struct pause_target *target,
	struct pause_change *out, struct err *err)
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
	out->changed = rows_bool(rows, 0, 0);
	if (pauses) {
		out->was_paused = rows_bool(rows, 0, 1);
		out->was_not_read = rows_bool(rows, 0, 2);
		out->known = rows_bool(rows, 0, 3);
	}
	op_print_change(op, command, out->changed ? 1 : 0);
	return 0;
}

static bool has(const struct strings *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i], name) == 0)
			return true;
	}
	return false;
}

/* A target that is configured, and that no sidecar has met yet. */
static bool is_configured(const struct config *config, const struct pause_target *target)
{
	if (strcmp(target->kind, "topic") == 0)
		return has(&config->kafka_topics, target->name);
	for (size_t i = 0; i < config->consumer_count; i++) {
		if (strcmp(target->kind, "consumer") == 0 &&
			strcmp(config->consumers[i].name, target->name) == 0)
			return true;
	}
	for (size_t i = 0; i < config->handler_count; i++) {
		if (strcmp(target->kind, "handler") == 0 &&
			strcmp(config->handlers[i].name, target->name) == 0)
			return true;
	}
	return false;
}

/* handler "billing" */
static void print_target(FILE *out, const struct pause_target *target)
{
	(void)fprintf(out, "%s \"", target->kind);
	op_print_text(out, bytes_of(target->name), false);
	(void)fputc('"', out);
}

/* As a word of a shell. */
static void print_word(const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	bool quoted = word[0] == '\0' || strspn(word, plain) != strlen(word);

	if (!quoted) {
		(void)fputs(word, stdout);
		return;
	}
	(void)putchar('\'');
	for (;;) {
		size_t length = strcspn(word, "'");

		op_print_text(stdout, (struct bytes){ word, length }, false);
		word += length;
		if (*word == '\0')
			break;
		(void)fputs("'\\''", stdout);
		word++;
	}
	(void)putchar('\'');
}

/* What is different from the pause before, or from no pause. */
static const char *difference(const struct cli *cli, const struct pause_change *done)
{
	if (cli->ingest && !done->was_not_read)
		return "; it is not read from Kafka";
	if (!cli->ingest && done->was_not_read)
		return "; it is read from Kafka again";
	return done->was_paused && done->changed ? "; the reason is new" : "";
}

int op_pause(const struct op *op, struct err *err)
{
	struct pause_target target = { NULL, NULL };
	struct pause_change done = { .changed = false };
	int r = read_target(op->cli, "pause", &target, err);

	if (r == 0)
		r = change(op, "pause", &target, &done, err);
	if (r != 0)
		return r;
	if (!done.known && !is_configured(op->config, &target)) {
		(void)fputs("note: nothing is known of the ", stderr);
		print_target(stderr, &target);
		(void)fputs("; is it the right name?\n", stderr);
	}
	if (op->cli->json)
		return 0;
	print_target(stdout, &target);
	(void)printf(" is %spaused%s; to end the pause: inboxd resume --%s ",
		done.was_paused ? "already " : "", difference(op->cli, &done), target.kind);
	print_word(target.name);
	(void)putchar('\n');
	return 0;
}

int op_resume(const struct op *op, struct err *err)
{
	struct pause_target target = { NULL, NULL };
	struct pause_change done = { .changed = false };
	int r = read_target(op->cli, "resume", &target, err);

	if (r == 0)
		r = change(op, "resume", &target, &done, err);
	if (r == 0 && !done.changed)
		return err_set(err, FAULT_CHECK,
			"%s \"%s\" is not paused (`inboxd status` lists what is)", target.kind,
			target.name);
	if (r != 0 || op->cli->json)
		return r;
	print_target(stdout, &target);
	(void)puts(" is resumed: delivery begins within seconds, unless another pause applies");
	return 0;
}
