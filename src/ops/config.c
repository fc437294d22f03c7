/*
 * `inboxd config`. See commands.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/config_page.h"
#include "http/listen.h"
#include "ops/commands.h"

/* The body of the running sidecar's answer; NULL: none runs there. */
static const char *ask(const struct cli *cli, const struct config *config, struct buf *answer)
{
	static const char ok[] = "HTTP/1.1 200 ";
	const char *body;

	if (config->http.listen[0] == '\0')
		return NULL;
	http_ask(config->http.listen, "/config", cli->json ? "application/json" : "text/plain",
		answer);
	if (!buf_ok(answer) || strncmp(buf_str(answer), ok, strlen(ok)) != 0)
		return NULL;
	body = strstr(buf_str(answer), "\r\n\r\n");
	return body == NULL ? NULL : body + strlen("\r\n\r\n");
}

int command_config(const struct cli *cli, const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT;
	CLEANUP(buf_fini) struct buf own = BUF_INIT;
	const char *body = ask(cli, config, &answer);

	if (body == NULL) {
		(void)fprintf(stderr,
			"no inboxd answers on http.listen (%s); this is the configuration with "
			"which inboxd would start\n",
			config->http.listen);
		config_page_of(&own, cli->json, config, false);
		body = buf_str(&own);
	}
	if (!buf_ok(&own))
		return err_memory(err);
	(void)fputs(body, stdout);
	return 0;
}
