package io.inboxd;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Sends lines in a thread of its own. Lines that come while it sends are sent together.
 *
 * <p>The threads of functions must not write to the channel: an interrupt during a write would close it, and they would wait while
 * inboxd does not read. The thread also calls a clock, which says when it is due again.
 */
final class Sender {
    private static final int CHUNK = 65_536;
    private static final int KEPT_MAX = 1 << 20;

    private final SocketChannel channel;
    private final LongSupplier clock; // nanoseconds until the next call
    private final Thread thread = new Thread(this::run, "inboxd-sender");
    private byte[] pending = new byte[CHUNK];
    private byte[] spare = new byte[CHUNK];
    private int length;
    private boolean isWoken;
    private boolean isEnded;

    Sender(SocketChannel channel, LongSupplier clock) {
        this.channel = channel;
        this.clock = clock;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Does not block. Any thread. */
    synchronized void send(byte[] line) {
        if (isEnded) {
            return;
        }
        if (pending.length - length < line.length) {
            pending = Arrays.copyOf(pending, Math.max(2 * pending.length, length + line.length));
        }
        System.arraycopy(line, 0, pending, length, line.length);
        if (length == 0) {
            notifyAll();
        }
        length += line.length;
    }

    /** Calls the clock now. */
    synchronized void wake() {
        isWoken = true;
        notifyAll();
    }

    /** Ends the thread. The channel must be closed. */
    void end() {
        synchronized (this) {
            isEnded = true;
            notifyAll();
        }
    }

    private void run() {
        try {
            while (true) {
                int count = take(clock.getAsLong());
                if (count < 0) {
                    return;
                }
                write(spare, count);
                if (spare.length > KEPT_MAX) {
                    spare = new byte[CHUNK];
                }
            }
        } catch (IOException | InterruptedException e) {
            // The reader of the session sees the end of the connection.
            closeQuietly();
        }
    }

    /** Waits for lines, at most until the clock is due, and puts them into the spare buffer. Returns their length; -1 is the end. */
    private synchronized int take(long nanos) throws InterruptedException {
        if (length == 0 && !isEnded && !isWoken && nanos > 0) {
            TimeUnit.NANOSECONDS.timedWait(this, Math.max(nanos, 1_000_000));
        }
        isWoken = false;
        if (isEnded) {
            return -1;
        }
        byte[] taken = pending;
        pending = spare;
        spare = taken;
        int count = length;
        length = 0;
        return count;
    }

    private void write(byte[] lines, int count) throws IOException {
        for (int start = 0; start < count; ) {
            start += channel.write(ByteBuffer.wrap(lines, start, Math.min(CHUNK, count - start)));
        }
    }

    private void closeQuietly() {
        try {
            channel.close();
        } catch (IOException e) {
            // it is closed as far as it can be
        }
    }
}
