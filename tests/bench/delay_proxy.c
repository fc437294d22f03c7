/*
 * Delays the connections to a server of this machine, as if it were far away: every byte arrives DELAY_US
 * later, in both directions.
 *
 *	delay_proxy PORT TARGET_PORT DELAY_US
 *
 * Accepts connections on PORT of 127.0.0.1 and passes them to TARGET_PORT there. Only time is added: what is on its
 * way waits in memory, so a connection carries as many bytes a second as without the proxy. Where the receiver does
 * not read, at most HELD_MAX bytes wait in each direction. Runs until SIGTERM, in one thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINKS_MAX = 512, PIECE_MAX = 1 << 18, HELD_MAX = 1 << 26, NS_PER_SECOND = 1000000000 };

/* Bytes that arrived together. A length of 0 is the end of the stream. */
struct piece {
	struct piece *next;
	int64_t due_ns;
	size_t length, sent;
	char data[];
};

/* One direction of a connection. The delay is the same for all pieces, so the first one is always due first. */
struct way {
	int from, to;
	struct piece *first, *last;
	size_t held;
	bool ended; /* `from` has ended its stream */
	bool done;  /* and `to` has been told */
	bool stuck; /* the buffer of `to` is full */
};

struct link {
	struct way there, back;
};

struct proxy {
	struct link *links[LINKS_MAX];
	size_t count;
	int listener;
	uint16_t target_port;
	int64_t delay_ns;
	char arrived[PIECE_MAX];
};

