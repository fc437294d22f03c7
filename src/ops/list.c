/*
 * `inboxd list`: pages of messages, of rejects and of conflicts, and groups of dead messages.
 * `inboxd keys`: pages of blocked keys. `inboxd audit`: what operators did. Each is of the type `listing`: a query and the titles of its columns. Every page has an end,
 * also when nothing in it matches (ADR 0018); the reader is told how to continue.
 */
#include <inttypes.h>
#include <string.h>

#include "ops/op.h"

#define DEFAULT_LIMIT 100
#define MOST_LIMIT    100000
#define MOST_COLUMNS  10

#define BY_SEQ        "seq"
#define BY_DIED       "died"

/* A listing. The columns of its query are: the cells, the row as JSON, and then the seq (pages) or
 * the number of groups. A query that searches for matches may end early; it also returns how many
 * rows it examined and the last seq examined. Without a match it returns one row without cells. */
struct listing {
	enum query query;
	bool pages;           /* accepts --after */
	const char *searched; /* what it searches; NULL = it reads no more than it lists */
	const char
		*counted; /* without pages: what the number in the column after the JSON counts */
	int cells;
	const char *titles[MOST_COLUMNS]; /* NULL = the cell is not printed */
	const char *order;                /* the usual one; NULL = there is no choice */
};

static const struct listing messages = { QUERY_OP_LIST, true, "messages", NULL, 10,
	{ "SEQ", "STATUS", "CONSUMER", "RECORD", "TYPE", "EVENT ID", "TRIES", "RECEIVED", NULL,
		"ERROR" },
	BY_SEQ };
static const struct listing deaths = { QUERY_OP_LIST, true, "messages", NULL, 10,
	{ "SEQ", "STATUS", "CONSUMER", "RECORD", "TYPE", "EVENT ID", "TRIES", "RECEIVED", "DIED",
		"ERROR" },
	BY_DIED };
static const struct listing groups = { QUERY_OP_GROUPS, false, NULL, "groups", 8,
	{ "MESSAGES", "CONSUMER", "TYPE", "CODE", "FIRST", "LAST", "LATEST SEQ", "ERROR" } };
static const struct listing rejects = { QUERY_OP_LIST_REJECTS, true, NULL, NULL, 5,
	{ "SEQ", "RECORD", "BYTES", "RECEIVED", "REASON" } };
static const struct listing conflicts = { QUERY_OP_LIST_CONFLICTS, true, NULL, NULL, 6,
	{ "SEQ", "RECORD", "SOURCE", "EVENT ID", "BYTES", "RECEIVED" } };
static const struct listing keys = { QUERY_OP_KEYS, true, "keys", NULL, 10,
	{ "CONSUMER", "TOPIC", "PARTITION", "KEY", "WAITING", "SINCE", "WAITS FOR", "STATUS",
		"NEXT ATTEMPT", "ERROR" } };
static const struct listing events = { QUERY_OP_OUTBOX_LIST, true, "events", NULL, 8,
	{ "SEQ", "STATUS", "TOPIC", "KEY", "TYPE", "EVENT ID", "EMITTED", "ERROR" } };

static const struct listing actions = { QUERY_OP_AUDIT, false, NULL, "actions", 6,
	{ "AT", "WHO", "ACTION", "AFFECTED", "REASON", "WHAT" } };

/* The result of a query is in memory as a whole before a line is printed. */
static int64_t limit_of(const struct op *op)
{
	int64_t limit = op->cli->bounds.limit == 0 ? DEFAULT_LIMIT : op->cli->bounds.limit;

	return limit > MOST_LIMIT ? MOST_LIMIT : limit;
}

/* Records that are no messages have no state, consumer, type or code. */
static int check_records(const struct cli *cli, struct err *err)
{
	const char *option = cli->filter.rejects ? "--rejects" : "--conflicts";
	const char *other = NULL;

	if (cli->filter.dead || cli->filter.status != NULL)
		other = cli->filter.dead ? "--dead" : "--status";
	else if (cli->filter.consumer != NULL)
		other = "--consumer";
	else if (cli->filter.group || cli->filter.type != NULL || cli->filter.code != NULL)
		other = cli->filter.group          ? "--group"
			: cli->filter.type != NULL ? "--type"
						   : "--code";
	else if (cli->filter.trace != NULL)
		other = "--trace";
	else if (cli->filter.conflicts && (cli->filter.rejects || cli->filter.error != NULL))
		other = cli->filter.rejects ? "--conflicts" : "--error";
	if (other == NULL)
		return 0;
	return err_set(err, FAULT_USAGE, "list: %s cannot be combined with %s", option, other);
}

