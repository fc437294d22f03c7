package io.inboxd;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import javax.sql.DataSource;

/** One message, delivered once. The message is identified by the source and the id of its {@link #event()}. */
public final class Delivery {
    private enum State {
        WAITING, // no function has it
        STARTED,
        GIVEN_BACK
    }

    static final String NO_VERDICT = "the function returned null instead of a verdict";

    private final Entry entry;
    private final Session session; // null in tests of functions
    private final Group group; // null if it came alone
    private final long receivedAt; // System.nanoTime()
    private volatile long deadlineAt;
    private State state = State.WAITING;
    private Work work;
    private volatile String cancelReason;
    private volatile Verdict verdict;
    private volatile boolean isCompleted;

    Delivery(Session session, Entry entry, Group group, long now) {
        this.session = session;
        this.entry = entry;
        this.group = group;
        this.receivedAt = now;
        this.deadlineAt = session == null ? now : now + session.timeoutNanos();
    }

    /**
     * A delivery without inboxd, for tests of your functions.
     *
     * @param claim the argument of {@code inbox.complete()}
     * @param event the event
     * @return the first attempt, without headers
     */
    public static Delivery of(String claim, Event event) {
        return new Delivery(null, Entry.of(claim, event), null, 0);
    }

    /** {@return the id of this delivery; another delivery of the message has another one} */
    public String id() {
        return entry.id;
    }

    /** {@return the event of the message} */
    public Event event() {
        return entry.event;
    }

    /** {@return the headers of the Kafka record that are no attributes of the event, in order; a name may stand there several times} */
    public List<Header> headers() {
        return entry.headers;
    }

    /**
     * A header of the Kafka record.
     *
     * @param name its name
     * @return the last header with this name
     */
    public Optional<Header> header(String name) {
        return entry.headers.stream()
                .filter(header -> header.name().equals(name))
                .reduce((former, later) -> later);
    }

    /** {@return the argument of {@code inbox.complete()}, which {@link #complete} passes} */
    public String claim() {
        return entry.claim;
    }

    /** {@return the row in {@code inbox_messages}} */
    public long seq() {
        return entry.seq;
    }

    /** {@return which attempt this is; 1 is the first} */
    public int attempt() {
        return entry.attempt;
    }

    /** {@return after that many failed attempts the message is dead} */
    public int maxAttempts() {
        return entry.maxAttempts;
    }

    /** {@return the first deadline, by the clock of inboxd; {@link #extend} does not change it} */
    public Optional<OffsetDateTime> deadline() {
        return Optional.ofNullable(entry.deadline).map(OffsetDateTime::parse);
    }

    /** {@return true if an operator asked for another run: the message may have been processed before} */
    public boolean isReplay() {
        return entry.isReplay;
    }

    /** {@return the consumer, if the configuration of inboxd has several} */
    public Optional<String> consumer() {
        return Optional.ofNullable(entry.consumer);
    }

    /**
     * Why the delivery was cancelled. The thread of the function is also interrupted.
     *
     * @return {@code timeout}, {@code lease_lost}, {@code shutdown} or {@code connection_lost}; empty if it was not cancelled
     */
    public Optional<String> cancelReason() {
        return Optional.ofNullable(cancelReason);
    }

    /** {@return true if inboxd does not wait for an answer any more} */
    public boolean isCancelled() {
        return cancelReason != null;
    }

    /**
     * For functions that look at the delivery between the steps of long work.
     *
     * @throws CancelledException if the delivery was cancelled
     */
    public void throwIfCancelled() {
        String reason = cancelReason;
        if (reason != null) {
            throw new CancelledException(reason);
        }
    }

    /**
     * Moves the deadline. The library does this by itself for every message that it holds ({@link Handler.Builder#extendUpTo}).
     *
     * @param timeout counts from now
     * @throws CancelledException if the delivery was cancelled
     */
    public void extend(Duration timeout) {
        throwIfCancelled();
        if (session != null) {
            session.extend(this, Answer.millis(timeout));
        }
    }

    /**
     * In a function for batches: the verdict of this message alone.
     *
     * @param verdict what a function for one message would return
     */
    public void setVerdict(Verdict verdict) {
        this.verdict = verdict;
    }

    /**
     * Completes the message in a transaction of your own: its effects and the completion commit together, or neither. Commit, and
     * return {@link Verdict#done()}.
     *
     * @param connection to the database of the inbox, with an open transaction
     * @throws ClaimLostException if the message is not yours any more; let it pass, and roll back
     * @throws SQLException if the call fails
     */
    public void complete(Connection connection) throws SQLException {
        complete(connection, Verdict.done());
    }

