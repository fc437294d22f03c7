/*
 * bind() with a chosen port. Everything but a bind to port 0 of an IPv4 address goes to the kernel
 * unchanged, straight by system call: looking up libc's bind() would need a cast that C forbids.
 */
#include "devbroker/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int chosen_port;

/* A broker started again at once must get its port back while old connections linger. */
static void allow_reuse(int fd)
{
	const int yes = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved names */
int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_in inet;

	if (length < sizeof(inet) || address->sa_family != AF_INET)
		return (int)syscall(SYS_bind, fd, address, length);
	memcpy(&inet, address, sizeof(inet));
	if (inet.sin_port == 0 && chosen_port != 0) {
		inet.sin_port = htons((uint16_t)chosen_port);
		allow_reuse(fd);
	}
	return (int)syscall(SYS_bind, fd, &inet, (socklen_t)sizeof(inet));
}

int devbroker_choose_port(int port)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (probe < 0)
		return -1;
	chosen_port = port;
	r = bind(probe, (const struct sockaddr *)&any, sizeof(any));
	close(probe);
	return r;
}