static int check_options(const struct cli *cli, const struct listing *listing, struct err *err)
{
	if (listing->order == NULL && (cli->bounds.order != NULL || cli->bounds.reverse))
		return err_set(err, FAULT_USAGE, "list: %s is for messages only",
			cli->bounds.order != NULL ? "--order" : "--reverse");
	if (cli->filter.rejects || cli->filter.conflicts)
		return check_records(cli, err);
	if (listing == &messages && cli->bounds.order != NULL &&
		strcmp(cli->bounds.order, BY_DIED) == 0)
		return err_set(err, FAULT_USAGE, "list: --order died requires --dead");
	if (cli->filter.group && !op_is_dead(cli, "any"))
		return err_set(err, FAULT_USAGE, "list: --group requires --dead");
	if (cli->filter.group && cli->bounds.after != 0)
		return err_set(err, FAULT_USAGE,
			"list: --group cannot be combined with --after: it lists groups, not "
			"messages");
	return 0;
}

/* A full page is the only sign that there is more: nothing counts what lies behind it. */
static void print_more(const struct op *op, const struct listing *listing, const struct rows *rows)
{
	int count = rows_count(rows);
	int64_t last = count == 0 ? 0 : rows_int(rows, count - 1, listing->cells + 1);

	if (listing->pages && count == limit_of(op))
		(void)fprintf(stderr, "there may be more: --after %" PRId64 "\n", last);
	else if (!listing->pages && last > count)
		(void)fprintf(stderr,
			"there are %" PRId64 " %s; all of them: --limit %" PRId64 "\n", last,
			listing->counted, last);
}

/* Also printed to stderr with --json, because "no match found yet" differs from "no match exists". */
static void print_rest(const struct op *op, const struct listing *listing, const struct rows *rows,
	const struct rows *found)
{
	int searched = listing->cells + 2;
	int last = listing->cells + 3;

	if (listing->searched == NULL || rows_count(found) == limit_of(op) ||
		rows_is_null(rows, 0, last))
		return;
	(void)fprintf(stderr,
		"searched %" PRId64 " %s, up to seq %" PRId64
		", without a full page of matches; to continue: --after %" PRId64 "\n",
		rows_int(rows, 0, searched), listing->searched, rows_int(rows, 0, last),
		rows_int(rows, 0, last));
}

static void print_listing(
	const struct op *op, const struct listing *listing, const struct rows *rows)
{
	bool none = listing->searched != NULL && rows_is_null(rows, 0, listing->cells + 1);
	const struct rows *found = none ? NULL : rows;

	if (op->cli->json)
		op_print_lines(found, listing->cells);
	else
		op_print_table(found, listing->titles, listing->cells, listing == &groups);
	if (ferror(stdout) != 0)
		return;
	if (!op->cli->json)
		print_more(op, listing, found);
	print_rest(op, listing, rows, found);
}

/* Adds the order. Dead messages begin with the last death, all others with the lowest seq. A trace begins with the
 * highest one: it is recent in most cases, and a page searches a part of the table. */
static void add_order(struct params *params, const struct op *op, const struct listing *listing)
{
	const char *order = op->cli->bounds.order != NULL ? op->cli->bounds.order : listing->order;
	bool last_first = strcmp(order, BY_DIED) == 0 ||
			  (op->cli->filter.trace != NULL && op->cli->bounds.order == NULL);
	bool down = last_first != op->cli->bounds.reverse;
	char text[16];

	(void)snprintf(text, sizeof(text), "%s%s", order, down ? " DESC" : "");
	params_text(params, text);
}

/* `status`: that of the filter, if the options name none; NULL = the filter has none. */
static int list_rows(
	const struct op *op, const struct listing *listing, const char *status, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(buf_fini) struct buf filter = BUF_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = op_filter(&filter, op, status, err);

	if (r != 0)
		return r;
	params_jsonb(&params, (struct bytes){ filter.data, filter.length });
	if (listing->pages)
		params_bigint(&params, op->cli->bounds.after);
	params_int(&params, (int32_t)limit_of(op));
	if (listing->order != NULL)
		add_order(&params, op, listing);
	r = db_run(op->db, listing->query, &params, &rows, err);
	if (r == 0)
		print_listing(op, listing, rows);
	return r;
}

int op_list(const struct op *op, struct err *err)
{
	const struct listing *listing = op->cli->command == COMMAND_OUTBOX ? &events
					: op->cli->filter.rejects          ? &rejects
					: op->cli->filter.conflicts        ? &conflicts
					: op->cli->filter.group            ? &groups
					: op_is_dead(op->cli, "any")       ? &deaths
									   : &messages;
	int r = check_options(op->cli, listing, err);

	if (r == 0)
		r = list_rows(op, listing, "any", err);
	if (r == 0)
		op_note_times(op->cli, "any");
	return r;
}

int op_keys(const struct op *op, struct err *err)
{
	return list_rows(op, &keys, NULL, err);
}

int op_audit(const struct op *op, struct err *err)
{
	return list_rows(op, &actions, NULL, err);
}
