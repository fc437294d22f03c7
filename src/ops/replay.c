/*
 * `inboxd replay`, `inboxd retry`, `inboxd resolve` and `inboxd discard`, which differ only in words and
 * statements, and the same for the events of the outbox, which are always given by filters. Messages are
 * given by event id or, except for `resolve`, by filters.
 *
 * By event id, each message is changed in a transaction of its own for each consumer, and the first failure becomes
 * the result. By filter, the matches are counted and confirmed first, and then changed page by
 * page. Both can be interrupted between two transactions and then report how far they came. The
 * rows are changed by the functions in sql/functions/replay.sql, retry.sql and discard.sql. These never change a
 * message that is being processed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ops/change.h"
#include "ops/cli/cli_table.h"

#define MOST_NAMED  5

#define WAY_CLAIMED "Wait until its handler has answered"
#define WAY_PARKED                                                                                 \
	"It runs when a handler for it is connected and the earlier messages of its key are done " \
	"(`inboxd show EVENT_ID` says what it waits for)"
#define WAY_REPLAY "To run it again: `inboxd replay EVENT_ID`"
#define WAY_RETRY  "To run it now: `inboxd retry EVENT_ID`"
#define WAY_TURN   "It runs when its turn comes"

static const struct way replay_ways[] = { { "retrying", WAY_RETRY }, { "waiting", WAY_TURN },
	{ "parked", WAY_PARKED }, { "claimed", WAY_CLAIMED }, { NULL, NULL } };
static const struct way retry_ways[] = { { "retrying", WAY_TURN }, { "waiting", WAY_TURN },
	{ "parked", WAY_PARKED }, { "claimed", WAY_CLAIMED }, { "dead", WAY_REPLAY },
	{ "discarded", WAY_REPLAY }, { "processed", WAY_REPLAY }, { NULL, NULL } };
static const struct way discard_ways[] = { { "claimed", WAY_CLAIMED },
	{ "discarded", "There is nothing to do" }, { "processed", "There is nothing to do" },
	{ NULL, NULL } };
static const struct way resolve_ways[] = {
	{ "retrying", "To make it dead first: `inboxd discard EVENT_ID`" },
	{ "waiting", "To make it dead first: `inboxd discard EVENT_ID`" },
	{ "parked", "To make it dead first: `inboxd discard EVENT_ID`" },
	{ "claimed", WAY_CLAIMED },
	{ "processed", "There is nothing to do" },
	{ NULL, NULL },
};

static const struct change replay = { "replay", "dead", CLI_REPLAY_STATES, "replayed", "message",
	replay_ways, QUERY_OP_REPLAY, QUERY_OP_COUNT, QUERY_OP_REPLAY_PAGE };
static const struct change retry = { "retry", "retrying", CLI_RETRY_STATES, "retried", "message",
	retry_ways, QUERY_OP_RETRY, QUERY_OP_COUNT, QUERY_OP_RETRY_PAGE };
static const struct change resolve = { .name = "resolve",
	.states = "dead discarded",
	.done = "resolved",
	.noun = "message",
	.ways = resolve_ways,
	.one = QUERY_OP_RESOLVE };
static const struct change discard = { "discard", "waiting", CLI_DISCARD_STATES, "discarded",
	"message", discard_ways, QUERY_OP_DISCARD, QUERY_OP_COUNT, QUERY_OP_DISCARD_PAGE };
static const struct change replay_events = { .name = "replay",
	.status = "dead",
	.status_of_id = "failed",
	.states = "dead retrying failed published discarded",
	.done = "replayed",
	.noun = "event",
	.count = QUERY_OP_OUTBOX_COUNT,
	.page = QUERY_OP_OUTBOX_REPLAY_PAGE };
static const struct change discard_events = { .name = "discard",
	.status = "waiting",
	.status_of_id = "unpublished",
	.states = CLI_DISCARD_STATES " unpublished",
	.done = "discarded",
	.noun = "event",
	.count = QUERY_OP_OUTBOX_COUNT,
	.page = QUERY_OP_OUTBOX_DISCARD_PAGE };

/* --- By event id ------------------------------------------------------------------------------- */

