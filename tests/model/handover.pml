/*
 * A partition gets a new owner while messages of a key are answered and not settled: two instances, one partition, a few
 * messages of key 0 and at most one of key 1. run.sh searches all states. Without any one of the rules below the search
 * must find an error.
 *
 * A step is one statement in PostgreSQL or one action of ingest or dispatch. The paths between them are modelled,
 * because errors are possible there: the queue from ingest to dispatch, and the answer of a worker to dispatch.
 *
 *	here                     there
 *	st, by                   inbox_messages: available_at, processed_at; claimed_by
 *	owner, wm                inbox_offsets: owner, next_offset
 *	kas                      the member that Kafka assigns the partition to
 *	mine                     ingest: Kafka has assigned the partition and its row is acquired
 *	known, dirty             model/admission/admission.c: assigned, dirty; dispatch knows that it is acquired
 *	way                      model/message/handover.h: a batch that is committed and not in the queue yet
 *	queue, arrived           handovers until dispatch takes them, and what of them then waits for a claim
 *	                         (dispatch/arrivals.c); news of the partition count as soon as they are taken
 *	mem                      dispatch/order/entry.h: states of an entry, and how far its verdict is
 *	out, high                dispatch/order/lanes.h: table_low, table_high
 *	cst, ck, coming          the running claim (JOB_DUE, JOB_LANES), its key, its rows
 *	fresh                    lane.noted is not older than that claim
 *	doubted                  the partition was revoked after the claim was sent: job.revocations
 *	held                     rule R12: rows that others had claimed when the partition was taken and,
 *	                         as far as is known, still have
 *	quick, awaited           in_lane.retry_ms, lane.retry_offset: behind a short retry, messages may wait in memory,
 *	                         for any time
 *	lost                     rows whose claim was taken away by hand, until the settle finds that out
 *
 * What must be true in every state (the search checks it at each delivery and each settle):
 *	no message is lost: when no step is possible any more, all are done;
 *	one message of a key is open at a time, and all older ones are done or answered to the same instance;
 *	at most BOUND messages of a key are answered and not settled. With BOUND=1 a message is delivered only when
 *	all older ones of its key are done: that is `inbox.next_after: commit`;
 *	a message is settled as done only when all older ones of its key are (also across crashes);
 *	a message is not delivered after a younger one of its key (`top`). A crash and a lost claim move `top` back
 *	to the first message that was open or not settled there, and so over at most BOUND messages. As a message is
 *	delivered only behind older ones that are done or answered, the rest comes again from its first message on.
 *
 * A crash and a new instance run after a lost lease are the same here: memory and deliveries are lost, and the rows
 * belong to a dead id (by + 2) until they are rescued, one by one, in any order. A fenced instance has cancelled its
 * deliveries before, because the model has no time and therefore no leases. It has no due times, handlers or limits
 * either, which would only forbid some of its claims and deliveries. One limit is modelled: there may be no budget for
 * the second row of a batch. Waiting and parked are one state, and a check of the table and marking the partition clean
 * are one step. A transaction with several verdicts of a lane does what its verdicts would do one after the other; its
 * COMMIT and the answer of it are one step. Verdicts other than done are settled in any order. No answer is lost.
 *
 * The rules, each with the variant that omits it:
 *
 *	WITHOUT_R12       a key of which another instance has rows claimed is held back by the new owner
 *	SCAN_LATER        those rows are read in the transaction that takes the partition: a row given
 *	                  back between it and a later look is not seen by what was stored meanwhile
 *	WITHOUT_WAIT      what was stored since waits until dispatch knows them
 *	WITHOUT_TENURE    nothing of the partition is claimed before dispatch knows them, and what comes goes back;
 *	                  of this taking, not of an earlier one: ingest says at once that it has gone. No search
 *	                  finds an error without this rule any more, since there is WITHOUT_NEWS
 *	WITHOUT_OUTSIDE   a held row that went back to waiting is noted as outside in its lane
 *	WITHOUT_LANE      what arrives for a partition that is gone enters its lane before it is given
 *	                  back: the partition may be back before the row is
 *	WITHOUT_DOUBT     a revocation forgets the lanes, and with them what is outside: what waited in
 *	                  arrivals is parked when it is taken in, be the partition ours again or not
 *	WITHOUT_DOUBTED_CLAIM  … and so is what a claim brings that was under way
 *	WITHOUT_ONE_CLAIM one claim at a time: of two the first to be given need not be the first to commit,
 *	                  nor to arrive
 *	WITHOUT_DRAINING  after a claim, all that is in the queue is taken before anything is delivered: a
 *	                  claim takes what waits, and may step over a row that was born claimed
 *	WITHOUT_RECALL    … which then waits behind that row, though it is ready already
 *	WITHOUT_HANDOVER   a claim is taken in only when no batch is between its COMMIT and the queue: it may
 *	                  have stepped over a row of that as well
 *	WITHOUT_NEWS      what is in the queue is taken before the answer to a settle: the row went back after the
 *	                  partition was lost, which forgets the lane
 *	WITHOUT_STOP      any end but done stops the lane until the table has it
 *	WITHOUT_SEQUENCE  the verdicts of a lane are settled in the order of the lane
 *	WITHOUT_BOUND     the next message waits when BOUND are answered and not settled
 *	WITHOUT_UNSETTLED  a row that is answered and not settled counts as claimed by another (R12)
 *	WITHOUT_PREFIX    a transaction settles nothing of a lane behind a verdict that it cannot settle
 *	WITHOUT_VOID      a verdict whose claim is lost voids the later ones of its lane: those messages
 *	                  come again, behind it
 *	WITHOUT_VOID_OPEN  … and the answer of the open message behind it
 *	WITHOUT_LOST_OUTSIDE  the row of a lost claim is noted as outside in its lane
 *	WITHOUT_ARRIVAL   a claim that brings a message whose verdict is not settled shows that its older
 *	                  claim is lost
 *	WITHOUT_AWAIT     while messages wait in memory for the retry of an earlier one, none of them starts
 *	WITHOUT_ROW       only a claim that brings the row of that retry ends it, not one of later rows: it may have
 *	                  been made before the row was in the table
 *	WITHOUT_START     a message that arrives starts the first of its lane, if nothing of the lane is under way
 *	WITHOUT_AGAIN     after a crash, messages that were not settled come again after younger ones; with
 *	                  BOUND=1 they do not
 *	WITHOUT_RESCUE    the rows of a dead instance are rescued
 */
