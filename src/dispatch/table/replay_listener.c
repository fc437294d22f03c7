/* See replay_listener.h. The thread connects, executes LISTEN, and waits for notifications. After a fault or a
 * silence of PING_MS it starts again. */
#include "dispatch/table/replay_listener.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/threads/thread.h"

#define LISTEN   "LISTEN inboxd_replay"
/* After a silence of this length LISTEN is executed again. That detects a connection that was lost without a FIN or RST
 * packet. */
#define PING_MS  30000
/* Pause after a fault. The fault is not logged here: the workers have the same fault and log it. */
#define RETRY_MS 1000

struct replay_listener {
	struct db *db;
	struct wake *wake;
	struct thread thread;
	atomic_bool noticed;
};

static void notice(struct replay_listener *listener)
{
	atomic_store(&listener->noticed, true);
	wake_poke(listener->wake);
}

static int listen_once(struct replay_listener *listener)
{
	bool is_new = !db_is_open(listener->db);
	int r = db_open(listener->db, NULL);

	if (r == 0)
		r = db_script(listener->db, LISTEN, NULL);
	if (r == 0 && is_new)
		notice(listener); /* a replay may have been committed while nobody listened */
	while (r == 0 && !thread_is_stopping(&listener->thread)) {
		r = db_await_notice(listener->db, PING_MS, NULL);
		if (r < 0)
			return r;
		if (r == 0)
			return 0; /* silence: execute LISTEN again */
		notice(listener);
		r = 0;
	}
	return r;
}

static void listen_on(void *arg)
{
	struct replay_listener *listener = arg;

	while (!thread_is_stopping(&listener->thread)) {
		if (listen_once(listener) < 0) {
			db_close(listener->db);
			thread_pause(&listener->thread, RETRY_MS);
		}
	}
	db_close(listener->db);
}

int replay_listener_new(struct replay_listener **out, const struct db_options *db,
	struct wake *wake, struct err *err)
{
	struct replay_listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (listener == NULL)
		return err_memory(err);
	listener->wake = wake;
	r = thread_init(&listener->thread, err);
	if (r == 0)
		r = db_new(&listener->db, db, err);
	if (r == 0)
		r = thread_start(&listener->thread, "replay listener", listen_on, listener, err);
	if (r != 0) {
		replay_listener_free(listener);
		return r;
	}
	*out = listener;
	return 0;
}

void replay_listener_free(struct replay_listener *listener)
{
	if (listener == NULL)
		return;
	if (listener->thread.started) {
		thread_request_stop(&listener->thread);
		db_interrupt(listener->db);
		thread_join(&listener->thread);
	}
	db_free(listener->db);
	thread_fini(&listener->thread);
	free(listener);
}

bool replay_listener_take_notice(struct replay_listener *listener)
{
	return atomic_exchange(&listener->noticed, false);
}
