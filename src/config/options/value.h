/*
 * Values: from the texts of a key to a field of a struct, and back to a text.
 *
 * value_store() is the one way into a field. It calls the setter of the option's type, which parses the
 * text, applies the option's limits and its check, and stores the result. Errors say what is wrong with
 * the text and what to write instead; the caller puts the place and the key before that.
 *
 * The checks of the option table are here, too: each returns NULL for a good text, else the rest of a
 * sentence that begins with the text.
 *
 * Pure: whether a topic or a directory exists is for `inboxd check` to find out. One thread a struct.
 */
#ifndef CONFIG_OPTIONS_VALUE_H
#define CONFIG_OPTIONS_VALUE_H

#include "base/err.h"
#include "base/text/numbers.h"
#include "config/config.h"
#include "config/options/options.h"

#define VALUE_TEXT_BYTES DURATION_TEXT_BYTES

/* Parses `texts` and stores the value in `base`, where the field must be zero. FAULT_CONFIG, FAULT_MEMORY. */
int value_store(
	void *base, const struct option *option, const struct strings *texts, struct err *err);
/* Frees what value_store() stored there. */
void value_release(void *base, const struct option *option);

/* A number of the option's type as a person writes it: 3000 is "3s" for a duration. */
void value_text(const struct option *option, int64_t number, char out[VALUE_TEXT_BYTES]);

const char *check_schema(const char *text);
const char *check_instance(const char *text);
/* A Kafka topic name, or a regular expression when it starts with ^. */
const char *check_topic_pattern(const char *text);
/* A Kafka topic name, or nothing. */
const char *check_topic_or_none(const char *text);
const char *check_outbox_topic(const char *text);
/* A Kafka topic name, or "*". */
const char *check_topic_rules(const char *text);
/* The name of a consumer. */
const char *check_consumer(const char *text);
/* The name of a consumer, or nothing. */
const char *check_consumer_or_none(const char *text);
/* The name of a SQL handler. */
const char *check_handler(const char *text);
/* The name of a function with its schema, or nothing. PostgreSQL decides whether it exists. */
const char *check_function(const char *text);
/* An event type; '*' at its end makes it a prefix. */
const char *check_type_pattern(const char *text);
/* Where the id of an event is. */
const char *check_id_locator(const char *text);
/* Where the type or the source of an event is. */
const char *check_name_locator(const char *text);
const char *check_socket_path(const char *text);
/* host:port, [ipv6]:port, :port, or nothing. */
const char *check_listen(const char *text);
/* http://host, with or without port and path, or nothing. */
const char *check_otlp_endpoint(const char *text);

#endif
