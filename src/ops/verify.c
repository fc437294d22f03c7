/*
 * `inboxd verify`: proves that a range of records is in the table. ingest/verify.h reads Kafka and
 * finds the gaps; this file prints them.
 */
#include "ops/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/text/numbers.h"
#include "ingest/verify.h"
#include "json/text.h"
#include "ops/op.h"

/* Each statement looks up one page of records by index. */
#define TIMEOUT_MS 60000

/* What the callbacks of ingest_verify() collect. */
struct report {
	const struct cli *cli;
	struct buf gaps; /* JSON */
	int64_t gap_count;
};

/* Gaps are printed as they are found, because a large range takes a while; in JSON they follow the
 * counts. */
static void on_gap(void *arg, int32_t partition, int64_t first, int64_t last, bool gone)
{
	struct report *report = arg;

	op_progress(0, 0);
	buf_addf(&report->gaps,
		"%s{\"kafka_partition\":%d,\"first\":%" PRId64 ",\"last\":%" PRId64 ",\"gone\":%s}",
		report->gap_count++ == 0 ? "" : ",", partition, first, last,
		gone ? "true" : "false");
	if (!report->cli->json)
		(void)printf("%s/%d offsets %" PRId64 " to %" PRId64 ": %s\n",
			report->cli->filter.topic, partition, first, last,
			gone ? "Kafka has deleted them" : "not in the inbox");
}

static void on_progress(void *arg, int64_t done, int64_t total)
{
	(void)arg;
	op_progress(done, total);
}

/* Notes go to stderr, so that the result on stdout stays parsable. */
static void on_note(void *arg, const char *lines)
{
	(void)arg;
	(void)fprintf(stderr, "%s\n", lines);
}

/* One table for both forms, so that they have the same names. */
static void print(struct report *report, const struct verify_counts *counts)
{
	CLEANUP(buf_fini) struct buf topic = BUF_INIT;
	const struct {
		const char *name;
		int64_t value;
	} rows[] = {
		{ "records", counts->records },
		{ "stored", counts->stored },
		{ "duplicates", counts->duplicates },
		{ "conflicts", counts->conflicts },
		{ "rejected", counts->rejected },
		{ "skipped", counts->skipped },
		{ "missing", counts->missing },
	};
	bool json = report->cli->json;

	json_add_string(&topic, bytes_of(report->cli->filter.topic));
	if (json)
		(void)printf("{\"topic\":%s", buf_str(&topic));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		(void)printf(json ? ",\"%s\":%" PRId64 : "%-10s %" PRId64 "\n", rows[i].name,
			rows[i].value);
	if (json)
		(void)printf(",\"gaps\":[%s]}\n", buf_str(&report->gaps));
}

static int open_db(const struct config *config, struct db **out, struct err *err)
{
	const struct db_options options = {
		.postgres = &config->postgres,
		.schema = config->inbox.schema,
		.application = "inboxd command",
		.lock_timeout_ms = TIMEOUT_MS,
		.idle_timeout_ms = TIMEOUT_MS,
		.statement_timeout_ms = TIMEOUT_MS,
	};
	int r = db_new(out, &options, err);

	return r != 0 ? r : db_open(*out, err);
}

static int verify_range(struct report *report, const struct config *config, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	struct verify_counts counts;
	struct verify_request request = {
		.config = config,
		.topic = report->cli->filter.topic,
		.partition = report->cli->range.partition,
		.from = report->cli->range.from,
		.to = report->cli->range.to,
		.gap = on_gap,
		.progress = on_progress,
		.note = on_note,
		.arg = report,
	};
	int r = open_db(config, &db, err);

	request.db = db;
	if (r == 0)
		r = ingest_verify(&request, &counts, err);
	if (r != 0)
		return r;
	print(report, &counts);
	if (counts.missing > 0)
		on_note(report,
			"messages are identified by the rules of this configuration; a message "
			"that was stored under other rules has another id and is not found");
	return report->gap_count == 0
		       ? 0
		       : err_set(err, FAULT_CHECK,
				 "%" PRId64 " gap%s, %" PRId64 " record%s without a trace",
				 report->gap_count, plural(report->gap_count), counts.missing,
				 plural(counts.missing));
}

int command_verify(const struct cli *cli, const struct config *config, struct err *err)
{
	struct report report = { .cli = cli };
	int r;

	if (cli->filter.topic == NULL)
		return err_set(err, FAULT_USAGE, "verify: give a topic with --topic");
	if (cli->range.from >= 0 && cli->range.to >= 0 && cli->range.from >= cli->range.to)
		return err_set(err, FAULT_USAGE, "verify: --from must be lower than --to");
	r = verify_range(&report, config, err);
	buf_fini(&report.gaps);
	return op_explain(r, cli->command, config, err);
}