#ifndef N
#define N 3 /* messages, at most 4 */
#endif
#ifndef OTHER
#define OTHER 9 /* the message of key 1; 9: there is none */
#endif
#ifdef WITHOUT_ONE_CLAIM
#define SLOTS 2 /* concurrent claims */
#else
#define SLOTS 1
#endif
#ifndef REBALANCES
#define REBALANCES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RETRIES
#define RETRIES 1
#endif
#ifndef CROWDED
#define CROWDED 1 /* batches whose second row has no budget */
#endif
#ifndef BOUND
#define BOUND 2 /* messages of a key that are answered and not settled */
#endif
#ifndef LOSSES
#define LOSSES 0 /* claims taken away by hand */
#endif
#ifndef WASTED
#define WASTED 1 /* claims of held keys; they have no result, so more of them show nothing new */
#endif

#define KEY(m)  ((m) == OTHER)
#define BIT(m)  (1 << (m))
#define NOBODY  7
#define NOTHING 15

#define ABSENT  0 /* st */
#define WAITING 1
#define CLAIMED 2
#define DONE    3

#define NO      0 /* mem */
#define QUEUED  1 /* behind the head of its lane */
#define READY   2 /* may be delivered */
#define OPEN    3 /* delivered to a handler */
#define LEAVING 4 /* retry, park or give back: not committed yet */
#define LEFT    5 /* committed, the answer has not arrived */
#define LEFT_Q  6 /* the same, and a claim brought it again: a second entry, queued */
#define LEFT_L  7 /* the same, and the second entry is leaving, too */
#define VOID    8 /* open, and its answer is void: it will go back */
#define LOOSE   9 /* leaving without having been in a lane */
#define LOOSE_L 10 /* committed */
#define TAIL    11 /* answered with done and not settled */

#define PARKED 16 /* in the queue: + number of a row; without it the row was born claimed */
#define REVOKE 32
#define TAKE   64 /* + the rows held by others */
#define DOUBT  128
#define EMPTY  255

#define MEM(m)    mem[i * N + (m)]
#define OUT(key)  out[i * 2 + (key)]
#define HIGH(key) high[i * 2 + (key)]
#define RETRY(key) awaited[i * 2 + (key)]
#define SLOT(s)   (i * 2 + (s))

byte st[N], by[N];
byte owner = NOBODY, wm, kas;
byte rebalances = REBALANCES, crashes = CRASHES, retries = RETRIES, wasted = WASTED, crowded = CROWDED;
byte losses = LOSSES;
byte top[2]; /* the latest message of the key that was delivered */

bool mine[2], dirty[2], known[2], heard[2], rereading[2];
byte held[2], reread[2], refree[2], lost[2];
byte mem[2 * N], coming[2 * N];
byte out[4], high[4];
byte cst[4];
bool ck[4], fresh[4], followed[4], doubted[4];
byte awaited[4], quick[2];
byte way[2];
chan queue[2] = [N + 4] of { byte };
chan arrived[2] = [N + 4] of { byte /* claims it waits for */, byte };

hidden byte f, g, h, m, r, count, last, waits, what, item;
hidden byte over, busy, key;