/* The columns of op_find.sql: one row for each consumer of the message. */
enum {
	FIND_SOURCE,
	FIND_STATUS,
	FIND_NEXT,
	FIND_IS_DROPPED,
	FIND_CONSUMER,
	FIND_IS_LATER,
	FIND_STATE,
	FIND_COUNTED
};

/* Finds the rows of the event; fails unless exactly one source has it. `counted`: see op_counted_take();
 * may be NULL. */
static int find_rows(const struct op *op, const char *event_id, struct buf *counted,
	struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	params_text(&params, event_id);
	params_text(&params, op->cli->source);
	params_text(&params, op->cli->filter.consumer);
	op_counted_give(&params, counted);
	r = db_run(op->db, QUERY_OP_FIND, &params, out, err);
	if (r != 0)
		return r;
	if (rows_count(*out) == 0)
		return op_no_message(op, event_id, err);
	for (int i = 1; i < rows_count(*out); i++) {
		if (strcmp(rows_text(*out, i, FIND_SOURCE), rows_text(*out, 0, FIND_SOURCE)) != 0)
			return err_set(err, FAULT_USAGE,
				"event \"%s\" exists from several sources, such as \"%s\" and "
				"\"%s\": select one with --source",
				event_id, rows_text(*out, 0, FIND_SOURCE),
				rows_text(*out, i, FIND_SOURCE));
	}
	return counted == NULL ? 0 : op_counted_take(counted, *out, FIND_COUNTED, err);
}

/* The event as messages to the operator name it, with the consumer of the row if that has a name. */
static void add_name(struct buf *out, const char *event_id, const struct rows *found, int row)
{
	const char *consumer = rows_text(found, row, FIND_CONSUMER);

	buf_addf(out, "event \"%s\"%s%s%s", event_id, consumer[0] == '\0' ? "" : " for consumer \"",
		consumer, consumer[0] == '\0' ? "" : "\"");
}

/* True when the state allows the change. */
static bool may_change(const struct change *change, const struct rows *found, int row)
{
	return cli_is_choice(change->states, rows_text(found, row, FIND_STATUS)) &&
	       (change != &retry || rows_bool(found, row, FIND_IS_LATER));
}

static const char *way_of(const struct change *change, const char *status)
{
	const struct way *way = change->ways;

	while (way != NULL && way->status != NULL && strcmp(way->status, status) != 0)
		way++;
	return way == NULL ? NULL : way->text;
}

/* True when only the payload is missing, which retention has dropped: a replay leaves the row out. */
static bool is_left_out(const struct change *change, const struct rows *found, int row)
{
	return change == &replay && may_change(change, found, row) &&
	       rows_bool(found, row, FIND_IS_DROPPED);
}

static bool is_processed(const struct rows *found, int row)
{
	return strcmp(rows_text(found, row, FIND_STATUS), "processed") == 0;
}

/* True when the message is processed for this consumer, and not for another one: the replay is for the other one, and
 * would double the effects of this one. The other one may wait again, after an earlier replay. */
static bool is_kept(const struct change *change, const struct rows *found, int row)
{
	bool kept = false;

	if (change != &replay || !is_processed(found, row) || is_left_out(change, found, row))
		return false;
	for (int other = 0; other < rows_count(found); other++)
		kept |= !is_processed(found, other);
	return kept;
}

static bool will_change(const struct change *change, const struct rows *found, int row)
{
	return may_change(change, found, row) && !is_left_out(change, found, row) &&
	       !is_kept(change, found, row);
}

/* The first row that the change is for; -1: there is none. */
static int first_row(const struct change *change, const struct rows *found)
{
	for (int row = 0; row < rows_count(found); row++) {
		if (will_change(change, found, row))
			return row;
	}
	return -1;
}

static void add_state(
	struct buf *out, const struct change *change, const struct rows *found, int row)
{
	const char *next = rows_text(found, row, FIND_NEXT);

