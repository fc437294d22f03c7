/*
 * Reads user name and password for the brokers again from their files (`file:/path`) while a client
 * runs. The client uses them for its next connection, so that a new password needs no restart.
 * Existing connections stay open. One thread.
 */
#ifndef INGEST_KAFKA_CREDENTIALS_H
#define INGEST_KAFKA_CREDENTIALS_H

#include <librdkafka/rdkafka.h>

#include "config/config.h"

/* The values that the client uses at present; starts as zeros. */
struct credentials {
	char *username;
	char *password;
};

void credentials_fini(struct credentials *credentials);
/* Reads the two files, if any. Passes changed values to the client and logs that. A file that
 * cannot be read is tried again at the next call. */
void credentials_refresh(
	struct credentials *credentials, rd_kafka_t *kafka, const struct config *config);

#endif
