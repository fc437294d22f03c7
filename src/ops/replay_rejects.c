/*
 * `inboxd replay --rejects` and `inboxd replay --conflict`: records that did not become messages.
 *
 * --rejects applies the rules of the present configuration to each reject. A
 * reject that the rules accept becomes a waiting message; the others stay. The rules are those of
 * ingest (model/identity/identity.h), so the result is what ingest would have stored.
 *
 * All rejects are read twice: once to count the good ones for the confirmation, and once to store these. Each is
 * stored in a transaction of its own, together with the deletion of the reject.
 *
 * --conflict gives a dead message the payload of another record with its id (inbox.take_conflict()).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "model/identity/identity.h"
#include "ops/op.h"

/* A page is small, because a reject contains the whole record. */
#define PAGE         200
#define PAGE_BYTES   (16 << 20)
#define HEADERS_MOST 10000
#define REFUSED_MOST 10

/* The columns of op_rejects.sql. */
enum {
	REJECT_SEQ,
	REJECT_TOPIC,
	REJECT_PARTITION,
	REJECT_OFFSET,
	REJECT_TIMESTAMP,
	REJECT_KEY,
	REJECT_HEADERS,
	REJECT_PAYLOAD,
	REJECT_COUNTED,
	REJECT_GENERATION
};

struct rejects {
	const struct op *op;
	struct identity_finder *finder;
	struct identity_rules **rules; /* one per topic of the configuration */
	struct header *headers;        /* of the current record */
	char **names;                  /* names of the headers, owned */
	bool apply;                    /* false: only count */
	struct buf counted;            /* see op_counted_take() */
	int64_t most;                  /* end when so many are good; 0 = no limit */
	int64_t last_seq;              /* of those that were counted */
	int64_t good;
	int64_t refused;
	int refused_in_row; /* by PostgreSQL, since it stored one */
	struct err said;    /* the last of these errors */
	int64_t after;
	int page; /* rows of the previous page */
};

/* --- The rules --------------------------------------------------------------------------------- */

static int compile(struct rejects *rejects, size_t topic, struct err *err)
{
	const struct topic_rules *from = &rejects->op->config->topics[topic];
	const struct identity_spec spec = {
		.id = (const char *const *)from->id.items,
		.id_count = from->id.count,
		.type = (const char *const *)from->type.items,
		.type_count = from->type.count,
		.source = (const char *const *)from->source.items,
		.source_count = from->source.count,
		.accept = (const char *const *)from->accept.items,
		.accept_count = from->accept.count,
		.missing_id_rejects = from->missing_id_rejects,
	};
	int r = identity_rules_new(&rejects->rules[topic], &spec, err);

	return r < 0 ? err_prefix(err, "topics.%s", from->topic) : r;
}

static int prepare(struct rejects *rejects, struct err *err)
{
	size_t topics = rejects->op->config->topic_count;
	int r;

	rejects->rules = calloc(topics + 1, sizeof(void *));
	rejects->headers = calloc(HEADERS_MOST, sizeof(*rejects->headers));
	rejects->names = calloc(HEADERS_MOST, sizeof(*rejects->names));
	if (rejects->rules == NULL || rejects->headers == NULL || rejects->names == NULL)
		return err_memory(err);
	r = identity_finder_new(&rejects->finder, err);
	for (size_t i = 0; r == 0 && i < topics; i++)
		r = compile(rejects, i, err);
	return r;
}

static void rejects_fini(struct rejects *rejects)
{
	for (size_t i = 0; rejects->rules != NULL && i < rejects->op->config->topic_count; i++)
		identity_rules_free(rejects->rules[i]);
	free(rejects->rules);
	free(rejects->headers);
	free(rejects->names);
	buf_fini(&rejects->counted);
	identity_finder_free(rejects->finder);
}

/* --- A reject as a record ---------------------------------------------------------------------- */

