/*
 * The filter of the options, as JSON for the functions of the schema. See op.h. The texts of the
 * command line are checked here: PostgreSQL would report invalid UTF-8 without naming the option.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "json/text.h"
#include "ops/op.h"

/* The options that go into the filter unchanged, under the name of the column. */
static const struct {
	const char *option;
	const char *name;
	size_t offset;
} texts[] = {
	{ "consumer", "consumer", offsetof(struct cli, filter.consumer) },
	{ "topic", "topic", offsetof(struct cli, filter.topic) },
	{ "type", "event_type", offsetof(struct cli, filter.type) },
	{ "key", "key", offsetof(struct cli, filter.key) },
	{ "code", "error_code", offsetof(struct cli, filter.code) },
	{ "trace", "trace", offsetof(struct cli, filter.trace) },
	{ "who", "who", offsetof(struct cli, filter.who) },
	{ "action", "action", offsetof(struct cli, filter.action) },
};

static void add_member(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s\"%s\":", out->length > 1 ? "," : "", name);
	json_add_string(out, bytes_of(value));
}

static int check_text(const char *option, const char *text, struct err *err)
{
	if (text == NULL || utf8_is_valid(bytes_of(text)))
		return 0;
	return err_set(err, FAULT_USAGE, "--%s: not UTF-8", option);
}

/* "2h" means two hours ago; an age before 1970 means 1970. PostgreSQL reads any other text. */
static void add_time(struct buf *out, const char *name, const char *text)
{
	const int64_t now_ms = clock_wall_ms();
	char when[32];
	int64_t age_ms = 0;

	if (text == NULL)
		return;
	if (duration_read(text, &age_ms)) {
		clock_format_ms(age_ms < now_ms ? now_ms - age_ms : 0, when);
		text = when;
	}
	add_member(out, name, text);
}

/* A LIKE pattern that contains the text literally. */
static void add_error(struct buf *out, const char *text)
{
	CLEANUP(buf_fini) struct buf pattern = BUF_INIT;

	buf_add_char(&pattern, '%');
	for (const char *c = text; *c != '\0'; c++) {
		if (strchr("%_\\", *c) != NULL)
			buf_add_char(&pattern, '\\');
		buf_add_char(&pattern, *c);
	}
	buf_add_char(&pattern, '%');
	add_member(out, "error_like", buf_str(&pattern));
}

static int check_texts(const struct cli *cli, struct err *err)
{
	int r = check_text("error", cli->filter.error, err);

	if (r == 0 && cli->filter.dead && cli->filter.status != NULL)
		r = err_set(err, FAULT_USAGE, "give --dead or --status, not both");
	if (r == 0)
		r = check_text("since", cli->filter.since, err);
	if (r == 0)
		r = check_text("until", cli->filter.until, err);
	for (size_t i = 0; r == 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
		r = check_text(texts[i].option,
			*(const char *const *)((const char *)cli + texts[i].offset), err);
	return r;
}

static bool takes_event_ids(enum command command)
{
	return command == COMMAND_SHOW || command == COMMAND_EXPORT || command == COMMAND_REPLAY ||
	       command == COMMAND_RETRY || command == COMMAND_RESOLVE || command == COMMAND_DISCARD;
}

int op_check_words(const struct cli *cli, struct err *err)
{
	int r = check_text("source", cli->source, err);

	if (r == 0)
		r = check_text("reason", cli->reason, err);
	for (size_t i = 0; r == 0 && i < cli->word_count; i++) {
		if (!utf8_is_valid(bytes_of(cli->words[i])))
			r = err_set(err, FAULT_USAGE, "%s %zu is not UTF-8",
				takes_event_ids(cli->command) ? "event id" : "argument", i + 1);
	}
	return r;
}

const char *op_status_of(const struct cli *cli, const char *usual)
{
	if (cli->filter.dead)
		return "dead";
	return cli->filter.status != NULL ? cli->filter.status : usual;
}

bool op_is_dead(const struct cli *cli, const char *usual)
{
	const char *status = op_status_of(cli, usual);

	return status != NULL && strcmp(status, "dead") == 0;
}

/* An event of the outbox has only the time of its emit, which has the name of the time of receipt. */
static bool is_about_death(const struct cli *cli, const char *usual)
{
	return cli->command != COMMAND_OUTBOX && op_is_dead(cli, usual);
}

const char *op_limit_option(const struct cli *cli)
{
	return cli->bounds.is_max ? "--max" : "--limit";
}

void op_note_times(const struct cli *cli, const char *usual)
{
	if (!cli->json && is_about_death(cli, usual) &&
		(cli->filter.since != NULL || cli->filter.until != NULL))
		(void)fputs("note: --since and --until apply to the time of death\n", stderr);
}

static void add_times(struct buf *out, const struct cli *cli, const char *status)
{
	bool died = is_about_death(cli, status);

	add_time(out, died ? "died_from" : "received_from", cli->filter.since);
	add_time(out, died ? "died_to" : "received_to", cli->filter.until);
}

int op_filter(struct buf *out, const struct op *op, const char *status, struct err *err)
{
	const struct cli *cli = op->cli;
	int r = check_texts(cli, err);

	if (r != 0)
		return r;
	buf_add_char(out, '{');
	if (op_status_of(cli, status) != NULL)
		add_member(out, "status", op_status_of(cli, status));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text = *(const char *const *)((const char *)cli + texts[i].offset);

		if (text != NULL)
			add_member(out, texts[i].name, text);
	}
	add_times(out, cli, status);
	if (cli->filter.error != NULL)
		add_error(out, cli->filter.error);
	if (cli->command == COMMAND_OUTBOX && cli->word_count > 1)
		add_member(out, "event_id", cli->words[1]);
	if (cli->command == COMMAND_OUTBOX && cli->filter.topic != NULL)
		add_member(out, "topic_template", op->config->outbox.topic);
	buf_add_char(out, '}');
	return buf_ok(out) ? 0 : err_memory(err);
}

