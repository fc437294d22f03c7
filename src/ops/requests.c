/*
 * `inboxd requests`: the requests with an idempotency key. Its first argument selects what it does.
 * Stored responses are shown only with --body, and only to the owner of the schema.
 */
#include <string.h>

#include "ops/op.h"

#define DEFAULT_LIMIT 100
#define MOST_LIMIT    100000

/* The columns of op_requests_find.sql. */
enum { FOUND_SCOPE, FOUND_JSON, FOUND_OPERATION, FOUND_STATE, FOUND_LOST };
/* The columns of op_requests_response.sql. */
enum { RESPONSE_JSON, RESPONSE_HEADERS, RESPONSE_BODY, RESPONSE_TEXT };

static int list(const struct op *op, struct err *err)
{
	static const char *const titles[] = { "SCOPE", "KEY", "OPERATION", "STATE", "ATTEMPT",
		"STATUS", "BEGUN", "EXPIRES", "ERROR" };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t limit = op->cli->bounds.limit == 0 ? DEFAULT_LIMIT : op->cli->bounds.limit;
	int r;

	limit = limit > MOST_LIMIT ? MOST_LIMIT : limit;
	params_text(&params, op->cli->filter.scope);
	params_text(&params, op->cli->filter.status);
	params_int(&params, (int32_t)limit);
	r = db_run(op->db, QUERY_OP_REQUESTS_LIST, &params, &rows, err);
	if (r != 0)
		return r;
	if (op->cli->json)
		op_print_lines(rows, 9);
	else
		op_print_table(rows, titles, 9, false);
	if (!op->cli->json && rows_count(rows) == limit && limit < MOST_LIMIT)
		(void)fputs("there may be more: --limit, --scope, --status\n", stderr);
	return 0;
}

/* Finds the request with the key of the arguments; fails unless there is exactly one. */
static int find_request(const struct op *op, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const char *key = op->cli->words[1];
	const char *scope = op->cli->filter.scope;
	int r;

	params_text(&params, key);
	params_text(&params, scope);
	r = db_run(op->db, QUERY_OP_REQUESTS_FIND, &params, out, err);
	if (r != 0 || rows_count(*out) == 1)
		return r;
	if (rows_count(*out) > 1)
		return err_set(err, FAULT_USAGE,
			"the key \"%s\" exists in several scopes (\"%s\", \"%s\"%s): select one "
			"with --scope",
			key, rows_text(*out, 0, FOUND_SCOPE), rows_text(*out, 1, FOUND_SCOPE),
			rows_count(*out) > 2 ? ", …" : "");
	return err_set(err, FAULT_CHECK,
		"there is no request with the key \"%s\"%s%s%s; one that runs in its transaction "
		"is "
		"not visible before its COMMIT (`inboxd requests list`)",
		key, scope == NULL ? "" : " in the scope \"", scope == NULL ? "" : scope,
		scope == NULL ? "" : "\"");
}

/* The key and the scope of the request that was found, as parameters. */
static void add_names(struct params *params, const struct op *op, const struct rows *found)
{
	params_text(params, op->cli->words[1]);
	params_text(params, rows_text(found, 0, FOUND_SCOPE));
}

static int load_response(
	const struct op *op, const struct rows *found, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	add_names(&params, op, found);
	r = db_run(op->db, QUERY_OP_REQUESTS_RESPONSE, &params, out, err);
	if (r == FAULT_DATABASE && strcmp(err->state, "42501") == 0)
		return err_set(err, FAULT_DATABASE,
			"only the owner of the schema may read stored responses; leave --body out, "
			"or name "
			"the owner with INBOXD_POSTGRES_USER and INBOXD_POSTGRES_PASSWORD");
	if (r == 0 && rows_count(*out) == 0)
		return err_set(err, FAULT_CHECK, "the request was deleted at this moment");
	return r;
}

static void print_response(const struct rows *response)
{
	struct bytes body = rows_bytes(response, 0, RESPONSE_BODY);
	struct bytes text = rows_bytes(response, 0, RESPONSE_TEXT);

	if (!rows_is_null(response, 0, RESPONSE_HEADERS)) {
		(void)puts("\nheaders");
		op_print_text(stdout, rows_bytes(response, 0, RESPONSE_HEADERS), true);
		(void)putchar('\n');
	}
	if (body.data == NULL)
		return;
	(void)puts("\nbody");
	if (text.data == NULL) {
		op_print_hex(body);
		return;
	}
	op_print_text(stdout, text, true);
	(void)putchar('\n');
}

