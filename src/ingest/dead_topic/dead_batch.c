/*
 * Implements dead_batch.h. A broker refuses a whole produce batch because of one record. The
 * refused records are therefore sent again one by one, first whole and then without their value.
 */
#include "ingest/dead_topic/dead_batch.h"

#include "base/clock.h"

/* every record is confirmed or fails after message.timeout.ms, which is lower */
#define CONFIRM_MS      15000
#define CONFIRM_LAST_MS 2000
/* another instance takes over when this one was not seen for half a minute */
#define ALONE_MS        10000
#define SLICE_MS        100

bool dead_batch_is_refused(rd_kafka_resp_err_t result)
{
	switch (result) {
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_INVALID_RECORD:
		return true;
	default:
		return false;
	}
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
	if (!known || !dead_batch_is_refused(batch->results[row]))
		return known;
	batch->cut[row] = true;
	send_row(batch, row, DEAD_RECORD_BARE);
	return confirmed(batch);
}

static bool is_settled(rd_kafka_resp_err_t result)
{
	return result == RD_KAFKA_RESP_ERR_NO_ERROR || dead_batch_is_refused(result);
}

/* Stops at the first failure that is not a refusal and when the time is used up: each further
 * record could wait equally long. */
static bool send_refused_alone(struct dead_batch *batch)
{
	int64_t until_ms = clock_now_ms() + ALONE_MS;
	bool known = true;
	bool ok = true;

	for (int row = 0; known && row < batch->count; row++) {
		if (!dead_batch_is_refused(batch->results[row]))
			continue;
		if (!ok || atomic_load(batch->stop) || clock_now_ms() >= until_ms) {
			batch->results[row] = DEAD_BATCH_NOT_TRIED;
			continue;
		}
		known = send_alone(batch, row);
		ok = is_settled(batch->results[row]);
	}
	return known;
}

bool dead_batch_send(struct dead_batch *batch)
{
	bool known;

	for (int row = 0; row < batch->count; row++) {
		batch->cut[row] = false;
		send_row(batch, row, DEAD_RECORD_WHOLE);
	}
	known = confirmed(batch);
	return known && send_refused_alone(batch);
}
