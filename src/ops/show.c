/*
 * `inboxd show`: one message with all its details: state, timeline, errors, headers and payload. It
 * is named by what `list` prints: an event id, a seq or a record. An event id is unique within its
 * source only, so several messages may have the one that is given. A message has one row for each of
 * its consumers, and all of them are shown; their payload is the same. A seq names one row.
 *
 * The payload has three forms. For a person it is shown as formatted JSON or text, if it is that,
 * and otherwise as hexadecimal bytes; --payload raw writes its bytes and nothing else, for a pipe.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/numbers.h"
#include "ops/op.h"

/* The columns of op_show.sql. */
/* The first three are those of op_print_facts(). */
enum { CAUSED_JSON = 3 };
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
		"event \"%s\" exists from several sources (%s): select one with --source, or give "
		"its "
		"seq",
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

struct rows *op_read_caused(
	const struct op *op, const char *seq, const char *scope, const char *key)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct rows *rows = NULL;
	struct err err = ERR_INIT;
	int r;

	params_text(&params, seq);
	params_text(&params, scope);
	params_text(&params, key);
	r = db_run(op->db, QUERY_OP_CAUSED, &params, &rows, &err);
	if (r == 0)
		return rows;
	(void)op_explain(r, op->cli->command, op->config, &err);
	(void)fprintf(stderr, "its trace and the events that it has caused are not shown: %s\n",
		err.text);
	return NULL;
}

void op_print_caused(const struct rows *caused)
{
	if (rows_count(caused) == 0 || rows_is_null(caused, 0, 0))
		return;
	(void)putchar('\n');
	op_print_facts(caused);
}

void op_print_with_caused(const struct rows *rows, int row, int column, const struct rows *caused)
{
	struct bytes object = rows_bytes(rows, row, column);

	if (rows_count(caused) > 0 && object.length > 0) {
		(void)fwrite(object.data, 1, object.length - 1, stdout);
		(void)printf(",%s}\n", rows_text(caused, 0, CAUSED_JSON));
		return;
	}
	(void)fwrite(object.data, 1, object.length, stdout);
	(void)putchar('\n');
}

static struct rows *read_caused_by(const struct op *op, const struct rows *rows, int row)
{
	char seq[24];

	(void)snprintf(seq, sizeof(seq), "%" PRId64, rows_int(rows, row, SHOW_SEQ));
	return op_read_caused(op, seq, NULL, NULL);
}

