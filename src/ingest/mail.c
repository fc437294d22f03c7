#include "ingest/mail.h"

#include "base/clock.h"

#define CONFIRM_MS      15000 /* every record has a fate after message.timeout.ms */
#define CONFIRM_LAST_MS 2000
#define ALONE_MS        10000 /* another sidecar takes over who was not seen for half a minute */
#define SLICE_MS        100

bool mail_is_refused(rd_kafka_resp_err_t fate)
{
	switch (fate) {
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_INVALID_RECORD:
		return true;
	default:
		return false;
	}
}

static bool confirmed(struct mail *mail)
{
	int64_t now_ms = clock_now_ms();
	int64_t until_ms = now_ms + CONFIRM_MS;
	bool hurried = false;

	while (!producer_wait(mail->producer, SLICE_MS)) {
		now_ms = clock_now_ms();
		if (!hurried && atomic_load(mail->stop) && now_ms + CONFIRM_LAST_MS < until_ms)
			until_ms = now_ms + CONFIRM_LAST_MS;
		hurried = atomic_load(mail->stop);
		if (now_ms >= until_ms)
			return false;
	}
	return true;
}

static void send_row(struct mail *mail, int row, enum letter_form form)
{
	struct outgoing record;

	mail->source.row = row;
	letter_write(&mail->source, form, &record);
	producer_send(mail->producer, &record, &mail->fates[row]);
}

/* Brokers refuse a whole batch for one record of it. */
static bool send_alone(struct mail *mail, int row)
{
	bool known;

	send_row(mail, row, LETTER_WHOLE);
	known = confirmed(mail);
	if (!known || !mail_is_refused(mail->fates[row]))
		return known;
	mail->cut[row] = true;
	send_row(mail, row, LETTER_BARE);
	return confirmed(mail);
}

static bool is_settled(rd_kafka_resp_err_t fate)
{
	return fate == RD_KAFKA_RESP_ERR_NO_ERROR || mail_is_refused(fate);
}

/* Until one goes wrong, or it takes too long: the others would wait as long, each of them. */
static bool send_refused_alone(struct mail *mail)
{
	int64_t until_ms = clock_now_ms() + ALONE_MS;
	bool known = true;
	bool well = true;

	for (int row = 0; known && row < mail->count; row++) {
		if (!mail_is_refused(mail->fates[row]))
			continue;
		if (!well || atomic_load(mail->stop) || clock_now_ms() >= until_ms) {
			mail->fates[row] = MAIL_NOT_TRIED;
			continue;
		}
		known = send_alone(mail, row);
		well = is_settled(mail->fates[row]);
	}
	return known;
}

bool mail_run(struct mail *mail)
{
	bool known;

	for (int row = 0; row < mail->count; row++) {
		mail->cut[row] = false;
		send_row(mail, row, LETTER_WHOLE);
	}
	known = confirmed(mail);
	return known && send_refused_alone(mail);
}
