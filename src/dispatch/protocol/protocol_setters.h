/*
 * The setters that the table of members (protocol_members.c) refers to. Each checks one value and stores it in the
 * draft. They may only be called while a line is read, because they allocate from its memory (protocol_memory.h).
 */
#ifndef DISPATCH_PROTOCOL_PROTOCOL_SETTERS_H
#define DISPATCH_PROTOCOL_PROTOCOL_SETTERS_H

#include "dispatch/protocol/protocol_members.h"

/* Notes a problem of this member for all its scopes. The text is the path of the member and then the formatted words.
 */
void set_problem(struct draft_writer *writer, const struct member *member, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* General setters. They store the value in the member's `field`. */
member_setter set_plain;    /* a text that is only compared with known ones */
member_setter set_presence; /* a flag: the member is there */
member_setter set_name;     /* text of min to max bytes for metrics, logs and SQL */
member_setter set_number;   /* a whole number from min to max */
member_setter set_words;    /* text for the table, cut to max bytes */
member_setter set_stored;   /* JSON for the table */

/* Setters of one member each. */
member_setter set_version;
member_setter set_id;
member_setter set_result;
member_setter set_protocol;
member_setter set_sub;
member_setter set_topic;
member_setter set_type;
member_setter set_entry;
member_setter set_entry_id;
member_setter set_delay;

/* The end of a subscription. Without types it is for every type of its topic. */
void finish_subscription(struct draft_writer *writer, const struct member *member);

#endif
