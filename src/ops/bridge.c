/*
 * The commands that are handlers of their own: they pass messages on to something that does not use a handler library.
 * They need no configuration, because they may run in another container than the sidecar and under another user.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/log_output.h"
#include "bridge/exec/exec.h"
#include "bridge/forward/forward.h"
#include "ops/commands.h"

enum { EXEC_JOBS = 1, FORWARD_JOBS = 16, CONNECT_TIMEOUT_MS = 5000 };

/* The options that all bridges have. */
static int intake_of(
	const struct cli *cli, int64_t jobs, struct intake_options *out, struct err *err)
{
	const struct cli_bridge *bridge = &cli->bridge;

	if (bridge->handler == NULL)
		return err_set(err, FAULT_USAGE,
			"the name of the handler is missing: give --handler NAME");
	if (bridge->jobs > INTAKE_JOBS_MAX)
		return err_set(err, FAULT_USAGE, "--jobs: %lld is more than %d",
			(long long)bridge->jobs, INTAKE_JOBS_MAX);
	*out = (struct intake_options){
		.handler = bridge->handler,
		.consumer = cli->filter.consumer,
		.socket = bridge->socket,
		.topics = bridge->topics.items,
		.topic_count = bridge->topics.count,
		.types = bridge->types.items,
		.type_count = bridge->types.count,
		.jobs = (int)(bridge->jobs > 0 ? bridge->jobs : jobs),
		.timeout_ms = bridge->timeout,
	};
	log_configure(LOG_INFO, cli->json);
	return log_output_start(err);
}

int command_exec(const struct cli *cli, struct err *err)
{
	struct exec_options options = {
		.lines = cli->bridge.lines,
		.settles = cli->bridge.settled,
		.extend_ms = cli->bridge.extend,
	};
	CLEANUP(freep) char **command = calloc(cli->word_count + 1, sizeof(*command));
	int r = intake_of(cli, EXEC_JOBS, &options.intake, err);

	if (r != 0)
		return r;
	if (command == NULL)
		return err_memory(err);
	if (cli->word_count == 0)
		return err_set(err, FAULT_USAGE,
			"the command is missing: inboxd exec --handler NAME -- COMMAND "
			"[ARGUMENT]...");
	if (options.lines && options.settles)
		return err_set(err, FAULT_USAGE,
			"--settled is about exit codes: with --lines, answer \"settled\" instead");
	/* execve(2) takes arguments that it does not change. */
	memcpy(command, cli->words, cli->word_count * sizeof(*command));
	options.command = command;
	return exec_run(&options, err);
}

int command_forward(const struct cli *cli, struct err *err)
{
	const struct cli_bridge *bridge = &cli->bridge;
	struct forward_options options = {
		.url = bridge->url,
		.headers = bridge->headers.items,
		.header_count = bridge->headers.count,
		.structured = bridge->mode != NULL && strcmp(bridge->mode, "structured") == 0,
		.settles = bridge->settled,
		.h2c = bridge->h2c,
		.connect_timeout_ms =
			bridge->connect_timeout > 0 ? bridge->connect_timeout : CONNECT_TIMEOUT_MS,
		.ca = bridge->ca,
		.cert = bridge->cert,
		.key = bridge->key,
	};
	int r = intake_of(cli, FORWARD_JOBS, &options.intake, err);

	if (r == 0 && options.url == NULL)
		r = err_set(err, FAULT_USAGE,
			"the URL is missing: give --url http://localhost:8080/events");
	status_table_init(&options.statuses);
	if (r == 0 && cli->filter.status != NULL)
		r = status_table_change(&options.statuses, cli->filter.status, err);
	return r != 0 ? r : forward_run(&options, err);
}
