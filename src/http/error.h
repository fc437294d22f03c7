/*
 * Replaces the error pages that libevent sends by itself, for example for text that is not HTTP, a
 * body that is too large, or an unknown method. libevent sends HTML; inboxd sends JSON like
 * everywhere else. The thread of the server.
 */
#ifndef HTTP_ERROR_H
#define HTTP_ERROR_H

struct event_base;
struct bufferevent;

/* For evhttp_set_bevcb(): creates the connection of a client, and checks what is written to it. */
struct bufferevent *http_error_listen(struct event_base *base, void *unused);

#endif
