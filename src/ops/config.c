/*
 * `inboxd config`. See commands.h. An answer is printed only if it is known to be a whole answer of an inboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/config_page.h"
#include "http/listen.h"
#include "ops/commands.h"

enum { ASK_NOBODY = 1 };

static void answer_fini(struct http_answer *answer)
{
	buf_fini(&answer->text);
}

/* What keeps the answer from being printed; NULL: nothing. */
static const char *doubt(const struct http_answer *answer)
{
	if (answer->status == 0)
		return "a program listens there and gives no answer";
	if (!answer->by_inboxd)
		return "another program answers there, or an inboxd of an earlier version";
	if (!answer->complete)
		return "the sidecar's answer was cut off; try again";
	return answer->status == 200 ? NULL : "the sidecar refuses the answer";
}

/* Prints what the sidecar that listens there says. ASK_NOBODY: no program listens there. FAULT_CHECK: it is no whole answer
 * of an inboxd. */
static int ask_sidecar(const struct cli *cli, const char *listen, struct err *err)
{
	CLEANUP(answer_fini) struct http_answer answer = { .connected = false };
	const char *wrong;

	if (listen[0] != '\0')
		http_ask(listen, "/config", cli->json ? "application/json" : "text/plain", &answer);
	if (!answer.connected)
		return ASK_NOBODY;
	wrong = doubt(&answer);
	if (wrong == NULL) {
		(void)fputs(answer.body, stdout);
		return 0;
	}
	if (answer.by_inboxd && answer.complete)
		return err_set(err, FAULT_CHECK, "http.listen (%s): %s: %d %.*s", listen, wrong,
			answer.status, (int)strcspn(answer.body, "\n"), answer.body);
	return err_set(err, FAULT_CHECK, "http.listen (%s): %s", listen, wrong);
}

static int print_own(const struct cli *cli, const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf own = BUF_INIT;

	(void)fprintf(stderr,
		"no inboxd answers on http.listen (%s): this is what one would start with\n",
		config->http.listen);
	config_page_of(&own, cli->json, config, false);
	if (!buf_ok(&own))
		return err_memory(err);
	(void)fputs(buf_str(&own), stdout);
	return 0;
}

int command_config(const struct cli *cli, const struct config *config, struct err *err)
{
	int r = ask_sidecar(cli, config->http.listen, err);

	return r == ASK_NOBODY ? print_own(cli, config, err) : r;
}

int command_config_unloaded(
	const struct cli *cli, const struct config_sources *sources, struct err *err)
{
	CLEANUP(freep) char *listen = NULL;
	struct err own = ERR_INIT;

	if (config_find_listen(&listen, sources, NULL) != 0 || ask_sidecar(cli, listen, &own) != 0)
		return err->fault;
	(void)fprintf(stderr,
		"the configuration that you gave cannot be loaded; the running sidecar uses the "
		"one above. %s\n",
		err->text);
	return 0;
}
