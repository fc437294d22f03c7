/*
 * A handler that answers "done" at once and checks the order of the messages of tests/bench/records.py.
 *
 *	order_handler SOCKET BATCH ORDERED KEYED FILE
 *
 * BATCH is the most messages of a batch. With ORDERED = 1 it asks for ordered batches. With KEYED = 1 the messages of
 * a key must come in the order of Kafka, else those of a partition. A message that does not come behind all others of
 * its key or partition is a violation, also when it comes for the second time. After SIGTERM FILE gets
 * {"deliveries":N,"violations":N,"runs":N}: a run is the messages of one key or partition in a batch.
 */
#include <inboxd/handler.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LANES = 1 << 16 };

struct account {
	bool keyed;
	uint64_t deliveries, violations, runs;
	uint64_t batch; /* the number of the current one, from 1 */
	struct {
		int64_t next_offset;
		uint64_t last_batch;
	} lanes[LANES]; /* by the number in the key ("c-17"), or by partition */
};

/* Whether the hello asks for ordered batches, and how many connections did. */
static bool ordered;
static int asked;

static bool contains(const void *data, size_t length, const char *text)
{
	return memmem(data, length, text, strlen(text)) != NULL;
}

/* The library has no option for ordered batches. It calls this function instead of the one of libc, which adds the
 * member to a hello without one. */
ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	static const char batch[] = "\"batch\":{";
	const char *text = buf;
	const char *behind;
	char line[4096];
	int head;
	int all;

	if (!ordered || n > sizeof(line) / 2 || !contains(buf, n, "\"method\":\"hello\""))
		return sendto(fd, buf, n, flags, NULL, 0);
	asked++;
	behind = memmem(text, n, batch, strlen(batch));
	if (behind == NULL || contains(buf, n, "\"ordered\":"))
		return sendto(fd, buf, n, flags, NULL, 0);
	head = (int)(behind - text + (ptrdiff_t)strlen(batch));
	all = snprintf(line, sizeof(line), "%.*s\"ordered\":true,%.*s", head, text, (int)n - head,
		text + head);
	return sendto(fd, line, (size_t)all, flags, NULL, 0) == all ? (ssize_t)n : -1;
}

static size_t lane_of(const struct account *account, const struct inbox_delivery *delivery)
{
	char number[24] = "";
	struct inbox_bytes key;

	if (!account->keyed)
		return (size_t)inbox_delivery_partition(delivery) % LANES;
	key = inbox_delivery_key(delivery);
	if (key.length > 2 && key.length < sizeof(number))
		memcpy(number, key.data + 2, key.length - 2);
	return strtoul(number, NULL, 10) % LANES;
}

static void handle(struct inbox_delivery *delivery, void *arg)
{
	struct account *account = arg;
	const int64_t offset = inbox_delivery_offset(delivery);
	const size_t lane = lane_of(account, delivery);

	account->deliveries++;
	if (offset < account->lanes[lane].next_offset)
		account->violations++;
	else
		account->lanes[lane].next_offset = offset + 1;
	if (account->lanes[lane].last_batch != account->batch)
		account->runs++;
	account->lanes[lane].last_batch = account->batch;
	if (inbox_delivery_batch_rest(delivery) == 0)
		account->batch++;
	inbox_delivery_done(delivery);
}

int main(int argc, char **argv)
{
	static struct account account;
	struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "bench",
		.max_in_flight = 1000,
	};
	FILE *file;
	int status;

	if (argc != 6) {
		fprintf(stderr,
			"order_handler: usage: order_handler SOCKET BATCH ORDERED KEYED FILE\n");
		return 1;
	}
	options.socket = argv[1];
	options.batch_max = (int)strtol(argv[2], NULL, 10);
	ordered = strcmp(argv[3], "1") == 0;
	account.batch = 1;
	account.keyed = strcmp(argv[4], "1") == 0;
	file = fopen(argv[5], "w");
	if (file == NULL) {
		perror(argv[5]);
		return 1;
	}
	status = inbox_handler_serve(&options, handle, &account);
	fprintf(file,
		"{\"deliveries\":%" PRIu64 ",\"violations\":%" PRIu64 ",\"runs\":%" PRIu64 "}\n",
		account.deliveries, account.violations, account.runs);
	if (ordered && asked == 0) {
		fprintf(stderr, "order_handler: no hello asked for ordered batches\n");
		return 1;
	}
	return fclose(file) == 0 ? status : 1;
}
