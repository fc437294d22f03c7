/*
 * User and password for the brokers, read again from their files (`file:/path`) while a client runs: it takes the new
 * ones for its next connection and needs no restart. Connections that are there stay. One thread.
 */
#ifndef INGEST_CREDENTIALS_H
#define INGEST_CREDENTIALS_H

#include <librdkafka/rdkafka.h>

#include "config/config.h"

/* What the client was told last; starts as zeros. */
struct credentials {
	char *username;
	char *password;
};

void credentials_fini(struct credentials *credentials);
/* Reads two small files, if there are any, and tells the client and the log when they have changed. What cannot be
 * read is tried again at the next call. */
void credentials_refresh(
	struct credentials *credentials, rd_kafka_t *kafka, const struct config *config);

#endif
