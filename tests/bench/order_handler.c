/*
 * A handler that answers "done" at once and checks the order of the messages of tests/bench/records.py.
 *
 *	order_handler SOCKET BATCH KEYED FILE
 *
 * BATCH is the most messages of an ordered batch. With KEYED = 1 the messages of a key must come in the order of Kafka,
 * else those of a partition. A message that does not come behind all others of its key or partition is a violation,
 * also when it comes for the second time. After SIGTERM FILE gets {"deliveries":N,"violations":N,"runs":N}: a run is the
 * messages of one key or partition in a batch.
 */
#include <inboxd/handler.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	if (argc != 5) {
		fprintf(stderr, "order_handler: usage: order_handler SOCKET BATCH KEYED FILE\n");
		return 1;
	}
	options.socket = argv[1];
	options.batch_max = (int)strtol(argv[2], NULL, 10);
	options.batch_ordered = options.batch_max > 1;
	account.batch = 1;
	account.keyed = strcmp(argv[3], "1") == 0;
	file = fopen(argv[4], "w");
	if (file == NULL) {
		perror(argv[4]);
		return 1;
	}
	status = inbox_handler_serve(&options, handle, &account);
	fprintf(file,
		"{\"deliveries\":%" PRIu64 ",\"violations\":%" PRIu64 ",\"runs\":%" PRIu64 "}\n",
		account.deliveries, account.violations, account.runs);
	return fclose(file) == 0 ? status : 1;
}
