/*
 * A connection's list of hosts, and what is left of it behind one that does not answer. Pure but for
 * asking libpq what it took from configuration, environment and service file. One thread.
 */
#ifndef STORE_HOSTS_H
#define STORE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct pg_conn;

/* The keywords that are lists, one element a host. */
#define HOST_LISTS 3
extern const char *const host_lists[HOST_LISTS];

struct hosts {
	char *lists[HOST_LISTS]; /* what is left of each; "" = none */
};

#define HOSTS_INIT                                                                                 \
	{                                                                                          \
		.lists = { NULL }                                                                  \
	}

void hosts_fini(struct hosts *hosts);
/* Sets the lists to what comes behind the host that `conn` is at. False when nothing does, or without
 * memory. */
bool hosts_skip(struct hosts *hosts, struct pg_conn *conn);

#endif
