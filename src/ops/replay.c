/*
 * `inboxd replay`, `inboxd retry`, `inboxd resolve` and `inboxd discard`, which differ only in words and
 * statements, and the same for the events of the outbox, which are always given by filters. Messages are
 * given by event id or, except for `resolve`, by filters.
 *
 * By event id, each message is changed in a transaction of its own, and the first failure becomes
 * the result. By filter, the matches are counted and confirmed first, and then changed page by
 * page. Both can be interrupted between two transactions and then report how far they came. The
 * rows are changed by the functions in sql/functions/replay.sql, retry.sql and discard.sql. These never change a
 * message that is being processed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "ops/cli/cli_table.h"
#include "ops/op.h"

#define PAGE       1000
#define COUNT_PAGE 20000
#define MOST_NAMED 5

/* The advice for a message that was not changed, by its state. */
struct way {
	const char *status; /* NULL ends the list */
	const char *text;
};

/* What differs between the commands. */
struct change {
	const char *name;   /* name of the command, for errors of the schema */
	const char *status; /* the default state */
	const char *states; /* the allowed states */
	const char *done;
	const char *noun;
	const struct way *ways;
	enum query one; /* changes one by event id; events of the outbox have none */
	enum query count;
	enum query page;
	const char *status_of_id; /* the default state with an event id, if it is another one */
};

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

