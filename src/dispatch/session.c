/*
 * One connection: lines in, lines out. Whatever a client sends ends in an answer, an error reply or
 * the end of this connection, and touches no other.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"

#define BROKEN_LINES_MAX 10
#define HELLO_WITHIN_MS  30000
#define CLOSE_WITHIN_MS  2000
#define READ_MAX_BYTES   65536

void session_send(struct session *session, const struct buf *line)
{
	if (!buf_ok(line) || bufferevent_write(session->bev, line->data, line->length) != 0)
		log_error("line_not_written", LOG_STR("session", session->id),
			LOG_STR("why", "out of memory"),
			LOG_STR("next", "the delivery runs into its deadline"));
}

size_t session_unsent(const struct session *session)
{
	return evbuffer_get_length(bufferevent_get_output(session->bev));
}

static void reply_error(struct session *session, struct bytes id, int code, const char *text)
{
	struct buf *line = &session->dispatch->line;

	buf_reset(line);
	protocol_add_error(line, id, code, text);
	session_send(session, line);
}

/* Notifications get no reply; who sends an id gets one. */
static void reply_empty(struct session *session, struct bytes id)
{
	struct buf *line = &session->dispatch->line;

	if (id.data == NULL)
		return;
	buf_reset(line);
	protocol_add_empty_reply(line, id);
	session_send(session, line);
}

void session_cancel(struct session *session, const struct entry *entry, const char *reason)
{
	struct buf *line = &session->dispatch->line;
	char id[ENTRY_ID_BYTES];

	entry_id(entry, id);
	buf_reset(line);
	protocol_add_cancel(line, id, reason);
	session_send(session, line);
}

static void forget_unread(struct session *session)
{
	session->dispatch->unread -= session->unread;
	session->unread = 0;
}

void session_close(struct session *session)
{
	struct dispatch *dispatch = session->dispatch;

	handlers_leave(dispatch, session);
	forget_unread(session);
	TAILQ_REMOVE(&dispatch->sessions, session, link);
	dispatch->session_count--;
	bufferevent_free(session->bev);
	buf_fini(&session->drain_id);
	free(session);
	dispatch_stir(dispatch);
}

/* What is written still goes out, then the connection ends. */
static void close_soon(struct session *session)
{
	session->closing = true;
	session->closing_ms = clock_now_ms();
	(void)bufferevent_disable(session->bev, EV_READ);
}

/* ------------------------------------------------------------------ what lines do */

static void say_hello(struct session *session, const struct line *line)
{
	struct dispatch *dispatch = session->dispatch;
	struct hello_reply reply = {
		.session = session->id,
		.timeout_ms = line->hello.timeout_ms,
		.max_attempts = dispatch->rules.max_attempts,
	};

	buf_reset(&dispatch->line);
	protocol_add_hello_reply(&dispatch->line, line->id, &reply);
	session_send(session, &dispatch->line);
	log_info("handler_connected", LOG_STR("handler", line->hello.handler),
		LOG_STR("instance", line->hello.instance), LOG_STR("client", line->hello.client),
		LOG_STR("session", session->id),
		LOG_INT("max_in_flight", line->hello.max_in_flight));
}

static void on_hello(struct session *session, const struct line *line)
{
	const struct hello *hello = &line->hello;
	struct err err = ERR_INIT;
	int r;

	if (session->handler != NULL) {
		reply_error(session, line->id, PROTOCOL_HELLO_ORDER, "hello was said already");
		return;
	}
	if (dispatch_is_stopping(session->dispatch)) {
		reply_error(session, line->id, PROTOCOL_SHUTTING_DOWN,
			"inboxd is shutting down; connect again later");
		return;
	}
	session->window = (size_t)hello->max_in_flight;
	session->timeout_ms = hello->timeout_ms;
	session->batch_max = (size_t)hello->batch_max;
	session->batch_wait_ms = hello->batch_wait_ms;
	r = handlers_join(session->dispatch, session, hello, &err);
	if (r == 0)
		say_hello(session, line);
	else
		reply_error(session, line->id,
			r == ROUTING_OVERLAP ? PROTOCOL_OVERLAP : PROTOCOL_INTERNAL, err.text);
}

