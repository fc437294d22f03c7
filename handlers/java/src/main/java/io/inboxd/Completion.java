package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;

/** Calls {@code inbox.complete()} by JDBC. */
final class Completion {
    private static final String ONE = "SELECT inbox.complete(CAST(? AS text), CAST(CAST(? AS text) AS jsonb))";
    private static final String ONE_WITH_EVENTS =
            "SELECT inbox.complete(CAST(? AS text), CAST(CAST(? AS text) AS jsonb), CAST(CAST(? AS text) AS jsonb))";
    private static final String ALL = "SELECT inbox.complete(CAST(? AS text[]))";
    private static final String ALL_WITH_RESULTS =
            "SELECT inbox.complete(CAST(? AS text[]), CAST(CAST(? AS text[]) AS jsonb[]))";

    private Completion() {}

    /** Completes one message. */
    static void one(Connection connection, String claim, Verdict.Done done, ObjectMapper mapper) throws SQLException {
        String result = done.result() == null ? null : json(mapper, done.result());
        boolean hasEvents = !done.emit().isEmpty();
        call(connection, hasEvents ? ONE_WITH_EVENTS : ONE, statement -> {
            statement.setString(1, claim);
            statement.setString(2, result);
            if (hasEvents) {
                statement.setString(3, events(mapper, done.emit()));
            }
        });
    }

    /** Completes several messages, all of them or none. Results may be null; otherwise there is one for each claim. */
    static void all(Connection connection, List<String> claims, List<?> results, ObjectMapper mapper)
            throws SQLException {
        String[] written = results == null
                ? null
                : results.stream()
                        .map(result -> result == null ? null : json(mapper, result))
                        .toArray(String[]::new);
        call(connection, written == null ? ALL : ALL_WITH_RESULTS, statement -> {
            statement.setArray(1, connection.createArrayOf("text", claims.toArray()));
            if (written != null) {
                statement.setArray(2, connection.createArrayOf("text", written));
            }
        });
    }

    /** Sets the parameters of a statement. */
    private interface Parameters {
        void set(PreparedStatement statement) throws SQLException;
    }

    private static void call(Connection connection, String sql, Parameters parameters) throws SQLException {
        // Without a transaction the completion would commit alone, before the effects.
        if (connection.getAutoCommit()) {
            throw new IllegalStateException(
                    "complete() needs a connection with an open transaction: setAutoCommit(false), or transaction()");
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            parameters.set(statement);
            statement.execute();
        } catch (SQLException e) {
            throw ClaimLostException.SQLSTATE.equals(e.getSQLState()) ? new ClaimLostException(e.getMessage(), e) : e;
        }
    }

    private static String json(ObjectMapper mapper, Object value) {
        try {
            return Json.write(mapper, value);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("the result cannot be written as JSON: " + e.getOriginalMessage(), e);
        }
    }

    private static String events(ObjectMapper mapper, List<Emit> events) {
        try {
            return Answer.emit(events, mapper);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("an event cannot be written as JSON: " + e.getOriginalMessage(), e);
        }
    }

    /**
     * Calls the work in a transaction, and returns whether it has committed. If not, the deliveries forget what the work has said that
     * needs the transaction.
     */
    static boolean transact(Transactions transactions, List<Delivery> deliveries, Transactions.Work work)
            throws Exception {
        List<Runnable> forget = deliveries.stream().map(Delivery::remember).toList();
        boolean isCommitted = false;
        try {
            isCommitted = transactions.run(work);
        } finally {
            if (!isCommitted) {
                forget.forEach(Runnable::run);
            }
        }
        return isCommitted;
    }
}
