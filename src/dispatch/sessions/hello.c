/*
 * Checks the hello of a handler and registers its connection. protocol/ has checked the form of the line: its members,
 * their types and the version. Here follows what depends on the state: one hello on a connection, none during a
 * shutdown, and no subscription that another handler has. requests.c refuses what comes before the hello. A refused hello is logged as well, because the operator of
 * the client may see only the log.
 */
#include <string.h>

#include "base/log.h"
#include "dispatch/sessions/sessions.h"

#define DEFAULT_TIMEOUT_MS   30000
#define SUBSCRIBED_MAX_BYTES 1000 /* length of the subscriptions in a log line */
#define LAST_PART            10   /* the last tenth of the connections: see has_place() */

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
		LOG_STR("consumer", *hello->consumer == '\0' ? NULL : hello->consumer),
		LOG_STR("instance", hello->instance), LOG_STR("client", hello->client),
		LOG_STR("session", session->connection.id),
		LOG_INT("max_in_flight", hello->max_in_flight),
		LOG_STR("subscribe", buf_ok(&subscribed) ? buf_str(&subscribed) : NULL));
	buf_fini(&subscribed);
}

/* True if this sidecar may read the topic. A regular expression counts as a match for each topic. */
static bool is_read(const struct config *config, const char *topic)
{
	for (size_t i = 0; i < config->kafka_topics.count; i++) {
		const char *entry = config->kafka_topics.items[i];

		if (entry[0] == '^' || strcmp(entry, topic) == 0)
			return true;
	}
	return false;
}

/* Without this warning, nobody would notice a wrong name of a topic: the handler is connected and gets no messages. */
static void warn_of_unread(const struct session *session, const struct hello *hello)
{
	const struct config *config = session->sessions->context->options.config;
	const char *first = NULL;
	int64_t count = 0;

	for (size_t i = 0; i < hello->subscribe_count; i++) {
		const char *topic = hello->subscribe[i].topic;

		if (topic == NULL || is_read(config, topic))
			continue;
		if (count++ == 0)
			first = topic;
	}
	if (count > 0)
		log_warn("subscription_unread", LOG_STR("topic", first), LOG_INT("count", count),
			LOG_STR("handler", hello->handler),
			LOG_STR("session", session->connection.id),
			LOG_STR("next",
				"the handler gets only messages of the topic that are in the table "
				"already: correct the subscription, or add the topic to "
				"kafka.topics"));
}

void hello_refuse(struct session *session, const struct line *line, const struct refusal *refusal)
{
	log_warn("hello_refused", LOG_STR("handler", line->hello.handler),
		LOG_INT("code", refusal->code), LOG_STR("why", refusal->why),
		LOG_STR("session", session->connection.id),
		LOG_STR("next",
			"the client got the reason; it gets no message until it sends a valid "
			"hello"));
	session_reply_error_with(session, line->id, refusal->code, refusal->why, refusal->reason);
}

static void refuse(struct session *session, const struct line *line, int code, const char *why)
{
	hello_refuse(session, line, &(struct refusal){ code, why, NULL });
}

static void send_hello_reply(
	struct session *session, const struct line *line, const struct hello *hello)
{
	struct admission *admission = session->sessions->context->options.admission;
	struct buf *buf = &session->sessions->line;
	struct hello_reply reply = {
		.session = session->connection.id,
		.timeout_ms = hello->timeout_ms,
		.max_attempts = order_rules(session->sessions->order, hello->consumer).max_attempts,
		.consumer = hello->consumer,
		.ordering = admission_ordering_of(admission, hello->consumer),
		.subscribe = hello->subscribe,
		.subscribe_count = hello->subscribe_count,
	};

	buf_reset(buf);
	protocol_add_hello_reply(buf, line->id, &reply);
	connection_send(&session->connection, buf);
}

static int refusal_code(int r)
{
	if (r == ROUTING_OVERLAP)
		return PROTOCOL_OVERLAP;
	return r == ROUTING_FULL ? PROTOCOL_SUBSCRIPTIONS : PROTOCOL_INTERNAL;
}

int hello_join(struct session *session, const struct hello *hello, struct err *err)
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
	log_connected(session, hello);
	warn_of_unread(session, hello);
	return 0;
}

const char *hello_consumer(const struct sessions *sessions, const char *handler, const char *named)
{
	return admission_consumer_of(sessions->context->options.admission, handler, named);
}

/* True when the configuration has a SQL handler with this name for this consumer. */
static bool is_sql_handler(const struct session *session, const struct hello *hello)
{
	const struct config *config = session->sessions->context->options.config;

	for (size_t i = 0; i < config->handler_count; i++) {
		const struct sql_handler_rules *rules = &config->handlers[i];
		const char *consumer = hello_consumer(session->sessions, rules->name,
			*rules->consumer == '\0' ? NULL : rules->consumer);

		if (consumer != NULL && strcmp(rules->name, hello->handler) == 0 &&
			strcmp(consumer, hello->consumer) == 0)
			return true;
	}
	return false;
}