#define UNDER_WAY ((cst[SLOT(0)] != 0 -> 1 : 0) + (cst[SLOT(1)] != 0 -> 2 : 0))
#define IN_LANE(s) ((s) != NO && (s) < LOOSE)
#define LEAVES(s)  ((s) >= LEAVING && (s) <= VOID)
#define IS_OPEN(s) ((s) == OPEN || (s) == VOID)
#define IN_TAIL(m_, k_) (MEM(m_) == TAIL && KEY(m_) == k_ -> 1 : 0)
#if N == 2
#define UNSETTLED(k_) (IN_TAIL(0, k_) + IN_TAIL(1, k_))
#elif N == 3
#define UNSETTLED(k_) (IN_TAIL(0, k_) + IN_TAIL(1, k_) + IN_TAIL(2, k_))
#else
#define UNSETTLED(k_) (IN_TAIL(0, k_) + IN_TAIL(1, k_) + IN_TAIL(2, k_) + IN_TAIL(3, k_))
#endif
#ifdef WITHOUT_BOUND
#define FULL(k_) false
#else
#define FULL(k_) (UNSETTLED(k_) >= BOUND)
#endif
#ifdef WITHOUT_AWAIT
#define STOPPED(k_) FULL(k_)
#else
#define STOPPED(k_) (FULL(k_) || RETRY(k_) != NOTHING)
#endif

/* --- memory: lanes.c, held.c ---------------------------------------------------------------------- */

inline note_outside(m_)
{
	OUT(KEY(m_)) = (OUT(KEY(m_)) > m_ -> m_ : OUT(KEY(m_)));
	HIGH(KEY(m_)) = (HIGH(KEY(m_)) == NOTHING || HIGH(KEY(m_)) < m_ -> m_ : HIGH(KEY(m_)));
	fresh[SLOT(0)] = fresh[SLOT(0)] || (cst[SLOT(0)] != 0 && ck[SLOT(0)] == KEY(m_));
	fresh[SLOT(1)] = fresh[SLOT(1)] || (cst[SLOT(1)] != 0 && ck[SLOT(1)] == KEY(m_))
}

/* entry_settle() and follow_outside(): the row returns to the table, and so do the rows queued behind it. */
inline leave(m_)
{
	MEM(m_) = (MEM(m_) == LEFT || MEM(m_) == LEFT_Q -> LEFT_L : LEAVING);
	dirty[i] = true;
	for (f : 0 .. N - 1) {
		if
		:: f > m_ && KEY(f) == KEY(m_) && MEM(f) == QUEUED -> MEM(f) = LEAVING
		:: else
		fi
	}
}

#define comes_again(key_, m_) top[key_] = (top[key_] != NOTHING && top[key_] > m_ -> m_ : top[key_])

/* settled(): the claim of an answered message is lost. All that was delivered or ready behind it comes again. */
inline lose(m_)
{
	printf("%d finds that it has lost %d\n", i, m_);
	MEM(m_) = NO;
	lost[i] = lost[i] & ~BIT(m_);
	dirty[i] = true;
	comes_again(KEY(m_), m_);
#ifndef WITHOUT_VOID
	over = false;
	for (h : 0 .. N - 1) {
		if
		:: h > m_ && KEY(h) == KEY(m_) && (MEM(h) == TAIL || (MEM(h) == QUEUED && over)) ->
			MEM(h) = LEAVING;
			over = true
		:: h > m_ && KEY(h) == KEY(m_) && MEM(h) == READY -> MEM(h) = QUEUED
#ifndef WITHOUT_VOID_OPEN
		:: h > m_ && KEY(h) == KEY(m_) && MEM(h) == OPEN -> MEM(h) = VOID
#endif
		:: else
		fi
	}
#endif
}

/* recall_next(): one that is ready and not delivered waits behind an earlier one. */
inline recall(m_)
{
	last = NOTHING;
	for (r : 0 .. N - 1) {
		last = (r != m_ && KEY(r) == KEY(m_) && IN_LANE(MEM(r)) && last == NOTHING -> r : last)
	}
	if
	:: last != NOTHING && last > m_ && MEM(last) == READY -> MEM(last) = QUEUED; look_at_lane(m_)
	:: else
	fi
}

/* is_overtaking(), is_busy(): is an earlier row of its lane in the table, or in a running claim? */
inline look_at_lane(m_)
{
	over = OUT(KEY(m_)) < m_;
	busy = false;
	for (f : 0 .. N - 1) {
		if
		:: f != m_ && KEY(f) == KEY(m_) && IN_LANE(MEM(f)) ->
			over = over || (f < m_ && LEAVES(MEM(f)));
			busy = busy || f < m_ || MEM(f) != QUEUED
		:: else
		fi
	}
}

/* lanes_leave(): the next of its lane becomes ready when nothing of the lane is under way. */
inline next_head(key_)
{
	last = NOTHING;
	busy = false;
	for (h : 0 .. N - 1) {
		if
		:: KEY(h) == key_ && IN_LANE(MEM(h)) ->
			busy = busy || MEM(h) != QUEUED;
			last = (last == NOTHING -> h : last)
		:: else
		fi
	}
	if
	:: last != NOTHING && !busy && !STOPPED(key_) && OUT(key_) < last -> leave(last)
	:: last != NOTHING && !busy && !STOPPED(key_) && OUT(key_) >= last -> MEM(last) = READY
	:: else
	fi
}

/* The row that the queued ones wait for counts as any other in the table. */
inline end_retry(key_)
{
	note_outside(RETRY(key_));
	RETRY(key_) = NOTHING
}

