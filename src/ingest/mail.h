/*
 * A batch for the dead topic: sends it, waits for the brokers, and sorts what became of each record. Knows the rows and
 * the producer, no tables and no pauses. One thread.
 */
#ifndef INGEST_MAIL_H
#define INGEST_MAIL_H

#include <stdatomic.h>

#include "ingest/letter.h"

#define MAIL_MOST      200 /* records of a batch */

/* Refused in company, and there was no time to send it alone: it comes again with the next batch. */
#define MAIL_NOT_TRIED RD_KAFKA_RESP_ERR__RETRY

struct mail {
	struct producer *producer;
	const atomic_bool *stop;     /* then the waits are short */
	struct letter_source source; /* `row` is used by mail_run() */
	int count;                   /* rows, MAIL_MOST at most */
	/* Filled by mail_run(): */
	rd_kafka_resp_err_t fates[MAIL_MOST];
	bool cut[MAIL_MOST]; /* went without its value */
};

/* Sends every row. What the topic refuses in company is sent again alone, and then without its value. False: not all
 * fates are known (__IN_PROGRESS); the producer has to go before `mail` does. */
bool mail_run(struct mail *mail);
/* The record is the reason, not the brokers: another one may do better. */
bool mail_is_refused(rd_kafka_resp_err_t fate);

#endif
