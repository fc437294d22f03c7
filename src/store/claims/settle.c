/*
 * Implements settle.h. The normal case is one pipeline: BEGIN, the plain rows, the other rows,
 * COMMIT. After a lock timeout the settle starts again with the rows that can be locked now. A
 * value that cannot be stored, or a list that is too long for statement_timeout, makes it halve the
 * list. A value that is refused alone is replaced by a note, so that the verdict is kept. Rows are
 * sorted by seq, so that two settles cannot deadlock. A seq may occur twice: an older claim of the row
 * whose verdict is repeated because its answer was lost, and the newer claim.
 *
 * The order of a lane (rule R25): the list is halved in the order in which it was given, and of each
 * lane only the rows before the first one that is locked, refused or lost are settled. If a
 * statement updates fewer rows than it was sent, a row is completed or lost. If a lane has several
 * rows in the list, the settle reads these numbers before it sends the COMMIT; the COMMIT is then
 * not part of the pipeline.
 *
 * Rows that emit events have a statement of their own, which is only sent if there are some. A list with events that
 * PostgreSQL refuses is halved, too, until their row is alone. PostgreSQL may accept other rows only because they have no
 * events, so this proves nothing about the database. Such a row is always set aside, and never counts as an outage.
 *
 * Rows that their handlers say they have completed come first: one statement counts them, and gives those the name of
 * their handler that lack it. Only if some are not completed are they read one by one.
 */
#include "store/claims/settle.h"

#include <stdlib.h>
#include <string.h>

#include "json/text.h"
#include "queries.h"
#include "store/claims/settle_params.h"

#define GROUPS_MOST 8 /* fast statements per pipeline */

/* The results of one pipeline. */
struct settle_found {
	struct rows *groups[GROUPS_MOST]; /* only a number of rows, see number_of() */
	struct rows *others;              /* seq and delivery count of the rows that were updated */
	struct rows *emitting;            /* the same of those that emit events */
};

static void found_fini(struct settle_found *found)
{
	for (int group = 0; group < GROUPS_MOST; group++)
		rows_free(found->groups[group]);
	rows_free(found->others);
	rows_free(found->emitting);
}

/* The rows that PostgreSQL refused alone. */
struct isolation {
	size_t refused;
	struct err said; /* the error of the last one */
};

/* The lanes that have a row which was not settled, and the first such row of each. */
struct stops {
	const struct settle_row **items;
	size_t count;
};

/* Rows in ascending order of seq, and the statements that settle them. */
struct settling {
	struct db *db;
	int32_t instance;
	struct settle_row **rows;
	size_t count;
	int groups; /* number of groups of rows for the fast statement */
	int (*queue)(const struct settling *s, struct settle_found *found, struct err *err);
	struct isolation *isolation; /* NULL: a refused row is a fault */
	struct stops *stops;         /* of all rows, also when this is a part of them */
	bool has_followers;          /* a lane has several rows among all rows */
};

static bool any_emits(const struct settling *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (settle_emits(s->rows[i]))
			return true;
	}
	return false;
}

static bool is_plain(const struct settle_row *row)
{
	return settle_is_part(row, PART_PLAIN);
}

/* Events need to know who has completed the row: settle_state tells. */
static bool is_nameable(const struct settle_row *row)
{
	return row->status == SETTLE_OPEN && row->expects_completed && row->handler != NULL &&
	       !settle_emits(row);
}

/* Queues a fast statement for each group of the rows that `is_wanted` accepts: a list of seqs, and the delivery count
 * and the handler that they share. */
static int queue_groups(const struct settling *s, enum query query,
	bool (*is_wanted)(const struct settle_row *), struct settle_found *found, struct err *err)
{
	int r = 0;

	for (int group = 0; r == 0 && group < s->groups; group++) {
		CLEANUP(params_fini) struct params params = PARAMS_INIT;
		const struct settle_row *alike = NULL;
		int seq;

		params_int(&params, s->instance);
		seq = params_array(&params, ARRAY_BIGINT);
		for (size_t i = 0; i < s->count; i++) {
			if (s->rows[i]->group != group || !is_wanted(s->rows[i]))
				continue;
			alike = s->rows[i];
			array_bigint(&params, seq, alike->seq);
		}
		if (alike == NULL)
			continue;
		params_int(&params, alike->delivery_count);
		params_text(&params, alike->handler);
		r = db_queue(s->db, query, &params, &found->groups[group], err);
	}
	return r;
}