static int show(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *found = NULL;
	CLEANUP(rows_freep) struct rows *facts = NULL;
	CLEANUP(rows_freep) struct rows *response = NULL;
	CLEANUP(rows_freep) struct rows *caused = NULL;
	int r = find_request(op, &found, err);

	if (r == 0 && op->cli->body)
		r = load_response(op, found, &response, err);
	if (r != 0)
		return r;
	caused = op_read_caused(op, NULL, rows_text(found, 0, FOUND_SCOPE), op->cli->words[1]);
	if (op->cli->json) {
		op_print_with_caused(response == NULL ? found : response, 0,
			response == NULL ? FOUND_JSON : RESPONSE_JSON, caused);
		return 0;
	}
	add_names(&params, op, found);
	r = db_run(op->db, QUERY_OP_REQUESTS_FACTS, &params, &facts, err);
	if (r != 0)
		return r;
	op_print_facts(facts);
	op_print_caused(caused);
	if (response != NULL)
		print_response(response);
	return 0;
}

/* The next copy runs again, so this asks. */
static int confirm(const struct op *op, const struct rows *found, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	bool pending = strcmp(rows_text(found, 0, FOUND_STATE), "PENDING") == 0;

	buf_addf(&question,
		"forget the request \"%s\"%s%s, which is %s%s; its next copy runs again",
		op->cli->words[1], rows_text(found, 0, FOUND_OPERATION)[0] == '\0' ? "" : ", ",
		rows_text(found, 0, FOUND_OPERATION), rows_text(found, 0, FOUND_STATE),
		!pending                          ? ""
		: rows_bool(found, 0, FOUND_LOST) ? " and lost"
						  : " and still has its lease");
	if (!buf_ok(&question))
		return err_memory(err);
	return op_confirm(op, "forget", 1, buf_str(&question), err);
}

static int forget(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *found = NULL;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = find_request(op, &found, err);

	if (r == 0)
		r = confirm(op, found, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	params_text(&params, rows_text(found, 0, FOUND_SCOPE));
	params_text(&params, op->cli->words[1]);
	params_text(&params, op->cli->reason);
	params_jsonb(&params, rows_bytes(found, 0, FOUND_JSON));
	r = db_run(op->db, QUERY_OP_REQUESTS_FORGET, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return op_nothing(op, "forget", err,
			"a transaction uses the request at this moment, or it was deleted or has "
			"changed since the question; look again with `inboxd requests show`");
	if (!op->cli->json)
		(void)printf("forgotten; the next copy of the request runs again\n");
	op_print_change(op, "forget", 1);
	return 0;
}

/* What each action does, and whether it takes a key and these options. */
static const struct request_action {
	const char *name;
	op_function *run;
	bool key;
	bool lists;
	bool changes;
} actions[] = {
	{ "list", list, false, true, false },
	{ "show", show, true, false, false },
	{ "forget", forget, true, false, true },
};

static const struct request_action *find_action(const struct cli *cli)
{
	for (size_t i = 0; cli->word_count > 0 && i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(actions[i].name, cli->words[0]) == 0)
			return &actions[i];
	}
	return NULL;
}

/* The first option that the action does not take; NULL = none. */
static const char *misplaced_option(const struct request_action *action, const struct cli *cli)
{
	if (!action->lists && cli->filter.status != NULL)
		return "--status";
	if (!action->lists && cli->bounds.limit != 0)
		return op_limit_option(cli);
	if (action->run != show && cli->body)
		return "--body";
	if (!action->changes && cli->reason != NULL)
		return "--reason";
	return !action->changes && cli->dry_run ? "--dry-run" : NULL;
}

int op_requests(const struct op *op, struct err *err)
{
	const struct cli *cli = op->cli;
	const struct request_action *action = find_action(cli);

	if (action == NULL)
		return err_set(err, FAULT_USAGE,
			"requests: give one of list, show, forget (`inboxd requests --help`)");
	if (misplaced_option(action, cli) != NULL)
		return err_set(err, FAULT_USAGE, "requests %s does not take %s", action->name,
			misplaced_option(action, cli));
	if (action->key && cli->word_count < 2)
		return err_set(err, FAULT_USAGE, "requests %s: give a key (`inboxd requests list`)",
			action->name);
	if (!action->key && cli->word_count > 1)
		return err_set(err, FAULT_USAGE, "requests %s does not take the argument \"%s\"",
			action->name, cli->words[1]);
	return action->run(op, err);
}