    /**
     * Completes the message like {@link #complete(Connection)}, with a result or with events to publish.
     *
     * @param connection to the database of the inbox, with an open transaction
     * @param done the result and the events
     * @throws ClaimLostException if the message is not yours any more; let it pass, and roll back
     * @throws SQLException if the call fails
     */
    public void complete(Connection connection, Verdict.Done done) throws SQLException {
        Completion.one(connection, claim(), done, mapper());
        isCompleted = true;
    }

    /**
     * Calls a function in a transaction, completes the message in it, and commits. If anything fails, it rolls back. If the function
     * returns another verdict than {@link Verdict.Done}, it rolls back, too.
     *
     * <p>The verdict is that of the message, also if the function for messages returns {@link Verdict#done()} later.
     *
     * @param source connections to the database of the inbox
     * @param work makes the effects
     * @return what a function for messages returns
     * @throws IllegalStateException if a transaction of Spring is open in this thread, because this one would commit apart from it
     * @throws Exception what the work, or the database, throws; let it pass
     */
    public Verdict transaction(DataSource source, TransactionFunction work) throws Exception {
        return transaction(Transactions.of(source), work);
    }

    /**
     * Calls a function in a transaction of a framework, like {@link #transaction(DataSource, TransactionFunction)}. The function may
     * complete the message by itself.
     *
     * @param transactions makes the transaction
     * @param work makes the effects
     * @return what a function for messages returns
     * @throws Exception what the work, or the database, throws; let it pass
     */
    public Verdict transaction(Transactions transactions, TransactionFunction work) throws Exception {
        Verdict[] returned = new Verdict[1];
        boolean isCommitted = Completion.transact(transactions, List.of(this), connection -> {
            returned[0] = Objects.requireNonNull(work.apply(connection), NO_VERDICT);
            if (!(returned[0] instanceof Verdict.Done done)) {
                return false;
            }
            if (!isCompleted) {
                Completion.one(connection, claim(), done, mapper());
            } else {
                Dispatcher.refuseLateEvents(done);
            }
            return true;
        });
        isCompleted |= isCommitted;
        verdict = isCommitted ? Verdict.settled() : returned[0];
        return verdict;
    }

    /** Returns what makes a transaction undone that does not commit. A verdict that is a failure needs no transaction, and stays. */
    Runnable remember() {
        boolean wasCompleted = isCompleted;
        Verdict before = verdict;
        isCompleted = false; // from here on, it means the transaction
        return () -> {
            isCompleted = wasCompleted;
            if (verdict instanceof Verdict.Done || verdict instanceof Verdict.Settled) {
                verdict = before;
            }
        };
    }

    /** The verdict of a transaction, or the one that was set; null if there is none. */
    Verdict decided() {
        return isCompleted ? Verdict.settled() : verdict;
    }

    /** Names the delivery, without its payload. */
    @Override
    public String toString() {
        return "delivery " + id() + " (attempt " + attempt() + " of " + event() + ")";
    }

    ObjectMapper mapper() {
        return session == null ? Json.MAPPER : session.mapper();
    }

    Session session() {
        return session;
    }

    Group group() {
        return group;
    }

    /** The id as the line had it. */
    String idJson() {
        return entry.idJson;
    }

    Verdict verdict() {
        return verdict;
    }

    boolean isCompleted() {
        return isCompleted;
    }

    void setCompleted() {
        isCompleted = true;
    }

    long receivedAt() {
        return receivedAt;
    }

    long deadlineAt() {
        return deadlineAt;
    }

    void setDeadlineAt(long deadlineAt) {
        this.deadlineAt = deadlineAt;
    }

    /** True if the function may have it now. */
    synchronized boolean start(Work work) {
        if (state != State.WAITING || cancelReason != null) {
            return false;
        }
        state = State.STARTED;
        this.work = work;
        work.add();
        return true;
    }

    /** True if no function has it, and none will get it. */
    synchronized boolean giveBack() {
        if (state != State.WAITING) {
            return false;
        }
        state = State.GIVEN_BACK;
        return true;
    }

    synchronized void cancel(String reason) {
        if (cancelReason == null) {
            cancelReason = reason;
            if (work != null) {
                work.cancelOne();
            }
        }
    }

    /** What messages that must be processed one after the other have in common. A message without order has its own. */
    Object lane(String ordering) {
        Event event = event();
        if (ordering.equals("partition")) {
            return List.of(event.topic(), event.partition());
        }
        Optional<byte[]> key = ordering.equals("none") ? Optional.empty() : event.key();
        return key.isEmpty() ? this : List.of(event.topic(), event.partition(), ByteBuffer.wrap(key.get()));
    }
}
