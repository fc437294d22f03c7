/*
 * The files of certificates and keys of the clients for Kafka: what the settings `ssl.*` name. librdkafka reads them only when it
 * makes a client, so a renewed certificate needs new clients. One thread; reads small regular files.
 */
#ifndef INGEST_KAFKA_TLS_FILES_H
#define INGEST_KAFKA_TLS_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

struct tls_files {
	/* SHA-256 of all contents: with which the clients were made, as of the last look, and of which no client can be made */
	unsigned char used[32];
	unsigned char seen[32];
	unsigned char refused[32];
	int64_t look_ms;  /* the next look */
	int64_t renew_ms; /* when new clients are due; 0 = nothing has changed */
};

/* Notes the files. Call it before the clients are made: then no later change is missed. */
void tls_files_note(struct tls_files *files, const struct config *config);

/* Looks at the files every few seconds. True: new clients are due. They can be made from the present files, and the time of
 * kafka.certificate_spread is over, or `at_once`. Logs a change, and once if no client can be made. */
bool tls_files_look(struct tls_files *files, const struct config *config, bool at_once);

/* Makes a client that does not connect. FAULT_CONFIG with librdkafka's text: clients cannot be made now. FAULT_MEMORY. */
int tls_files_try(const struct config *config, struct err *err);

#endif