/* "d9001.2" of a delivery that is open on this session and not part of a batch, or NULL. */
static struct entry *find_delivery(struct session *session, const char *id)
{
	long long seq = 0;
	int count = 0;
	char exact[ENTRY_ID_BYTES];
	struct entry *entry;

	if (sscanf(id, "d%18lld.%9d", &seq, &count) != 2)
		return NULL;
	entry = held_find(session->dispatch, seq, count);
	if (entry == NULL || entry->state != ENTRY_OPEN || entry->session != session)
		return NULL;
	entry_id(entry, exact);
	return strcmp(id, exact) == 0 ? entry : NULL;
}

static void answer(struct session *session, struct entry *entry, const struct verdict *verdict)
{
	struct dispatch *dispatch = session->dispatch;

	handlers_close_delivery(dispatch, entry);
	if (judge_answer(&dispatch->rules, entry, verdict, NULL) != 0)
		log_warn("verdict_text_lost", LOG_STR("event_id", entry->message->event_id),
			LOG_STR("why", "out of memory"), LOG_STR("next", "the verdict stands"));
	held_settle(dispatch, entry);
}

/* What the answer says about one entry of a batch; answers mostly come in the batch's order, so the
 * search starts at `guess`. */
static const struct verdict *verdict_for(const struct line *line, const struct entry *entry,
	size_t guess)
{
	static const struct verdict missing = {
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.reason = { "the answer to the batch has no entry for it", 43 },
		.code = { "PROTOCOL", 8 },
	};
	char id[ENTRY_ID_BYTES];
	size_t length;

	if (!line->batch_answer)
		return line->verdict_count > 0 ? &line->verdicts[0] : &missing;
	entry_id(entry, id);
	length = strlen(id);
	for (size_t i = 0; i < line->verdict_count; i++) {
		const struct verdict *verdict = &line->verdicts[(guess + i) % line->verdict_count];

		if (verdict->entry.length == length && memcmp(verdict->entry.data, id, length) == 0)
			return verdict;
	}
	return &missing;
}

static bool answer_batch(struct session *session, const struct line *line)
{
	struct call *call = NULL;
	struct entry *entry;
	size_t position = 0;
	bool last;

	HASH_FIND_STR(session->dispatch->calls, line->delivery, call);
	if (call == NULL || call->session != session)
		return false;
	do {
		entry = TAILQ_FIRST(&call->entries);
		last = TAILQ_NEXT(entry, call_link) == NULL; /* the last one frees the call */
		answer(session, entry, verdict_for(line, entry, position++));
	} while (!last);
	return true;
}

static void on_answer(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	if (entry != NULL && entry->call == NULL)
		answer(session, entry, verdict_for(line, entry, 0));
	else if (!answer_batch(session, line))
		metric_add(session->dispatch->unknown_answers, 1);
}

static void on_extend(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	if (entry != NULL) {
		deliver_extend(entry, clock_now_ms() + line->timeout_ms);
		reply_empty(session, line->id);
		return;
	}
	metric_add(session->dispatch->unknown_answers, 1);
	if (line->id.data != NULL)
		reply_error(session, line->id, PROTOCOL_UNKNOWN_DELIVERY, "no such delivery is open");
}

static void on_window(struct session *session, const struct line *line)
{
	session->window = (size_t)line->max_in_flight;
	reply_empty(session, line->id);
	dispatch_stir(session->dispatch);
}

void session_check_drained(struct session *session)
{
	struct buf *line = &session->dispatch->line;

	if (session->drain_id.length == 0 || session->open_count > 0)
		return;
	buf_reset(line);
	protocol_add_drain_reply(line,
		(struct bytes){ session->drain_id.data, session->drain_id.length }, 0);
	session_send(session, line);
	buf_reset(&session->drain_id);
}