static struct settle_list list_of(const struct settling *s)
{
	return (struct settle_list){ s->instance, s->rows, s->count };
}

static int queue_others(const struct settling *s, struct settle_found *found, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	if (settle_params_verdicts(&params, list_of(s)) == 0)
		return 0;
	return db_queue(s->db, QUERY_SETTLE_VERDICTS, &params, &found->others, err);
}

static int queue_emitting(const struct settling *s, struct settle_found *found, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	if (settle_params_emitting(&params, list_of(s)) == 0)
		return 0;
	return db_queue(s->db, QUERY_SETTLE_EMITTING, &params, &found->emitting, err);
}

static int queue_settle(const struct settling *s, struct settle_found *found, struct err *err)
{
	int r = queue_groups(s, QUERY_SETTLE_DONE, is_plain, found, err);

	if (r == 0)
		r = queue_others(s, found, err);
	return r == 0 ? queue_emitting(s, found, err) : r;
}

static int queue_raise(const struct settling *s, struct settle_found *found, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	if (settle_params_claims(&params, list_of(s), PART_ALL) == 0)
		return 0;
	return db_queue(s->db, QUERY_RAISE_CRASH, &params, &found->others, err);
}

/* By seq, and claims of the same row by their number. */
static int by_claim(const void *a, const void *b)
{
	const struct settle_row *first = *(const struct settle_row *const *)a;
	const struct settle_row *second = *(const struct settle_row *const *)b;

	if (first->seq != second->seq)
		return first->seq > second->seq ? 1 : -1;
	return (first->delivery_count > second->delivery_count) -
	       (first->delivery_count < second->delivery_count);
}

/* In the order in which they were given. */
static int by_place(const void *a, const void *b)
{
	const struct settle_row *first = *(const struct settle_row *const *)a;
	const struct settle_row *second = *(const struct settle_row *const *)b;

	return (first > second) - (first < second);
}

/* The row of the list that a result names in its first two columns. */
static struct settle_row *find_row(const struct settling *s, const struct rows *rows, int at)
{
	struct settle_row key = { .seq = rows_int(rows, at, 0),
		.delivery_count = (int)rows_int(rows, at, 1) };
	const struct settle_row *wanted = &key;
	struct settle_row **found =
		bsearch(&wanted, s->rows, s->count, sizeof(struct settle_row *), by_claim);

	return found == NULL ? NULL : *found;
}

static void mark(const struct settling *s, const struct rows *rows, enum settle_status status)
{
	for (int i = 0; i < rows_count(rows); i++) {
		struct settle_row *row = find_row(s, rows, i);

		if (row != NULL)
			row->status = status;
	}
}

static void mark_all(const struct settling *s, enum settle_status status)
{
	for (size_t i = 0; i < s->count; i++)
		s->rows[i]->status = status;
}

/* The first row of the lane that was not settled. Rows are compared by address: the caller gives them in order. */
static const struct settle_row **stop_of(const struct settling *s, const struct settle_row *row)
{
	size_t i = 0;

	while (i < s->stops->count && s->stops->items[i]->lane != row->lane)
		i++;
	return &s->stops->items[i];
}

static bool is_stop(enum settle_status status)
{
	return status == SETTLE_LOCKED || status == SETTLE_REFUSED || status == SETTLE_LOST ||
	       status == SETTLE_UNEMITTED;
}

/* Rows that cannot be settled now or ever stop their lanes. There is room for one stop for each row. */
static void note_stops(const struct settling *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct settle_row *row = s->rows[i];
		const struct settle_row **stop;

		if (row->lane == 0 || !is_stop(row->status))
			continue;
		stop = stop_of(s, row);
		if (stop == s->stops->items + s->stops->count)
			s->stops->items[s->stops->count++] = row;
		else if (row < *stop)
			*stop = row;
	}
}