	if (is_left_out(change, found, row))
		buf_add_str(out, "has no payload: retention has dropped it");
	else
		buf_addf(out, "is %s%s%s", rows_text(found, row, FIND_STATUS),
			next == NULL ? "" : ", next attempt at ", next == NULL ? "" : next);
}

/* The advice depends on the state, so several rows get none. */
static void add_row_states(struct buf *out, const struct change *change, const struct rows *found)
{
	for (int row = 0; row < rows_count(found); row++) {
		buf_addf(out, "%s for consumer \"%s\" it ", row == 0 ? ":" : ";",
			rows_text(found, row, FIND_CONSUMER));
		add_state(out, change, found, row);
	}
}

/* `found` contains the states from a moment ago, which may have changed since. `changing`: the row that should have
 * changed, or -1. */
static int report_unchanged(const struct change *change, const char *event_id,
	const struct rows *found, int changing, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;
	const char *way = way_of(change, rows_text(found, 0, FIND_STATUS));

	if (changing >= 0) {
		add_name(&words, event_id, found, changing);
		buf_addf(&words,
			" was not %s: another session has locked it, or it has changed in the "
			"meantime; try again",
			change->done);
	} else if (rows_count(found) == 1) {
		add_name(&words, event_id, found, 0);
		buf_add_char(&words, ' ');
		add_state(&words, change, found, 0);
		buf_addf(&words, ", so it was not %s%s%s", change->done, way == NULL ? "" : ". ",
			way == NULL ? "" : way);
	} else {
		buf_addf(&words, "event \"%s\" was not %s", event_id, change->done);
		add_row_states(&words, change, found);
	}
	return err_set(err, FAULT_CHECK, "%s", buf_str(&words));
}

/* The verb before the state, which has the time of the end of a processed or dead message. */
static const char *verb_of(const char *status)
{
	if (cli_is_choice("dead discarded", status))
		return "has been";
	return strcmp(status, "processed") == 0 ? "was" : "is";
}

/* What a run without --dry-run would do with the row. */
static void print_plan(const struct change *change, const char *event_id, const struct rows *found,
	int row, bool changes)
{
	const char *consumer = rows_text(found, row, FIND_CONSUMER);

	(void)fputs(changes ? "dry run: " : "no change: ", stdout);
	if (changes)
		(void)printf("%s ", change->name);
	op_print_text(stdout, bytes_of(event_id), false);
	if (consumer[0] != '\0')
		(void)fputs(" for ", stdout);
	op_print_text(stdout, bytes_of(consumer), false);
	(void)printf(", which %s ", verb_of(rows_text(found, row, FIND_STATUS)));
	op_print_text(stdout, rows_bytes(found, row, FIND_STATE), false);
	(void)putchar('\n');
}

/* Rows without their payload do not keep a replay from the other rows. */
static void print_left_out(
	const struct change *change, const char *event_id, const struct rows *found)
{
	int left_out = 0;

	for (int row = 0; row < rows_count(found); row++)
		left_out += is_left_out(change, found, row);
	if (left_out == 0 || first_row(change, found) < 0)
		return;
	(void)fputs("event \"", stderr);
	op_print_text(stderr, bytes_of(event_id), false);
	(void)fprintf(stderr, "\": %d left out: retention has dropped their payload\n", left_out);
}

static void print_kept(const struct change *change, const char *event_id, const struct rows *found)
{
	for (int row = 0; row < rows_count(found); row++) {
		CLEANUP(buf_fini) struct buf words = BUF_INIT;

		if (!is_kept(change, found, row))
			continue;
		buf_addf(&words,
			"event \"%s\" for consumer \"%s\" is left out: it was %s. To process it "
			"again: `inboxd replay EVENT_ID --consumer '%s'`",
			event_id, rows_text(found, row, FIND_CONSUMER),
			rows_text(found, row, FIND_STATE), rows_text(found, row, FIND_CONSUMER));
		op_print_text(stderr, bytes_of(buf_str(&words)), false);
		(void)fputc('\n', stderr);
	}
}

