/*
 * inboxd-devbroker: a Kafka broker without a JVM, for a first try. It runs librdkafka's mock cluster as
 * a server: real TCP, topics, consumer groups and offset commits, all in memory and lost at the end.
 * For the quick start and for trying handlers, never for data: a partition keeps about its last 5 MB or
 * 100,000 messages. A consumer group may get stuck when a member leaves or a second one joins.
 *
 * Blocks until SIGTERM or SIGINT, then exits 0. Exit codes: 1 usage, 4 the broker did not start.
 */
#include <errno.h>
#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devbroker/port.h"

#define MAX_TOPICS         100
#define MAX_PARTITIONS     1000
#define DEFAULT_PARTITIONS 4

enum { EXIT_OK = 0, EXIT_USAGE = 1, EXIT_KAFKA = 4 };

struct topic {
	char name[250]; /* Kafka allows 249 bytes */
	int partitions;
};

struct options {
	int port; /* 0 = any */
	const char *address_file;
	struct topic topics[MAX_TOPICS];
	size_t topic_count;
};

static const char usage_text[] =
	"inboxd-devbroker: a Kafka broker in memory, for trying things out\n"
	"\n"
	"  --port PORT              listen on this port of 127.0.0.1 (default: any free port)\n"
	"  --topic NAME:PARTITIONS  create this topic; may be repeated; others are created when "
	"used\n"
	"  --address-file FILE      write host:port to this file once it listens\n"
	"  --help\n"
	"\n"
	"Runs until SIGTERM. All messages are lost at the end; before that, a partition keeps its\n"
	"newest 5 MB or 100,000 messages, approximately. A consumer group may get stuck when a\n"
	"member leaves or another one joins: to restart, stop or scale, use Apache Kafka.\n";

static int complain(const char *what, const char *object, const char *advice)
{
	fprintf(stderr, "inboxd-devbroker: %s: %s; %s\n", object, what, advice);
	return EXIT_USAGE;
}

/* Whole decimal numbers within the limits only. */
static bool read_number(const char *text, long min, long max, int *out)
{
	char *end;
	const long number = strtol(text, &end, 10);

	if (end == text || *end != '\0' || number < min || number > max)
		return false;
	*out = (int)number;
	return true;
}

static int add_topic(struct options *options, const char *text)
{
	const char *colon = strrchr(text, ':');
	const size_t length = colon ? (size_t)(colon - text) : strlen(text);
	struct topic *topic;

	if (options->topic_count == MAX_TOPICS)
		return complain("too many topics", text, "100 are enough for a first look");
	topic = &options->topics[options->topic_count];
	topic->partitions = DEFAULT_PARTITIONS;
	if (length == 0 || length >= sizeof(topic->name))
		return complain(
			"not a topic", text, "write NAME:PARTITIONS, the name 1 to 249 bytes");
	if (colon && !read_number(colon + 1, 1, MAX_PARTITIONS, &topic->partitions))
		return complain(
			"not a number of partitions", text, "write NAME:PARTITIONS, 1 to 1000");
	memcpy(topic->name, text, length);
	topic->name[length] = '\0';
	options->topic_count++;
	return EXIT_OK;
}

enum { ASKED_FOR_HELP = -1 };

/* An exit code, or ASKED_FOR_HELP. */
static int read_options(struct options *options, int argc, char **argv)
{
	static const struct option names[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "topic", required_argument, NULL, 't' },
		{ "address-file", required_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int name;

	while ((name = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (name == 'h')
			return ASKED_FOR_HELP;
		if (name == 'a')
			options->address_file = optarg;
		else if (name == 't' && add_topic(options, optarg) != EXIT_OK)
			return EXIT_USAGE;
		else if (name == 'p' && !read_number(optarg, 1, 65535, &options->port))
			return complain("not a port", optarg, "choose 1 to 65535");
		else if (name == '?')
			return EXIT_USAGE; /* getopt has said why */
	}
	if (optind < argc)
		return complain("unknown argument", argv[optind], "see --help");
	return EXIT_OK;
}

/* The file is complete or absent, so that a script that waits for it never reads half an address. */
static int write_address(const char *path, const char *address)
{
	char part[4096];
	FILE *file;
	int failed;

	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return complain("too long", path, "choose a shorter --address-file");
	file = fopen(part, "w");
	if (!file)
		return complain("cannot be written", path, "choose another --address-file");
	failed = fprintf(file, "%s\n", address) < 0;
	failed |= fclose(file) != 0;
	if (failed || rename(part, path) != 0)
		return complain("cannot be written", path, "is the disk full?");
	return EXIT_OK;
}

static int create_topics(rd_kafka_mock_cluster_t *cluster, const struct options *options)
{
	rd_kafka_resp_err_t error;

	for (size_t i = 0; i < options->topic_count; i++) {
		const struct topic *topic = &options->topics[i];

		error = rd_kafka_mock_topic_create(cluster, topic->name, topic->partitions, 1);
		if (error) {
			complain(rd_kafka_err2str(error), topic->name, "is it given twice?");
			return EXIT_USAGE;
		}
	}
	return EXIT_OK;
}

/* Serves until one of the blocked signals arrives. */
static int serve(
	rd_kafka_mock_cluster_t *cluster, const struct options *options, const sigset_t *signals)
{
	const char *address = rd_kafka_mock_cluster_bootstraps(cluster);
	int number;
	int r = create_topics(cluster, options);

	if (r != EXIT_OK)
		return r;
	if (options->address_file) {
		r = write_address(options->address_file, address);
		if (r != EXIT_OK)
			return r;
	}
	printf("listening on %s\n", address);
	fflush(stdout);
	return sigwait(signals, &number) == 0 ? EXIT_OK : EXIT_KAFKA;
}

/* The client that librdkafka wants around its mock cluster; it connects to nothing. */
static rd_kafka_t *new_client(char *words, size_t size)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *client;

	if (rd_kafka_conf_set(conf, "log_level", "3", words, size) != RD_KAFKA_CONF_OK) {
		rd_kafka_conf_destroy(conf);
		return NULL;
	}
	client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, words, size);
	if (!client)
		rd_kafka_conf_destroy(conf);
	return client;
}

static int run_cluster(rd_kafka_t *client, const struct options *options, const sigset_t *signals)
{
	rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, 1);
	int r;

	if (!cluster) {
		complain("the broker did not start", "librdkafka", "see its message above");
		return EXIT_KAFKA;
	}
	r = serve(cluster, options, signals);
	rd_kafka_mock_cluster_destroy(cluster);
	return r;
}

static int run(const struct options *options, const sigset_t *signals)
{
	char words[512] = "";
	rd_kafka_t *client;
	int r;

	if (devbroker_choose_port(options->port) < 0) {
		fprintf(stderr,
			"inboxd-devbroker: cannot listen on 127.0.0.1:%d: %s; "
			"without --port a free one is chosen\n",
			options->port, strerror(errno));
		return EXIT_KAFKA;
	}
	client = new_client(words, sizeof(words));
	if (!client) {
		complain(words, "librdkafka", "is its version 1.3 or later?");
		return EXIT_KAFKA;
	}
	r = run_cluster(client, options, signals);
	rd_kafka_destroy(client);
	return r;
}

int main(int argc, char **argv)
{
	static struct options options;
	sigset_t signals;
	const int r = read_options(&options, argc, argv);

	if (r == ASKED_FOR_HELP) {
		fputs(usage_text, stdout);
		return EXIT_OK;
	}
	if (r != EXIT_OK)
		return r;
	/* Blocked before librdkafka starts its threads, so that only sigwait() gets them. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	return run(&options, &signals);
}
