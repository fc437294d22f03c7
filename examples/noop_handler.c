/*
 * A handler that does nothing, for benchmarks and tests. It answers every message "done" at once and
 * counts exactly which messages it received.
 *
 *	noop_handler [--socket PATH] [--name NAME] [--batch N] [--ordered] [--window N]
 *	             [--timeout MS] [--ledger FILE] [--count-to-file FILE]
 *
 * On SIGUSR1 and SIGTERM it writes {"deliveries":N,"distinct":N} to stdout and to the --count-to-file, which is
 * replaced atomically. "distinct" counts different pairs of source and event id. --ledger appends a line
 * "event_id seq attempt" for every delivery before it is answered. SIGTERM drains and exits with 0.
 */
#include <inboxd/handler.h>

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_MS = 100, SLOTS_FIRST = 1 << 16 };

/* The start of a text, and a part of its hash. Most other texts differ in the hash, so they need not be read. */
struct slot {
	uint64_t start : 40; /* offset + 1; 0 = free */
	uint64_t tag : 24;
};

/* The set of identities: their texts in one array, and a hash table of the start of each. */
struct identities {
	char *texts;
	size_t length, capacity;
	struct slot *slots;
	size_t slot_count;
	uint64_t count;
};

struct account {
	struct identities seen;
	uint64_t deliveries;
	FILE *ledger;
	const char *count_file;
};

static struct inbox_handler *volatile stopped;
static volatile sig_atomic_t count_wanted;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		count_wanted = 1;
	else if (stopped != NULL)
		inbox_handler_stop(stopped);
}

static void *must(void *memory)
{
	if (memory != NULL)
		return memory;
	fprintf(stderr, "noop_handler: out of memory\n");
	exit(70);
}

static uint64_t hash(const char *text, size_t length)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3;
	return h ^ h >> 29;
}

static bool fits(
	const struct identities *seen, const struct slot *slot, uint64_t h, const char *text)
{
	if (slot->start == 0)
		return true;
	return slot->tag == h >> 40 && strcmp(seen->texts + slot->start - 1, text) == 0;
}

/* The slot of the text at this offset. If the text is new, this is a free slot (start == 0) with its tag set. */
static struct slot *find_slot(const struct identities *seen, size_t offset)
{
	const char *text = seen->texts + offset;
	const uint64_t h = hash(text, strlen(text));
	size_t i = h & (seen->slot_count - 1);

	while (!fits(seen, &seen->slots[i], h, text))
		i = (i + 1) & (seen->slot_count - 1);
	if (seen->slots[i].start == 0)
		seen->slots[i].tag = h >> 40;
	return &seen->slots[i];
}

static void grow_slots(struct identities *seen)
{
	free(seen->slots);
	seen->slot_count = seen->slot_count == 0 ? SLOTS_FIRST : seen->slot_count * 2;
	seen->slots = must(calloc(seen->slot_count, sizeof(*seen->slots)));
	for (size_t at = 0; at < seen->length; at += strlen(seen->texts + at) + 1)
		find_slot(seen, at)->start = at + 1;
}

/* Writes the identity behind the last text, without adding it to the set. */
static void put_candidate(struct identities *seen, const char *source, const char *id)
{
	const size_t source_length = strlen(source);
	const size_t id_length = strlen(id);
	const size_t needed = source_length + id_length + 2;
	char *at;

	while (seen->capacity - seen->length < needed) {
		seen->capacity = seen->capacity == 0 ? 1 << 20 : seen->capacity * 2;
		seen->texts = must(realloc(seen->texts, seen->capacity));
	}
	at = seen->texts + seen->length;
	memcpy(at, source, source_length);
	at[source_length] = '\x1f';
	memcpy(at + source_length + 1, id, id_length);
	at[needed - 1] = '\0';
}

static void take_in(struct identities *seen, const char *source, const char *id)
{
	struct slot *slot;

	if (seen->count * 2 >= seen->slot_count)
		grow_slots(seen);
	put_candidate(seen, source, id);
	slot = find_slot(seen, seen->length);
	if (slot->start != 0)
		return;
	slot->start = seen->length + 1;
	seen->length += strlen(seen->texts + seen->length) + 1;
	seen->count++;
}

