/*
 * The list of hosts of a connection, and its remainder after a host that did not answer. It asks
 * libpq for the values that come from the configuration, the environment and the service file;
 * apart from that it is pure. One thread.
 */
#ifndef STORE_PG_HOSTS_H
#define STORE_PG_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct pg_conn;

/* The keywords that are lists with one element per host. */
#define HOST_LISTS 3
extern const char *const host_lists[HOST_LISTS];

struct hosts {
	char *lists[HOST_LISTS]; /* the remaining elements; "" = none */
};

#define HOSTS_INIT                                                                                 \
	{                                                                                          \
		.lists = { NULL }                                                                  \
	}

void hosts_fini(struct hosts *hosts);
/* Sets the lists to the elements after the host that `conn` uses. False when there is none, or
 * without memory. */
bool hosts_skip(struct hosts *hosts, struct pg_conn *conn);

#endif