/* Marks the open rows that must not be settled before the stop of their lane. */
static void mark_behind(const struct settling *s)
{
	for (size_t i = 0; i < s->count && s->stops->count > 0; i++) {
		const struct settle_row **stop = stop_of(s, s->rows[i]);

		if (stop < s->stops->items + s->stops->count && s->rows[i] > *stop &&
			s->rows[i]->status == SETTLE_OPEN)
			s->rows[i]->status = SETTLE_BEHIND;
	}
}

/* How many rows a fast statement has updated, or, if it selects their number, found. */
static int64_t number_of(const struct rows *rows)
{
	return rows_count(rows) == 1 ? rows_int(rows, 0, 0) : rows_affected(rows);
}

/* If fewer rows were updated than sent, resolve() later finds out the status of each. */
static void mark_groups(const struct settling *s, const struct settle_found *found,
	bool (*is_wanted)(const struct settle_row *), enum settle_status status)
{
	int64_t asked[GROUPS_MOST] = { 0 };

	for (size_t i = 0; i < s->count; i++) {
		if (is_wanted(s->rows[i]) && s->rows[i]->group < s->groups)
			asked[s->rows[i]->group]++;
	}
	for (size_t i = 0; i < s->count; i++) {
		struct settle_row *row = s->rows[i];
		const struct rows *rows =
			is_wanted(row) && row->group < s->groups ? found->groups[row->group] : NULL;

		if (rows != NULL && number_of(rows) == asked[row->group])
			row->status = status;
	}
}

/* True when a statement updated fewer rows than it was sent. */
static bool is_short(const struct settling *s, const struct settle_found *found)
{
	int64_t asked = 0;
	int64_t updated = found->others == NULL ? 0 : rows_count(found->others);

	updated += found->emitting == NULL ? 0 : rows_count(found->emitting);
	for (size_t i = 0; i < s->count; i++)
		asked += settle_is_part(s->rows[i], PART_ALL);
	for (int group = 0; group < s->groups; group++)
		updated += found->groups[group] == NULL ? 0 : rows_affected(found->groups[group]);
	return updated < asked;
}

/* commit_settle(): rolled back, because a row of a lane with several rows is completed or lost. */
enum { FINISH_SHORT = 2 };
#define FINISHES_MOST 3

/* Queues the statements and commits. */
static int commit_settle(const struct settling *s, struct err *err)
{
	CLEANUP(found_fini) struct settle_found found = { .others = NULL };
	int r = s->queue(s, &found, err);

	if (r == 0 && s->has_followers) {
		r = db_flush(s->db, err);
		if (r == 0 && is_short(s, &found)) {
			db_rollback(s->db);
			return FINISH_SHORT;
		}
	}
	if (r == 0)
		r = db_commit(s->db, err);
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	mark_groups(s, &found, is_plain, SETTLE_SETTLED);
	mark(s, found.others, SETTLE_SETTLED);
	mark(s, found.emitting, SETTLE_SETTLED);
	return 0;
}

/* A settle does not wait for a handler's transaction, whatever lock_timeout the db has (rule R8). */
static int begin_settle(const struct settling *s, struct err *err)
{
	int r = db_begin(s->db, err);

	return r != 0 ? r : db_queue(s->db, QUERY_SET_LOCK_TIMEOUT, NULL, NULL, err);
}

/* Checks rows that should be completed, and names their handlers. Rows stay open if one of their group is not
 * completed, or if the statement fails: then they are read. */
