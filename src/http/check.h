/*
 * The check of http.listen for `inboxd check`. Main thread; blocks for at most a few seconds.
 */
#ifndef HTTP_CHECK_H
#define HTTP_CHECK_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Appends the result: the address is free, or the inboxd with this socket.path listens there.
 * Otherwise the fault names the program that listens there. The function never listens itself, so
 * that an inboxd that starts at the same time gets the address. */
int http_check(const struct config *config, struct buf *found, struct err *err);

#endif