/* Some thousands of transactions. Each page sends the text once. */
#define COUNTED_MOST 200000

int op_counted_take(struct buf *counted, const struct rows *rows, int column, struct err *err)
{
	buf_reset(counted);
	buf_add(counted, rows_bytes(rows, 0, column).data, rows_bytes(rows, 0, column).length);
	return buf_ok(counted) ? 0 : err_memory(err);
}

void op_counted_give(struct params *params, const struct buf *counted)
{
	if (counted == NULL || counted->length == 0)
		params_jsonb(params, (struct bytes){ NULL, 0 });
	else
		params_jsonb(params, (struct bytes){ counted->data, counted->length });
}

bool op_counted_is_full(const struct buf *counted)
{
	return counted->length > COUNTED_MOST;
}

int op_add_counted(struct buf *filter, const struct buf *counted, struct err *err)
{
	buf_cut(filter, filter->length - 1); /* the bracket at the end */
	buf_add_str(filter, ",\"counted\":");
	buf_add(filter, counted->data, counted->length);
	buf_add_char(filter, '}');
	return buf_ok(filter) ? 0 : err_memory(err);
}

int op_backfill_filter(struct buf *out, const struct cli *cli, int64_t until_seq, struct err *err)
{
	int r = check_text("from", cli->range.from_consumer, err);

	if (r == 0)
		r = check_texts(cli, err);
	if (r != 0)
		return r;
	buf_add_char(out, '{');
	add_member(out, "consumer", cli->words[0]);
	if (cli->range.from_consumer != NULL)
		add_member(out, "from", cli->range.from_consumer);
	if (cli->filter.topic != NULL)
		add_member(out, "topic", cli->filter.topic);
	add_time(out, "since", cli->filter.since);
	if (cli->again)
		buf_add_str(out, ",\"again\":true");
	if (until_seq >= 0)
		buf_addf(out, ",\"until_seq\":%" PRId64, until_seq);
	buf_add_char(out, '}');
	return buf_ok(out) ? 0 : err_memory(err);
}

bool op_has_filter(const struct cli *cli)
{
	bool consumer = cli->filter.consumer != NULL && cli->word_count == 0;

	return consumer || cli->filter.dead || cli->filter.status != NULL ||
	       cli->filter.topic != NULL || cli->filter.type != NULL || cli->filter.key != NULL ||
	       cli->filter.since != NULL || cli->filter.until != NULL ||
	       cli->filter.error != NULL || cli->filter.code != NULL || cli->filter.trace != NULL;
}
