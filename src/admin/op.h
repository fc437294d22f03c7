/*
 * What the commands of operators share: a connection, the filter of the options, output that is safe to look at,
 * and asking before something is changed. One thread; blocks.
 */
#ifndef ADMIN_OP_H
#define ADMIN_OP_H

#include <stdio.h>

#include "admin/cli.h"
#include "base/buf.h"
#include "config/config.h"
#include "queries.h"
#include "store/db.h"

struct op {
	const struct cli *cli;
	const struct config *config;
	struct db *db;
	const char
		*details; /* members more for op_print_change(), each behind a comma; NULL = none */
};

/* --- operate.c --- */

/* Connects. FAULT_DATABASE also for a user that may only look, when the command changes something and is no dry run.
 * The caller ends op->db with db_free(), also after a fault. */
int op_open(struct op *op, struct err *err);

/* --- op_filter.c --- */

/* Appends the filter of the options as the JSON that inbox.look_page() takes; `status` when none is given.
 * FAULT_USAGE for what is not UTF-8. */
int op_filter(struct buf *out, const struct cli *cli, const char *status, struct err *err);
/* The state the options name, `usual` when they name none. */
const char *op_status_of(const struct cli *cli, const char *usual);
/* True when an option says which messages. */
bool op_has_filter(const struct cli *cli);

/* FAULT_USAGE when an event id, --source or --reason is not UTF-8. */
int op_check_words(const struct cli *cli, struct err *err);

/* --- op_count.c --- */

struct op_counting {
	const char *name;   /* of the command, for errors of the schema */
	const char *states; /* that its filter may name, a space between two */
	const struct buf *filter;
	bool dropped; /* count those that fit but cannot be replayed: retention has dropped their payload */
	int64_t most;
};

/* How many messages behind --after fit, up to `most`. Page by page, each of which is bounded: what fits may be rare. */
int op_count(const struct op *op, const struct op_counting *what, int64_t *out, struct err *err);

/* --- op_explain.c --- */

/* Puts before a fault of the database what it means for who gave the command, and returns which fault it is then. */
int op_explain(int r, enum command command, struct err *err);

/* --- op_print.c --- */

/* Writes text with control bytes replaced: what is in a message must not steer a terminal. LF and TAB stay
 * when `lines` is true. */
void op_print_text(FILE *out, struct bytes text, bool lines);
/* The first `columns` columns of the rows, all of them text, under their titles. */
void op_print_table(const struct rows *rows, const char *const *titles, int columns);
/* One column, a line a row, as it is: JSON. */
void op_print_lines(const struct rows *rows, int column);
/* With --json: the one object a command prints that changes something. `count` are the messages it changed, or
 * would change when it is a dry run. Without it: nothing. */
void op_print_change(const struct op *op, const char *action, int64_t count);
/* Sixteen bytes a line: offset, hexadecimal, printable. */
void op_print_hex(struct bytes bytes);

/* --- op_ask.c --- */

/* Asks on the terminal. 0 = yes, also with --yes; OP_NO, also for a dry run; FAULT_USAGE when there is nobody to
 * ask. `wanted` is what op_print_change() tells of a dry run, after a no 0. */
enum { OP_NO = 1 };
int op_confirm(const struct op *op, const char *action, int64_t wanted, const char *question,
	struct err *err);
/* A line that shows how far it is, on stderr when that is a terminal. `total` 0 ends it. */
void op_progress(int64_t done, int64_t total);

/* --- op_interrupt.c --- */

/* From now on SIGINT, SIGTERM and SIGHUP are only remembered, the first time: a command that works in pages, or
 * one by one, ends between two, and tells how far it got. The signals belong to one command at a time. */
void op_interrupt_begin(void);
bool op_interrupted(void);
void op_interrupt_end(void);
/* Ends the program by the signal that was remembered. */
void op_interrupt_obey(void);

/* --- the commands --- */

int op_status(const struct op *op, struct err *err);
int op_list(const struct op *op, struct err *err);
int op_show(const struct op *op, struct err *err);
int op_replay(const struct op *op, struct err *err);
int op_discard(const struct op *op, struct err *err);
int op_handlers(const struct op *op, struct err *err);
int op_purge(const struct op *op, struct err *err);
int op_rejects(const struct op *op, struct err *err);

/* Nothing fits: FAULT_CHECK with these words; with --json the object says 0. */
int op_nothing(const struct op *op, const char *action, struct err *err, const char *words);
/* FAULT_CHECK: no message has the event id, from the source of --source if that is given. */
int op_no_message(const struct op *op, const char *event_id, struct err *err);

#endif