static int fail(const char *what)
{
	fprintf(stderr, "delay_proxy: %s: %s\n", what, strerror(errno));
	return 1;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- One direction: 0, or -1 when the connection is broken ------------------------------------------ */

static int hold(struct way *way, const char *data, size_t length, int64_t due_ns)
{
	struct piece *piece = malloc(sizeof(*piece) + length);

	if (piece == NULL)
		return -1;
	*piece = (struct piece){ .due_ns = due_ns, .length = length };
	if (length > 0)
		memcpy(piece->data, data, length);
	if (way->first == NULL)
		way->first = piece;
	else
		way->last->next = piece;
	way->last = piece;
	way->held += length;
	return 0;
}

/* Takes what has arrived. */
static int receive(struct proxy *proxy, struct way *way)
{
	const ssize_t length =
		recv(way->from, proxy->arrived, sizeof(proxy->arrived), MSG_DONTWAIT);

	if (length < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	way->ended = length == 0;
	return hold(way, proxy->arrived, (size_t)length, now_ns() + proxy->delay_ns);
}

/* Passes on what is due. */
static int pass(struct way *way, int64_t now)
{
	while (way->first != NULL && way->first->due_ns <= now && !way->stuck) {
		struct piece *piece = way->first;
		const size_t rest = piece->length - piece->sent;
		const ssize_t sent = rest == 0 ? 0
					       : send(way->to, piece->data + piece->sent, rest,
							 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		way->stuck = sent < 0 && errno == EAGAIN;
		piece->sent += sent < 0 ? 0 : (size_t)sent;
		way->held -= sent < 0 ? 0 : (size_t)sent;
		if (piece->sent < piece->length)
			continue;
		if (piece->length == 0) {
			way->done = true;
			(void)shutdown(way->to, SHUT_WR);
		}
		way->first = piece->next;
		free(piece);
	}
	return 0;
}

static void way_fini(struct way *way)
{
	while (way->first != NULL) {
		struct piece *piece = way->first;

		way->first = piece->next;
		free(piece);
	}
	close(way->from); /* each descriptor is the `from` of one direction */
}

/* --- Connections ------------------------------------------------------------------------------------ */

static int open_socket(uint16_t port, bool listens)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr *where = (const struct sockaddr *)&address;
	const int on = 1;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (listens ? bind(fd, where, sizeof(address)) == 0 && listen(fd, SOMAXCONN) == 0
		    : connect(fd, where, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void accept_link(struct proxy *proxy)
{
	const int on = 1;
	const int client = accept(proxy->listener, NULL, NULL);
	const int server = client < 0 ? -1 : open_socket(proxy->target_port, false);
	struct link *link = server < 0 ? NULL : calloc(1, sizeof(*link));

	if (link == NULL || proxy->count == LINKS_MAX) {
		free(link);
		if (client >= 0)
			close(client);
		if (server >= 0)
			close(server);
		return;
	}
	(void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	link->there = (struct way){ .from = client, .to = server };
	link->back = (struct way){ .from = server, .to = client };
	proxy->links[proxy->count++] = link;
}

static int serve_way(struct proxy *proxy, struct way *way, int from_events, int to_events)
{
	if ((to_events & (POLLOUT | POLLERR | POLLHUP)) != 0)
		way->stuck = false;
	if (!way->ended && from_events != 0 && receive(proxy, way) < 0)
		return -1;
	return pass(way, now_ns());
}

/* False when the connection is over. */
static bool serve_link(struct proxy *proxy, struct link *link, const struct pollfd polled[2])
{
	const int client = polled[0].revents;
	const int server = polled[1].revents;

	return serve_way(proxy, &link->there, client, server) == 0 &&
	       serve_way(proxy, &link->back, server, client) == 0 &&
	       !(link->there.done && link->back.done);
}

/* --- The loop ----------------------------------------------------------------------------------- */

/* A descriptor without events is left out: poll() reports its end again and again otherwise. */
static struct pollfd watched(int fd, const struct way *reads, const struct way *writes)
{
	const int events = (!reads->ended && reads->held < HELD_MAX ? POLLIN : 0) |
			   (writes->stuck ? POLLOUT : 0);

	return (struct pollfd){ .fd = events == 0 ? -1 : fd, .events = (short)events };
}

static int64_t earlier_due(const struct way *way, int64_t due_ns)
{
	return way->first != NULL && !way->stuck && way->first->due_ns < due_ns ? way->first->due_ns
										: due_ns;
}

static int wait_for_events(const struct proxy *proxy, struct pollfd *polled)
{
	const int64_t now = now_ns();
	int64_t due_ns = now + NS_PER_SECOND;
	struct timespec timeout;

	polled[0] = (struct pollfd){ .fd = proxy->listener, .events = POLLIN };
	for (size_t i = 0; i < proxy->count; i++) {
		const struct link *link = proxy->links[i];

		polled[2 * i + 1] = watched(link->there.from, &link->there, &link->back);
		polled[2 * i + 2] = watched(link->back.from, &link->back, &link->there);
		due_ns = earlier_due(&link->back, earlier_due(&link->there, due_ns));
	}
	due_ns = due_ns < now ? 0 : due_ns - now;
	timeout = (struct timespec){ due_ns / NS_PER_SECOND, due_ns % NS_PER_SECOND };
	return ppoll(polled, 2 * proxy->count + 1, &timeout, NULL);
}

static int run(struct proxy *proxy)
{
	static struct pollfd polled[2 * LINKS_MAX + 1];

	while (wait_for_events(proxy, polled) >= 0 || errno == EINTR) {
		/* From the last to the first: the last one takes the place of one that is over. */
		for (size_t i = proxy->count; i-- > 0;) {
			struct link *link = proxy->links[i];

			if (serve_link(proxy, link, &polled[2 * i + 1]))
				continue;
			way_fini(&link->there);
			way_fini(&link->back);
			free(link);
			proxy->links[i] = proxy->links[--proxy->count];
		}
		if ((polled[0].revents & POLLIN) != 0)
			accept_link(proxy);
	}
	return fail("cannot wait");
}

int main(int argc, char **argv)
{
	static struct proxy proxy;

	if (argc != 4) {
		fprintf(stderr, "delay_proxy: usage: delay_proxy PORT TARGET_PORT DELAY_US\n");
		return 1;
	}
	proxy.target_port = (uint16_t)strtoul(argv[2], NULL, 10);
	proxy.delay_ns = strtoll(argv[3], NULL, 10) * 1000;
	proxy.listener = open_socket((uint16_t)strtoul(argv[1], NULL, 10), true);
	if (proxy.listener < 0)
		return fail("cannot listen");
	(void)prctl(PR_SET_TIMERSLACK, 1);
	return run(&proxy);
}
