/*
 * Fault points: named places where the fault suite kills, stops or delays the program, or makes a step fail. They are
 * before and after each step whose interruption must not lose a message. They exist only with -Dfaultpoints=true;
 * otherwise FAULT_POINT() does nothing and FAULT_ERROR() is false.
 *
 * INBOXD_FAULTPOINTS names a file with lines `NAME ACTION [NTH]`, which is read again when it has changed:
 *
 *	after_insert_before_commit kill       at the first hit
 *	before_offset_commit delay:500 3      500 ms, at the third hit
 *	before_settle error *                 at every hit
 *	outbox_relay:error_after_commit error at the first hit of the relay's thread
 *
 * Several threads reach some points. THREAD:NAME counts the hits of the threads with this name (thread_start(), with `_`
 * for a space), and the others pass.
 *
 * Actions: kill (SIGKILL to itself), stop (SIGSTOP; the thread does nothing behind the point), delay:MS, hold (waits until
 * the file has no such rule, at most a minute), error (FAULT_ERROR() becomes true; at a FAULT_POINT() it does nothing).
 * What is done is appended to FILE.hits, a line `NAME ACTION` as in the rule, before it is done. Any thread.
 */
#ifndef BASE_FAULTPOINT_H
#define BASE_FAULTPOINT_H

#include <stdbool.h>

#ifdef INBOXD_FAULTPOINTS
bool faultpoint_hit(const char *name);
bool faultpoint_is_set(const char *name);
#define FAULT_POINT(name)  ((void)faultpoint_hit(name))
#define FAULT_ERROR(name)  faultpoint_hit(name)
/* Whether there is a rule for this point and thread. It does not count as a hit. */
#define FAULT_IS_SET(name) faultpoint_is_set(name)
#else
#define FAULT_POINT(name)  ((void)0)
#define FAULT_ERROR(name)  false
#define FAULT_IS_SET(name) false
#endif

#endif
