/*
 * Implements dead_batch.h. A broker refuses a whole produce batch because of one record. The
 * refused records are therefore sent again one by one, first whole and then without their value.
 */
#include "ingest/dead_topic/dead_batch.h"

#include "base/time/clock.h"

/* every record is confirmed or fails after message.timeout.ms, which is lower */
#define CONFIRM_MS      15000
#define CONFIRM_LAST_MS 2000
/* another instance takes over when this one was not seen for half a minute */
#define ALONE_MS        10000
#define SLICE_MS        100

static bool is_refused(const struct dead_batch *batch, int row)
{
	return batch->results[row].outcome == PRODUCE_REFUSED;
}

static bool confirmed(struct dead_batch *batch)
{
	int64_t now_ms = clock_now_ms();
	int64_t until_ms = now_ms + CONFIRM_MS;
	bool hurried = false;

	while (!producer_wait(batch->producer, SLICE_MS)) {
		now_ms = clock_now_ms();
		if (!hurried && atomic_load(batch->stop) && now_ms + CONFIRM_LAST_MS < until_ms)
			until_ms = now_ms + CONFIRM_LAST_MS;
		hurried = atomic_load(batch->stop);
		if (now_ms >= until_ms)
			return false;
	}
	return true;
}

static void send_row(struct dead_batch *batch, int row, enum dead_record_form form)
{
	struct outgoing record;

	batch->source.row = row;
	dead_record_write(&batch->source, form, &record);
	producer_send(batch->producer, &record, &batch->results[row]);
}

/* First whole, then without its value. */
static bool send_alone(struct dead_batch *batch, int row)
{
	bool known;

	send_row(batch, row, DEAD_RECORD_WHOLE);
	known = confirmed(batch);
	if (!known || !is_refused(batch, row))
		return known;
	batch->cut[row] = true;
	send_row(batch, row, DEAD_RECORD_BARE);
	return confirmed(batch);
}

/* Stops at the first failure that is not a refusal and when the time is used up: each further
 * record could wait equally long. */
static bool send_refused_alone(struct dead_batch *batch)
{
	int64_t until_ms = clock_now_ms() + ALONE_MS;
	bool known = true;
	bool ok = true;

	for (int row = 0; known && row < batch->count; row++) {
		if (!is_refused(batch, row))
			continue;
		if (!ok || atomic_load(batch->stop) || clock_now_ms() >= until_ms) {
			batch->postponed[row] = true;
			continue;
		}
		known = send_alone(batch, row);
		ok = batch->results[row].outcome == PRODUCE_CONFIRMED || is_refused(batch, row);
	}
	return known;
}

bool dead_batch_send(struct dead_batch *batch)
{
	bool known;

	for (int row = 0; row < batch->count; row++) {
		batch->cut[row] = false;
		batch->postponed[row] = false;
		send_row(batch, row, DEAD_RECORD_WHOLE);
	}
	known = confirmed(batch);
	return known && send_refused_alone(batch);
}
