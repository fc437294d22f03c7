/*
 * `inboxd show`: one message with all its details: state, timeline, errors, headers and payload. An
 * event id is unique within its source only, so several messages may have the one that is given. A
 * message has one row for each of its consumers, and all of them are shown; their payload is the
 * same.
 *
 * The payload has three forms. For a person it is shown as formatted JSON or text, if it is that,
 * and otherwise as hexadecimal bytes; --payload raw writes its bytes and nothing else, for a pipe.
 */
#include <string.h>

#include "base/text/numbers.h"
#include "ops/op.h"

/* The columns of op_show.sql. */
enum { SHOW_SOURCE, SHOW_JSON, SHOW_TEXT, SHOW_PAYLOAD, SHOW_SEQ, SHOW_IS_JSON, SHOW_IS_DROPPED };

/* The rows are ordered by source. Fails unless there is only one. */
static int check_source(const struct op *op, const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf sources = BUF_INIT;
	const char *before = NULL;
	int count = 0;

	for (int i = 0; i < rows_count(rows); i++) {
		const char *source = rows_text(rows, i, SHOW_SOURCE);

		if (before != NULL && strcmp(before, source) == 0)
			continue;
		buf_addf(&sources, "%s%s", before == NULL ? "" : ", ", source);
		before = source;
		count++;
	}
	if (count == 1)
		return 0;
	return err_set(err, FAULT_USAGE,
		"event \"%s\" exists from several sources (%s): select one with --source",
		op->cli->words[0], buf_str(&sources));
}

/* A row that still has the payload, otherwise the first one: retention drops it row by row. */
static int row_with_payload(const struct rows *rows)
{
	for (int i = 0; i < rows_count(rows); i++) {
		if (!rows_bool(rows, i, SHOW_IS_DROPPED))
			return i;
	}
	return 0;
}

static void print_payload(const struct rows *rows, bool hex)
{
	int row = row_with_payload(rows);
	struct bytes payload = rows_bytes(rows, row, SHOW_PAYLOAD);
	struct bytes text = rows_bytes(rows, row, SHOW_TEXT);

	if (payload.data == NULL) {
		(void)printf(
			"\npayload: %s\n", rows_bool(rows, row, SHOW_IS_DROPPED)
						   ? "dropped by retention; it cannot be replayed"
						   : "none (a tombstone)");
		return;
	}
	hex = hex || text.data == NULL;
	(void)printf("\npayload (%zu byte%s%s)\n", payload.length, plural((int64_t)payload.length),
		!hex && rows_bool(rows, row, SHOW_IS_JSON)
			? ", shown as JSON; --payload raw prints the original bytes"
			: "");
	if (hex) {
		op_print_hex(payload);
		return;
	}
	op_print_text(stdout, text, true);
	(void)putchar('\n');
}

static int print_row(
	const struct op *op, enum query facts_of, const struct rows *rows, int row, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *facts = NULL;
	int r;

	params_bigint(&params, rows_int(rows, row, SHOW_SEQ));
	r = db_run(op->db, facts_of, &params, &facts, err);
	if (r != 0)
		return r;
	if (row > 0)
		(void)putchar('\n');
	op_print_facts(facts);
	return 0;
}

static int print_rows(
	const struct op *op, enum query facts_of, const struct rows *rows, struct err *err)
{
	int r = 0;

	for (int row = 0; r == 0 && row < rows_count(rows); row++)
		r = print_row(op, facts_of, rows, row, err);
	if (r == 0)
		print_payload(
			rows, op->cli->payload != NULL && strcmp(op->cli->payload, "hex") == 0);
	return r;
}

/* A tombstone has no payload, so nothing is printed. */
static int print_raw(const struct op *op, const struct rows *rows, struct err *err)
{
	int row = row_with_payload(rows);
	struct bytes payload = rows_bytes(rows, row, SHOW_PAYLOAD);

	if (rows_bool(rows, row, SHOW_IS_DROPPED))
		return err_set(err, FAULT_CHECK,
			"the payload of event \"%s\" no longer exists: retention has dropped it",
			op->cli->words[0]);
	if (payload.length > 0)
		(void)fwrite(payload.data, 1, payload.length, stdout);
	return 0;
}

int op_show(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	if (op->cli->word_count == 0)
		return err_set(err, FAULT_USAGE, "show: give an event id (`inboxd show --help`)");
	params_text(&params, op->cli->words[0]);
	params_text(&params, op->cli->source);
	params_text(&params, op->cli->filter.consumer);
	r = db_run(op->db, QUERY_OP_SHOW, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return op_no_message(op, op->cli->words[0], err);
	r = check_source(op, rows, err);
	if (r != 0)
		return r;
	if (op->cli->payload != NULL && strcmp(op->cli->payload, "raw") == 0)
		return print_raw(op, rows, err);
	if (!op->cli->json)
		return print_rows(op, QUERY_OP_SHOW_FACTS, rows, err);
	op_print_lines(rows, SHOW_JSON);
	return 0;
}

/* Several events have the same id after a replay of a published one; their payload is the same. */
int op_show_event(const struct op *op, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	if (op->cli->word_count < 2)
		return err_set(err, FAULT_USAGE,
			"outbox show: give an event id or a seq (`inboxd outbox list`)");
	params_text(&params, op->cli->words[1]);
	r = db_run(op->db, QUERY_OP_OUTBOX_SHOW, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return err_set(err, FAULT_CHECK,
			"there is no event with the id or seq \"%s\" in the outbox; an event "
			"is deleted when it is published",
			op->cli->words[1]);
	if (op->cli->payload != NULL && strcmp(op->cli->payload, "raw") == 0)
		return print_raw(op, rows, err);
	if (!op->cli->json)
		return print_rows(op, QUERY_OP_OUTBOX_FACTS, rows, err);
	op_print_lines(rows, SHOW_JSON);
	return 0;
}
