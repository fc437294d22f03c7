#include "dispatch/replay_listener.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LISTEN   "LISTEN inboxd_replay"
/* The longest silence that is believed: then LISTEN is said again, and finds a connection that died
 * without a word. */
#define PING_MS  30000
/* After a fault. The workers say in the log what is wrong with the database. */
#define RETRY_MS 1000

struct replay_listener {
	struct db *db;
	struct wake *wake;
	struct wake pause; /* ends the wait after a fault */
	pthread_t thread;
	bool started;
	atomic_bool stop;
	atomic_bool heard;
};

static int listen_once(struct replay_listener *notices)
{
	int r = db_open(notices->db, NULL);

	if (r == 0)
		r = db_script(notices->db, LISTEN, NULL);
	while (r == 0 && !atomic_load(&notices->stop)) {
		r = db_await_notice(notices->db, PING_MS, NULL);
		if (r < 0)
			return r;
		if (r == 0)
			return 0; /* silence: begin again with a ping */
		atomic_store(&notices->heard, true);
		wake_poke(notices->wake);
		r = 0;
	}
	return r;
}

static void *listen_on(void *arg)
{
	struct replay_listener *notices = arg;

	(void)pthread_setname_np(pthread_self(), "notices");
	while (!atomic_load(&notices->stop)) {
		if (listen_once(notices) < 0 && !atomic_load(&notices->stop)) {
			db_close(notices->db);
			(void)wake_wait(&notices->pause, RETRY_MS);
		}
	}
	db_close(notices->db);
	return NULL;
}

int replay_listener_new(struct replay_listener **out, const struct db_options *db,
	struct wake *wake, struct err *err)
{
	struct replay_listener *notices = calloc(1, sizeof(*notices));
	int r;

	if (notices == NULL)
		return err_memory(err);
	notices->wake = wake;
	notices->pause = (struct wake)WAKE_INIT;
	r = wake_init(&notices->pause, err);
	if (r == 0)
		r = db_new(&notices->db, db, err);
	if (r == 0 && pthread_create(&notices->thread, NULL, listen_on, notices) != 0)
		r = err_set(err, FAULT_INTERNAL, "cannot start a thread to listen for replays");
	if (r != 0) {
		replay_listener_free(notices);
		return r;
	}
	notices->started = true;
	*out = notices;
	return 0;
}

void replay_listener_free(struct replay_listener *notices)
{
	if (notices == NULL)
		return;
	if (notices->started) {
		atomic_store(&notices->stop, true);
		wake_poke(&notices->pause);
		db_interrupt(notices->db);
		(void)pthread_join(notices->thread, NULL);
	}
	db_free(notices->db);
	wake_fini(&notices->pause);
	free(notices);
}

bool replay_listener_heard(struct replay_listener *notices)
{
	return atomic_exchange(&notices->heard, false);
}
