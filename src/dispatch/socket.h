/*
 * The Unix socket of the handlers and the lock beside it. Whoever holds the lock of a socket path
 * knows that no other sidecar serves this place, and that an earlier one is gone for good: that is
 * what lets a restarted sidecar take its old rows back without waiting for a lease to run out.
 */
#ifndef DISPATCH_SOCKET_H
#define DISPATCH_SOCKET_H

#include "base/err.h"
#include "config/config.h"

struct socket_lock {
	int fd;          /* -1: not held */
	char place[160]; /* "boot id/device/inode" of the lock file; "": no boot id */
};

#define SOCKET_LOCK_INIT                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Locks PATH.lock (flock(2)); FAULT_SOCKET when another process holds it or the directory is not
 * there, with what to do. */
int socket_lock(struct socket_lock *out, const char *path, struct err *err);
void socket_unlock(struct socket_lock *lock);

/* Binds and listens, with the configured mode and group; removes a socket an earlier run left behind
 * (the lock must be held). `fd` is the caller's. */
int socket_listen(int *fd, const struct config *config, struct err *err);

/* For `inboxd check`: could the socket be made? Leaves nothing behind. */
int socket_check(const struct config *config, struct err *err);

#endif
