/*
 * The changes by filter: a count, the question, and pages. See change.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "ops/change.h"

#define PAGE       1000
#define COUNT_PAGE 20000

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
static int count_change(const struct op *op, const struct change *change, struct buf *filter,
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

	if (r == 0 && change->page == QUERY_OP_REPLAY_PAGE)
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

int op_change_filtered(const struct op *op, const struct change *change, struct err *err)
{
	CLEANUP(buf_fini) struct buf filter = BUF_INIT;
	char question[64];
	struct counts counts = { 0, 0, 0 };
	bool by_id = op->cli->word_count > 1 && change->status_of_id != NULL;
	const char *status = by_id ? change->status_of_id : change->status;
	int r = op_filter(&filter, op, status, err);

	if (r == 0)
		r = count_change(op, change, &filter, &counts, err);
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
