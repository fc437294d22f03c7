/*
 * The connections of handlers: the socket, the lines that arrive, and the replies.
 *
 *	listener.c   accepts connections and splits their input into lines
 *	requests.c   executes the lines; hello.c checks the hello
 *	leased_requests.c  the requests of clients with the role "requests"; leased_queue.c keeps them
 *	sql_sessions.h  the sessions of SQL handlers, which have no socket
 *	session.c    replies, and the end of a connection
 *	socket.h     creates the socket, before dispatch exists
 *
 * Dispatch thread only; nothing here blocks. Limits protect the process from its clients: the length of a line, the
 * unfinished lines of all connections, the replies that a client does not read, and the time without a hello. A
 * client that exceeds one loses its connection; its open deliveries go back to the table. While many events of
 * answers wait for PostgreSQL, no input of the handlers that sent them is read, and no delivery to them times out.
 */
#ifndef DISPATCH_SESSIONS_SESSIONS_H
#define DISPATCH_SESSIONS_SESSIONS_H

#include "dispatch/protocol/protocol.h"
#include "dispatch/schedule/schedule.h"

struct evbuffer;
struct leased_request;
struct event_base;
struct evconnlistener;

/* One connection. */
struct session {
	struct connection connection;
	struct sessions *sessions;
	TAILQ_ENTRY(session) link;
	int64_t connected_ms;
	int error;              /* errno of a failed read; 0 = none */
	int broken_lines;       /* lines that the protocol refused, see ends_connection() */
	struct evbuffer *input; /* what was read and not executed */
	size_t scanned;         /* bytes of `input` that are known to contain no LF */
	size_t input_bytes;     /* its part of sessions->input_bytes */
	bool paused;            /* its input is not read: see sessions_resume() */
	size_t replied;         /* bytes of replies that the client may not have read yet */
	int64_t closing_ms;     /* since when connection.closing is set */
	/* The id of a drain request, which is answered when no delivery and no leased request is open. */
	struct buf drain_id;
	bool for_requests;                   /* the role of its hello: it is no handler */
	TAILQ_HEAD(, leased_request) leased; /* requests without a reply */
	size_t leased_count;
	size_t leased_waiting;            /* those of them that wait for a worker */
	size_t leased_waiting_bytes;      /* of their parameters */
	TAILQ_ENTRY(session) leased_link; /* in leased->turns while requests wait */
};
TAILQ_HEAD(session_list, session);

/* A request of a client with the role "requests". */
struct leased_request {
	struct session *session;                /* NULL: its connection has ended */
	TAILQ_ENTRY(leased_request) link;       /* in session->leased */
	TAILQ_ENTRY(leased_request) queue_link; /* in leased->waiting, or else leased->under_way */
	struct job *job; /* NULL: a worker has it, the request is under way */
	struct buf id;   /* raw JSON */
	int64_t since_ms;
};

/* The leased requests of all connections. */
struct leased_requests {
	TAILQ_HEAD(, leased_request) waiting; /* for a worker, oldest first */
	size_t waiting_bytes;                 /* of their parameters */
	TAILQ_HEAD(, session) turns; /* whose requests wait; the first one has the next turn */
	size_t clients;              /* connections with the role "requests" */
	TAILQ_HEAD(, leased_request) under_way;
	size_t under_way_count;
};

struct sessions {
	struct context *context;
	struct order *order;
	struct handler_groups *groups;
	struct schedule *schedule;
	struct event_base *base;
	struct evconnlistener *listener;
	struct session_list list;
	struct connection_list outputs; /* see struct connection */
	size_t count;
	size_t most;
	uint64_t next_id;
	size_t input_bytes; /* unfinished lines of all connections */
	size_t paused;      /* sessions whose input is not read */
	struct protocol_parser *parser;
	struct buf line; /* scratch: the line to send */
	struct leased_requests leased;
	struct metric *unknown_answers;
	struct metric *protocol_errors;
	struct metric *order_violations;
};

/* --- listener.c --- */

/* FAULT_MEMORY. */
int sessions_init(struct sessions *sessions, struct schedule *schedule, struct err *err);
/* Accepts connections from now on. Closes `fd` at the end. FAULT_SOCKET. */
int sessions_listen(struct sessions *sessions, struct event_base *base, int fd, struct err *err);
/* Writes to the sockets what was sent since the last call. What a socket does not take now follows when it has room. */
void sessions_send_outputs(struct sessions *sessions);
/* Reads the input of connections again that was paused while too many events waited for PostgreSQL. */
void sessions_resume(struct sessions *sessions);
/* Ends all connections. Call it while the event base and the other rooms exist. */
void sessions_close_all(struct sessions *sessions);
void sessions_fini(struct sessions *sessions);

