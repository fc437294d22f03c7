package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;

/**
 * A handler of messages: functions by topic and type, and the connection to inboxd, which is made again whenever it ends.
 *
 * <p>All connections of one name share the messages of this name, so use one name for each use of the data.
 *
 * <pre>{@code
 * try (Handler handler = Handler.builder("billing").on("orders", this::bill).build()) {
 *     handler.run();
 * }
 * }</pre>
 */
public final class Handler implements AutoCloseable {
    private static final Logger LOG = System.getLogger("io.inboxd");
    private static final String DEFAULT_SOCKET = "/run/inboxd/inbox.sock";
    private static final Duration CLEAN_UP = Duration.ofSeconds(1);

    private final Builder options;
    private final Routes routes;
    private final AtomicBoolean isServing = new AtomicBoolean();
    private final CountDownLatch stopping = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile int maxInFlight;
    private volatile SocketChannel connecting;
    private volatile Session session;
    private long awaySince; // 0: there is a connection, or none was tried yet

    private Handler(Builder options) {
        this.options = options;
        this.routes = options.routes;
        this.maxInFlight = options.maxInFlight;
    }

    /**
     * Begins the description of a handler.
     *
     * @param name the name of the handler
     * @return its options
     */
    public static Builder builder(String name) {
        return new Builder(name);
    }

