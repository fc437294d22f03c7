/*
 * The answers libevent gives by itself: to what is no HTTP, a head or body that is too large, a method it does not know.
 * It knows HTML only; here they get words like all others. The server's thread.
 */
#ifndef ADMIN_HTTP_ERROR_H
#define ADMIN_HTTP_ERROR_H

struct event_base;
struct bufferevent;

/* For evhttp_set_bevcb(): makes the connection of a client, and looks at what is written to it. */
struct bufferevent *http_error_listen(struct event_base *base, void *unused);

#endif