static void refuse_consumer(struct session *session, const struct line *line)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT;
	size_t length;

	if (line->hello.consumer == NULL)
		buf_addf(&why, "no consumer is called like the handler: name one of ");
	else
		buf_addf(&why, "there is no consumer \"%s\": name one of ", line->hello.consumer);
	length = why.length;
	admission_add_known(session->sessions->context->options.admission, &why);
	if (why.length == length)
		buf_addf(&why, "those under consumers in the configuration, which lists none");
	hello_refuse(session, line,
		&(struct refusal){ PROTOCOL_UNKNOWN_CONSUMER,
			buf_ok(&why) ? buf_str(&why) : "unknown consumer", "unknown_consumer" });
}

static int64_t timeout_of(const struct session *session, const struct hello *hello)
{
	const struct consumer_rules *rules =
		order_consumer_rules(session->sessions->order, hello->consumer);

	if (hello->timeout_ms >= 0)
		return hello->timeout_ms;
	return rules != NULL ? rules->timeout : DEFAULT_TIMEOUT_MS;
}

/* A connection without a hello gives its place to another one when it is needed. */
static size_t count_used(const struct sessions *sessions)
{
	const struct session *session;
	size_t count = 0;

	TAILQ_FOREACH (session, &sessions->list, link)
		count += session->connection.group != NULL || session->for_requests;
	return count;
}

/* The last tenth of the connections is for those that have less than their share: no handler can keep the others from
 * connecting. The connections with the role "requests" count as one handler. `own`: those that it has. False: refused. */
static bool has_place(struct session *session, const struct line *line, size_t own)
{
	const struct sessions *sessions = session->sessions;
	size_t few = sessions->most - sessions->most / LAST_PART;

	if (own < sessions->most / (sessions->order->queues.sharing + 2) ||
		sessions->count <= few || count_used(sessions) < few)
		return true;
	refuse(session, line, PROTOCOL_INTERNAL,
		"almost all connections are in use, and this handler has more than its share of "
		"them: close those that it does not need, and connect again later");
	session_close_soon(session);
	return false;
}

/* The role "requests" (leased_requests.c). */
static void accept_role(struct session *session, const struct line *line)
{
	const struct config *config = session->sessions->context->options.config;
	struct buf *buf = &session->sessions->line;

	if (!config->requests.socket) {
		hello_refuse(session, line,
			&(struct refusal){ PROTOCOL_REQUESTS_OFF,
				"the role requests is off: set requests.socket to true in the "
				"configuration of inboxd, and restart it",
				NULL });
		return;
	}
	if (!has_place(session, line, session->sessions->leased.clients))
		return;
	session->for_requests = true;
	session->sessions->leased.clients++;
	log_info("requests_client_connected", LOG_STR("client", line->hello.client),
		LOG_STR("client_instance", line->hello.instance),
		LOG_STR("session", session->connection.id));
	buf_reset(buf);
	protocol_add_role_reply(buf, line->id, session->connection.id);
	session_reply(session, buf);
}

void hello_check(struct session *session, const struct line *line)
{
	struct hello hello = line->hello;
	const struct handler_queue *queue;
	struct err err = ERR_INIT;
	int r;

	if (session->connection.group != NULL || session->for_requests) {
		refuse(session, line, PROTOCOL_HELLO_ORDER, "hello was said already");
		return;
	}
	if (context_is_stopping(session->sessions->context)) {
		refuse(session, line, PROTOCOL_SHUTTING_DOWN,
			"inboxd is shutting down; connect again later");
		return;
	}
	if (hello.role != NULL) {
		accept_role(session, line);
		return;
	}
	hello.consumer =
		hello_consumer(session->sessions, line->hello.handler, line->hello.consumer);
	if (hello.consumer == NULL) {
		refuse_consumer(session, line);
		return;
	}
	if (is_sql_handler(session, &hello)) {
		refuse(session, line, PROTOCOL_OVERLAP,
			"inboxd calls a SQL handler of this name itself; use another name, or "
			"remove it from handlers in the configuration");
		return;
	}
	queue = handler_queues_find(&session->sessions->order->queues,
		(struct handler_id){ hello.consumer, hello.handler });
	if (!has_place(session, line, queue == NULL ? 0 : queue->connections))
		return;
	hello.timeout_ms = timeout_of(session, &hello);
	r = hello_join(session, &hello, &err);
	if (r == 0)
		send_hello_reply(session, line, &hello);
	else
		refuse(session, line, refusal_code(r), err.text);
}
