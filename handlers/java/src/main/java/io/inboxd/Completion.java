package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import javax.sql.DataSource;

/** Calls {@code inbox.complete()} by JDBC. */
final class Completion {
    private static final String ONE = "SELECT inbox.complete(CAST(? AS text), CAST(CAST(? AS text) AS jsonb))";
    private static final String ONE_WITH_EVENTS =
            "SELECT inbox.complete(CAST(? AS text), CAST(CAST(? AS text) AS jsonb), CAST(CAST(? AS text) AS jsonb))";
    private static final String ALL = "SELECT inbox.complete(CAST(? AS text[]))";
    private static final String ALL_WITH_RESULTS =
            "SELECT inbox.complete(CAST(? AS text[]), CAST(CAST(? AS text[]) AS jsonb[]))";

    private static final Method SPRING_HAS_TRANSACTION = springHasTransaction();

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
     * Calls the work in a transaction. Commits and returns true if the work returns true. Otherwise, and after an exception, it rolls
     * back, and the deliveries forget what the work has said that needs the transaction.
     */
    static boolean transact(DataSource source, List<Delivery> deliveries, TransactionalWork work) throws Exception {
        refuseBesideSpring();
        List<Runnable> forget = deliveries.stream().map(Delivery::remember).toList();
        boolean isCommitted = false;
        try (Connection connection = source.getConnection()) {
            boolean commitsByItself = connection.getAutoCommit();
            connection.setAutoCommit(false);
            try {
                if (work.commits(connection)) {
                    connection.commit();
                    isCommitted = true;
                } else {
                    connection.rollback();
                }
            } catch (Throwable e) {
                rollBack(connection, e);
                throw e;
            }
            connection.setAutoCommit(commitsByItself); // not after a failure: it could commit
        } finally {
            if (!isCommitted) {
                forget.forEach(Runnable::run);
            }
        }
        return isCommitted;
    }

    /** Another connection would commit the completion before the transaction that Spring has begun in this thread. */
    private static void refuseBesideSpring() throws ReflectiveOperationException {
        if (SPRING_HAS_TRANSACTION != null && (Boolean) SPRING_HAS_TRANSACTION.invoke(null)) {
            throw new IllegalStateException(
                    "transaction() would commit apart from the transaction of Spring that is open in"
                            + " this thread: call complete(DataSourceUtils.getConnection(source)) instead, or leave out @Transactional");
        }
    }

    /** Null without Spring: this library does not need it. */
    private static Method springHasTransaction() {
        try {
            return Class.forName("org.springframework.transaction.support.TransactionSynchronizationManager")
                    .getMethod("isActualTransactionActive");
        } catch (ReflectiveOperationException | LinkageError e) {
            return null;
        }
    }

    /** What a transaction consists of. */
    interface TransactionalWork {
        boolean commits(Connection connection) throws Exception;
    }

    private static void rollBack(Connection connection, Throwable reason) {
        try {
            connection.rollback();
        } catch (SQLException e) {
            reason.addSuppressed(e); // the connection is lost, and its transaction with it
        }
    }
}