/* --- session.c --- */

/* Sends the reply to a request. Closes a connection that sends requests and does not read the replies. */
void session_reply(struct session *session, const struct buf *line);
void session_reply_error(struct session *session, struct bytes id, int code, const char *text);
/* The same with data.reason; NULL = without. */
void session_reply_error_with(
	struct session *session, struct bytes id, int code, const char *text, const char *reason);
/* Answers a drain request if no delivery is open. */
void session_check_drained(struct session *session);
/* The same for all sessions. */
void sessions_check_drained(struct sessions *sessions);
/* Its connection leaves its group, if it is in one. Its open deliveries get the verdict of a lost connection. */
void session_leave(struct session *session);
/* Ends the connection and frees the session. Its open deliveries get the verdict of a lost connection. */
void session_close(struct session *session);
/* Sends what is written already, then ends the connection. */
void session_close_soon(struct session *session);
/* Ends the output of a session that is closing, when everything is sent. */
void session_end_output(struct session *session);
/* Subtracts its unfinished line from those of all connections. */
void session_forget_input(struct session *session);
/* Ends connections without a hello, and those that are closing, when their time is over. */
void sessions_tick(struct sessions *sessions, int64_t now_ms);

/* --- hello.c --- */

/* Handles a hello: registers the connection and replies, or refuses it. */
void hello_check(struct session *session, const struct line *line);
/* The consumer that a handler gets messages of: the one it names; without a name the one that is called like the handler, else
 * the one without a name. NULL: it is not known. */
const char *hello_consumer(const struct sessions *sessions, const char *handler, const char *named);
/* Adds the connection to the group of its handler and logs it. ROUTING_OVERLAP or ROUTING_FULL with a text, or FAULT_MEMORY. */
int hello_join(struct session *session, const struct hello *hello, struct err *err);
/* Logs why a hello is refused and sends the same reason to the client. */
struct refusal {
	int code;
	const char *why;
	const char *reason; /* data.reason; NULL = without */
};
void hello_refuse(struct session *session, const struct line *line, const struct refusal *refusal);

/* --- leased_queue.c --- */

/* Adds a request of its session to the queue of those that wait. */
void leased_wait(struct leased_requests *leased, struct leased_request *request);
/* Takes it out of this queue. */
void leased_stop_waiting(struct leased_requests *leased, struct leased_request *request);
/* Frees a request, which is in no queue any more. */
void leased_free(struct leased_request *request);
/* The first request, by the turns of the connections, whose client reads its replies; the turn of its connection is over
 * then. NULL: none. Drops the requests of connections that are closing. */
struct leased_request *leased_next(struct leased_requests *leased);
/* The session ends: its requests get no reply, and those that no worker has begun are dropped. */
void leased_leave(struct session *session);

/* --- leased_requests.c --- */

void leased_init(struct leased_requests *leased);
/* Call it when no connection and no worker exists any more. */
void leased_fini(struct leased_requests *leased);
/* Takes a leased request of a client. */
void leased_accept(struct session *session, const struct line *line);
/* Gives waiting requests to idle workers. */
void leased_run(struct sessions *sessions, int64_t now_ms);
/* Replies to the request of a job that has ended. Does not free the job. */
void leased_take(struct sessions *sessions, struct job *job);
/* Ends the requests that have waited too long. */
void leased_tick(struct sessions *sessions, int64_t now_ms);

/* --- requests.c --- */

/* Executes one line of a client, given without its LF. May start the end of the session; does not free it. */
void requests_handle(struct session *session, struct bytes text);
/* Answers an open delivery of this session, `first`, and in an ordered batch those behind it if it was not finished. Of a
 * batch, `guess` is where its verdict probably is in the line. Returns how many deliveries were answered. */
size_t requests_answer(
	struct session *session, const struct line *line, struct entry *first, size_t guess);
/* Replies that input cannot be processed, with the error `code` and for the reason `why`, and ends the connection. */
void requests_refuse(struct session *session, int code, const char *why);

#endif
