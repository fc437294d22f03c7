/*
 * A handler that answers "done" at once and notes when each message came, and when it was due.
 *
 *	latency_handler SOCKET FILE
 *
 * FILE gets two int64 a message in this machine's order: due_us, as paced_producer wrote it into the
 * payload, and the time from then until the handler had the message, in microseconds. It is complete
 * when the program has ended, which SIGTERM asks it to. Both clocks are CLOCK_MONOTONIC of one machine.
 */
#include <inboxd/handler.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DUE "{\"due_us\":"

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void note(struct inbox_delivery *delivery, void *arg)
{
	const int64_t came_us = now_us();
	const struct inbox_bytes data = inbox_delivery_data(delivery);
	int64_t pair[2];

	if (data.length < sizeof(DUE) || memcmp(data.data, DUE, sizeof(DUE) - 1) != 0) {
		inbox_delivery_dead(delivery, "no due_us in front", "LATENCY");
		return;
	}
	pair[0] = strtoll(data.data + sizeof(DUE) - 1, NULL, 10);
	pair[1] = came_us - pair[0];
	if (fwrite(pair, sizeof(pair), 1, arg) == 1)
		inbox_delivery_done(delivery);
	else
		inbox_delivery_dead(delivery, "cannot write the file", "LATENCY");
}

int main(int argc, char **argv)
{
	struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "bench",
		.max_in_flight = 1000,
	};
	FILE *file;
	int status;

	if (argc != 3) {
		fprintf(stderr, "latency_handler: usage: latency_handler SOCKET FILE\n");
		return 1;
	}
	options.socket = argv[1];
	file = fopen(argv[2], "wb");
	if (file == NULL) {
		perror(argv[2]);
		return 1;
	}
	status = inbox_handler_serve(&options, note, file);
	return fclose(file) == 0 ? status : 1;
}
