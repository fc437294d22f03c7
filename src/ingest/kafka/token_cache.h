/*
 * The token for the brokers (SASL OAUTHBEARER): one for the whole process, from `kafka.oauth_token_file` or
 * `kafka.oauth_token_command`. A thread gets it and sets it on every client; no other thread waits for a file or a command. The
 * thread runs while there are clients.
 *
 * The file is read when it has changed. The command runs when 80 % of a token's life are over, and when a broker has refused the
 * token. After a failure there is a pause of 1 to 60 s; the token in use stays until it ends. A new token ends no connection.
 *
 * Any thread. The cache copies what it needs of the configuration.
 */
#ifndef INGEST_KAFKA_TOKEN_CACHE_H
#define INGEST_KAFKA_TOKEN_CACHE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

struct rd_kafka_s; /* rd_kafka_t */

/* Whether the configuration has one of the two settings. */
bool token_cache_is_used(const struct config *config);

/* The client gets the current token now and each later one until token_cache_detach(), which must come before the end of the
 * client. `quiet`: no line of the log is for this client. FAULT_MEMORY, FAULT_INTERNAL. */
int token_cache_attach(
	struct rd_kafka_s *kafka, const struct config *config, bool quiet, struct err *err);
/* Does nothing for a client that is not attached. After the last one it kills a running command; that takes two seconds at most.
 */
void token_cache_detach(struct rd_kafka_s *kafka);

/* A broker has refused a login. */
void token_cache_refused(void);

/* As process 1, takes the status of orphans while the thread does not run: a command may have left them before the last client ended.
 * Does not wait. */
void token_cache_reap(void);

/* Waits until there is a token, or until an attempt to get one has failed: its fault and text. For commands. */
int token_cache_wait(struct err *err);

#endif