/* Prints the plan for a message and each of its consumers, for a dry run. It fails if none of the rows
 * can be changed. */
static int show_rows(const struct op *op, const struct change *change, const char *event_id,
	const struct rows *found, struct err *err)
{
	for (int row = 0; !op->cli->json && row < rows_count(found); row++)
		print_plan(change, event_id, found, row, will_change(change, found, row));
	return first_row(change, found) < 0 ? report_unchanged(change, event_id, found, -1, err)
					    : 0;
}

/* The event ids of the command line: what was confirmed, and what has been done. */
struct given {
	struct buf counted; /* the rows that were confirmed; empty = none had to be */
	struct buf asked; /* '1' or '0' for each event id: the question named a processed message */
	int64_t changed;
	bool cut; /* interrupted by a signal before the last one */
};

static void print_done(const struct op *op, const struct change *change, const char *event_id,
	const struct rows *found, int row)
{
	if (op->cli->json)
		return;
	(void)printf("%s %s", event_id, change->done);
	if (rows_count(found) > 1) {
		(void)fputs(" for consumer \"", stdout);
		op_print_text(stdout, bytes_of(rows_text(found, row, FIND_CONSUMER)), false);
		(void)putchar('"');
	}
	(void)putchar('\n');
}

/* A row of an event. */
struct replay_target {
	const char *event_id;
	const struct rows *found;
	int row;
};

