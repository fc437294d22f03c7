/*
 * What the commands on the inbox share: the connection, the filter of the options, output that is
 * safe for a terminal, the confirmation before a change, and what a fault means for an operator. A
 * command reads and changes the inbox only through the functions and views of the schema, as the
 * configured user. Main thread; blocks.
 *
 * A command prints its result to stdout; questions, progress and warnings go to stderr, so that
 * --json leaves one parsable stream.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include <stdio.h>

#include "base/buf.h"
#include "config/config.h"
#include "ops/cli/cli.h"
#include "queries.h"
#include "store/pg/db.h"

struct op {
	const struct cli *cli;
	const struct config *config;
	struct db *db;
	/* more members for op_print_change(), each after a comma; NULL = none */
	const char *details;
};

/* --- op.c --- */

typedef int op_function(const struct op *op, struct err *err);

/* Connects, calls `function`, and explains its fault. FAULT_USAGE for arguments that the schema
 * rejects. */
int op_run(
	const struct cli *cli, const struct config *config, op_function *function, struct err *err);

/* The parts of op_run(), for a command that does something in between. The caller of op_open()
 * frees op->db with db_free(), also after a fault. */

/* FAULT_DATABASE also when the command changes something (without --dry-run) and the user may only
 * read. */
int op_open(struct op *op, struct err *err);
/* Adds to a database fault what it means for the operator, and returns the resulting fault. */
int op_explain(int r, enum command command, const struct config *config, struct err *err);

/* Nothing matches: FAULT_CHECK with this text; with --json the object contains 0. */
int op_nothing(const struct op *op, const char *action, struct err *err, const char *words);
/* FAULT_CHECK: no message has this event id, from the source and for the consumer of the options. */
int op_no_message(const struct op *op, const char *event_id, struct err *err);

/* The seq of the one row that the argument names, as `show` understands it; in show.c. FAULT_USAGE: it has several rows. */
int op_find_message(const struct op *op, int64_t *seq, struct err *err);

/* From now on the first SIGINT, SIGTERM or SIGHUP is only recorded. A command that works in pages
 * or one by one ends between two of them and reports its progress. Only one command at a time may
 * use this. */
void op_interrupt_begin(void);
bool op_interrupted(void);
void op_interrupt_end(void);
/* Ends the program with the recorded signal. */
void op_interrupt_obey(void);

/* Sleeps for a third of the time that a page took, so that the load goes on beside many pages. */
void op_pause_after(int64_t page_us);

/* --- filter.c --- */

/* Appends the filter of the options in the JSON format of inbox.look_page(). `status` applies when
 * none is given; NULL = the filter has none. FAULT_USAGE: a value is not UTF-8. */
int op_filter(struct buf *out, const struct op *op, const char *status, struct err *err);
/* The same for inbox.backfill_page(). `until_seq`: no later message; -1 = not given. */
int op_backfill_filter(struct buf *out, const struct cli *cli, int64_t until_seq, struct err *err);
/* A command that asks acts on the rows that it counted, and on none that came or changed after that. The
 * statements of a count return what identifies these rows, as JSON for inbox.is_counted(). Each of them gets what the
 * one before returned. */
int op_counted_take(struct buf *counted, const struct rows *rows, int column, struct err *err);
/* An empty text is sent as NULL: the count begins. `counted` may be NULL. */
void op_counted_give(struct params *params, const struct buf *counted);
/* True if the text is so long that the count must end here. While a transaction stays open for long, the text has every
 * later transaction that changed a row. */
bool op_counted_is_full(const struct buf *counted);
/* Adds the rows to a filter, which then fits no others. */
int op_add_counted(struct buf *filter, const struct buf *counted, struct err *err);
/* The state that the options name, otherwise `usual`. */
const char *op_status_of(const struct cli *cli, const char *usual);
bool op_is_dead(const struct cli *cli, const char *usual);
/* Says on stderr what --since and --until mean if they select dead messages. Not with --json. */
void op_note_times(const struct cli *cli, const char *usual);
/* The option that set the limit, as it was typed: --limit or --max. */
const char *op_limit_option(const struct cli *cli);
/* FAULT_USAGE when an event id, --source or --reason is not UTF-8. */
int op_check_words(const struct cli *cli, struct err *err);
/* True when an option selects messages. With event ids, --consumer does not: it selects one of their
 * rows. */
