/* The files of certificates that forward uses. One thread. */
#ifndef BRIDGE_FORWARD_TLS_H
#define BRIDGE_FORWARD_TLS_H

#include <curl/curl.h>

#include "bridge/forward/forward.h"

/* Gives the files to a handle. They are read when a connection is made. */
CURLcode tls_set(CURL *easy, const struct forward_options *options);
/* Reads the files now, so that a mistake is not taken for a service that cannot be reached. FAULT_USAGE: they cannot be
 * used. Blocks for less than a second. */
int tls_check(const struct forward_options *options, struct err *err);

#endif