static void on_drain(struct session *session, const struct line *line)
{
	if (session->drain_id.length > 0) {
		reply_error(session, line->id, PROTOCOL_INVALID_REQUEST, "drain was asked for already");
		return;
	}
	session->draining = true;
	buf_reset(&session->drain_id);
	buf_add(&session->drain_id, line->id.data, line->id.length);
	handlers_release_reserved_of(session->dispatch, session);
	session_check_drained(session);
}

static void on_broken(struct session *session, const struct line *line)
{
	metric_add(session->dispatch->protocol_errors, 1);
	reply_error(session, line->id, line->error_code, line->error_text);
	if (++session->broken_lines >= BROKEN_LINES_MAX || line->close) {
		log_warn("connection_closed", LOG_STR("session", session->id),
			LOG_STR("why", line->error_text), LOG_INT("broken_lines", session->broken_lines),
			LOG_STR("next", "its open deliveries go back to waiting"));
		close_soon(session);
	}
}

static void (*const actions[])(struct session *session, const struct line *line) = {
	[LINE_BROKEN] = on_broken,
	[LINE_HELLO] = on_hello,
	[LINE_EXTEND] = on_extend,
	[LINE_WINDOW] = on_window,
	[LINE_DRAIN] = on_drain,
	[LINE_ANSWER] = on_answer,
};

static void on_line(struct session *session, struct bytes text)
{
	struct line line = { .kind = LINE_BROKEN };

	if (protocol_parse(session->dispatch->parser, text, &line, NULL) != 0) {
		line = (struct line){ .kind = LINE_BROKEN, .error_code = PROTOCOL_INTERNAL };
		(void)snprintf(line.error_text, sizeof(line.error_text), "out of memory; send it again");
	}
	if (session->handler == NULL && line.kind != LINE_HELLO && line.kind != LINE_BROKEN) {
		struct line early = { .kind = LINE_BROKEN, .id = line.id,
			.error_code = PROTOCOL_HELLO_ORDER };

		(void)snprintf(early.error_text, sizeof(early.error_text), "say hello first");
		line = early;
	}
	actions[line.kind](session, &line);
}

/* ------------------------------------------------------------------ bytes */

static void end_too_long(struct session *session, const char *why)
{
	struct line line = { .kind = LINE_BROKEN, .error_code = PROTOCOL_LINE_TOO_LONG, .close = true };

	(void)snprintf(line.error_text, sizeof(line.error_text), "%s", why);
	on_broken(session, &line);
}

/* Finds the next LF, searching only what was not searched before. */
static bool next_line(struct session *session, struct evbuffer *input, size_t *length)
{
	struct evbuffer_ptr from;
	struct evbuffer_ptr at;

	if (evbuffer_ptr_set(input, &from, session->scanned, EVBUFFER_PTR_SET) != 0)
		return false;
	at = evbuffer_search_eol(input, &from, NULL, EVBUFFER_EOL_LF);
	if (at.pos < 0) {
		session->scanned = evbuffer_get_length(input);
		return false;
	}
	*length = (size_t)at.pos;
	return true;
}

static void read_lines(struct session *session, struct evbuffer *input)
{
	size_t length;
	const void *text;

	while (!session->closing && next_line(session, input, &length)) {
		text = evbuffer_pullup(input, (ev_ssize_t)length + 1);
		if (text == NULL)
			return;
		if (length >= PROTOCOL_MAX_LINE)
			end_too_long(session, "line too long");
		else
			on_line(session, (struct bytes){ text, length });
		(void)evbuffer_drain(input, length + 1);
		session->scanned = 0;
	}
}