/* lanes_leave(): the row is in the table. If it is retried soon, what is behind it waits in memory. */
inline note_left(m_)
{
	busy = false;
	for (g : 0 .. N - 1) {
		busy = busy || (KEY(g) == KEY(m_) && IN_LANE(MEM(g)))
	}
	if
	:: (quick[i] & BIT(m_)) && busy && RETRY(KEY(m_)) == NOTHING ->
		RETRY(KEY(m_)) = m_
	:: else -> note_outside(m_)
	fi;
	quick[i] = quick[i] & ~BIT(m_);
	dirty[i] = true
}

/* A lane without messages in memory waits for none. */
inline relist(key_)
{
	busy = UNSETTLED(key_) > 0;
	for (g : 0 .. N - 1) {
		busy = busy || (KEY(g) == key_ && IN_LANE(MEM(g)))
	}
	if
	:: !busy && RETRY(key_) != NOTHING -> end_retry(key_)
	:: else
	fi
}

#define KEY_HELD(k_) \
	(((held[i] & BIT(0)) && KEY(0) == k_) || ((held[i] & BIT(1)) && KEY(1) == k_) || \
	 ((held[i] & BIT(2)) && KEY(2) == k_) || ((held[i] & BIT(3)) && KEY(3) == k_))

/* entry_admit(), with the hold of R12. */
inline admit(m_, doubtful)
{
	if
#ifdef WITHOUT_ARRIVAL
	:: MEM(m_) == TAIL -> lost[i] = lost[i] & ~BIT(m_)
#else
	:: MEM(m_) == TAIL -> lose(m_)
#endif
	:: else
	fi;
	look_at_lane(m_);
	if
#ifdef WITHOUT_LANE
	:: !known[i] && MEM(m_) == NO -> MEM(m_) = LOOSE; dirty[i] = true
	:: !known[i] && MEM(m_) != NO -> leave(m_)
#else
	:: !known[i] -> leave(m_)
#endif
	:: known[i] && (over || doubtful || KEY_HELD(KEY(m_))) -> leave(m_)
	:: known[i] && !(over || doubtful || KEY_HELD(KEY(m_))) ->
#ifndef WITHOUT_RECALL
		recall(m_);
#endif
		MEM(m_) = (MEM(m_) == LEFT -> LEFT_Q : (busy || STOPPED(KEY(m_)) -> QUEUED : READY));
#ifndef WITHOUT_START
		next_head(KEY(m_))
#endif
	fi
}

inline deliver(m_)
{
	assert(st[m_] == CLAIMED && by[m_] == i);
	assert(top[KEY(m_)] == NOTHING || m_ >= top[KEY(m_)]);
	top[KEY(m_)] = m_;
	for (f : 0 .. N - 1) {
		assert(KEY(f) != KEY(m_) || f >= m_ || st[f] == DONE || (MEM(f) == TAIL && BOUND > 1));
		assert(KEY(f) != KEY(m_) || (!IS_OPEN(mem[f]) && !IS_OPEN(mem[N + f])))
	}
	MEM(m_) = OPEN
}

/* A done is settled. */
inline complete(m_)
{
	settle(m_, DONE);
	for (f : 0 .. N - 1) {
		assert(KEY(f) != KEY(m_) || f >= m_ || st[f] == DONE)
	}
	MEM(m_) = NO
}

/* The claim of an answered message is gone. The transaction settles nothing behind it. */
inline void_tail(m_)
{
#ifdef WITHOUT_PREFIX
	for (g : 0 .. N - 1) {
		if
		:: g > m_ && KEY(g) == KEY(m_) && MEM(g) == TAIL -> complete(g)
		:: else
		fi
	}
#endif
	lose(m_);
#ifndef WITHOUT_LOST_OUTSIDE
	note_outside(m_)
#endif
}

/* The instance is gone: what it had answered and not settled, or open, comes again. */
inline tail_comes_again(key_)
{
	last = NOTHING;
	count = 0;
	for (f : 0 .. N - 1) {
		if
		:: KEY(f) == key_ && (MEM(f) == TAIL || IS_OPEN(MEM(f))) ->
			count = (top[key_] != NOTHING && f < top[key_] -> count + 1 : count);
			last = (last == NOTHING -> f : last)
		:: else
		fi
	}
	assert(count <= BOUND);
#ifndef WITHOUT_AGAIN
	if
	:: last != NOTHING -> comes_again(key_, last)
	:: else
	fi
#endif
}

inline forget_lane(key_)
{
	busy = false;
	for (f : 0 .. N - 1) {
		busy = busy || (KEY(f) == key_ && (IN_LANE(MEM(f)) || MEM(f) == TAIL))
	}
	RETRY(key_) = (busy -> RETRY(key_) : NOTHING);
	OUT(key_) = (busy -> OUT(key_) : NOTHING);
	HIGH(key_) = (busy -> HIGH(key_) : NOTHING)
}

inline forget_hold()
{
	held[i] = 0;
	heard[i] = false;
	rereading[i] = false;
	reread[i] = 0;
	refree[i] = 0
}