bool op_has_filter(const struct cli *cli);

/* --- terminal.c --- */

/* Writes text with control bytes replaced, so that a message cannot control the terminal. LF and
 * TAB are kept when `lines` is true. */
void op_print_text(FILE *out, struct bytes text, bool lines);
/* The first `columns` columns of the rows, all of them text, under their titles. The column CONSUMER
 * is left out when no row names one, and each column without a title. In a terminal the last column is cut at the end of
 * a line, unless the rows are printed whole. */
void op_print_table(const struct rows *rows, const char *const *titles, int columns, bool whole);
/* One column, one line per row, unchanged: JSON. */
void op_print_lines(const struct rows *rows, int column);
/* With --json: the object that a command with changes prints. `count`: messages changed, or for a
 * dry run the number that would be changed. Without --json: prints nothing. */
void op_print_change(const struct op *op, const char *action, int64_t count);
/* Columns: section, name, value, all of them text. A new section starts with a title. A value can have several lines. */
void op_print_facts(const struct rows *rows);
/* The trace and the events that a message, or a request with a key, has caused: the columns of op_caused.sql. NULL = they were not read, and stderr says why: it does not end a command that shows more. */
struct rows *op_read_caused(
	const struct op *op, const char *seq, const char *scope, const char *key);
/* As op_print_facts(); `caused` may be NULL. */
void op_print_caused(const struct rows *caused);
/* A column that is a JSON object, with them as further members. */
void op_print_with_caused(const struct rows *rows, int row, int column, const struct rows *caused);
/* Sixteen bytes per line: offset, hexadecimal, printable characters. */
void op_print_hex(struct bytes bytes);

/* Asks on the terminal. 0 = yes, also with --yes. OP_NO: no, or a dry run. FAULT_USAGE: stdin is
 * not a terminal. `wanted` is the count for op_print_change() in a dry run; after a no it is 0. */
enum { OP_NO = 1 };
int op_confirm(const struct op *op, const char *action, int64_t wanted, const char *question,
	struct err *err);
/* A progress line on stderr, if that is a terminal. `total` 0 removes it. */
void op_progress(int64_t done, int64_t total);

/* --- the commands, each in the file of its name --- */

int op_status(const struct op *op, struct err *err);
int op_list(const struct op *op, struct err *err);
int op_keys(const struct op *op, struct err *err);  /* in list.c */
int op_audit(const struct op *op, struct err *err); /* in list.c */
int op_skip(const struct op *op, struct err *err);
int op_pause(const struct op *op, struct err *err);
int op_resume(const struct op *op, struct err *err); /* in pause.c */
int op_show(const struct op *op, struct err *err);
int op_export(const struct op *op, struct err *err);
int op_replay(const struct op *op, struct err *err);
int op_replay_rejects(const struct op *op, struct err *err);
int op_replay_conflict(const struct op *op, struct err *err); /* in replay_rejects.c */
int op_retry(const struct op *op, struct err *err);           /* in replay.c, as the next two */
int op_resolve(const struct op *op, struct err *err);
int op_discard(const struct op *op, struct err *err);
int op_handlers(const struct op *op, struct err *err);
int op_consumers(const struct op *op, struct err *err); /* in handlers.c */
int op_backfill(const struct op *op, struct err *err);
int op_purge(const struct op *op, struct err *err);
int op_outbox(const struct op *op, struct err *err);
/* The function of the schema that the action of `outbox` calls to change something; NULL = none. */
const char *op_outbox_function(const struct cli *cli);
int op_requests(const struct op *op, struct err *err);
/* Actions of `outbox`, each beside the command of its name. */
int op_show_event(const struct op *op, struct err *err);
int op_replay_events(const struct op *op, struct err *err);
int op_discard_events(const struct op *op, struct err *err); /* in replay.c */

#endif
