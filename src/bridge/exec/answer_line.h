/*
 * The line with which a command of `exec --lines` answers a message. It is a verdict of the handler protocol as JSON,
 *
 *	{"status":"retry","delay_ms":60000,"reason":"upstream 503","code":"UPSTREAM"}
 *	{"status":"done","emit":[{"topic":"invoices","type":"invoice.created","data":{"invoice":88}}]}
 *
 * or, for programs that cannot write JSON easily, a status and a text:
 *
 *	done
 *	retry upstream 503          the text is the reason, also for dead
 *	snooze 5s                   the text is the delay
 *
 * JSON may have the member "id". It must then be the id of the event: so a line that was not meant as an answer cannot
 * be taken as one. Pure. One thread.
 */
#ifndef BRIDGE_EXEC_ANSWER_LINE_H
#define BRIDGE_EXEC_ANSWER_LINE_H

#include "bridge/verdict.h"
#include "json/stream.h"

enum { ANSWER_LINE_WRONG = 1 };

/* Reads a line, without its LF, as the answer to the event with this id. ANSWER_LINE_WRONG: it is none; the verdict is a
 * retry with the code PROTOCOL, and its reason says why, and how the line begins. The result and the events are borrowed
 * from the line. FAULT_MEMORY. */
int answer_line_read(struct json_stream *stream, struct bytes line, struct bytes event_id,
	struct bridge_verdict *out, struct err *err);

#endif