/* A message that failed goes back, and so does what is queued behind it. */
inline fail(m_)
{
#ifdef WITHOUT_STOP
	MEM(m_) = LEAVING;
	dirty[i] = true;
	last = NOTHING;
	for (g : 0 .. N - 1) {
		last = (KEY(g) == KEY(m_) && MEM(g) == QUEUED && last == NOTHING -> g : last)
	}
	if
	:: last != NOTHING -> MEM(last) = READY
	:: else
	fi
#else
	if
	:: true -> leave(m_)
	:: known[i] -> MEM(m_) = LEAVING; dirty[i] = true; quick[i] = quick[i] | BIT(m_)
	fi
#endif
}

/* --- arrivals: arrivals.c, claimed.c ----------------------------------------------------------- */

inline on_revoke()
{
	for (g : 0 .. N - 1) {
		if
		:: MEM(g) == QUEUED || MEM(g) == READY || MEM(g) == LEFT_Q -> leave(g)
		:: else
		fi
	}
	known[i] = false;
	forget_lane(0);
	forget_lane(1);
	forget_hold();
#ifndef WITHOUT_DOUBT
	count = len(arrived[i]);
	do
	:: count > 0 -> arrived[i]?waits, item; arrived[i]!waits, (item < PARKED -> item | DOUBT : item); count--
	:: count == 0 -> break
	od;
#endif
#ifndef WITHOUT_DOUBTED_CLAIM
	doubted[SLOT(0)] = doubted[SLOT(0)] || cst[SLOT(0)] != 0;
	doubted[SLOT(1)] = doubted[SLOT(1)] || cst[SLOT(1)] != 0
#endif
}

/* News take effect at once; a row waits for the claims that are running now. */
inline take_item()
{
	queue[i]?what;
	printf("%d takes %d from its queue\n", i, what);
	if
	:: what < REVOKE -> arrived[i]!UNDER_WAY, what
	:: what == REVOKE -> on_revoke()
#ifdef SCAN_LATER
	:: what >= TAKE -> known[i] = true; rereading[i] = true
#elif defined(WITHOUT_WAIT)
	:: what >= TAKE -> known[i] = true; rereading[i] = true; reread[i] = what - TAKE
#else
	:: what >= TAKE -> known[i] = true; heard[i] = true; held[i] = what - TAKE
#endif
	fi
}

inline take_arrivals()
{
	do
	:: nempty(queue[i]) -> take_item()
	:: empty(queue[i]) -> break
	od;
	do
	:: arrived[i]?[0, what] ->
		arrived[i]?waits, what;
		if
		:: what >= PARKED && what < DOUBT -> note_outside(what - PARKED)
		:: what < PARKED -> admit(what, false)
		:: what >= DOUBT -> admit(what - DOUBT, true)
		fi
	:: !(arrived[i]?[0, what]) -> break
	od
}

#ifdef WITHOUT_ROW
#define BRINGS_RETRY(key_, s_) (RETRY(key_) <= last)
#else
#define BRINGS_RETRY(key_, s_) (RETRY(key_) != NOTHING && coming[i * N + RETRY(key_)] == s_ + 1)
#endif

/* behind_entries(): what waits in the table is behind the messages in memory that stay there. */
inline note_behind(key_, end_)
{
	for (f : 0 .. N - 1) {
		end_ = (KEY(f) == key_ && IN_LANE(MEM(f)) && !LEAVES(MEM(f)) && f > end_ -> f : end_)
	}
	OUT(key_) = end_ + 1;
	HIGH(key_) = end_ + 1
}

/* note_runs() and end_outside_at(): the end of the run, and whether more rows wait behind it. */
inline note_run(key_, s_)
{
	last = NOTHING;
	for (f : 0 .. N - 1) {
		last = (coming[i * N + f] == s_ + 1 -> f : last)
	}
	if
	:: last == NOTHING
	:: last != NOTHING && BRINGS_RETRY(key_, s_) && OUT(key_) > last ->
		RETRY(key_) = NOTHING;
		if
		:: followed[SLOT(s_)] && OUT(key_) == NOTHING -> note_behind(key_, last)
		:: else
		fi
	:: last != NOTHING && !(BRINGS_RETRY(key_, s_) && OUT(key_) > last) && (OUT(key_) == NOTHING || !fresh[SLOT(s_)]) ->
		RETRY(key_) = (BRINGS_RETRY(key_, s_) -> NOTHING : RETRY(key_));
		HIGH(key_) = (followed[SLOT(s_)] && (HIGH(key_) == NOTHING || HIGH(key_) <= last) ->
			last + 1 : HIGH(key_));
		OUT(key_) = (HIGH(key_) != NOTHING && HIGH(key_) > last -> last + 1 : NOTHING);
		HIGH(key_) = (OUT(key_) == NOTHING -> NOTHING : HIGH(key_))
	:: last != NOTHING && !(BRINGS_RETRY(key_, s_) && OUT(key_) > last) && OUT(key_) != NOTHING && fresh[SLOT(s_)] ->
		RETRY(key_) = (BRINGS_RETRY(key_, s_) -> NOTHING : RETRY(key_));
		if
		:: followed[SLOT(s_)] -> note_outside(last + 1)
		:: else
		fi
	fi
}

