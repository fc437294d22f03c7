/*
 * The clients of librdkafka: how each one is made and ended, whatever it is for. A client has the token of token_cache.h before it
 * can connect. Any thread.
 */
#ifndef INGEST_KAFKA_CLIENT_H
#define INGEST_KAFKA_CLIENT_H

#include <dlfcn.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

/* The address of a function that librdkafka has since version 2.3, or NULL. With earlier headers dlsym() looks for it in the library that
 * the process has loaded, which may be later than the headers; a program that is linked statically has the headers of its library. */
#if RD_KAFKA_VERSION >= 0x020300ff
#define KAFKA_SINCE_2_3(name) ((void *)(name))
#else
#define KAFKA_SINCE_2_3(name) dlsym(RTLD_DEFAULT, #name)
#endif

struct client_use {
	rd_kafka_type_t type;
	/* The client of a command: the first token is waited for, up to 25 seconds, and why there is none is the result. */
	bool of_command;
};

/* Takes `conf` in any case. FAULT_CONFIG with librdkafka's text; FAULT_KAFKA: no token; FAULT_MEMORY, FAULT_INTERNAL. */
int kafka_client_new(rd_kafka_t **out, const struct client_use *use, rd_kafka_conf_t *conf,
	const struct config *config, struct err *err);
/* May hang as long as rd_kafka_destroy() does (rule R20). */
void kafka_client_free(rd_kafka_t *kafka);
/* Instead of it, for a client that lives until the process ends. */
void kafka_client_forget(rd_kafka_t *kafka);

/* Call it for every error of the client: a login that a broker has refused may need another token. */
void kafka_client_failed(rd_kafka_resp_err_t code, const char *reason);

#endif
