/*
 * `inboxd show`: one message with all its details: state, timeline, errors, headers and payload. An
 * event id is unique within its source only, so several messages may have the one that is given.
 *
 * The payload has three forms. For a person it is shown as formatted JSON or text, if it is that,
 * and otherwise as hexadecimal bytes; --payload raw writes its bytes and nothing else, for a pipe.
 */
#include <string.h>

#include "base/text/numbers.h"
#include "ops/op.h"

/* The columns of op_show.sql. */
enum { SHOW_SOURCE, SHOW_JSON, SHOW_TEXT, SHOW_PAYLOAD, SHOW_SEQ, SHOW_IS_JSON, SHOW_IS_DROPPED };

static int ambiguous(const struct op *op, const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf sources = BUF_INIT;

	for (int i = 0; i < rows_count(rows); i++)
		buf_addf(&sources, "%s%s", i == 0 ? "" : ", ", rows_text(rows, i, SHOW_SOURCE));
	return err_set(err, FAULT_USAGE,
		"event \"%s\" exists from several sources (%s): select one with --source",
		op->cli->words[0], buf_str(&sources));
}

static void print_payload(const struct rows *rows, bool hex)
{
	struct bytes payload = rows_bytes(rows, 0, SHOW_PAYLOAD);
	struct bytes text = rows_bytes(rows, 0, SHOW_TEXT);

	if (payload.data == NULL) {
		(void)printf(
			"\npayload: %s\n", rows_bool(rows, 0, SHOW_IS_DROPPED)
						   ? "dropped by retention; it cannot be replayed"
						   : "none (a tombstone)");
		return;
	}
	hex = hex || text.data == NULL;
	(void)printf("\npayload (%zu byte%s%s)\n", payload.length, plural((int64_t)payload.length),
		!hex && rows_bool(rows, 0, SHOW_IS_JSON)
			? ", shown as JSON; --payload raw prints the original bytes"
			: "");
	if (hex) {
		op_print_hex(payload);
		return;
	}
	op_print_text(stdout, text, true);
	(void)putchar('\n');
}

/* Columns: section, name, value. A new section starts with a title. */
static void print_facts(const struct rows *rows)
{
	const char *section = "";

	for (int i = 0; i < rows_count(rows); i++) {
		if (strcmp(section, rows_text(rows, i, 0)) != 0) {
			(void)printf("%s%s\n", i == 0 ? "" : "\n", rows_text(rows, i, 0));
			section = rows_text(rows, i, 0);
		}
		(void)fputs("  ", stdout);
		op_print_text(stdout, rows_bytes(rows, i, 1), false);
		(void)fputs(": ", stdout);
		op_print_text(stdout, rows_bytes(rows, i, 2), false);
		(void)putchar('\n');
	}
}

static int print_message(const struct op *op, const struct rows *rows, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *facts = NULL;
	int r;

	params_bigint(&params, rows_int(rows, 0, SHOW_SEQ));
	r = db_run(op->db, QUERY_OP_SHOW_FACTS, &params, &facts, err);
	if (r != 0)
		return r;
	print_facts(facts);
	print_payload(rows, op->cli->payload != NULL && strcmp(op->cli->payload, "hex") == 0);
	return 0;
}

/* A tombstone has no payload, so nothing is printed. */
static int print_raw(const struct op *op, const struct rows *rows, struct err *err)
{
	struct bytes payload = rows_bytes(rows, 0, SHOW_PAYLOAD);

	if (rows_bool(rows, 0, SHOW_IS_DROPPED))
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
	r = db_run(op->db, QUERY_OP_SHOW, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return op_no_message(op, op->cli->words[0], err);
	if (rows_count(rows) > 1)
		return ambiguous(op, rows, err);
	if (op->cli->payload != NULL && strcmp(op->cli->payload, "raw") == 0)
		return print_raw(op, rows, err);
	if (!op->cli->json)
		return print_message(op, rows, err);
	op_print_lines(rows, SHOW_JSON);
	return 0;
}