/* Messages that arrived during this claim no longer wait for it. */
inline end_claim(s_)
{
	cst[SLOT(s_)] = 0;
	ck[SLOT(s_)] = 0;
	fresh[SLOT(s_)] = false;
	followed[SLOT(s_)] = false;
	doubted[SLOT(s_)] = false;
	count = len(arrived[i]);
	do
	:: count > 0 -> arrived[i]?waits, item; arrived[i]!(waits & ~BIT(s_)), item; count--
	:: count == 0 -> break
	od
}

/* claim_results_take(): the rows of a claim in their order; then all that has arrived. */
inline claim_arrives(s_)
{
	note_run(ck[SLOT(s_)], s_);
	for (g : 0 .. N - 1) {
		if
		:: coming[i * N + g] == s_ + 1 ->
			printf("%d has claimed %d\n", i, g);
			coming[i * N + g] = 0;
			admit(g, doubted[SLOT(s_)])
		:: else
		fi
	}
	end_claim(s_);
#ifndef WITHOUT_DRAINING
	take_arrivals()
#endif
}

/* --- statements: sql/queries ------------------------------------------------------------------------ */

#ifdef WITHOUT_UNSETTLED
#define IGNORED(m_) (mem[(1 - i) * N + (m_)] == TAIL)
#else
#define IGNORED(m_) false
#endif
#ifdef WITHOUT_R12
#define HAS_OTHER(m_) 0
#else
#define HAS_OTHER(m_) (st[m_] == CLAIMED && by[m_] != i && !IGNORED(m_) -> BIT(m_) : 0)
#endif
#if N == 2
#define WAITS(k_)    ((st[0] == WAITING && KEY(0) == k_) || (st[1] == WAITING && KEY(1) == k_))
#define HAVE_OTHERS  (HAS_OTHER(0) + HAS_OTHER(1))
#define HAS(s_)      (MEM(0) == s_ || MEM(1) == s_)
#define ANY_DEAD     (by[0] == 2 || by[0] == 3 || by[1] == 2 || by[1] == 3)
#define ALL_DONE     (st[0] == DONE && st[1] == DONE)
#elif N == 3
#define WAITS(k_)    ((st[0] == WAITING && KEY(0) == k_) || (st[1] == WAITING && KEY(1) == k_) || \
			(st[2] == WAITING && KEY(2) == k_))
#define HAVE_OTHERS  (HAS_OTHER(0) + HAS_OTHER(1) + HAS_OTHER(2))
#define HAS(s_)      (MEM(0) == s_ || MEM(1) == s_ || MEM(2) == s_)
#define ANY_DEAD     (by[0] == 2 || by[0] == 3 || by[1] == 2 || by[1] == 3 || by[2] == 2 || by[2] == 3)
#define ALL_DONE     (st[0] == DONE && st[1] == DONE && st[2] == DONE)
#else
#define WAITS(k_)    ((st[0] == WAITING && KEY(0) == k_) || (st[1] == WAITING && KEY(1) == k_) || \
			(st[2] == WAITING && KEY(2) == k_) || (st[3] == WAITING && KEY(3) == k_))
#define HAVE_OTHERS  (HAS_OTHER(0) + HAS_OTHER(1) + HAS_OTHER(2) + HAS_OTHER(3))
#define HAS(s_)      (MEM(0) == s_ || MEM(1) == s_ || MEM(2) == s_ || MEM(3) == s_)
#define ANY_DEAD     (by[0] == 2 || by[0] == 3 || by[1] == 2 || by[1] == 3 || by[2] == 2 || \
			by[2] == 3 || by[3] == 2 || by[3] == 3)
#define ALL_DONE     (st[0] == DONE && st[1] == DONE && st[2] == DONE && st[3] == DONE)
#endif

inline pick(s_)
{
	if
	:: MEM(0) == s_ -> m = 0
	:: MEM(1) == s_ -> m = 1
#if N > 2
	:: MEM(2) == s_ -> m = 2
#endif
#if N > 3
	:: MEM(3) == s_ -> m = 3
#endif
	fi
}

/* The first answered message of a lane. */
inline pick_tail()
{
#ifdef WITHOUT_SEQUENCE
	pick(TAIL)
#else
	if
	:: UNSETTLED(0) > 0 -> key = 0
	:: UNSETTLED(1) > 0 -> key = 1
	fi;
	m = NOTHING;
	for (f : 0 .. N - 1) {
		m = (m == NOTHING && KEY(f) == key && MEM(f) == TAIL -> f : m)
	}
#endif
}

inline pick_dead()
{
	if
	:: by[0] == 2 || by[0] == 3 -> m = 0
	:: by[1] == 2 || by[1] == 3 -> m = 1
#if N > 2
	:: by[2] == 2 || by[2] == 3 -> m = 2
#endif
#if N > 3
	:: by[3] == 2 || by[3] == 3 -> m = 3
#endif
	fi
}

#define POST(x_)  queue[i]!(x_)

/* take_partitions; the rows of others are read in the same transaction. */
inline take()
{
	printf("%d takes the partition\n", i);
	owner = i;
	mine[i] = true;
	dirty[i] = true;
	POST(TAKE + HAVE_OTHERS)
}

/* move_watermarks and insert_messages: a row is checked while the partition is dirty. The batch may have a second row
 * without budget. */