static int name_completed(const struct settling *s, struct err *err)
{
	CLEANUP(found_fini) struct settle_found found = { .others = NULL };
	bool any = false;
	int r;

	for (size_t i = 0; i < s->count; i++)
		any |= is_nameable(s->rows[i]);
	if (!any)
		return 0;
	r = begin_settle(s, err);
	if (r == 0)
		r = queue_groups(s, QUERY_SETTLE_COMPLETED, is_nameable, &found, err);
	if (r == 0)
		r = db_commit(s->db, err);
	if (r == 0)
		mark_groups(s, &found, is_nameable, SETTLE_COMPLETED);
	if (r == DB_COMMIT_UNKNOWN || (r == FAULT_DATABASE && !db_is_open(s->db)))
		return FAULT_DATABASE;
	return r == FAULT_DATABASE ? 0 : r;
}

/* The status of a row that no statement updated, because its claim has ended. */
static enum settle_status status_of(const struct settle_row *row, const struct rows *rows, int at)
{
	if (rows_int(rows, at, 2) == SETTLE_PROCESSED)
		return SETTLE_COMPLETED;
	/* the row is dead under this claim: an earlier settle with the same verdict, whose answer
	 * was lost */
	return row->outcome == SETTLE_DEAD ? SETTLE_SETTLED : SETTLE_LOST;
}

static int ask_states(const struct settling *s, bool name, struct rows **rows, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	(void)settle_params_claims(&params, list_of(s), PART_ALL);
	if (name)
		settle_params_handlers(&params, list_of(s), PART_ALL);
	else
		(void)params_array(&params, ARRAY_TEXT);
	return db_run(s->db, QUERY_SETTLE_STATE, &params, rows, err);
}

/* Sets the states of all rows. `held`: the state of those whose claim still exists. A completed row
 * that a user's trigger protects against updates stays without the name of its handler. */
static int read_states(const struct settling *s, enum settle_status held, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = ask_states(s, true, &rows, err);

	if (r == FAULT_DATABASE && db_is_open(s->db) && db_error_may_be_row(err))
		r = ask_states(s, false, &rows, err);
	if (r != 0)
		return r; /* nothing is known: no row may count as lost */
	mark_all(s, SETTLE_LOST);
	for (int i = 0; i < rows_count(rows); i++) {
		struct settle_row *row = find_row(s, rows, i);

		if (row == NULL)
			continue;
		row->status = rows_is_null(rows, i, 2) ? held : status_of(row, rows, i);
		row->events_dropped = settle_emits(row) && row->status == SETTLE_COMPLETED &&
				      (!row->repeated || rows_bool(rows, i, 3));
	}
	return 0;
}

/* Finds out what became of the rows that `is_wanted` accepts. */
static int resolve(const struct settling *s, bool (*is_wanted)(const struct settle_row *),
	enum settle_status held, struct err *err)
{
	CLEANUP(freep) struct settle_row **rows = calloc(s->count + 1, sizeof(struct settle_row *));
	struct settling rest = *s;

	if (rows == NULL)
		return err_memory(err);
	rest.rows = rows;
	rest.count = 0;
	for (size_t i = 0; i < s->count; i++) {
		if (!is_wanted(s->rows[i]))
			continue;
		s->rows[i]->status = SETTLE_OPEN;
		rows[rest.count++] = s->rows[i];
	}
	return rest.count == 0 ? 0 : read_states(&rest, held, err);
}

static bool is_open(const struct settle_row *row)
{
	return row->status == SETTLE_OPEN;
}

static bool is_expected_completed(const struct settle_row *row)
{
	return row->expects_completed && is_open(row);
}

/* True when nothing can be written for the row any more. */
static bool is_gone(const struct settle_row *row)
{
	return row->status == SETTLE_COMPLETED || row->status == SETTLE_LOST;
}

static bool is_unresolved(const struct settle_row *row)
{
	return row->status == SETTLE_OPEN || row->status == SETTLE_LOCKED;
}

static void mark_not_gone(const struct settling *s, enum settle_status status)
{
	for (size_t i = 0; i < s->count; i++) {
		if (!is_gone(s->rows[i]))
			s->rows[i]->status = status;
	}
}

/* Leaves out the rows that are completed or lost, and of each lane those behind a lost one. A row whose claim still
 * exists stays open. */