static int read_headers(
	const struct rejects *rejects, struct bytes runs, struct record *record, struct err *err)
{
	struct bytes name;
	struct bytes value;

	record->headers = rejects->headers;
	while (record->header_count < HEADERS_MOST && rows_take_run(&runs, &name) &&
		rows_take_run(&runs, &value)) {
		char *copy = strndup(name.data == NULL ? "" : name.data, name.length);

		if (copy == NULL)
			return err_memory(err);
		rejects->names[record->header_count] = copy;
		rejects->headers[record->header_count++] = (struct header){ copy, value };
	}
	return 0;
}

static int read_record(const struct rejects *rejects, const struct rows *rows, int row,
	struct record *out, struct err *err)
{
	*out = (struct record){
		.topic = rows_text(rows, row, REJECT_TOPIC),
		.partition = (int32_t)rows_int(rows, row, REJECT_PARTITION),
		.offset = rows_int(rows, row, REJECT_OFFSET),
		.timestamp_ms = rows_timestamp_ms(rows, row, REJECT_TIMESTAMP),
		.generation = (int32_t)rows_int(rows, row, REJECT_GENERATION),
		.key = rows_bytes(rows, row, REJECT_KEY),
		.payload = rows_bytes(rows, row, REJECT_PAYLOAD),
	};
	return read_headers(rejects, rows_bytes(rows, row, REJECT_HEADERS), out, err);
}

/* --- One reject -------------------------------------------------------------------------------- */

/* True when this reject may be the cause. If PostgreSQL stores none of so many in a row, the database is. */
static bool is_refused(struct rejects *rejects, const struct err *err)
{
	const struct db *db = rejects->op->db;

	rejects->said = *err;
	return db_is_open(db) && db_error_may_be_row(err) && !db_error_is_clash(db, err) &&
	       ++rejects->refused_in_row < REFUSED_MOST;
}

/* The reason in words if, by this outcome of inbox.replay_reject(), the reject stays; otherwise NULL. */
static const char *why_it_stays(const char *outcome)
{
	static const char *const table[][2] = {
		{ "unwanted", "no known consumer wants it" },
		{ "behind", "an earlier record of its key stays (of its partition, with ordering: "
			    "partition)" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(outcome, table[i][0]) == 0)
			return table[i][1];
	}
	return NULL;
}

static int store(struct rejects *rejects, int64_t seq, const struct record *record,
	const struct identity *identity, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const char *stays;
	int r;

	params_bigint(&params, seq);
	params_text(&params, identity->source);
	params_text(&params, identity->event_id);
	params_text(&params, identity->type);
	params_text(&params, rejects->op->cli->reason);
	r = db_run(rejects->op->db, QUERY_OP_REPLAY_REJECT, &params, &rows, err);
	if (r == FAULT_DATABASE && is_refused(rejects, err)) {
		(void)fprintf(stderr, "%s/%d/%" PRId64 " stays: %s\n", record->topic,
			record->partition, record->offset, err->text);
		rejects->refused++;
		return 0;
	}
	if (r != 0 || rows_text(rows, 0, 0) == NULL)
		return r;
	stays = why_it_stays(rows_text(rows, 0, 0));
	if (stays != NULL) {
		(void)fprintf(stderr, "%s/%d/%" PRId64 " stays: %s\n", record->topic,
			record->partition, record->offset, stays);
		rejects->refused++;
		return 0;
	}
	rejects->refused_in_row = 0;
	rejects->good++;
	if (!rejects->op->cli->json)
		(void)printf("%s/%d/%" PRId64 " %s\n", record->topic, record->partition,
			record->offset, rows_text(rows, 0, 0));
	return 0;
}

static int identify(
	struct rejects *rejects, int64_t seq, const struct record *record, struct err *err)
{
	const struct config *config = rejects->op->config;
	size_t topic = (size_t)(config_topic_rules(config, record->topic) - config->topics);
	struct identity identity;
	int r;

