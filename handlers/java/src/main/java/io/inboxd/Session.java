package io.inboxd;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * One connection to inboxd: it reads lines, keeps the open deliveries, and sends each answer once.
 *
 * <p>{@link #run} reads, in the thread that calls it. The methods that are not private may be called by any thread.
 */
final class Session {
    /** What a session needs of the handler. */
    record Terms(
            String hello,
            Duration timeout,
            Duration extendUpTo,
            ObjectMapper mapper,
            Dispatcher dispatcher,
            Runnable onGreeted) {}

    private static final Logger LOG = System.getLogger("io.inboxd");
    private static final int MAX_LINE = 33_554_432;
    private static final int CHUNK = 65_536;
    private static final int KEPT_MAX = 1 << 20;
    private static final long LIVED_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final long HELLO_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final long LONGEST_TICK_NANOS = TimeUnit.MINUTES.toNanos(1);
    private static final String HELLO_ID = "1";
    private static final String DRAIN_ID = "2";
    // Errors of a hello that another try does not correct.
    private static final Set<Integer> FINAL = Set.of(-32000, -32001, -32003, -32005, -32602);

    private final SocketChannel channel;
    private final Terms terms;
    private final Sender sender;
    private final Map<String, Delivery> open = new ConcurrentHashMap<>();
    private final long startedAt = System.nanoTime();
    private volatile boolean isGreeted;
    private long greetedAt; // the thread of run() has these two
    private boolean hasDelivered;
    private volatile boolean isDraining;
    private volatile long drainEndsAt;
    private volatile long timeoutNanos;
    private volatile long tickedAt;
    private volatile String ordering = "none";
    private volatile int maxLine = MAX_LINE;
    private RefusedException refusal;

    /** Takes a channel that is connected. */
    Session(SocketChannel channel, Terms terms) {
        this.channel = channel;
        this.terms = terms;
        this.timeoutNanos = toNanos(terms.timeout());
        this.sender = new Sender(channel, this::onClock);
    }

    /** Handles messages until the end of the connection. */
    void run() {
        sender.start();
        send("{\"jsonrpc\":\"2.0\",\"id\":" + HELLO_ID + ",\"method\":\"hello\",\"params\":" + terms.hello() + "}\n");
        try {
            read();
        } catch (LineException | RuntimeException e) {
            fail("a line that is not in the protocol: " + Objects.requireNonNullElse(e.getMessage(), e.toString()));
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "the connection to inboxd ends", e);
        } finally {
            close();
            sender.end();
            for (Delivery delivery : List.copyOf(open.values())) {
                open.remove(delivery.id());
                delivery.cancel("connection_lost");
            }
        }
    }

    /** A line that the protocol does not allow. */
    private static final class LineException extends Exception {
        private static final long serialVersionUID = 1;

        LineException(String message) {
            super(message);
        }
    }

    /** True if the next connection may come soon. inboxd may end connections after each hello: then the waits grow. */
    boolean hasLived() {
        return hasDelivered || (isGreeted && System.nanoTime() - greetedAt >= LIVED_NANOS);
    }

    boolean isGreeted() {
        return isGreeted;
    }

    boolean isDraining() {
        return isDraining;
    }

    /** Why inboxd refuses the handler for good; null if it does not. */
    RefusedException refusal() {
        return refusal;
    }

    /** Which messages have an order, by the reply to hello. */
    String ordering() {
        return ordering;
    }

    ObjectMapper mapper() {
        return terms.mapper();
    }

    long timeoutNanos() {
        return timeoutNanos;
    }

    // Lines of inboxd

    private void read() throws IOException, LineException {
        byte[] buffer = new byte[CHUNK];
        int start = 0; // of the first line that was not read
        int end = 0;
        while (true) {
            if (buffer.length - end < CHUNK / 4) {
                int rest = end - start;
                int size = rest < CHUNK / 2 ? CHUNK : 2 * rest;
                byte[] next = size == buffer.length ? buffer : new byte[size];
                System.arraycopy(buffer, start, next, 0, rest);
                buffer = next;
                start = 0;
                end = rest;
            }
            int count = channel.read(ByteBuffer.wrap(buffer, end, Math.min(CHUNK, buffer.length - end)));
            if (count < 0) {
                return; // a half line is forgotten
            }
            for (int i = end; i < end + count; i++) {
                if (buffer[i] == '\n') {
                    readLine(buffer, start, i - start);
                    start = i + 1;
                }
            }
            end += count;
            if (start == end) {
                buffer = buffer.length > KEPT_MAX ? new byte[CHUNK] : buffer;
                start = 0;
                end = 0;
            } else if (end - start > MAX_LINE) {
                throw new LineException("it has more than 32 MiB");
            }
        }
    }

    private void readLine(byte[] buffer, int start, int length) throws LineException {
        if (!channel.isOpen()) {
            return;
        }
        Message message;
        try {
            message = LineParser.parse(terms.mapper(), buffer, start, length);
        } catch (IOException e) {
            throw new LineException(e.getMessage());
        }
        if (message.method == null) {
            onReply(message);
        } else if (!isGreeted) {
            throw new LineException(message.method + " before the reply to hello");
        } else {
            onRequest(message);
        }
    }

    private void onRequest(Message message) {
        switch (message.method) {
            case "deliver" -> onDeliver(message);
            case "deliver_batch" -> onDeliverBatch(message);
            case "cancel" -> onCancel(message);
            default -> refuse(message, -32601, "this handler does not know " + message.method);
        }
    }

    private void onReply(Message message) throws LineException {
        if (!isGreeted && HELLO_ID.equals(message.id)) {
            onHelloReply(message);
        } else if (isDraining && DRAIN_ID.equals(message.id)) {
            close();
        } else if (message.error != null) {
            LOG.log(Level.WARNING, "inboxd did not accept a line: {0}", message.error);
        }
    }

    private void onHelloReply(Message message) throws LineException {
        if (message.error != null) {
            int code = message.error.path("code").asInt();
            String text = message.error.path("message").asText();
            if (FINAL.contains(code)) {
                refusal = new RefusedException(code, text);
            } else {
                LOG.log(Level.WARNING, "inboxd does not accept this handler now: {0}", text);
            }
            close();
            return;
        }
        if (message.result == null) {
            throw new LineException("a reply to hello without a result");
        }
        JsonNode result = message.result;
        ordering = result.path("ordering").asText("none").replace("null", "none");
        if (result.path("timeout_ms").asLong() > 0) {
            timeoutNanos = toNanos(Duration.ofMillis(result.path("timeout_ms").asLong()));
        }
        if (result.path("max_line_bytes").asLong() > 0) {
            maxLine = (int) Math.min(result.path("max_line_bytes").asLong(), MAX_LINE);
        }
        tickedAt = System.nanoTime();
        greetedAt = tickedAt;
        isGreeted = true;
        terms.onGreeted().run();
        sender.wake();
    }

    private void onDeliver(Message message) {
        if (message.id == null || !message.entry.isComplete()) {
            refuse(message, -32602, "deliver needs a delivery and an event");
            return;
        }
        hasDelivered = true;
        Delivery delivery = new Delivery(this, message.entry, null, System.nanoTime());
        open.put(delivery.id(), delivery);
        // It was put first: either this line or drain() sees it.
        if (isDraining) {
            giveBack(delivery);
        } else {
            terms.dispatcher().acceptOne(this, delivery);
        }
    }

    private void onDeliverBatch(Message message) {
        List<Entry> entries = message.entries;
        if (message.id == null
                || entries == null
                || entries.isEmpty()
                || !entries.stream().allMatch(Entry::isComplete)) {
            refuse(message, -32602, "deliver_batch needs entries with a delivery and an event");
            return;
        }
        hasDelivered = true;
        Group group = new Group(message.idJson, entries.size());
        long now = System.nanoTime();
        List<Delivery> deliveries = new ArrayList<>(entries.size());
        for (Entry entry : entries) {
            Delivery delivery = new Delivery(this, entry, group, now);
            deliveries.add(delivery);
            open.put(delivery.id(), delivery);
        }
        if (isDraining) {
            deliveries.forEach(this::giveBack);
        } else {
            terms.dispatcher().acceptBatch(this, deliveries);
        }
    }

    private void onCancel(Message message) {
        Delivery delivery = message.cancelled == null ? null : open.get(message.cancelled);
        if (delivery != null) {
            delivery.cancel(message.reason == null ? "timeout" : message.reason);
            settle(delivery, null);
        }
    }

    private void refuse(Message message, int code, String text) {
        if (message.idJson != null) {
            send("{\"jsonrpc\":\"2.0\",\"id\":" + message.idJson + ",\"error\":{\"code\":" + code + ",\"message\":"
                    + Json.quote(text) + "}}\n");
        }
    }

    // Deliveries

    /** True if a function may have it now: the delivery is open, and the handler does not drain. */
    boolean begin(Delivery delivery, Work work) {
        if (isDraining) {
            giveBack(delivery);
            return false;
        }
        return delivery.start(work);
    }

    private void giveBack(Delivery delivery) {
        if (delivery.giveBack()) {
            settle(delivery, Answer.SKIPPED);
        }
    }

    /** Answers the delivery, unless it was answered or cancelled before. Null: it needs no answer. */
    void settle(Delivery delivery, Answer answer) {
        if (!open.remove(delivery.id(), delivery)) {
            return;
        }
        if (delivery.group() != null) {
            byte[] line = delivery.group().add(delivery, answer, maxLine);
            if (line != null) {
                sender.send(line);
            }
        } else if (answer != null) {
            sender.send(answer.line(delivery.idJson()));
        }
    }

    void extend(Delivery delivery, long timeoutMs) {
        delivery.setDeadlineAt(System.nanoTime() + toNanos(Duration.ofMillis(timeoutMs)));
        send("{\"jsonrpc\":\"2.0\",\"method\":\"extend\",\"params\":{\"delivery\":" + delivery.idJson()
                + ",\"timeout_ms\":" + Math.max(timeoutMs, 1) + "}}\n");
    }

    void setWindow(int maxInFlight) {
        if (isGreeted) {
            send("{\"jsonrpc\":\"2.0\",\"method\":\"window\",\"params\":{\"max_in_flight\":" + maxInFlight + "}}\n");
        }
    }

    // The clock

    /** Does what is due. Returns the nanoseconds until something is due again. */
    private long onClock() {
        long now = System.nanoTime();
        if (isDraining) {
            if (now - drainEndsAt >= 0) {
                LOG.log(Level.WARNING, "functions still run at the end of the drain: their messages come again");
                close();
            }
            return Math.min(drainEndsAt - now, untilTick(now));
        }
        if (isGreeted) {
            return untilTick(now);
        }
        if (now - startedAt >= HELLO_NANOS) {
            fail("no reply to hello");
        }
        return startedAt + HELLO_NANOS - now;
    }

    private long untilTick(long now) {
        long every = Math.min(timeoutNanos / 4, LONGEST_TICK_NANOS);
        if (now - tickedAt >= every) {
            tickedAt = now;
            extendAll(now);
        }
        return tickedAt + every - now;
    }

    /** Extends what has less than two thirds of its time left. */
    private void extendAll(long now) {
        for (Delivery delivery : open.values()) {
            boolean isDue = delivery.deadlineAt() - now < timeoutNanos / 3 * 2;
            long timeout = Math.min(timeoutNanos, toNanos(terms.extendUpTo()) - (now - delivery.receivedAt()));
            long gain = Math.min(timeout, now + timeout - delivery.deadlineAt());
            if (isDue && gain > TimeUnit.MILLISECONDS.toNanos(1)) {
                extend(delivery, TimeUnit.NANOSECONDS.toMillis(timeout));
            }
        }
    }

    // The end

    /** Asks inboxd to end the connection. Messages that no function has seen come again at once. */
    synchronized void drain(Duration timeout) {
        if (!isGreeted) {
            close();
        }
        if (!isGreeted || isDraining) {
            return;
        }
        drainEndsAt = System.nanoTime() + toNanos(timeout);
        isDraining = true;
        for (Delivery delivery : open.values()) {
            giveBack(delivery);
        }
        send("{\"jsonrpc\":\"2.0\",\"id\":" + DRAIN_ID + ",\"method\":\"drain\"}\n");
        sender.wake();
    }

    void close() {
        try {
            channel.close();
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "the connection to inboxd is closed", e);
        }
    }

    private void fail(String why) {
        LOG.log(Level.WARNING, "the connection to inboxd ends: {0}", why);
        close();
    }

    private void send(String line) {
        sender.send(line.getBytes(UTF_8));
    }

    /** Nanoseconds, at most a year: sums do not overflow. */
    private static long toNanos(Duration duration) {
        return TimeUnit.MILLISECONDS.toNanos(Math.min(Answer.millis(duration), TimeUnit.DAYS.toMillis(366)));
    }
}
