/*
 * Implements db_outage.h. The retry delay and the log line depend on the class of the error (table
 * `reactions`).
 */
#include "ingest/partitions/db_outage.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "report/meters.h"

#define FIRST_RETRY_MS 100
/* used when only few rows are refused, which a retry with more rows may resolve */
#define FEW_RETRY_MS   1000
#define FEW_ROWS       10

/* The log line and the retry limit for each class of error. `away`: the database does not work at
 * all. */
/* clang-format off */
static const struct reaction {
	const char *event;
	const char *next;
	int64_t last_retry_ms;
	bool away;
} reactions[PG_ERROR_KINDS] = {
	[PG_ERROR_LOST] = { "database_lost", "reconnect", 10000, true },
	[PG_ERROR_BUSY] = { "database_busy", "retry on this connection", 1000, false },
	[PG_ERROR_SLOW] = { "database_busy", "retry on this connection with half as many rows", 1000, false },
	[PG_ERROR_RESOURCES] = { "database_full", "retry until the server has free resources", 10000, true },
	[PG_ERROR_READ_ONLY] = { "database_read_only", "reconnect and look for the primary", 3000, true },
	[PG_ERROR_REFUSED] = { "database_refuses", "retry until an operator has corrected it", 10000, true },
	[PG_ERROR_DATA] = { "database_refuses", "again", 10000, true },
	[PG_ERROR_OTHER] = { "database_refuses", "again", 10000, true },
};
/* clang-format on */

static const char by_rows[] =
	"retry row by row: a row that is refused while another is stored goes to inbox_rejects";

static void count_error(struct ingest *ingest, const struct err *err)
{
	metric_add(metrics_get(ingest->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
}

static int64_t schedule(struct ingest *ingest, int64_t last_retry_ms)
{
	struct outage *outage = &ingest->outage;
	int64_t delay =
		backoff_delay_ms(FIRST_RETRY_MS, last_retry_ms, outage->attempt++, random_u64());

	outage->retry_at_ms = clock_now_ms() + delay;
	return delay;
}

static void mark_down(struct ingest *ingest)
{
	ingest->outage.down = true;
	ingest_hold(ingest, HOLD_DATABASE);
}

/* A retry of so few rows costs little. */
static bool is_about_few(const struct ingest *ingest)
{
	return refused_batches_are_enough(&ingest->refused) && ingest->refused.rows <= FEW_ROWS;
}

void db_outage_begin(struct ingest *ingest, const struct err *err)
{
	enum pg_error_class class = db_error_kind(err);
	const struct reaction *reaction = &reactions[class];
	int64_t delay;

	if (err->fault != FAULT_DATABASE) {
		ingest_fault(ingest, err);
		return;
	}
	count_error(ingest, err);
	delay = schedule(ingest, is_about_few(ingest) ? FEW_RETRY_MS : reaction->last_retry_ms);
	mark_down(ingest);
	ingest->outage.announced = true;
	if (reaction->away)
		atomic_store(&ingest->options.health->database_ok, false);
	log_warn(reaction->event, LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
		LOG_STR("class", pg_error_class_name(class)), LOG_INT("retry_in_ms", delay),
		LOG_STR("next",
			refused_batches_are_enough(&ingest->refused) ? by_rows : reaction->next));
}

void db_outage_doubt(struct ingest *ingest)
{
	if (ingest->outage.attempt == 0)
		ingest->outage.retry_at_ms = clock_now_ms();
	else
		(void)schedule(ingest, reactions[PG_ERROR_LOST].last_retry_ms);
	ingest->outage.attempt++;
	mark_down(ingest);
}

void db_outage_over(struct ingest *ingest)
{
	if (ingest->outage.announced)
		log_info("database_back", LOG_INT("attempts", ingest->outage.attempt));
	ingest->outage.announced = false;
	ingest->outage.attempt = 0;
	atomic_store(&ingest->options.health->database_ok, true);
}
