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
	const struct forward_options *options;
	struct curl_slist *headers;
	size_t head;                     /* the length of the headers that are about the message */
	struct buf body;                 /* what is sent */
	struct buf response;             /* the body that came */
	size_t response_head;            /* the length of the headers that came */
	bool overflow;                   /* the response is longer than what is read */
	struct inbox_delivery *delivery; /* NULL = the request is free */
	int64_t begun_ms;
	bool sent;          /* once; the service may have the message */
	int64_t give_up_ms; /* when to stop although inboxd has not cancelled it */
	char words[CURL_ERROR_SIZE];
};

/* What a finished request says. */
enum request_end {
	REQUEST_ANSWERED,    /* there is a status */
	REQUEST_BUSY,        /* there is one, and it asks to come later */
	REQUEST_LOST,        /* there is none, but the service may have processed the message */
	REQUEST_NOT_REACHED, /* the message was never sent */
};

/* The options are borrowed until request_fini(), which is allowed after a fault, too. FAULT_MEMORY; FAULT_USAGE: libcurl does
 * not accept an option. */
int request_init(struct request *request, const struct forward_options *options, struct err *err);
/* The request must not be in a multi handle. The message stays open. */
void request_fini(struct request *request);
enum { REQUEST_TOO_LARGE = 1 };

/* Prepares the request for a message. REQUEST_TOO_LARGE: its headers cannot be sent, and request_verdict() has the
 * verdict. FAULT_MEMORY. */
int request_prepare(struct request *request, const struct added_headers *headers,
	struct event *event, struct err *err);
/* What the result of libcurl means. */
enum request_end request_end_of(const struct request *request, CURLcode result);
/* Gives the verdict of a request that has a response, has failed, or is too large. For a
 * REQUEST_BUSY it is a retry. The caller makes it a snooze, unless the message is the cause. The result is borrowed from the
 * request. */
void request_verdict(struct request *request, CURLcode result, struct bridge_verdict *out);

#endif