static int leave_out_gone(const struct settling *s, struct err *err)
{
	int r = resolve(s, is_open, SETTLE_OPEN, err);

	note_stops(s);
	mark_behind(s);
	return r;
}

/* commit_settle(), and again without the rows that are gone. If the numbers still differ after FINISHES_MOST tries, a trigger
 * of the user may hide updates. Then the rows that are left are committed, and the order of a lane is not checked. */
static int finish_in_order(const struct settling *s, struct err *err)
{
	struct settling attempt = *s;
	int r = commit_settle(s, err);

	for (int tries = 1; r == FINISH_SHORT; tries++) {
		attempt.has_followers = tries < FINISHES_MOST;
		r = leave_out_gone(s, err);
		if (r == 0)
			r = begin_settle(s, err);
		if (r == 0)
			r = commit_settle(&attempt, err);
	}
	return r;
}

/* After a lock timeout: settles only the rows that can be locked now (rule R8). If the table outbox is locked as a whole,
 * for example by CREATE INDEX, only those that do not need it. */
static int settle_unlocked(const struct settling *s, bool outbox_is_locked, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *lockable = NULL;
	int seq = params_array(&params, ARRAY_BIGINT);
	int r = begin_settle(s, err);

	for (size_t i = 0; i < s->count; i++) {
		if (!is_gone(s->rows[i]))
			array_bigint(&params, seq, s->rows[i]->seq);
	}
	if (r == 0)
		r = db_step(s->db, QUERY_SETTLE_LOCKABLE, &params, &lockable, err);
	if (r != 0)
		return r;
	mark_not_gone(s, SETTLE_LOCKED);
	mark(s, lockable, SETTLE_OPEN);
	for (size_t i = 0; outbox_is_locked && i < s->count; i++) {
		if (settle_is_part(s->rows[i], PART_EMITTING))
			s->rows[i]->status = SETTLE_LOCKED;
	}
	note_stops(s);
	mark_behind(s);
	return finish_in_order(s, err);
}

static int settle_list(const struct settling *s, struct err *err)
{
	int r = begin_settle(s, err);

	qsort(s->rows, s->count, sizeof(struct settle_row *), by_claim);
	mark_not_gone(s, SETTLE_OPEN);
	mark_behind(s);
	if (r == 0)
		r = finish_in_order(s, err);
	if (r != 0 && db_error_is_lock(err))
		r = settle_unlocked(s, false, err);
	if (r != 0 && db_error_is_lock(err) && any_emits(s))
		r = settle_unlocked(s, true, err);
	return r;
}

static bool is_bad_value(const struct settling *s, int r, const struct err *err)
{
	return r == FAULT_DATABASE && db_error_is_data(s->db, err);
}

/* The texts that replace what PostgreSQL refused to store. */
struct settle_note {
	struct buf result;
	struct buf error;
};

static void settle_note_fini(struct settle_note *note)
{
	buf_fini(&note->result);
	buf_fini(&note->error);
}

/* Appends the server's text as plain ASCII, because the note itself must be storable. */
static void add_why(struct buf *out, const char *what, const struct err *why)
{
	buf_addf(out, "%s not stored: ", what);
	for (const char *c = why->text; *c != '\0'; c++)
		buf_add_char(out, *c >= ' ' && *c < 0x7f ? *c : '?');
}

/* Replaces the result by a note that explains why it could not be stored. When there is no result,
 * or the result was not the cause, it replaces the error text. False: nothing is left to replace. */
static bool replace_by_note(struct settle_note *note, struct settle_row *row, const struct err *why)
{
	if (row->result.data != NULL && note->result.length == 0) {
		CLEANUP(buf_fini) struct buf words = BUF_INIT;

		add_why(&words, "result", why);
		buf_add_str(&note->result, "{\"inboxd\": ");
		json_add_string(&note->result, (struct bytes){ words.data, words.length });
		buf_add_char(&note->result, '}');
		row->result = (struct bytes){ note->result.data, note->result.length };
		return buf_ok(&note->result);
	}
	if (note->error.length > 0 || (row->error == NULL && row->error_code == NULL))
		return false;
	add_why(&note->error, "error", why);
	row->error = buf_str(&note->error);
	row->error_code = row->error_code == NULL ? NULL : "UNSTORABLE";
	return buf_ok(&note->error);
}

