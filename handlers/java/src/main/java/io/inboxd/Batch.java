package io.inboxd;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import javax.sql.DataSource;

/**
 * The deliveries that a function for batches gets together.
 *
 * <p>In an ordered batch, a loop over the batch leaves out the messages behind one that has got a verdict like a retry by {@link
 * Delivery#setVerdict}. They come again after it, in order.
 */
public final class Batch implements Iterable<Delivery> {
    private final List<Delivery> deliveries;
    private final String ordering;

    Batch(List<Delivery> deliveries, String ordering) {
        this.deliveries = List.copyOf(deliveries);
        this.ordering = ordering;
    }

    /**
     * A batch without inboxd and without order, for tests of your functions.
     *
     * @param deliveries at least one
     * @return the batch
     */
    public static Batch of(List<Delivery> deliveries) {
        return new Batch(deliveries, "none");
    }

    /** {@return all deliveries, in order} */
    public List<Delivery> deliveries() {
        return deliveries;
    }

    /** {@return the number of deliveries} */
    public int size() {
        return deliveries.size();
    }

    /** {@return a loop that leaves out the messages behind an unfinished one} */
    @Override
    public Iterator<Delivery> iterator() {
        return new Remaining();
    }

    /** Decides about a message when the loop reaches it, because the verdicts of the former ones come in the meantime. */
    private final class Remaining implements Iterator<Delivery> {
        private final Set<Object> failed = new HashSet<>();
        private int next;
        private int judged;

        @Override
        public boolean hasNext() {
            while (next < deliveries.size() && isBehindUnfinished()) {
                next++;
            }
            return next < deliveries.size();
        }

        private boolean isBehindUnfinished() {
            for (; judged < next; judged++) {
                Delivery delivery = deliveries.get(judged);
                if (isUnfinished(delivery.verdict())) {
                    failed.add(delivery.lane(ordering));
                }
            }
            return failed.contains(deliveries.get(next).lane(ordering));
        }

        private boolean isUnfinished(Verdict verdict) {
            return verdict instanceof Verdict.Retry
                    || verdict instanceof Verdict.Snooze
                    || verdict instanceof Verdict.Skipped;
        }

        @Override
        public Delivery next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return deliveries.get(next++);
        }
    }

    /**
     * Completes, in a transaction of your own, every message that has no verdict by {@link Delivery#setVerdict}: all or none.
     *
     * @param connection to the database of the inbox, with an open transaction
     * @throws ClaimLostException if one of the messages is not yours any more; let it pass, and roll back
     * @throws SQLException if the call fails
     */
    public void complete(Connection connection) throws SQLException {
        complete(connection, null);
    }

    /**
     * Completes the messages like {@link #complete(Connection)}, with results.
     *
     * @param connection to the database of the inbox, with an open transaction
     * @param results one for each message without a verdict, or null for none; an element may be null, too
     * @throws ClaimLostException if one of the messages is not yours any more; let it pass, and roll back
     * @throws SQLException if the call fails
     */
    public void complete(Connection connection, List<?> results) throws SQLException {
        List<Delivery> chosen = withoutVerdict();
        completeAll(connection, chosen, results);
        chosen.forEach(Delivery::setCompleted);
    }

    /**
     * Calls a function in a transaction, completes in it every message that has no verdict by {@link Delivery#setVerdict}, and
     * commits. If anything fails, it rolls back.
     *
     * @param source connections to the database of the inbox
     * @param work makes the effects
     * @throws IllegalStateException if a transaction of Spring is open in this thread, because this one would commit apart from it
     * @throws Exception what the work, or the database, throws; let it pass
     */
    public void transaction(DataSource source, BatchTransaction work) throws Exception {
        transaction(Transactions.of(source), work);
    }

    /**
     * Calls a function in a transaction of a framework, like {@link #transaction(DataSource, BatchTransaction)}. The function may
     * complete messages by itself.
     *
     * @param transactions makes the transaction
     * @param work makes the effects
     * @throws Exception what the work, or the database, throws; let it pass
     */
    public void transaction(Transactions transactions, BatchTransaction work) throws Exception {
        List<Delivery> chosen = new ArrayList<>();
        Completion.transact(transactions, deliveries, connection -> {
            work.apply(connection);
            chosen.addAll(withoutVerdict());
            chosen.removeIf(Delivery::isCompleted);
            completeAll(connection, chosen, null);
            return true;
        });
        chosen.forEach(Delivery::setCompleted);
    }

    private void completeAll(Connection connection, List<Delivery> chosen, List<?> results) throws SQLException {
        List<String> claims = chosen.stream().map(Delivery::claim).toList();
        Completion.all(connection, claims, results, deliveries.get(0).mapper());
    }

    private List<Delivery> withoutVerdict() {
        List<Delivery> chosen = new ArrayList<>();
        forEach(delivery -> {
            if (delivery.verdict() == null) {
                chosen.add(delivery);
            }
        });
        return chosen;
    }

    /** The deliveries of each lane, in order. */
    Collection<List<Delivery>> lanes() {
        Map<Object, List<Delivery>> lanes = new LinkedHashMap<>();
        for (Delivery delivery : deliveries) {
            lanes.computeIfAbsent(delivery.lane(ordering), lane -> new ArrayList<>())
                    .add(delivery);
        }
        return lanes.values();
    }
}