static void on_readable(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;
	struct dispatch *dispatch = session->dispatch;
	struct evbuffer *input = bufferevent_get_input(bev);
	size_t left;

	read_lines(session, input);
	left = evbuffer_get_length(input);
	forget_unread(session);
	session->unread = left;
	dispatch->unread += left;
	if (session->closing)
		return;
	if (left >= PROTOCOL_MAX_LINE)
		end_too_long(session, "line too long");
	else if (dispatch->unread > INPUT_MAX_BYTES && left > READ_MAX_BYTES)
		end_too_long(session, "too many unfinished lines on all connections together");
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;

	(void)bev;
	if (session->closing && session_unsent(session) == 0)
		session_close(session);
	else
		dispatch_stir(session->dispatch);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct session *session = arg;
	const char *why = what & BEV_EVENT_EOF ? "closed by the handler" : strerror(errno);

	(void)bev;
	log_info("handler_disconnected",
		LOG_STR("handler", session->handler == NULL ? NULL : session->handler->name),
		LOG_STR("session", session->id), LOG_STR("why", why),
		LOG_INT("open_deliveries", session->open_count));
	session_close(session);
}

void session_tick(struct session *session, int64_t now_ms)
{
	bool silent = session->handler == NULL && now_ms - session->connected_ms > HELLO_WITHIN_MS;
	bool written = session_unsent(session) == 0 ||
		now_ms - session->closing_ms > CLOSE_WITHIN_MS;

	if (session->closing ? written : silent)
		session_close(session);
}

/* ------------------------------------------------------------------ who may connect */

static bool is_allowed(const struct dispatch *dispatch, evutil_socket_t fd, struct ucred *peer)
{
	const struct config *config = dispatch->options.config;
	socklen_t length = sizeof(*peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) != 0)
		return false;
	for (size_t i = 0; i < config->socket.allow_uid_count; i++) {
		if (config->socket.allow_uid[i] == peer->uid)
			return true;
	}
	return config->socket.allow_uid_count == 0;
}

static struct session *session_new(struct dispatch *dispatch, evutil_socket_t fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->bev = bufferevent_socket_new(dispatch->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (session->bev == NULL) {
		free(session);
		return NULL;
	}
	session->dispatch = dispatch;
	session->connected_ms = clock_now_ms();
	TAILQ_INIT(&session->open);
	(void)snprintf(session->id, sizeof(session->id), "s%llu",
		(unsigned long long)++dispatch->next_session);
	TAILQ_INSERT_TAIL(&dispatch->sessions, session, link);
	dispatch->session_count++;
	(void)bufferevent_set_max_single_read(session->bev, READ_MAX_BYTES);
	bufferevent_setcb(session->bev, on_readable, on_written, on_event, session);
	(void)bufferevent_enable(session->bev, EV_READ | EV_WRITE);
	return session;
}

void session_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int length, void *arg)
{
	struct dispatch *dispatch = arg;
	struct ucred peer = { .uid = (uid_t)-1 };
	bool allowed = is_allowed(dispatch, fd, &peer);
	struct session *session = NULL;

	(void)listener;
	(void)address;
	(void)length;
	if (dispatch->session_count < SESSIONS_MAX)
		session = session_new(dispatch, fd);
	if (session == NULL) {
		log_warn("connection_refused", LOG_STR("why", "too many connections or no memory"),
			LOG_INT("connections", dispatch->session_count),
			LOG_STR("next", "the client should connect again later"));
		(void)evutil_closesocket(fd);
		return;
	}
	if (allowed)
		return;
	log_warn("connection_refused", LOG_STR("why", "user id not in socket.allow_uid"),
		LOG_INT("uid", peer.uid), LOG_INT("pid", peer.pid),
		LOG_STR("next", "add it to socket.allow_uid if it shall connect"));
	reply_error(session, (struct bytes){ NULL, 0 }, PROTOCOL_NOT_AUTHORISED,
		"this user id is not in socket.allow_uid");
	close_soon(session);
}
