/*
 * The Unix socket of the handlers, and the lock file beside it. The process that holds the lock knows that no other
 * sidecar serves this path, and that an earlier one has ended. So a restarted sidecar can fence its former instance
 * and rescue its rows at once, without waiting for the end of the lease.
 *
 * Used at start, before any thread exists. Nothing here blocks: the lock is tried once.
 */
#ifndef DISPATCH_SESSIONS_SOCKET_H
#define DISPATCH_SESSIONS_SOCKET_H

#include "base/err.h"
#include "config/config.h"

struct socket_lock {
	int fd;            /* -1: not held */
	char host_id[160]; /* "boot id/device/inode" of the lock file; "" without a boot id */
};

#define SOCKET_LOCK_INIT                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Locks PATH.lock with flock(2). FAULT_SOCKET, with advice, if another process holds it or the directory does not
 * exist. FAULT_CONFIG if the path is too long. */
int socket_lock(struct socket_lock *out, const char *path, struct err *err);
void socket_unlock(struct socket_lock *lock);

/* Binds and listens, with the configured mode and group. Removes a socket that an earlier process left, so the lock
 * must be held. The caller owns `fd`. */
int socket_listen(int *fd, const struct config *config, struct err *err);

/* For `inboxd check`: checks that the socket could be created, without creating anything. SOCKET_SERVED: a process
 * holds the lock, so a second one would not start. The lock is shared for an instant if nobody holds it. */
#define SOCKET_SERVED 1
int socket_check(const struct config *config, struct err *err);

#endif
