/*
 * What a text must look like. Each answers NULL when it does, else the rest of a sentence that
 * begins with the text: what it is not and what to write. Pure; any thread; no allocation but what
 * regcomp(3) needs.
 */
#ifndef CONFIG_CHECKS_H
#define CONFIG_CHECKS_H

const char *check_schema(const char *text);
const char *check_instance(const char *text);
/* A Kafka topic name, or a regular expression when it starts with ^. */
const char *check_topic_pattern(const char *text);
/* A Kafka topic name, or nothing. */
const char *check_topic_or_none(const char *text);
/* A Kafka topic name, or "*". */
const char *check_topic_rules(const char *text);
/* An event type, '*' at the end = prefix. */
const char *check_type_pattern(const char *text);
const char *check_id_locator(const char *text);
const char *check_type_locator(const char *text);
const char *check_source_locator(const char *text);
const char *check_socket_path(const char *text);
/* host:port, [ipv6]:port, :port, or nothing. */
const char *check_listen(const char *text);
/* http://host, with or without port and path, or nothing. */
const char *check_otlp_endpoint(const char *text);

#endif