	if ((int64_t)record->payload.length > config->ingest.max_payload) {
		rejects->refused++;
		return 0;
	}
	r = identity_find(rejects->finder, rejects->rules[topic], record, &identity, err);
	if (r > 0)
		rejects->refused++;
	else if (r == 0 && rejects->apply)
		r = store(rejects, seq, record, &identity, err);
	else if (r == 0)
		rejects->good++;
	return r < 0 ? r : 0;
}

/* --- All rejects ------------------------------------------------------------------------------- */

static bool is_enough(const struct rejects *rejects)
{
	return op_interrupted() || (rejects->most != 0 && rejects->good >= rejects->most);
}

static int identify_page(struct rejects *rejects, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	op_counted_give(&params, &rejects->counted);
	params_bigint(&params, rejects->after);
	params_bigint(&params, rejects->last_seq);
	params_int(&params, PAGE);
	params_bigint(&params, PAGE_BYTES);
	params_bool(&params, rejects->apply);
	r = db_run(rejects->op->db, QUERY_OP_REJECTS, &params, &rows, err);
	rejects->page = r == 0 ? rows_count(rows) : 0;
	if (rejects->page > 0 && !rejects->apply)
		r = op_counted_take(&rejects->counted, rows, REJECT_COUNTED, err);
	for (int i = 0; r == 0 && i < rejects->page && !is_enough(rejects); i++) {
		struct record record;

		rejects->after = rows_int(rows, i, REJECT_SEQ);
		r = read_record(rejects, rows, i, &record, err);
		if (r == 0)
			r = identify(rejects, rejects->after, &record, err);
		while (record.header_count > 0)
			free(rejects->names[--record.header_count]);
	}
	return r;
}

static int identify_all(struct rejects *rejects, bool apply, int64_t most, struct err *err)
{
	int r;

	rejects->apply = apply;
	rejects->most = most;
	rejects->good = rejects->refused = rejects->after = 0;
	do {
		r = identify_page(rejects, err);
	} while (r == 0 && rejects->page > 0 && !is_enough(rejects) &&
		 (apply || !op_counted_is_full(&rejects->counted)));
	return r;
}

static int store_all(struct rejects *rejects, struct err *err)
{
	int64_t wanted = rejects->good;
	int r;

	rejects->last_seq = rejects->after;
	op_interrupt_begin();
	r = identify_all(rejects, true, wanted, err);
	if (r == 0 && rejects->good == 0 && rejects->refused_in_row > 0) {
		*err = rejects->said;
		r = FAULT_DATABASE;
	}
	if (r == 0 || rejects->good > 0)
		op_print_change(rejects->op, "replay", rejects->good);
	if (r == 0 && op_interrupted() && rejects->good < wanted) {
		(void)fprintf(stderr,
			"inboxd: interrupted: %" PRId64 " of %" PRId64
			" replayed; run the same command again for the rest\n",
			rejects->good, wanted);
		op_interrupt_obey();
	}
	op_interrupt_end();
	return r;
}