/* One of several rows is changed for its consumer, so that the others stay as they are. */
static int change_row(const struct op *op, const struct change *change,
	const struct replay_target *target, struct given *given, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const struct rows *found = target->found;
	int r;

	params_text(&params, rows_text(found, 0, FIND_SOURCE));
	params_text(&params, target->event_id);
	params_text(&params, op->cli->reason);
	params_text(&params, rows_count(found) > 1 ? rows_text(found, target->row, FIND_CONSUMER)
						   : op->cli->filter.consumer);
	if (change == &replay)
		op_counted_give(&params, &given->counted);
	r = db_run(op->db, change->one, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return report_unchanged(change, target->event_id, found,
			will_change(change, found, target->row) ? target->row : -1, err);
	print_done(op, change, target->event_id, found, target->row);
	return 0;
}

/* The first failure is the result. If no row can change, the function of the schema gets the first one: the audit
 * records the attempt. */
static int change_rows(const struct op *op, const struct change *change,
	struct replay_target *target, struct given *given, struct err *err)
{
	const int only = first_row(change, target->found) < 0 ? 0 : -1;
	bool changed = false;
	int first = 0;

	for (target->row = 0; target->row < rows_count(target->found); target->row++) {
		struct err own = ERR_INIT;
		int r;

		if (target->row != only && !will_change(change, target->found, target->row))
			continue;
		if (is_kept(change, target->found, target->row))
			return report_unchanged(change, target->event_id, target->found, -1, err);
		r = change_row(op, change, target, given, &own);
		changed |= r == 0;
		if (r != 0 && first == 0) {
			first = r;
			*err = own;
		} else if (r != 0) {
			(void)fprintf(stderr, "inboxd: %s\n", own.text);
		}
		if (r != 0 && !db_is_open(op->db))
			break;
	}
	given->changed += changed;
	return first;
}

/* A message that became processed after the question was not confirmed. */
static bool is_unasked(const struct op *op, const struct change *change, const struct rows *found,
	const struct given *given, size_t word)
{
	const int first = first_row(change, found);

	return change == &replay && !op->cli->yes && first >= 0 && is_processed(found, first) &&
	       given->asked.data[word] != '1';
}

static int change_one(const struct op *op, const struct change *change, size_t word,
	struct given *given, struct err *err)
{
	CLEANUP(rows_freep) struct rows *found = NULL;
	const char *event_id = op->cli->words[word];
	int r = find_rows(op, event_id, NULL, &found, err);

	if (r != 0)
		return r;
	print_left_out(change, event_id, found);
	print_kept(change, event_id, found);
	if (op->cli->dry_run) {
		r = show_rows(op, change, event_id, found, err);
		given->changed += r == 0;
		return r;
	}
	if (is_unasked(op, change, found, given, word))
		return report_unchanged(change, event_id, found, first_row(change, found), err);
	return change_rows(op, change, &(struct replay_target){ event_id, found, 0 }, given, err);
}

/* By text, then by position. */
static int compare_words(const void *a, const void *b)
{
	const char **first = *(const char **const *)a;
	const char **second = *(const char **const *)b;
	int order = strcmp(*first, *second);

	return order != 0 ? order : (first > second) - (first < second);
}

/* Gives the words; a repeated word is replaced by NULL. A list from a file or another command may
 * name a message twice, and the second change would be reported as a failure. */
static int take_once(const struct cli *cli, const char ***out, struct err *err)
{
	CLEANUP(freep) const char ***sorted = calloc(cli->word_count + 1, sizeof(*sorted));
	const char **words = calloc(cli->word_count + 1, sizeof(*words));
	const char *before = NULL;

	if (sorted == NULL || words == NULL) {
		free(words);
		return err_memory(err);
	}
	for (size_t i = 0; i < cli->word_count; i++) {
		words[i] = cli->words[i];
		sorted[i] = &words[i];
	}
	qsort(sorted, cli->word_count, sizeof(*sorted), compare_words);
	for (size_t i = 0; i < cli->word_count; i++) {
		if (before != NULL && strcmp(before, *sorted[i]) == 0)
			*sorted[i] = NULL;
		else
			before = *sorted[i];
	}
	*out = words;
	return 0;
}

/* Changes each of them once, whatever the result of the others. The first failure is the result. */
static int change_each(
	const struct op *op, const struct change *change, struct given *given, struct err *err)
{
	CLEANUP(freep) const char **words = NULL;
	int first = take_once(op->cli, &words, err);

	for (size_t i = 0; words != NULL && i < op->cli->word_count; i++) {
		struct err own = ERR_INIT;
		int r;

		given->cut = op_interrupted();
		if (given->cut)
			return first;
		r = words[i] == NULL ? 0 : change_one(op, change, i, given, &own);
		if (r != 0 && first == 0) {
			first = r;
			*err = own;
		} else if (r != 0) {
			(void)fprintf(stderr, "inboxd: %s\n", own.text);
		}
		if (r != 0 && !db_is_open(op->db))
			return r;
	}
	return first;
}

/* The messages of the command line that a replay would process a second time. */
struct repeats {
	struct buf names;
	int64_t count;
};

static void add_repeats(struct repeats *repeats, const char *event_id, const struct rows *found)
{
	for (int row = 0; row < rows_count(found); row++) {
		if (!is_processed(found, row) || !will_change(&replay, found, row))
			continue;
		repeats->count++;
		if (repeats->count > MOST_NAMED)
			continue;
		buf_add_str(&repeats->names, repeats->count == 1 ? "" : "; ");
		add_name(&repeats->names, event_id, found, row);
		buf_addf(&repeats->names, ", which was %s", rows_text(found, row, FIND_STATE));
	}
}

/* A message that does not exist is reported when its turn comes. */
static int find_repeats(
	const struct op *op, struct repeats *repeats, struct given *given, struct err *err)
{
	for (size_t i = 0; i < op->cli->word_count; i++) {
		CLEANUP(rows_freep) struct rows *found = NULL;
		struct err own = ERR_INIT;
		const int64_t before = repeats->count;

		if (find_rows(op, op->cli->words[i], &given->counted, &found, &own) == 0) {
			add_repeats(repeats, op->cli->words[i], found);
		} else if (!db_is_open(op->db)) {
			*err = own;
			return FAULT_DATABASE;
		} else if (!buf_ok(&given->counted)) {
			return err_memory(err);
		}
		buf_add_char(&given->asked, repeats->count > before ? '1' : '0');
	}
	return buf_ok(&given->asked) ? 0 : err_memory(err);
}

/* The effects of a processed message may happen twice, so its replay is confirmed. Then no message may be replayed
 * that was processed after the question. */
static int confirm_repeats(const struct op *op, struct given *given, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	struct repeats repeats = { BUF_INIT, 0 };
	int r = find_repeats(op, &repeats, given, err);

	if (r == 0 && repeats.count > 0) {
		buf_addf(&question, "replay %s", buf_str(&repeats.names));
		if (repeats.count > MOST_NAMED)
			buf_addf(&question, "; and %" PRId64 " more", repeats.count - MOST_NAMED);
		r = op_confirm(op, "replay", 0, buf_str(&question), err);
	}
	buf_fini(&repeats.names);
	return r;
}

static int change_words(const struct op *op, const struct change *change, struct err *err)
{
	struct given given = { BUF_INIT, BUF_INIT, 0, false };
	int r = 0;

	if (change == &replay && !op->cli->yes && !op->cli->dry_run)
		r = confirm_repeats(op, &given, err);
	if (r == 0) {
		op_interrupt_begin();
		r = change_each(op, change, &given, err);
		op_print_change(op, change->name, given.changed);
		if (given.cut) {
			(void)fprintf(stderr, "inboxd: interrupted: %" PRId64 " of %zu %s\n",
				given.changed, op->cli->word_count, change->done);
			op_interrupt_obey();
		}
		op_interrupt_end();
	} else if (r == OP_NO) {
		r = 0;
	}
	buf_fini(&given.counted);
	buf_fini(&given.asked);
	return r;
}

/* --- The commands ------------------------------------------------------------------------------ */

static int change_messages(const struct op *op, const struct change *change, struct err *err)
{
	const struct cli *cli = op->cli;

	if (cli->word_count > 0 &&
		(op_has_filter(cli) || cli->bounds.limit != 0 || cli->bounds.after != 0))
		return err_set(
			err, FAULT_USAGE, "%s: give event ids or filters, not both", change->name);
	if (cli->word_count > 0)
		return change_words(op, change, err);
	if (!op_has_filter(cli))
		return err_set(err, FAULT_USAGE,
			"%s: give event ids, or filters such as --status %s (`inboxd %s --help`)",
			change->name, change->status, change->name);
	return op_change_filtered(op, change, err);
}

int op_replay(const struct op *op, struct err *err)
{
	const struct cli *cli = op->cli;

	if (cli->filter.conflict != 0)
		return op_replay_conflict(op, err);
	if (!cli->filter.rejects)
		return change_messages(op, &replay, err);
	if (cli->word_count > 0 || op_has_filter(cli) || cli->bounds.after != 0)
		return err_set(
			err, FAULT_USAGE, "replay: --rejects takes neither event ids nor filters");
	return op_replay_rejects(op, err);
}

int op_discard(const struct op *op, struct err *err)
{
	return change_messages(op, &discard, err);
}

/* An event id is one more filter: op_filter(). */
static int run_events(const struct op *op, const struct change *change, struct err *err)
{
	if (op->cli->word_count < 2 && !op_has_filter(op->cli))
		return err_set(err, FAULT_USAGE,
			"outbox %s: give an event id, or filters such as --status %s (`inboxd "
			"outbox --help`)",
			change->name, change->status);
	return op_change_filtered(op, change, err);
}

int op_replay_events(const struct op *op, struct err *err)
{
	return run_events(op, &replay_events, err);
}

int op_discard_events(const struct op *op, struct err *err)
{
	return run_events(op, &discard_events, err);
}

int op_retry(const struct op *op, struct err *err)
{
	return change_messages(op, &retry, err);
}

int op_resolve(const struct op *op, struct err *err)
{
	if (op->cli->word_count == 0)
		return err_set(
			err, FAULT_USAGE, "resolve: give an event id (`inboxd list --dead`)");
	if (op->cli->reason == NULL)
		return err_set(
			err, FAULT_USAGE, "resolve: give --reason: it stays with the message");
	return change_words(op, &resolve, err);
}
