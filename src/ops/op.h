/*
 * What the operator commands share: a connection, the filter of the options, output that is safe
 * for a terminal, and the confirmation before a change. One thread; blocks.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include <stdio.h>

#include "base/buf.h"
#include "config/config.h"
#include "ops/cli.h"
#include "queries.h"
#include "store/pg/db.h"

struct op {
	const struct cli *cli;
	const struct config *config;
	struct db *db;
	const char *
		details; /* two more members for op_print_change(), each after a comma; NULL = none */
};

/* --- operate.c --- */

/* Connects. FAULT_DATABASE also when the command changes something (without --dry-run) and the user
 * may only read. The caller frees op->db with db_free(), also after a fault. */
int op_open(struct op *op, struct err *err);

/* --- op_filter.c --- */

/* Appends the filter of the options in the JSON format of inbox.look_page(). `status` applies when
 * none is given. FAULT_USAGE: a value is not UTF-8. */
int op_filter(struct buf *out, const struct cli *cli, const char *status, struct err *err);
/* The state that the options name, otherwise `usual`. */
const char *op_status_of(const struct cli *cli, const char *usual);
/* True when an option selects messages. */
bool op_has_filter(const struct cli *cli);

/* FAULT_USAGE when an event id, --source or --reason is not UTF-8. */
int op_check_words(const struct cli *cli, struct err *err);

/* --- op_count.c --- */

struct op_counting {
	const char *name;   /* name of the command, for errors of the schema */
	const char *states; /* states that its filter may name, separated by spaces */
	const struct buf *filter;
	/* count messages that match but cannot be replayed, because retention has dropped their
	 * payload */
	bool dropped;
	int64_t most;
};

/* Counts the messages after --after that match, up to `most`. It reads pages of a limited size,
 * because matches may be rare. */
int op_count(const struct op *op, const struct op_counting *what, int64_t *out, struct err *err);

/* --- op_explain.c --- */

/* Adds to a database fault what it means for the operator, and returns the resulting fault. */
int op_explain(int r, enum command command, struct err *err);

/* --- op_print.c --- */

/* Writes text with control bytes replaced, so that a message cannot control the terminal. LF and
 * TAB are kept when `lines` is true. */
void op_print_text(FILE *out, struct bytes text, bool lines);
/* The first `columns` columns of the rows, all of them text, under their titles. */
void op_print_table(const struct rows *rows, const char *const *titles, int columns);
/* One column, one line per row, unchanged: JSON. */
void op_print_lines(const struct rows *rows, int column);
/* With --json: the object that a command with changes prints. `count`: messages changed, or for a
 * dry run the number that would be changed. Without --json: prints nothing. */
void op_print_change(const struct op *op, const char *action, int64_t count);
/* Sixteen bytes per line: offset, hexadecimal, printable characters. */
void op_print_hex(struct bytes bytes);

/* --- op_ask.c --- */

/* Asks on the terminal. 0 = yes, also with --yes. OP_NO: no, or a dry run. FAULT_USAGE: stdin is
 * not a terminal. `wanted` is the count for op_print_change() in a dry run; after a no it is 0. */
enum { OP_NO = 1 };
int op_confirm(const struct op *op, const char *action, int64_t wanted, const char *question,
	struct err *err);
/* A progress line on stderr, if that is a terminal. `total` 0 removes it. */
void op_progress(int64_t done, int64_t total);

/* --- op_interrupt.c --- */

/* From now on the first SIGINT, SIGTERM or SIGHUP is only recorded. A command that works in pages
 * or one by one ends between two of them and reports its progress. Only one command at a time may
 * use this. */
void op_interrupt_begin(void);
bool op_interrupted(void);
void op_interrupt_end(void);
/* Ends the program with the recorded signal. */
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

/* Nothing matches: FAULT_CHECK with this text; with --json the object contains 0. */
int op_nothing(const struct op *op, const char *action, struct err *err, const char *words);
/* FAULT_CHECK: no message has this event id, from the source of --source if given. */
int op_no_message(const struct op *op, const char *event_id, struct err *err);

#endif