static int print_row(
	const struct op *op, enum query facts_of, const struct rows *rows, int row, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *facts = NULL;
	CLEANUP(rows_freep) struct rows *caused = NULL;
	int r;

	params_bigint(&params, rows_int(rows, row, SHOW_SEQ));
	r = db_run(op->db, facts_of, &params, &facts, err);
	if (r != 0)
		return r;
	if (row > 0)
		(void)putchar('\n');
	op_print_facts(facts);
	if (facts_of == QUERY_OP_SHOW_FACTS)
		caused = read_caused_by(op, rows, row);
	op_print_caused(caused);
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

/* --- What the argument names ------------------------------------------------------------------- */

/* The columns of op_find_seq.sql and op_find_record.sql: no row, or the identity of one message. */
enum { FOUND_SEQ, FOUND_EVENT_ID, FOUND_SOURCE, FOUND_CONSUMER };

/* The rows of a message in the order of their sources. `wanted`: event id, source and consumer; NULL = any. */
static int read_rows(
	const struct op *op, const char *const wanted[3], struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	for (size_t i = 0; i < 3; i++)
		params_text(&params, wanted[i]);
	return db_run(op->db, QUERY_OP_SHOW, &params, out, err);
}

/* "orders/0/389". A topic has no slash. Leaves the length of the topic. */
static bool read_record(const char *word, size_t *topic, int64_t *partition, int64_t *offset)
{
	char digits[24];
	size_t length;

	*topic = strcspn(word, "/");
	length = strcspn(word + *topic + (word[*topic] == '/'), "/");
	if (*topic == 0 || word[*topic] != '/' || length >= sizeof(digits) ||
		word[*topic + 1 + length] != '/')
		return false;
	memcpy(digits, word + *topic + 1, length);
	digits[length] = '\0';
	return cli_number(digits, partition) && *partition <= INT32_MAX &&
	       cli_number(word + *topic + 1 + length + 1, offset);
}

static int find_seq(const struct op *op, const char *word, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int64_t seq;

	if (!cli_number(word, &seq))
		return 0;
	params_bigint(&params, seq);
	return db_run(op->db, QUERY_OP_FIND_SEQ, &params, out, err);
}

static int find_record(const struct op *op, const char *word, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(buf_fini) struct buf topic = BUF_INIT;
	size_t length;
	int64_t partition;
	int64_t offset;

	if (!read_record(word, &length, &partition, &offset))
		return 0;
	buf_addf(&topic, "%.*s", (int)length, word);
	params_text(&params, buf_str(&topic));
	params_int(&params, (int32_t)partition);
	params_bigint(&params, offset);
	return db_run(op->db, QUERY_OP_FIND_RECORD, &params, out, err);
}

static bool is_by(const struct op *op, const char *name)
{
	return op->cli->by == NULL || strcmp(op->cli->by, name) == 0;
}

/* The message that has the argument as its seq or its record; no rows: the argument is neither. Leaves
 * which of the two it looked for. */
static int find_other(const struct op *op, const char **name, struct rows **out, struct err *err)
{
	int r = 0;

	*name = "seq";
	if (is_by(op, "seq"))
		r = find_seq(op, op->cli->words[0], out, err);
	if (r != 0 || *out != NULL || !is_by(op, "record"))
		return r;
	*name = "record";
	return find_record(op, op->cli->words[0], out, err);
}

/* The event id was taken: says that the argument has another meaning, too, and how to choose it. */
static void note_other(
	const struct op *op, const char *name, const struct rows *shown, const struct rows *found)
{
	const char *word = op->cli->words[0];

	for (int row = 0; row < rows_count(shown); row++) {
		if (rows_int(shown, row, SHOW_SEQ) == rows_int(found, 0, FOUND_SEQ))
			return;
	}
	(void)fprintf(stderr, "%s is an event id, and also the %s of event \"", word, name);
	op_print_text(stderr, rows_bytes(found, 0, FOUND_EVENT_ID), false);
	(void)fprintf(stderr, "\"; to see that one: inboxd show --by %s %s\n", name, word);
}

/* Reads the rows of the message that was found, if the options do not exclude it. */
static int read_found(
	const struct op *op, const struct rows *found, struct rows **rows, struct err *err)
{
	const char *source = op->cli->source;
	const char *consumer = op->cli->filter.consumer;
	const char *its_source = rows_text(found, 0, FOUND_SOURCE);
	const char *its_consumer = rows_is_null(found, 0, FOUND_CONSUMER)
					   ? consumer
					   : rows_text(found, 0, FOUND_CONSUMER);

	if ((source != NULL && strcmp(source, its_source) != 0) ||
		(consumer != NULL && strcmp(consumer, its_consumer) != 0))
		return 0;
	rows_free(*rows);
	*rows = NULL;
	return read_rows(op,
		(const char *const[]){
			rows_text(found, 0, FOUND_EVENT_ID), its_source, its_consumer },
		rows, err);
}

static int read_message(const struct op *op, struct rows **rows, struct err *err)
{
	CLEANUP(rows_freep) struct rows *found = NULL;
	const char *word = op->cli->words[0];
	const char *name = NULL;
	int r = 0;

	if (is_by(op, "id"))
		r = read_rows(op,
			(const char *const[]){ word, op->cli->source, op->cli->filter.consumer },
			rows, err);
	if (r != 0)
		return r;
	r = find_other(op, &name, &found, err);
	if (rows_count(*rows) > 0) {
		/* a user who may not look for the other meaning still sees the event */
		if (r == 0 && rows_count(found) > 0)
			note_other(op, name, *rows, found);
		return 0;
	}
	if (r == 0 && found == NULL && op->cli->by != NULL && !is_by(op, "id"))
		return err_set(err, FAULT_USAGE, "show: \"%s\" is no %s, such as %s", word,
			op->cli->by, is_by(op, "seq") ? "1407" : "orders/0/389");
	return r != 0 || rows_count(found) == 0 ? r : read_found(op, found, rows, err);
}

static int report_none(const struct op *op, struct err *err)
{
	const char *word = op->cli->words[0];
	size_t topic;
	int64_t number;
	int64_t offset;

	if (is_by(op, "record") && read_record(word, &topic, &number, &offset))
		return err_set(err, FAULT_CHECK,
			"no message of the record \"%s\" was found: the search reads part of the "
			"table, and `inboxd list --topic %.*s` all of it; or the record repeated "
			"an event id, was rejected (`inboxd list --rejects`), or was deleted",
			word, (int)topic, word);
	if (is_by(op, "seq") && cli_number(word, &number) && op->cli->source == NULL &&
		op->cli->filter.consumer == NULL)
		return err_set(err, FAULT_CHECK, "there is no message with %sseq \"%s\"",
			op->cli->by == NULL ? "event id or " : "", word);
	return op_no_message(op, word, err);
}

/* The rows of one message, at least one. */
static int find_rows(const struct op *op, struct rows **rows, struct err *err)
{
	int r;

	if (op->cli->word_count == 0)
		return err_set(err, FAULT_USAGE,
			"give an event id, a seq or a record (`inboxd show --help`)");
	r = read_message(op, rows, err);
	if (r != 0)
		return r;
	if (*rows == NULL || rows_count(*rows) == 0)
		return report_none(op, err);
	return check_source(op, *rows, err);
}

int op_find_message(const struct op *op, int64_t *seq, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = find_rows(op, &rows, err);

	if (r != 0)
		return r;
	if (rows_count(rows) > 1)
		return err_set(err, FAULT_USAGE,
			"event \"%s\" has a row for each consumer: select one with --consumer, or "
			"give its seq",
			op->cli->words[0]);
	*seq = rows_int(rows, 0, SHOW_SEQ);
	return 0;
}

int op_show(const struct op *op, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = find_rows(op, &rows, err);

	if (r != 0)
		return r;
	if (op->cli->payload != NULL && strcmp(op->cli->payload, "raw") == 0)
		return print_raw(op, rows, err);
	if (!op->cli->json)
		return print_rows(op, QUERY_OP_SHOW_FACTS, rows, err);
	for (int row = 0; row < rows_count(rows); row++) {
		CLEANUP(rows_freep) struct rows *caused = read_caused_by(op, rows, row);

		op_print_with_caused(rows, row, SHOW_JSON, caused);
	}
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
