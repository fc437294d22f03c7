/*
 * One POST: its easy handle of libcurl, which is used again for the next message, the headers, and the response. One
 * thread.
 */
#ifndef BRIDGE_FORWARD_REQUEST_H
#define BRIDGE_FORWARD_REQUEST_H

#include <curl/curl.h>

#include "bridge/event.h"
#include "bridge/forward/added_headers.h"
#include "bridge/forward/forward.h"

struct request {
	CURL *easy;
	struct curl_slist *headers;
	struct buf body;                 /* what is sent */
	struct buf response;             /* the body that came */
	bool overflow;                   /* it was longer than BRIDGE_RESULT_MAX */
	struct inbox_delivery *delivery; /* NULL = the request is free */
	bool sent;                       /* once; the service may have the message */
	int64_t give_up_ms;              /* when to stop although inboxd has not cancelled it */
	char words[CURL_ERROR_SIZE];
};

/* What a finished request says. */
enum request_end {
	REQUEST_ANSWERED,    /* there is a status */
	REQUEST_LOST,        /* there is none, but the service may have processed the message */
	REQUEST_NOT_REACHED, /* the message was never sent */
};

/* FAULT_MEMORY; FAULT_USAGE: libcurl does not accept an option. request_fini() is allowed after a fault, too. */
int request_init(struct request *request, const struct forward_options *options, struct err *err);
/* The request must not be in a multi handle. The message stays open. */
void request_fini(struct request *request);
/* Prepares the request for a message. FAULT_MEMORY. */
int request_prepare(struct request *request, const struct forward_options *options,
	const struct added_headers *headers, struct event *event, struct err *err);
/* What the result of libcurl means. */
enum request_end request_end_of(const struct request *request, CURLcode result);
/* The verdict of a request that was answered or lost. The result is borrowed from the request. */
void request_verdict(struct request *request, CURLcode result,
	const struct forward_options *options, struct bridge_verdict *out);

#endif
