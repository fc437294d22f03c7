/*
 * Which port the mock broker listens on. librdkafka binds its brokers to port 0 and has no setting
 * for it, so this program brings its own bind(), which the dynamic linker prefers over libc's.
 */
#ifndef DEVBROKER_PORT_H
#define DEVBROKER_PORT_H

/* From now on a bind() to an IPv4 address and port 0 gets this port; 0 = any. Call it before threads
 * start. -1 and errno when 127.0.0.1 cannot be bound to it: librdkafka 2.0.2 aborts on that. */
int devbroker_choose_port(int port);

#endif
