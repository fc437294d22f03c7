/*
 * Checks the hello of a handler and registers its connection. protocol/ has checked the form of the line: its members,
 * their types and the version. Here follows what depends on the state: one hello on a connection, none during a
 * shutdown, and no subscription that another handler has. requests.c refuses what comes before the hello. A refused hello is logged as well, because the operator of
 * the client may see only the log.
 */
#include "base/log.h"
#include "dispatch/sessions/sessions.h"

#define SUBSCRIBED_MAX_BYTES 1000 /* length of the subscriptions in a log line */

/* "orders:order.* payments:* and 3 more". */
static void add_subscribed(struct buf *out, const struct hello *hello)
{
	for (size_t i = 0; i < hello->subscribe_count; i++) {
		const struct subscription *item = &hello->subscribe[i];

		if (out->length >= SUBSCRIBED_MAX_BYTES) {
			buf_addf(out, " and %zu more", hello->subscribe_count - i);
			return;
		}
		buf_addf(out, "%s%s:%s", i > 0 ? " " : "", item->topic == NULL ? "*" : item->topic,
			item->type == NULL ? "*" : item->type);
	}
}

static void log_connected(const struct session *session, const struct hello *hello)
{
	struct buf subscribed = BUF_INIT;

	add_subscribed(&subscribed, hello);
	log_info("handler_connected", LOG_STR("handler", hello->handler),
		LOG_STR("instance", hello->instance), LOG_STR("client", hello->client),
		LOG_STR("session", session->connection.id),
		LOG_INT("max_in_flight", hello->max_in_flight),
		LOG_STR("subscribe", buf_ok(&subscribed) ? buf_str(&subscribed) : NULL));
	buf_fini(&subscribed);
}

void hello_refuse(struct session *session, const struct line *line, int code, const char *why)
{
	log_warn("hello_refused", LOG_STR("handler", line->hello.handler), LOG_INT("code", code),
		LOG_STR("why", why), LOG_STR("session", session->connection.id),
		LOG_STR("next",
			"the client got the reason; it gets no message until it sends a valid "
			"hello"));
	session_reply_error(session, line->id, code, why);
}

static void send_hello_reply(struct session *session, const struct line *line)
{
	struct buf *buf = &session->sessions->line;
	struct hello_reply reply = {
		.session = session->connection.id,
		.timeout_ms = line->hello.timeout_ms,
		.max_attempts = session->sessions->order->rules.max_attempts,
		.ordering = session->sessions->context->options.config->inbox.ordering,
		.subscribe = line->hello.subscribe,
		.subscribe_count = line->hello.subscribe_count,
	};

	buf_reset(buf);
	protocol_add_hello_reply(buf, line->id, &reply);
	connection_send(&session->connection, buf);
	log_connected(session, &line->hello);
}

static int refusal_code(int r)
{
	if (r == ROUTING_OVERLAP)
		return PROTOCOL_OVERLAP;
	return r == ROUTING_FULL ? PROTOCOL_SUBSCRIPTIONS : PROTOCOL_INTERNAL;
}

static int join_group(struct session *session, const struct hello *hello, struct err *err)
{
	struct connection *connection = &session->connection;
	int r = handler_groups_join(session->sessions->groups, hello, &connection->group, err);

	if (r != 0)
		return r;
	connection->window = (size_t)hello->max_in_flight;
	connection->timeout_ms = hello->timeout_ms;
	connection->batch_max = (size_t)hello->batch_max;
	connection->batch_ordered = hello->batch_ordered;
	connection->batch_wait_ms = hello->batch_wait_ms;
	TAILQ_INSERT_TAIL(&connection->group->connections, connection, link);
	return 0;
}

void hello_check(struct session *session, const struct line *line)
{
	struct hello hello = line->hello;
	struct err err = ERR_INIT;
	int r;

	hello.consumer = "";
	if (session->connection.group != NULL) {
		hello_refuse(session, line, PROTOCOL_HELLO_ORDER, "hello was said already");
		return;
	}
	if (context_is_stopping(session->sessions->context)) {
		hello_refuse(session, line, PROTOCOL_SHUTTING_DOWN,
			"inboxd is shutting down; connect again later");
		return;
	}
	r = join_group(session, &hello, &err);
	if (r == 0)
		send_hello_reply(session, line);
	else
		hello_refuse(session, line, refusal_code(r), err.text);
}