    /**
     * A whole program: handles messages until the JVM is asked to end (SIGTERM or SIGINT), or until {@link #close()}. Then it drains.
     * While the JVM ends, the code behind this call has a second for its own clean-up.
     *
     * @throws RefusedException if inboxd does not want this handler
     */
    public void run() {
        Thread caller = Thread.currentThread();
        Thread hook = new Thread(() -> closeBefore(caller), "inboxd-shutdown");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            serve();
        } finally {
            removeHook(hook);
        }
    }

    private void closeBefore(Thread caller) {
        close();
        try {
            caller.join(CLEAN_UP.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            LOG.log(Level.DEBUG, "the JVM ends", e);
        }
    }

    /**
     * {@link #run()} for a program that has its own shutdown hook: handles messages until {@link #close()}, or until the thread is
     * interrupted.
     *
     * @throws RefusedException if inboxd does not want this handler
     */
    public void serve() {
        if (!isServing.compareAndSet(false, true)) {
            throw new IllegalStateException("the handler runs already, or was closed");
        }
        ExecutorService own =
                options.executor == null ? Executors.newFixedThreadPool(options.workers, workers()) : null;
        warmUp();
        Executor executor = own == null ? options.executor : own;
        try {
            connectAgainAndAgain(new Dispatcher(routes, executor, options.isOrdered, options.mapper, options.onError));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            if (own != null) {
                own.shutdown();
            }
            ended.countDown();
        }
    }

    /** Loads the classes that a message needs. Otherwise the first one of a process would wait for them. */
    private void warmUp() {
        LineParser.warmUp();
        routes.find("", "");
        Answer.DONE.line("");
    }

    private static ThreadFactory workers() {
        AtomicInteger count = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, "inboxd-worker-" + count.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    /**
     * Asks inboxd to send no more, and lets {@link #run()} and {@link #serve()} end when the running functions have ended. Does not
     * wait: functions may call it.
     */
    public void stop() {
        stopping.countDown();
        SocketChannel channel = connecting;
        Session current = session;
        if (current != null) {
            current.drain(options.drainTimeout);
        } else if (channel != null) {
            closeQuietly(channel);
        }
    }

    /**
     * Stops, and waits for the end of {@link #run()} or {@link #serve()}: for running functions as long as {@link
     * Builder#drainTimeout} allows. Messages that no function has seen, and those whose function still runs then, come again.
     */
    @Override
    public void close() {
        stop();
        if (isServing.compareAndSet(false, true)) {
            ended.countDown(); // it never served, and never will
        }
        try {
            if (!ended.await(Answer.millis(options.drainTimeout.plus(CLEAN_UP)), TimeUnit.MILLISECONDS)) {
                LOG.log(Level.WARNING, "the handler has not ended in time");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Changes how many messages this process may hold, also for later connections.
     *
     * @param maxInFlight 0 is a pause
     */
    public void setWindow(int maxInFlight) {
        this.maxInFlight = maxInFlight;
        Session current = session;
        if (current != null) {
            current.setWindow(maxInFlight);
        }
    }

    /** {@return true if there is a connection to inboxd, which has accepted this handler} */
    public boolean isConnected() {
        Session current = session;
        return current != null && current.isGreeted();
    }

    // The connection

    private boolean isStopping() {
        return stopping.getCount() == 0;
    }

    private void connectAgainAndAgain(Dispatcher dispatcher) throws InterruptedException {
        int failures = 0;
        awaySince = 0;
        while (!isStopping()) {
            try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
                if (attend(channel, dispatcher)) {
                    failures = 0;
                }
            } catch (IOException e) {
                LOG.log(Level.WARNING, "cannot open a socket: {0}", e.getMessage());
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            awaySince = awaySince == 0 ? System.nanoTime() | 1 : awaySince;
            // Full jitter: many handlers that lost the same sidecar must not come back at the same time.
            double longest = Math.min(
                    options.backoffFirst.toMillis() * Math.pow(2, failures), options.backoffLongest.toMillis());
            failures = Math.min(failures + 1, 30);
            stopping.await((long) (ThreadLocalRandom.current().nextDouble() * longest), TimeUnit.MILLISECONDS);
        }
    }

    /** One connection, until its end. True if it has lived. */
    private boolean attend(SocketChannel channel, Dispatcher dispatcher) {
        Path path = options.socketPath();
        connecting = channel;
        try {
            if (!isStopping()) {
                channel.connect(UnixDomainSocketAddress.of(path));
            }
        } catch (IOException e) {
            if (!isStopping()) {
                LOG.log(Level.WARNING, "cannot connect to inboxd at {0}: {1}", path, e.getMessage());
            }
            return false;
        }
        Session current = new Session(
                channel,
                new Session.Terms(
                        hello(), options.timeout, options.extendUpTo, options.mapper, dispatcher, this::isBack));
        session = current;
        if (isStopping()) {
            current.drain(options.drainTimeout);
        }
        current.run();
        session = null;
        connecting = null;
        if (current.refusal() != null) {
            throw current.refusal();
        }
        if (current.isGreeted() && !isStopping()) {
            LOG.log(Level.WARNING, "the connection to inboxd was lost");
        }
        return current.hasLived();
    }

    /** Logs the end of the time without a connection, at the level of its beginning. */
    private void isBack() {
        if (awaySince != 0) {
            double seconds = (System.nanoTime() - awaySince) / 1e9;
            LOG.log(Level.WARNING, () -> String.format(Locale.ROOT, "connected to inboxd again after %.1f s", seconds));
            awaySince = 0;
        }
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "the connection to inboxd is closed", e);
        }
    }

    private String hello() {
        Map<String, Object> batch = new LinkedHashMap<>();
        batch.put("max", options.batchMax > 0 ? options.batchMax : routes.haveBatches() ? 100 : 1);
        batch.put("wait_ms", Answer.millis(options.batchWait));
        if (options.isOrdered) {
            batch.put("ordered", true);
        }
        Map<String, Object> hello = new LinkedHashMap<>();
        hello.put("protocol", List.of(1));
        hello.put("handler", options.name);
        hello.put("instance", options.instance());
        hello.put("client", "inboxd-java/" + Version.VERSION);
        hello.put("max_in_flight", maxInFlight);
        hello.put("timeout_ms", Math.max(Answer.millis(options.timeout), 1));
        hello.put("batch", batch);
        if (!routes.subscriptions().isEmpty()) {
            hello.put("subscribe", routes.subscriptions());
        }
        if (options.consumer != null) {
            hello.put("consumer", options.consumer);
        }
        try {
            return Json.MAPPER.writeValueAsString(hello);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Describes a handler: its options and its functions. Register a function with {@code on()} or {@code onBatch()}. */
    public static final class Builder {
        private final String name;
        private final Routes routes = new Routes();
        private Path socketPath;
        private String consumer;
        private String instance;
        private int maxInFlight = 64;
        private int workers = 10;
        private Executor executor;
        private Duration timeout = Duration.ofSeconds(30);
        private Duration extendUpTo = Duration.ofMinutes(10);
        private int batchMax;
        private Duration batchWait = Duration.ZERO;
        private boolean isOrdered;
        private Duration backoffFirst = Duration.ofMillis(100);
        private Duration backoffLongest = Duration.ofSeconds(10);
        private Duration drainTimeout = Duration.ofSeconds(25);
        private ObjectMapper mapper = Json.MAPPER;
        private BiFunction<Throwable, Delivery, Verdict> onError = (error, delivery) -> null;

        private Builder(String name) {
            this.name = Objects.requireNonNull(name, "name");
        }

        /**
         * Registers a function for every message that no other function gets.
         *
         * @param function gets one message
         * @return this builder
         */
        public Builder on(MessageFunction function) {
            return on(Subscription.everything(), function);
        }

        /**
         * Registers a function for the messages of a topic. The most specific function gets a message.
         *
         * @param topic a topic of Kafka
         * @param function gets one message
         * @return this builder
         */
        public Builder on(String topic, MessageFunction function) {
            return on(Subscription.of(topic), function);
        }

        /**
         * Registers a function for the messages of a subscription. The most specific function gets a message.
         *
         * @param subscription a topic and types
         * @param function gets one message
         * @return this builder
         */
        public Builder on(Subscription subscription, MessageFunction function) {
            routes.add(subscription, Objects.requireNonNull(function, "function"), null);
            return this;
        }

        /**
         * Registers a function that gets many messages, for every message that no other function gets.
         *
         * @param function gets a batch
         * @return this builder
         */
        public Builder onBatch(BatchFunction function) {
            return onBatch(Subscription.everything(), function);
        }

        /**
         * Registers a function that gets many messages of a topic.
         *
         * @param topic a topic of Kafka
         * @param function gets a batch
         * @return this builder
         */
        public Builder onBatch(String topic, BatchFunction function) {
            return onBatch(Subscription.of(topic), function);
        }

        /**
         * Registers a function that gets many messages of a subscription.
         *
         * @param subscription a topic and types
         * @param function gets a batch
         * @return this builder
         */
        public Builder onBatch(Subscription subscription, BatchFunction function) {
            routes.add(subscription, null, Objects.requireNonNull(function, "function"));
            return this;
        }

        /**
         * The Unix socket of inboxd.
         *
         * @param path without it: {@code $INBOXD_SOCKET_PATH}, or {@code /run/inboxd/inbox.sock}
         * @return this builder
         */
        public Builder socketPath(Path path) {
            this.socketPath = path;
            return this;
        }

        /**
         * The consumer whose messages this handler processes.
         *
         * @param consumer a name in the configuration of inboxd, if it has several consumers
         * @return this builder
         */
        public Builder consumer(String consumer) {
            this.consumer = consumer;
            return this;
        }

        /**
         * Who this process is among those of the name, for operators.
         *
         * @param instance without it: the name of the host
         * @return this builder
         */
        public Builder instance(String instance) {
            this.instance = instance;
            return this;
        }

        /**
         * Messages that this process may hold at a time.
         *
         * @param maxInFlight 64 by default
         * @return this builder
         */
        public Builder maxInFlight(int maxInFlight) {
            this.maxInFlight = maxInFlight;
            return this;
        }

        /**
         * Threads that call the functions.
         *
         * @param workers 10 by default, as many as a pool of HikariCP has connections
         * @return this builder
         */
        public Builder workers(int workers) {
            if (workers < 1) {
                throw new IllegalArgumentException("workers must be 1 or more");
            }
            this.workers = workers;
            return this;
        }

        /**
         * Calls the functions, instead of threads of the library. With {@code Executors.newVirtualThreadPerTaskExecutor()} of JDK 21,
         * up to {@link #maxInFlight} functions run at a time.
         *
         * @param executor must not call a function in the thread that gives it a task; the library does not shut it down
         * @return this builder
         */
        public Builder executor(Executor executor) {
            this.executor = executor;
            return this;
        }

        /**
         * Time until an answer is late. The library extends it while the process is alive.
         *
         * @param timeout 30 seconds by default
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = Objects.requireNonNull(timeout, "timeout");
            return this;
        }

        /**
         * Time after the arrival of a message until which the library extends its deadline.
         *
         * @param extendUpTo 10 minutes by default
         * @return this builder
         */
        public Builder extendUpTo(Duration extendUpTo) {
            this.extendUpTo = Objects.requireNonNull(extendUpTo, "extendUpTo");
            return this;
        }

        /**
         * Most messages that come together.
         *
         * @param max by default 100 with a function for batches, and 1 without
         * @return this builder
         */
        public Builder batch(int max) {
            this.batchMax = max;
            return this;
        }

        /**
         * Most messages that come together.
         *
         * @param max by default 100 with a function for batches, and 1 without
         * @param wait how long a batch may wait to fill; 0 by default
         * @return this builder
         */
        public Builder batch(int max, Duration wait) {
            this.batchWait = Objects.requireNonNull(wait, "wait");
            return batch(max);
        }

        /**
         * Whether a batch may have several messages of a key, in order.
         *
         * @param isOrdered false by default
         * @return this builder
         */
        public Builder ordered(boolean isOrdered) {
            this.isOrdered = isOrdered;
            return this;
        }

        /**
         * The waits before it connects again. They double, and are multiplied by a random number.
         *
         * @param first 100 ms by default
         * @param longest 10 s by default
         * @return this builder
         */
        public Builder backoff(Duration first, Duration longest) {
            this.backoffFirst = Objects.requireNonNull(first, "first");
            this.backoffLongest = Objects.requireNonNull(longest, "longest");
            return this;
        }

        /**
         * Time that running functions have after {@link Handler#stop()} and {@link Handler#close()}.
         *
         * @param drainTimeout 25 seconds by default
         * @return this builder
         */
        public Builder drainTimeout(Duration drainTimeout) {
            this.drainTimeout = Objects.requireNonNull(drainTimeout, "drainTimeout");
            return this;
        }

        /**
         * Reads data and writes results.
         *
         * @param mapper by default one that ignores unknown members and keeps the digits of numbers
         * @return this builder
         */
        public Builder mapper(ObjectMapper mapper) {
            this.mapper = Objects.requireNonNull(mapper, "mapper");
            return this;
        }

        /**
         * Is called with each exception of a function, also with a {@link VerdictException}.
         *
         * @param onError returns another verdict, or null for that of the library
         * @return this builder
         */
        public Builder onError(BiFunction<Throwable, Delivery, Verdict> onError) {
            this.onError = Objects.requireNonNull(onError, "onError");
            return this;
        }

        /**
         * Ends the description.
         *
         * @return a handler that does not run yet
         */
        public Handler build() {
            if (routes.isEmpty()) {
                throw new IllegalStateException("the handler has no function: register one with on()");
            }
            return new Handler(this);
        }

        private Path socketPath() {
            String fromEnvironment = System.getenv("INBOXD_SOCKET_PATH");
            return socketPath != null
                    ? socketPath
                    : Path.of(fromEnvironment == null ? DEFAULT_SOCKET : fromEnvironment);
        }

        private String instance() {
            if (instance != null) {
                return instance;
            }
            try {
                return InetAddress.getLocalHost().getHostName();
            } catch (UnknownHostException e) {
                return "";
            }
        }
    }
}
