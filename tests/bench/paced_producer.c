/*
 * Produces at a fixed rate, whatever becomes of the records: an open loop.
 *
 *	paced_producer BOOTSTRAP TOPIC RATE SECONDS
 *
 * RATE is a number of records a second, and may have a fraction. The first record is due 1/RATE seconds after the start,
 * the last one at the end. Each says in its payload when it was due ("due_us", CLOCK_MONOTONIC of this machine): a
 * record that leaves late, because this program or Kafka was held up, counts from when it should have left.
 *
 * Says {"sent":N,"late_p99_us":T,"late_max_us":T} on stdout: how late the records were handed to librdkafka. Exits
 * non-zero when one was not stored by Kafka.
 */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { PAYLOAD_BYTES = 400, KEYS = 10000, FLUSH_MS = 30000, LINGER_FROM = 2000 };

struct run {
	rd_kafka_t *producer;
	const char *topic;
	int64_t began_us;
	double rate;
	int64_t count;
	int64_t *late_us;
	int64_t failed;
};

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "paced_producer: %s: %s\n", what, why);
	return 1;
}

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void sleep_until(int64_t due_us)
{
	const struct timespec due = { due_us / 1000000, due_us % 1000000 * 1000 };

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void on_delivery(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque)
{
	struct run *run = opaque;

	(void)producer;
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		run->failed++;
}

/* Thousands of requests of one record a second would measure the broker: above that rate records wait for others. */
static int set_all(rd_kafka_conf_t *conf, const struct run *run, const char *bootstrap)
{
	const char *const settings[][2] = {
		{ "linger.ms", run->rate > LINGER_FROM ? "1" : "0" },
		{ "socket.nagle.disable", "true" },
		{ "acks", "all" },
		{ "log_level", "2" },
	};
	char words[512];

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], words, sizeof(words)) !=
			RD_KAFKA_CONF_OK)
			return fail(settings[i][0], words);
	if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, words, sizeof(words)) !=
		RD_KAFKA_CONF_OK)
		return fail("bootstrap.servers", words);
	return 0;
}

static int open_producer(struct run *run, const char *bootstrap)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char words[512];

	if (set_all(conf, run, bootstrap) != 0)
		return 1;
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	rd_kafka_conf_set_opaque(conf, run);
	run->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, words, sizeof(words));
	return run->producer == NULL ? fail("cannot make a producer", words) : 0;
}

static uint64_t scatter(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A UUID that looks random, because some of the measured programs store nothing else as an id. */
static void make_id(char *out, size_t size, uint64_t began_us, uint64_t number)
{
	const uint64_t high = scatter(began_us);
	const uint64_t low = scatter(high + number);

	snprintf(out, size, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
		low >> 32, low >> 16 & 0xffff, low & 0xffff, high >> 48, high & 0xffffffffffff);
}

static int produce(const struct run *run, int64_t number, int64_t due_us)
{
	char payload[PAYLOAD_BYTES + 1];
	char key[24];
	char id[64];
	const int used = snprintf(payload, sizeof(payload),
		"{\"due_us\":%" PRId64 ",\"order\":%" PRId64 ",\"note\":\"", due_us, number);

	memset(payload + used, 'n', sizeof(payload) - (size_t)used);
	memcpy(payload + PAYLOAD_BYTES - 2, "\"}", 3);
	snprintf(key, sizeof(key), "c-%" PRId64, number * 7919 % KEYS);
	make_id(id, sizeof(id), (uint64_t)run->began_us, (uint64_t)number);
	return rd_kafka_producev(run->producer, RD_KAFKA_V_TOPIC(run->topic),
		       RD_KAFKA_V_KEY(key, strlen(key)), RD_KAFKA_V_VALUE(payload, PAYLOAD_BYTES),
		       RD_KAFKA_V_HEADER("id", id, -1),
		       RD_KAFKA_V_HEADER("eventType", "order.created", -1),
		       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		       RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR_NO_ERROR
		       ? 0
		       : fail("cannot produce", rd_kafka_err2str(rd_kafka_last_error()));
}

/* The producer knows the topic's leaders before the clock starts. */
static int warm_up(struct run *run)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_topic_t *topic = rd_kafka_topic_new(run->producer, run->topic, NULL);
	rd_kafka_resp_err_t r;

	if (topic == NULL)
		return fail(run->topic, rd_kafka_err2str(rd_kafka_last_error()));
	r = rd_kafka_metadata(run->producer, 0, topic, &metadata, FLUSH_MS);
	if (r == RD_KAFKA_RESP_ERR_NO_ERROR)
		rd_kafka_metadata_destroy(metadata);
	rd_kafka_topic_destroy(topic);
	return r == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : fail(run->topic, rd_kafka_err2str(r));
}

static int produce_all(struct run *run)
{
	run->began_us = now_us() + 100000;
	for (int64_t number = 0; number < run->count; number++) {
		const int64_t due_us =
			run->began_us + (int64_t)((double)(number + 1) * 1e6 / run->rate);

		sleep_until(due_us);
		run->late_us[number] = now_us() - due_us;
		if (produce(run, number, due_us) != 0)
			return 1;
		(void)rd_kafka_poll(run->producer, 0);
	}
	if (rd_kafka_flush(run->producer, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return fail("records are left", "Kafka did not take them in 30 s");
	return run->failed == 0 ? 0 : fail("records are missing", "Kafka refused them");
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a;
	const int64_t y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void say(const struct run *run)
{
	qsort(run->late_us, (size_t)run->count, sizeof(*run->late_us), compare);
	printf("{\"sent\":%" PRId64 ",\"late_p99_us\":%" PRId64 ",\"late_max_us\":%" PRId64 "}\n",
		run->count, run->late_us[run->count * 99 / 100], run->late_us[run->count - 1]);
}

int main(int argc, char **argv)
{
	struct run run = { .topic = argc > 2 ? argv[2] : NULL };
	int status;

	run.rate = argc > 3 ? strtod(argv[3], NULL) : 0;
	run.count = argc > 4 ? (int64_t)(run.rate * strtod(argv[4], NULL) + 0.5) : 0;
	if (run.rate <= 0 || run.count <= 0)
		return fail("usage", "paced_producer BOOTSTRAP TOPIC RATE SECONDS");
	run.late_us = calloc((size_t)run.count, sizeof(*run.late_us));
	if (run.late_us == NULL)
		return fail("cannot start", "out of memory");
	(void)prctl(PR_SET_TIMERSLACK, 1);
	status = open_producer(&run, argv[1]) != 0 || warm_up(&run) != 0 || produce_all(&run) != 0;
	if (status == 0)
		say(&run);
	if (run.producer != NULL)
		rd_kafka_destroy(run.producer);
	free(run.late_us);
	return status;
}