inline store()
{
	if
	:: dirty[i] && WAITS(KEY(wm)) ->
		printf("%d stores %d, parked\n", i, wm);
		st[wm] = WAITING;
		way[i] = PARKED + wm
	:: else ->
		printf("%d stores %d\n", i, wm);
		st[wm] = CLAIMED;
		by[wm] = i;
		way[i] = wm
	fi;
	wm++;
	if
	:: crowded > 0 && wm < N ->
		printf("%d stores %d, waiting\n", i, wm);
		crowded--;
		st[wm] = WAITING;
		dirty[i] = true;
		wm++
	:: true
	fi
}

/* settle_done, settle_verdicts */
inline settle(m_, to)
{
	printf("%d settles %d as %d\n", i, m_, to);
	if
	:: st[m_] == CLAIMED && by[m_] == i -> st[m_] = to; by[m_] = NOBODY
	:: else
	fi
}

#define WORTH(k_) (WAITS(k_) && (!KEY_HELD(k_) || wasted > 0))

inline give_claim(s_)
{
	if
	:: WORTH(0) -> key = 0
	:: WORTH(1) -> key = 1
	fi;
	wasted = (KEY_HELD(key) -> wasted - 1 : wasted);
	cst[SLOT(s_)] = 1;
	ck[SLOT(s_)] = key
}

/* claim_due, claim_lanes: from the lowest waiting row of the key, one row or all; the owner's only. */
inline commit_claim(s_)
{
	printf("%d claims %d\n", i, s_);
	cst[SLOT(s_)] = 2;
	if
	:: count = 1
	:: count = N
	fi;
	for (f : 0 .. N - 1) {
		if
		:: owner == i && st[f] == WAITING && KEY(f) == ck[SLOT(s_)] && count > 0 ->
			st[f] = CLAIMED;
			by[f] = i;
			coming[i * N + f] = s_ + 1;
			count--
		:: owner == i && st[f] == WAITING && KEY(f) == ck[SLOT(s_)] && count == 0 ->
			followed[SLOT(s_)] = true
		:: else
		fi
	}
}

/* R12: the held rows are checked; the result arrives later. */
#define FREED (held[i] & ~(HAVE_OTHERS))

inline look_again()
{
	rereading[i] = true;
	reread[i] = FREED;
	for (f : 0 .. N - 1) {
		refree[i] = ((reread[i] & BIT(f)) && st[f] == DONE -> refree[i] | BIT(f) : refree[i])
	}
}

inline looked_again()
{
	printf("%d holds %d no more\n", i, reread[i]);
	held[i] = held[i] & ~reread[i];
#ifndef WITHOUT_OUTSIDE
	for (f : 0 .. N - 1) {
		if
		:: (reread[i] & BIT(f)) && !(refree[i] & BIT(f)) -> note_outside(f); dirty[i] = true
		:: else
		fi
	}
#endif
	rereading[i] = false;
	reread[i] = 0;
	refree[i] = 0
}

inline crash()
{
	printf("%d crashes\n", i);
	crashes--;
	tail_comes_again(0);
	tail_comes_again(1);
	lost[i] = 0;
	quick[i] = 0;
	for (f : 0 .. N - 1) {
		MEM(f) = NO;
		coming[i * N + f] = 0;
		by[f] = (st[f] == CLAIMED && by[f] == i -> i + 2 : by[f])
	}
	owner = (owner == i -> NOBODY : owner);
	mine[i] = false;
	dirty[i] = false;
	forget_lane(0);
	forget_lane(1);
	forget_hold();
	known[i] = false;
	way[i] = EMPTY;
	end_claim(0);
	end_claim(1);
	do
	:: nempty(queue[i]) -> queue[i]?item
	:: empty(queue[i]) -> break
	od;
	do
	:: nempty(arrived[i]) -> arrived[i]?waits, item
	:: empty(arrived[i]) -> break
	od
}

#ifdef WITHOUT_HANDOVER
#define PASSED true
#else
#define PASSED (way[i] == EMPTY)
#endif

#ifdef WITHOUT_NEWS
#define NEWS_TAKEN true
#define NEWS_WAIT  false
#else
#define NEWS_TAKEN empty(queue[i])
#define NEWS_WAIT  nempty(queue[i])
#endif

