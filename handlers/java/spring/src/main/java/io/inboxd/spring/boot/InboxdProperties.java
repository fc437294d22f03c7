package io.inboxd.spring.boot;

import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code inboxd.…}.
 *
 * @param enabled false: the application has no handler
 * @param autoStartup false: the handler waits for start() of the bean InboxContainer
 * @param handler the name of the handler; without it spring.application.name
 * @param socketPath the Unix socket of inboxd; without it $INBOXD_SOCKET_PATH, or /run/inboxd/inbox.sock
 * @param consumer the consumer whose messages this handler processes, if inboxd has several
 * @param instance who this process is among those of the name; without it the name of the host
 * @param window messages that this process may hold at a time
 * @param workers threads that call the methods
 * @param timeout time until an answer is late
 * @param extendUpTo time after the arrival of a message until which its deadline is extended
 * @param drainTimeout time that running methods have at the end of the application
 * @param batch most messages of a batch, for methods with a Batch
 * @param batchWait how long a batch may wait to fill
 * @param ordered whether a batch may have several messages of a key, in order
 */
@ConfigurationProperties("inboxd")
public record InboxdProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("true") boolean autoStartup,
        String handler,
        Path socketPath,
        String consumer,
        String instance,
        @DefaultValue("64") int window,
        @DefaultValue("10") int workers,
        @DefaultValue("30s") Duration timeout,
        @DefaultValue("10m") Duration extendUpTo,
        @DefaultValue("25s") Duration drainTimeout,
        @DefaultValue("0") int batch,
        @DefaultValue("0s") Duration batchWait,
        @DefaultValue("false") boolean ordered) {}