static void enter(struct account *account, const struct inbox_delivery *delivery)
{
	const char *id = inbox_delivery_event_id(delivery);

	account->deliveries++;
	take_in(&account->seen, inbox_delivery_source(delivery), id);
	if (account->ledger != NULL)
		fprintf(account->ledger, "%s %" PRId64 " %d\n", id, inbox_delivery_seq(delivery),
			inbox_delivery_attempt(delivery));
}

static void write_count(const struct account *account, FILE *file)
{
	fprintf(file, "{\"deliveries\":%" PRIu64 ",\"distinct\":%" PRIu64 "}\n",
		account->deliveries, account->seen.count);
	fflush(file);
}

/* Writes the file under another name and renames it, so that no reader sees a part of it. */
static void write_count_file(const struct account *account)
{
	char name[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s.new", account->count_file);
	file = fopen(name, "w");
	if (file == NULL) {
		perror(name);
		return;
	}
	write_count(account, file);
	fclose(file);
	if (rename(name, account->count_file) != 0)
		perror(account->count_file);
}

static void report_count(struct account *account)
{
	count_wanted = 0;
	write_count(account, stdout);
	if (account->count_file != NULL)
		write_count_file(account);
}

static int work(struct inbox_handler *handler, struct account *account)
{
	struct inbox_delivery *delivery = NULL;
	int r;

	while ((r = inbox_handler_next(handler, &delivery, ROUND_MS)) >= 0 && r != INBOX_STOPPED) {
		if (r == 0) {
			enter(account, delivery);
			inbox_delivery_done(delivery);
		}
		if (count_wanted)
			report_count(account);
	}
	return r;
}

static int run_handler(const struct inbox_handler_options *options, struct account *account)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct inbox_handler *handler = NULL;
	int r = inbox_handler_new(&handler, options);

	stopped = handler;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	if (r == 0)
		r = work(handler, account);
	if (r < 0)
		fprintf(stderr, "noop_handler: %s\n", inbox_handler_error(handler));
	stopped = NULL;
	inbox_handler_free(handler);
	report_count(account);
	return r < 0 ? 1 : 0;
}

static void log_to_stderr(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "noop_handler: %s\n", text);
}

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "name", required_argument, NULL, 'n' },
	{ "batch", required_argument, NULL, 'b' },
	{ "ordered", no_argument, NULL, 'o' },
	{ "window", required_argument, NULL, 'w' },
	{ "timeout", required_argument, NULL, 't' },
	{ "ledger", required_argument, NULL, 'l' },
	{ "count-to-file", required_argument, NULL, 'c' },
	{ NULL },
};

/* A line is in the file before its answer is sent, so it survives a kill -9. */
static FILE *open_ledger(const char *path)
{
	FILE *file = fopen(path, "a");

	if (file != NULL)
		setvbuf(file, NULL, _IOLBF, 0);
	return file;
}

/* A text that is not a number becomes -1, which the library refuses with the name of the option. */
static int number(const char *text)
{
	char *end = NULL;
	const long value = strtol(text, &end, 10);

	return *text == '\0' || *end != '\0' || value < 1 || value > INT32_MAX ? -1 : (int)value;
}

static void set_option(int letter, struct inbox_handler_options *options, struct account *account)
{
	if (letter == 's')
		options->socket = optarg;
	else if (letter == 'n')
		options->name = optarg;
	else if (letter == 'b')
		options->batch_max = number(optarg);
	else if (letter == 'o')
		options->batch_ordered = true;
	else if (letter == 'w')
		options->max_in_flight = number(optarg);
	else if (letter == 't')
		options->timeout_ms = number(optarg);
	else if (letter == 'c')
		account->count_file = optarg;
	else if (letter == 'l')
		account->ledger = open_ledger(optarg);
}

int main(int argc, char **argv)
{
	struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "noop",
		.max_in_flight = 1000,
		.log = log_to_stderr,
	};
	struct account account = { .deliveries = 0 };
	int letter;
	int status;

	while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (letter == '?')
			return 1;
		set_option(letter, &options, &account);
		if (letter == 'l' && account.ledger == NULL) {
			perror(optarg);
			return 1;
		}
	}
	status = run_handler(&options, &account);
	if (account.ledger != NULL)
		fclose(account.ledger);
	free(account.seen.texts);
	free(account.seen.slots);
	return status;
}