proctype instance(byte i)
{
end:	do
	/* ingest */
	:: atomic { kas == i && !mine[i] && way[i] == EMPTY -> take() }
	:: atomic { mine[i] && (kas != i || owner != i) && way[i] == EMPTY ->
		printf("%d has lost it\n", i);
		owner = (owner == i -> NOBODY : owner);
		mine[i] = false;
#ifndef WITHOUT_TENURE
		known[i] = false;
#endif
		POST(REVOKE) }
	:: atomic { mine[i] && owner == i && wm < N && way[i] == EMPTY -> store() }
	:: atomic { way[i] != EMPTY -> POST(way[i]); way[i] = EMPTY }
	/* sweep */
	:: atomic { known[i] && dirty[i] && !WAITS(0) && !WAITS(1) -> dirty[i] = false; printf("%d: clean\n", i) }
	/* arrivals */
	:: atomic { nempty(queue[i]) || arrived[i]?[0, what] -> take_arrivals() }
	/* R12 */
#ifdef SCAN_LATER
	:: atomic { !heard[i] && rereading[i] ->
		printf("%d finds %d held\n", i, HAVE_OTHERS);
		held[i] = HAVE_OTHERS; heard[i] = true; rereading[i] = false }
#endif
#ifdef WITHOUT_WAIT
	:: atomic { !heard[i] && rereading[i] ->
		held[i] = reread[i]; reread[i] = 0; heard[i] = true; rereading[i] = false }
#endif
	:: atomic { heard[i] && !rereading[i] && FREED -> look_again() }
	:: atomic { heard[i] && rereading[i] -> looked_again() }
	/* handlers */
	:: atomic { HAS(READY) -> pick(READY); printf("%d delivers %d\n", i, m); deliver(m) }
	:: atomic { HAS(OPEN) -> pick(OPEN); printf("%d has %d answered\n", i, m); MEM(m) = TAIL;
		assert(UNSETTLED(KEY(m)) <= BOUND); next_head(KEY(m)) }
	:: atomic { HAS(VOID) -> pick(VOID); leave(m) }
	:: atomic { retries > 0 && HAS(OPEN) -> pick(OPEN); printf("%d has %d failed\n", i, m); retries--; fail(m) }
	/* verdicts, and their answers */
	:: atomic { HAS(TAIL) -> pick_tail();
		if
		:: (lost[i] & BIT(m)) && NEWS_TAKEN -> void_tail(m)
		:: (lost[i] & BIT(m)) && NEWS_WAIT /* the answer is not read yet */
		:: !(lost[i] & BIT(m)) -> complete(m)
		fi;
		next_head(KEY(m));
		relist(KEY(m)) }
	:: atomic { HAS(LEAVING) -> pick(LEAVING); settle(m, WAITING); MEM(m) = LEFT }
	:: atomic { HAS(LOOSE) -> pick(LOOSE); settle(m, WAITING); MEM(m) = LOOSE_L }
	:: atomic { NEWS_TAKEN && HAS(LOOSE_L) -> pick(LOOSE_L); MEM(m) = NO; dirty[i] = true }
	:: atomic { NEWS_TAKEN && HAS(LEFT) -> pick(LEFT); printf("%d hears of %d\n", i, m);
		MEM(m) = NO; note_left(m); next_head(KEY(m)); relist(KEY(m)) }
	:: atomic { NEWS_TAKEN && HAS(LEFT_Q) -> pick(LEFT_Q); printf("%d hears of %d\n", i, m);
		MEM(m) = QUEUED; note_left(m); next_head(KEY(m)) }
	:: atomic { NEWS_TAKEN && HAS(LEFT_L) -> pick(LEFT_L); MEM(m) = LEAVING; note_left(m) }
	:: atomic { RETRY(0) != NOTHING -> end_retry(0); next_head(0); relist(0) }
	:: atomic { RETRY(1) != NOTHING -> end_retry(1); next_head(1); relist(1) }
	/* claims */
	:: atomic { known[i] && mine[i] && cst[SLOT(0)] == 0 && (WORTH(0) || WORTH(1)) -> give_claim(0) }
	:: atomic { cst[SLOT(0)] == 1 -> commit_claim(0) }
	:: atomic { cst[SLOT(0)] == 2 && PASSED -> claim_arrives(0) }
#if SLOTS > 1
	:: atomic { known[i] && mine[i] && cst[SLOT(1)] == 0 && (WORTH(0) || WORTH(1)) -> give_claim(1) }
	:: atomic { cst[SLOT(1)] == 1 -> commit_claim(1) }
	:: atomic { cst[SLOT(1)] == 2 && PASSED -> claim_arrives(1) }
#endif
	/* the world */
	:: atomic { crashes > 0 -> crash() }
	:: atomic { losses > 0 && HAS(TAIL) -> pick(TAIL);
		if
		:: st[m] == CLAIMED && by[m] == i ->
			printf("%d is taken from %d\n", m, i);
			losses--;
			st[m] = WAITING;
			by[m] = NOBODY;
			lost[i] = lost[i] | BIT(m);
			comes_again(KEY(m), m)
		:: else
		fi }
#ifndef WITHOUT_RESCUE
	:: atomic { ANY_DEAD -> pick_dead(); printf("%d is rescued\n", m); st[m] = WAITING; by[m] = NOBODY }
#endif
	:: atomic { rebalances > 0 && kas == i ->
		rebalances--; kas = 1 - i; printf("Kafka gives it to %d\n", kas) }
	od
}

init {
	atomic {
		for (f : 0 .. 3) {
			out[f] = NOTHING;
			awaited[f] = NOTHING;
			high[f] = NOTHING
		}
		top[0] = NOTHING;
		top[1] = NOTHING;
		way[0] = EMPTY;
		way[1] = EMPTY;
		for (f : 0 .. N - 1) {
			by[f] = NOBODY
		}
		run instance(0);
		run instance(1)
	}
	/* When no step is possible any more, every message is done. */
	timeout -> assert(wm == N && ALL_DONE)
}