/* Settles the one refused row: its values are replaced by a note, its verdict is kept (rule R9). */
static int settle_with_note(const struct settling *s, struct err *err)
{
	CLEANUP(settle_note_fini) struct settle_note note = { BUF_INIT, BUF_INIT };
	struct settle_row patched = *s->rows[0];
	struct settle_row *alone = &patched;
	struct settling single = *s;
	int r = FAULT_DATABASE;

	patched.lane = 0; /* nothing before it stops it */
	single.rows = &alone;
	while (is_bad_value(s, r, err) && replace_by_note(&note, &patched, err))
		r = settle_list(&single, err);
	s->rows[0]->status = patched.status;
	note_stops(s);
	return r;
}

/* True when the list is too long for statement_timeout and half of it may succeed. Not while
 * crashes are counted: if one half succeeds and the other fails, the retry would count the first
 * half twice. */
static bool is_too_slow(const struct settling *s, int r, const struct err *err)
{
	return r == FAULT_DATABASE && s->count > 1 && s->queue == queue_settle &&
	       db_error_kind(err) == PG_ERROR_SLOW;
}

/* While isolating, any error may concern a single row, not only a bad value. */
static bool may_be_row(const struct settling *s, int r, const struct err *err)
{
	return r == FAULT_DATABASE && s->isolation != NULL && db_is_open(s->db) &&
	       db_error_may_be_row(err);
}

/* The events of a row may be the cause: they are wrong, or a trigger of the user or a missing privilege refuses them. */
static bool may_be_events(const struct settling *s, int r, const struct err *err)
{
	return r == FAULT_DATABASE && db_is_open(s->db) && db_error_may_be_row(err) && any_emits(s);
}

/* The row keeps its claim. inboxd never settles a row without its events. */
static void refuse_row(const struct settling *s, enum settle_status status, const struct err *why)
{
	struct settle_row *row = s->rows[0];

	free(row->refusal);
	row->refusal = malloc(sizeof(*row->refusal));
	if (row->refusal != NULL)
		*row->refusal = *why;
	row->status = status;
	note_stops(s);
}

/* `r`: the result of settling this row alone. If an event is wrong, the handler has a fault, and the verdict must change.
 * If something else refuses the event, the verdict is kept, and no attempt counts. */
static int settle_alone(const struct settling *s, int r, struct err *err)
{
	if (is_bad_value(s, r, err) && !db_error_is_event(err))
		r = settle_with_note(s, err);
	if (may_be_events(s, r, err) && is_bad_value(s, r, err)) {
		refuse_row(s, SETTLE_UNEMITTED, err);
		return 0;
	}
	if (!may_be_row(s, r, err) && !may_be_events(s, r, err))
		return r;
	refuse_row(s, SETTLE_REFUSED, err);
	if (s->isolation != NULL) {
		s->isolation->refused++;
		s->isolation->said = *err;
	}
	return 0;
}

static int settle_bisected(const struct settling *s, struct err *err)
{
	struct settling half = *s;
	int r = settle_list(s, err);

	if (!is_bad_value(s, r, err) && !is_too_slow(s, r, err) && !may_be_row(s, r, err) &&
		!may_be_events(s, r, err))
		return r;
	if (s->count == 1)
		return settle_alone(s, r, err);
	qsort(s->rows, s->count, sizeof(struct settle_row *), by_place);
	half.count = s->count / 2;
	r = settle_bisected(&half, err);
	if (r != 0)
		return r;
	half.rows = s->rows + half.count;
	half.count = s->count - half.count;
	return settle_bisected(&half, err);
}

