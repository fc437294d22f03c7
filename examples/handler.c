/*
 * A handler with all verdicts. It keeps the total of each customer's orders in memory. A message is
 * {"customer":"c-17","cents":1250}; docs/handlers.md explains the program.
 *
 *	handler [SOCKET]
 *
 * Delivery is at least once, but a message must not be counted twice. So the program remembers the ids of
 * the last messages. After a restart only the database can do that: see the same page.
 */
#include <inboxd/handler.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDS_MAX = 1000, STEP_MS = 100, SLOW_STEPS = 100 };

struct totals {
	int64_t cents;
	char *ids[IDS_MAX]; /* a ring of the last ids */
	size_t count;
};

static bool seen(const struct totals *totals, const char *id)
{
	const size_t kept = totals->count < IDS_MAX ? totals->count : IDS_MAX;

	for (size_t i = 0; i < kept; i++) {
		if (strcmp(totals->ids[i], id) == 0)
			return true;
	}
	return false;
}

static bool remember(struct totals *totals, const char *id)
{
	char **slot = &totals->ids[totals->count % IDS_MAX];
	char *copy = strdup(id);

	if (copy == NULL)
		return false;
	if (totals->count >= IDS_MAX)
		free(*slot);
	*slot = copy;
	totals->count++;
	return true;
}

/* Reads the number of "cents". A real program would use a JSON library. */
static bool read_cents(struct inbox_bytes data, int64_t *cents)
{
	const char *member = data.data == NULL ? NULL : strstr(data.data, "\"cents\":");
	char *end = NULL;

	if (member == NULL)
		return false;
	errno = 0;
	*cents = strtoll(member + strlen("\"cents\":"), &end, 10);
	return errno == 0 && end != member + strlen("\"cents\":");
}

/* Work that takes long extends its deadline, and stops when the delivery is cancelled. */
static bool work_slowly(struct inbox_delivery *delivery)
{
	for (int step = 0; step < SLOW_STEPS; step++) {
		if (inbox_delivery_cancelled(delivery) != NULL)
			return false;
		if (step % 10 == 0)
			inbox_delivery_extend(delivery, 5000);
		usleep(STEP_MS * 1000);
	}
	return true;
}

static void add(struct inbox_delivery *delivery, struct totals *totals, int64_t cents)
{
	char result[64];

	if (!remember(totals, inbox_delivery_event_id(delivery))) {
		inbox_delivery_retry(delivery, -1, "out of memory", "MEMORY");
		return;
	}
	totals->cents += cents;
	snprintf(result, sizeof(result), "{\"total_cents\":%lld}", (long long)totals->cents);
	printf("%s: %s\n", inbox_delivery_event_id(delivery), result);
	fflush(stdout);
	inbox_delivery_done_with(delivery, result, strlen(result));
}

static void handle(struct inbox_delivery *delivery, void *arg)
{
	struct totals *totals = arg;
	int64_t cents = 0;

	if (inbox_delivery_data(delivery).data == NULL ||
		seen(totals, inbox_delivery_event_id(delivery)))
		inbox_delivery_done(delivery);
	else if (!read_cents(inbox_delivery_data(delivery), &cents))
		inbox_delivery_dead(delivery, "no \"cents\" in the order", "SCHEMA");
	else if (strcmp(inbox_delivery_type(delivery), "order.slow") == 0 && !work_slowly(delivery))
		inbox_delivery_retry(delivery, -1, "gave up: the delivery was cancelled", NULL);
	else
		add(delivery, totals, cents);
}

int main(int argc, char **argv)
{
	static const char *const types[] = { "order.*", NULL };
	static const struct inbox_subscription wanted = { .topic = "orders", .types = types };
	static struct totals totals;
	const struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "totals",
		.socket = argc > 1 ? argv[1] : NULL,
		.subscribe = &wanted,
		.subscribe_count = 1,
		.timeout_ms = 5000,
	};
	const int status = inbox_handler_serve(&options, handle, &totals);

	for (size_t i = 0; i < IDS_MAX; i++)
		free(totals.ids[i]);
	return status;
}