static bool will_change(const struct change *change, const struct rows *found, int row)
{
	return may_change(change, found, row) && !is_left_out(change, found, row);
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

/* `found` contains the states from a moment ago, which may have changed since. */
static int report_unchanged(const struct change *change, const char *event_id,
	const struct rows *found, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;
	const int first = first_row(change, found);
	const char *way = way_of(change, rows_text(found, 0, FIND_STATUS));

	if (first >= 0) {
		add_name(&words, event_id, found, first);
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

/* Prints the plan for a message and each of its consumers, for a dry run. It fails if none of the rows
 * can be changed. */
static int show_rows(const struct op *op, const struct change *change, const char *event_id,
	const struct rows *found, struct err *err)
{
	for (int row = 0; !op->cli->json && row < rows_count(found); row++)
		print_plan(change, event_id, found, row, will_change(change, found, row));
	return first_row(change, found) < 0 ? report_unchanged(change, event_id, found, err) : 0;
}

/* `counted`: the rows that were confirmed; empty = none had to be. */
static int change_one(const struct op *op, const struct change *change, const char *event_id,
	const struct buf *counted, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *found = NULL;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = find_rows(op, event_id, NULL, &found, err);

	if (r != 0)
		return r;
	print_left_out(change, event_id, found);
	if (op->cli->dry_run)
		return show_rows(op, change, event_id, found, err);
	params_text(&params, rows_text(found, 0, FIND_SOURCE));
	params_text(&params, event_id);
	params_text(&params, op->cli->reason);
	params_text(&params, op->cli->filter.consumer);
	if (change == &replay)
		op_counted_give(&params, counted);
	r = db_run(op->db, change->one, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return report_unchanged(change, event_id, found, err);
	if (!op->cli->json)
		(void)printf("%s %s\n", event_id, change->done);
	return 0;
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

struct tally {
	int64_t changed;
	bool cut; /* interrupted by a signal before the last one */
};

/* Changes each of them once, whatever the result of the others. The first failure is the result. */
static int change_each(const struct op *op, const struct change *change, const struct buf *counted,
	struct tally *tally, struct err *err)
{
	CLEANUP(freep) const char **words = NULL;
	int first = take_once(op->cli, &words, err);

	for (size_t i = 0; words != NULL && i < op->cli->word_count; i++) {
		struct err own = ERR_INIT;
		int r;

		tally->cut = op_interrupted();
		if (tally->cut)
			return first;
		r = words[i] == NULL ? 0 : change_one(op, change, words[i], counted, &own);
		tally->changed += words[i] != NULL && r == 0;
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
		if (strcmp(rows_text(found, row, FIND_STATUS), "processed") != 0 ||
			is_left_out(&replay, found, row))
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
	const struct op *op, struct repeats *repeats, struct buf *counted, struct err *err)
{
	for (size_t i = 0; i < op->cli->word_count; i++) {
		CLEANUP(rows_freep) struct rows *found = NULL;
		struct err own = ERR_INIT;

		if (find_rows(op, op->cli->words[i], counted, &found, &own) == 0) {
			add_repeats(repeats, op->cli->words[i], found);
		} else if (!db_is_open(op->db)) {
			*err = own;
			return FAULT_DATABASE;
		} else if (!buf_ok(counted)) {
			return err_memory(err);
		}
	}
	return 0;
}

/* The effects of a processed message may happen twice, so its replay is confirmed. Then no message may be replayed
 * that was processed after the question. */
static int confirm_repeats(const struct op *op, struct buf *counted, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	struct repeats repeats = { BUF_INIT, 0 };
	int r = find_repeats(op, &repeats, counted, err);

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
	CLEANUP(buf_fini) struct buf counted = BUF_INIT;
	struct tally tally = { 0, false };
	int r = 0;

	if (change == &replay && !op->cli->yes && !op->cli->dry_run)
		r = confirm_repeats(op, &counted, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	op_interrupt_begin();
	r = change_each(op, change, &counted, &tally, err);
	op_print_change(op, change->name, tally.changed);
	if (tally.cut) {
		(void)fprintf(stderr, "inboxd: interrupted: %" PRId64 " of %zu %s\n", tally.changed,
			op->cli->word_count, change->done);
		op_interrupt_obey();
	}
	op_interrupt_end();
	return r;
}

/* --- By filter --------------------------------------------------------------------------------- */

/* The number of messages that match a filter. */
struct counts {
	int64_t wanted;
	int64_t dropped; /* match, but cannot be replayed: retention has dropped their payload */
	int64_t cut;     /* more match after this seq; 0 = no */
};

struct counter {
	const struct change *change;
	const struct buf *filter;
	struct buf counted; /* see op_counted_take() */
	bool dropped;       /* count struct counts.dropped */
	int64_t most;
	int64_t after;
	int64_t count;
	bool over;
};

static void add_states(struct params *params, const char *states)
{
	int array = params_array(params, ARRAY_TEXT);
	char word[16];

	for (const char *at = states; *at != '\0'; at += strspn(at, " ")) {
		int length = (int)strcspn(at, " ");

		(void)snprintf(word, sizeof(word), "%.*s", length, at);
		array_text(params, array, word);
		at += length;
	}
}

static int count_page(const struct op *op, struct counter *counter, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t left = counter->most - counter->count;
	int r;

	op_counted_give(&params, &counter->counted);
	params_text(&params, counter->change->name);
	params_jsonb(&params, (struct bytes){ counter->filter->data, counter->filter->length });
	add_states(&params, counter->change->states);
	params_int(&params, (int32_t)(left < COUNT_PAGE ? left : COUNT_PAGE));
	params_bigint(&params, counter->after);
	params_bool(&params, counter->dropped);
	r = db_run(op->db, counter->change->count, &params, &rows, err);
	if (r != 0)
		return r;
	counter->count += rows_int(rows, 0, 0);
	counter->over = rows_is_null(rows, 0, 1);
	counter->after = rows_int(rows, 0, 1);
	return op_counted_take(&counter->counted, rows, 2, err);
}

/* Counts in pages, because matches may be rare: a statement that searches the whole table for them
 * would hold back vacuum and reach the statement timeout. */
static int count_all(const struct op *op, struct counter *counter, struct err *err)
{
	int r = 0;

	while (r == 0 && !counter->over && counter->count < counter->most &&
		!op_counted_is_full(&counter->counted))
		r = count_page(op, counter, err);
	return r;
}

/* The filter then fits only the messages that were counted. */
static int count(const struct op *op, const struct change *change, struct buf *filter,
	struct counts *out, struct err *err)
{
	struct counter wanted = {
		.change = change,
		.filter = filter,
		.counted = BUF_INIT,
		.most = op->cli->bounds.limit == 0 ? INT64_MAX : op->cli->bounds.limit,
		.after = op->cli->bounds.after,
	};
	struct counter dropped = wanted;
	int r = count_all(op, &wanted, err);

	dropped.dropped = true;
	dropped.most = INT64_MAX;

	if (r == 0 && change == &replay)
		r = count_all(op, &dropped, err);
	if (r == 0)
		r = op_add_counted(filter, &wanted.counted, err);
	*out = (struct counts){
		.wanted = wanted.count,
		.dropped = dropped.count,
		.cut = wanted.over || wanted.count >= wanted.most ? 0 : wanted.after,
	};
	buf_fini(&wanted.counted);
	buf_fini(&dropped.counted);
	return r;
}

struct pages {
	const struct buf *filter;
	int64_t wanted;
	int64_t after;
	int64_t affected;
	bool over;
};

/* Each page is its own transaction, so that an interruption or a lock conflict loses the work of
 * one page at most. */
static int change_page(
	const struct op *op, const struct change *change, struct pages *pages, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t left = pages->wanted - pages->affected;
	int r;

	params_jsonb(&params, (struct bytes){ pages->filter->data, pages->filter->length });
	params_bigint(&params, pages->after);
	params_int(&params, (int32_t)(left < PAGE ? left : PAGE));
	params_text(&params, op->cli->reason);
	r = db_run(op->db, change->page, &params, &rows, err);
	if (r != 0)
		return r;
	pages->affected += rows_int(rows, 0, 0);
	pages->over = rows_is_null(rows, 0, 1);
	if (!pages->over)
		pages->after = rows_int(rows, 0, 1);
	return 0;
}

static bool is_done(const struct pages *pages)
{
	return pages->over || pages->affected >= pages->wanted;
}

/* Without --after the same command would visit messages again that match again by now, for example
 * processed ones. */
static void print_interrupted(const struct change *change, const struct pages *pages)
{
	(void)fprintf(stderr,
		"inboxd: interrupted: %" PRId64 " of %" PRId64
		" %s; run the same command with --after %" PRId64 " for the rest\n",
		pages->affected, pages->wanted, change->done, pages->after);
}

static int run_pages(
	const struct op *op, const struct change *change, struct pages *pages, struct err *err)
{
	int r = 0;

	op_interrupt_begin();
	while (r == 0 && !is_done(pages) && !op_interrupted()) {
		op_progress(pages->affected, pages->wanted);
		r = change_page(op, change, pages, err);
	}
	op_progress(0, 0);
	if (op_interrupted() && r == 0 && !is_done(pages)) {
		print_interrupted(change, pages);
		op_print_change(op, change->name, pages->affected);
		op_interrupt_obey();
	}
	op_interrupt_end();
	return r;
}

/* The others were counted and confirmed, but are not what they were then. */
static void print_rest(const struct pages *pages)
{
	if (pages->affected < pages->wanted)
		(void)fprintf(stderr,
			"%" PRId64 " left out: locked, or changed since they were counted\n",
			pages->wanted - pages->affected);
}

/* Changes the messages that were counted and confirmed. Later arrivals are not included, nor those that have changed since. */
static int change_pages(const struct op *op, const struct change *change, const struct buf *filter,
	int64_t wanted, struct err *err)
{
	struct pages pages = {
		.filter = filter,
		.wanted = wanted,
		.after = op->cli->bounds.after,
	};
	int r = run_pages(op, change, &pages, err);

	if (r != 0 && pages.affected > 0)
		op_print_change(op, change->name, pages.affected);
	if (r != 0)
		return pages.affected == 0
			       ? r
			       : err_prefix(err,
					 "%" PRId64 " of %" PRId64
					 " %s (continue with --after %" PRId64 "), then",
					 pages.affected, pages.wanted, change->done, pages.after);
	if (!op->cli->json)
		(void)printf("%" PRId64 " %s\n", pages.affected, change->done);
	print_rest(&pages);
	if (pages.affected == 0)
		return op_nothing(op, change->name, err,
			"every match is locked or has changed in the meantime");
	op_print_change(op, change->name, pages.affected);
	return 0;
}

/* Nothing can be changed: reports why. */
static int report_nothing(const struct op *op, const struct change *change,
	const struct counts *counts, struct err *err)
{
	char words[128];

	if (counts->dropped == 0) {
		(void)snprintf(words, sizeof(words), "no %s matches", change->noun);
		return op_nothing(op, change->name, err, words);
	}
	(void)snprintf(words, sizeof(words),
		"%" PRId64
		" message%s match%s, and cannot be %s: retention has dropped the payload",
		counts->dropped, plural(counts->dropped), counts->dropped == 1 ? "es" : "",
		change->done);
	return op_nothing(op, change->name, err, words);
}

static int change_filtered(const struct op *op, const struct change *change, struct err *err)
{
	CLEANUP(buf_fini) struct buf filter = BUF_INIT;
	char question[64];
	struct counts counts = { 0, 0, 0 };
	bool by_id = op->cli->word_count > 1 && change->status_of_id != NULL;
	const char *status = by_id ? change->status_of_id : change->status;
	int r = op_filter(&filter, op, status, err);

	if (r == 0)
		r = count(op, change, &filter, &counts, err);
	if (r != 0)
		return r;
	op_note_times(op->cli, status);
	if (counts.wanted == 0)
		return report_nothing(op, change, &counts, err);
	if (counts.dropped > 0)
		(void)fprintf(stderr, "%" PRId64 " left out: retention has dropped their payload\n",
			counts.dropped);
	if (counts.cut > 0)
		(void)fprintf(stderr,
			"more match: a transaction has been open for so long that not all could be "
			"counted; continue with --after %" PRId64 "\n",
			counts.cut);
	(void)snprintf(question, sizeof(question), "%s %" PRId64 " %s%s", change->name,
		counts.wanted, change->noun, plural(counts.wanted));
	r = op_confirm(op, change->name, counts.wanted, question, err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	return change_pages(op, change, &filter, counts.wanted, err);
}

static int run(const struct op *op, const struct change *change, struct err *err)
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
	return change_filtered(op, change, err);
}

int op_replay(const struct op *op, struct err *err)
{
	const struct cli *cli = op->cli;

	if (cli->filter.conflict != 0)
		return op_replay_conflict(op, err);
	if (!cli->filter.rejects)
		return run(op, &replay, err);
	if (cli->word_count > 0 || op_has_filter(cli) || cli->bounds.after != 0)
		return err_set(
			err, FAULT_USAGE, "replay: --rejects takes neither event ids nor filters");
	return op_replay_rejects(op, err);
}

int op_discard(const struct op *op, struct err *err)
{
	return run(op, &discard, err);
}

/* An event id is one more filter: op_filter(). */
static int run_events(const struct op *op, const struct change *change, struct err *err)
{
	if (op->cli->word_count < 2 && !op_has_filter(op->cli))
		return err_set(err, FAULT_USAGE,
			"outbox %s: give an event id, or filters such as --status %s (`inboxd "
			"outbox --help`)",
			change->name, change->status);
	return change_filtered(op, change, err);
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
	return run(op, &retry, err);
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