static int replay_rejects(struct rejects *rejects, struct err *err)
{
	char question[128];
	int r = prepare(rejects, err);

	if (r == 0)
		r = identify_all(rejects, false, rejects->op->cli->bounds.limit, err);
	if (r != 0)
		return r;
	if (rejects->good == 0 && rejects->refused == 0)
		return op_nothing(rejects->op, "replay", err, "there are no rejects");
	if (rejects->good == 0)
		op_print_change(rejects->op, "replay", 0);
	if (rejects->good == 0)
		return err_set(err, FAULT_CHECK,
			"the rules of this configuration accept no reject; %" PRId64 " stay%s",
			rejects->refused, rejects->refused == 1 ? "s" : "");
	if (op_counted_is_full(&rejects->counted))
		(void)fputs(
			"there are more rejects; run the same command again for them\n", stderr);
	(void)snprintf(question, sizeof(question),
		"store %" PRId64 " reject%s as messages; %" PRId64 " stay%s rejected",
		rejects->good, plural(rejects->good), rejects->refused,
		rejects->refused == 1 ? "s" : "");
	r = op_confirm(rejects->op, "replay", rejects->good, question, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	return store_all(rejects, err);
}

int op_replay_rejects(const struct op *op, struct err *err)
{
	struct rejects rejects = { .op = op, .counted = BUF_INIT, .last_seq = INT64_MAX };
	int r = replay_rejects(&rejects, err);

	rejects_fini(&rejects);
	return r;
}

/* --- A conflict -------------------------------------------------------------------------------- */

/* The columns of op_conflict_find.sql. */
enum { CONFLICT_EVENT_ID, CONFLICT_SOURCE, CONFLICT_RECORD, CONFLICT_BYTES, CONFLICT_STATES };

/* The one option that selects something else, beside the consumer. */
static bool is_alone(const struct cli *cli)
{
	struct cli other = *cli;

	other.filter.consumer = NULL;
	return cli->word_count == 0 && !cli->filter.rejects && cli->bounds.after == 0 &&
	       cli->bounds.limit == 0 && cli->source == NULL && !op_has_filter(&other);
}

static int confirm_conflict(const struct op *op, const struct rows *found, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;

	buf_addf(&question,
		"replay event \"%s\" of source \"%s\", which is %s, with the payload of %s",
		rows_text(found, 0, CONFLICT_EVENT_ID), rows_text(found, 0, CONFLICT_SOURCE),
		rows_text(found, 0, CONFLICT_STATES), rows_text(found, 0, CONFLICT_RECORD));
	if (rows_is_null(found, 0, CONFLICT_BYTES))
		buf_add_str(&question, " (none: it is a tombstone)");
	else
		buf_addf(&question, " (%" PRId64 " bytes)", rows_int(found, 0, CONFLICT_BYTES));
	if (!buf_ok(&question))
		return err_memory(err);
	return op_confirm(op, "replay", 1, buf_str(&question), err);
}

/* The states of the messages with the id of the conflict; fails unless one of them is dead. */
static int find_conflict(const struct op *op, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const char *states;
	int r;

	params_bigint(&params, op->cli->filter.conflict);
	params_text(&params, op->cli->filter.consumer);
	r = db_run(op->db, QUERY_OP_CONFLICT_FIND, &params, out, err);
	if (r != 0)
		return r;
	if (rows_count(*out) == 0)
		return op_nothing(
			op, "replay", err, "there is no such conflict (`inboxd list --conflicts`)");
	states = rows_text(*out, 0, CONFLICT_STATES);
	if (states != NULL && strstr(states, "dead") != NULL)
		return 0;
	op_print_change(op, "replay", 0);
	return err_set(err, FAULT_CHECK,
		"event \"%s\" is %s; only a dead message takes the payload of a conflict%s",
		rows_text(*out, 0, CONFLICT_EVENT_ID), states == NULL ? "not in the inbox" : states,
		states == NULL ? "" : " (`inboxd discard EVENT_ID` makes one dead that waits)");
}

int op_replay_conflict(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *found = NULL;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	if (!is_alone(op->cli))
		return err_set(err, FAULT_USAGE,
			"replay: --conflict takes no event ids and, except for --consumer, no "
			"filters");
	r = find_conflict(op, &found, err);
	if (r == 0)
		r = confirm_conflict(op, found, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	params_bigint(&params, op->cli->filter.conflict);
	params_text(&params, op->cli->reason);
	params_text(&params, op->cli->filter.consumer);
	r = db_run(op->db, QUERY_OP_TAKE_CONFLICT, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return op_nothing(op, "replay", err,
			"the message is locked or has changed in the meantime; look again with "
			"`inboxd show`");
	if (!op->cli->json)
		(void)printf("%s replayed\n", rows_text(found, 0, CONFLICT_EVENT_ID));
	op_print_change(op, "replay", 1);
	return 0;
}
