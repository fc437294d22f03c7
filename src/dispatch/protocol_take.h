/*
 * The takers that the table of members (protocol_members.c) names: each puts one value where the
 * draft keeps it. To be called only while a line is read.
 */
#ifndef DISPATCH_PROTOCOL_TAKE_H
#define DISPATCH_PROTOCOL_TAKE_H

#include "dispatch/protocol_members.h"

/* Tells the member's owners what is wrong with it: its path, then the words. */
void take_complaint(struct taking *taking, const struct member *member, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* General ones: the member's field says where to. */
take take_plain;    /* a text that is only compared with known ones */
take take_presence; /* a flag: the member is there */
take take_name;     /* text of min to max bytes for metrics, logs and SQL */
take take_number;   /* a whole number from min to max */
take take_words;    /* text for the table, cut to max bytes */
take take_stored;   /* JSON for the table */

/* Those of one member each. */
take take_version;
take take_id;
take take_result;
take take_protocol;
take take_sub;
take take_topic;
take take_type;
take take_entry;
take take_entry_id;
take take_delay;

/* The end of a subscription: without types it is for every type of its topic. */
void take_end_of_sub(struct taking *taking, const struct member *member);

#endif