/* When none of several rows is accepted, the rows are not the cause. */
static int blame_rows(const struct settling *s, struct err *err)
{
	size_t tried = 0;

	for (size_t i = 0; i < s->count; i++)
		tried += s->rows[i]->status != SETTLE_BEHIND && !is_gone(s->rows[i]);
	if (s->isolation == NULL || tried == 1 || s->isolation->refused < tried)
		return 0;
	*err = s->isolation->said;
	return FAULT_DATABASE;
}

static int settle_sorted(struct settling *s, struct err *err)
{
	struct err own = ERR_INIT;
	struct err *words = err == NULL ? &own : err;
	bool any_open = false;
	int r;

	qsort(s->rows, s->count, sizeof(struct settle_row *), by_claim);
	r = name_completed(s, words);
	if (r == 0)
		r = resolve(s, is_expected_completed, SETTLE_OPEN, words);
	note_stops(s);
	for (size_t i = 0; i < s->count; i++)
		any_open |= is_open(s->rows[i]);
	if (r == 0 && any_open)
		r = settle_bisected(s, words);
	if (r == 0)
		r = blame_rows(s, words);
	qsort(s->rows, s->count, sizeof(struct settle_row *), by_claim);
	if (r == 0)
		r = resolve(s, is_unresolved, SETTLE_LOCKED,
			words); /* a lock was in the way of a claim that exists */
	if (r != 0)
		mark_all(s, SETTLE_OPEN);
	else if (s->isolation != NULL && s->isolation->refused > 0)
		*words = s->isolation->said;
	return r;
}

static bool is_alike(const struct settle_row *a, const struct settle_row *b)
{
	if (a->delivery_count != b->delivery_count)
		return false;
	if (a->handler == NULL || b->handler == NULL)
		return a->handler == b->handler;
	return a->handler == b->handler || strcmp(a->handler, b->handler) == 0;
}

/* A fast statement takes one delivery count and one handler, and at most GROUPS_MOST of them are
 * sent. Rows of further groups are settled with the other verdicts, or read. Returns the number of groups. */
static int group_alike(struct settle_row *rows, size_t count)
{
	const struct settle_row *firsts[GROUPS_MOST];
	int groups = 0;

	for (size_t i = 0; i < count; i++) {
		struct settle_row *row = &rows[i];

		row->group = GROUPS_MOST;
		if (!row->plain && !row->expects_completed)
			continue;
		row->group = 0;
		while (row->group < groups && !is_alike(firsts[row->group], row))
			row->group++;
		if (row->group == groups && groups < GROUPS_MOST)
			firsts[groups++] = row;
		row->plain &= row->group < groups;
	}
	return groups;
}

static int settle_rows(struct settling *s, struct settle_row *rows, size_t count, struct err *err)
{
	CLEANUP(freep) struct settle_row **order = calloc(count + 1, sizeof(struct settle_row *));
	CLEANUP(freep)
	const struct settle_row **stopped = calloc(count + 1, sizeof(struct settle_row *));
	struct stops stops = { stopped, 0 };
	int r;

	if (count == 0)
		return 0;
	s->groups = group_alike(rows, count);
	for (size_t i = 0; i < count; i++) {
		rows[i].status = SETTLE_OPEN;
		rows[i].place = (int)i;
		s->has_followers |= rows[i].follows;
		if (order != NULL)
			order[i] = &rows[i];
	}
	if (order == NULL || stopped == NULL)
		return err_memory(err);
	s->stops = &stops;
	s->rows = order;
	s->count = count;
	r = settle_sorted(s, err);
	s->stops = NULL;
	return r;
}

int settle_run(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err)
{
	struct settling s = { .db = db, .instance = instance, .queue = queue_settle };

	return settle_rows(&s, rows, count, err);
}

int settle_isolate(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err)
{
	struct isolation isolation = { 0 };
	struct settling s = {
		.db = db, .instance = instance, .queue = queue_settle, .isolation = &isolation
	};

	return settle_rows(&s, rows, count, err);
}

int settle_raise(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err)
{
	struct isolation isolation = { 0 };
	struct settling s = {
		.db = db, .instance = instance, .queue = queue_raise, .isolation = &isolation
	};

	return settle_rows(&s, rows, count, err);
}
