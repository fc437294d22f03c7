package io.inboxd;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.postgresql.ds.PGSimpleDataSource;

/** Completes messages that a handler has: CompleteWithJdbc FUNCTION. tests/languages of the repository calls it. */
public final class CompleteWithJdbc {
    private static final PGSimpleDataSource SOURCE = new PGSimpleDataSource();

    private CompleteWithJdbc() {}

    public static void main(String[] args) throws Exception {
        SOURCE.setServerNames(new String[] {System.getenv("PGHOST")});
        SOURCE.setPortNumbers(new int[] {Integer.parseInt(System.getenv("PGPORT"))});
        SOURCE.setDatabaseName(System.getenv("PGDATABASE"));
        SOURCE.setUser(System.getenv("PGUSER"));
        switch (args[0]) {
            case "inOwnTransaction" -> inOwnTransaction();
            case "inTransaction" -> inTransaction();
            case "withAnotherVerdict" -> withAnotherVerdict();
            case "withEvents" -> withEvents();
            case "aBatch" -> aBatch();
            case "aBatchWithEvents" -> aBatchWithEvents();
            case "aRepeatedBatch" -> aRepeatedBatch();
            case "lost" -> lost();
            case "lostAlone" -> lostAlone();
            case "withoutTransaction" -> withoutTransaction();
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static Delivery delivery(int number) {
        Event event = new Event(Map.of("id", "m" + number, "source", "s"), Payload.TOMBSTONE);
        return Delivery.of((9000 + number) + ".1.17", event);
    }

    private static Batch batch(int... numbers) {
        return Batch.of(
                IntStream.of(numbers).mapToObj(CompleteWithJdbc::delivery).toList());
    }

    private static void createTable(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE effects ()");
        }
    }

    private static void inOwnTransaction() throws SQLException {
        try (Connection connection = SOURCE.getConnection()) {
            connection.setAutoCommit(false);
            delivery(1).complete(connection, Verdict.done(Map.of("invoice", 1)));
            delivery(2).complete(connection);
            connection.commit();
        }
    }

    private static void inTransaction() throws Exception {
        Verdict verdict = delivery(1).transaction(SOURCE, connection -> {
            createTable(connection);
            return Verdict.done(Map.of("table", "effects"));
        });
        System.out.println(verdict);
    }

    private static void withAnotherVerdict() throws Exception {
        Verdict verdict = delivery(1).transaction(SOURCE, connection -> {
            createTable(connection);
            return Verdict.dead("no vat");
        });
        System.out.println(verdict);
    }

    private static void withEvents() throws Exception {
        Emit made = Emit.to("invoices", "made").key("c-1").data(Map.of("n", 1)).headers(Map.of("h", "1"));
        Emit raw = Emit.to("invoices", "raw").data(new byte[] {-1});
        delivery(1).transaction(SOURCE, connection -> Verdict.done().emit(made, raw));
    }

    private static void aBatch() throws SQLException {
        Batch batch = batch(1, 2, 3);
        batch.deliveries().get(1).setVerdict(Verdict.retry("locked"));
        try (Connection connection = SOURCE.getConnection()) {
            connection.setAutoCommit(false);
            batch.complete(connection, Arrays.asList(Map.of("n", 1), null));
            connection.commit();
        }
    }

    private static void aBatchWithEvents() throws SQLException {
        Batch batch = batch(1, 2, 3);
        Delivery second = batch.deliveries().get(1);
        try (Connection connection = SOURCE.getConnection()) {
            connection.setAutoCommit(false);
            second.complete(connection, Verdict.done().emit(Emit.to("invoices", "made")));
            second.setVerdict(Verdict.settled());
            batch.complete(connection, Arrays.asList(Map.of("n", 1), null));
            connection.commit();
        }
    }

    private static void aRepeatedBatch() throws SQLException {
        Batch batch = batch(1, 2, 3);
        try (Connection connection = SOURCE.getConnection()) {
            connection.setAutoCommit(false);
            batch.deliveries().get(1).complete(connection);
            connection.rollback();
            batch.complete(connection);
            connection.commit();
        }
    }

    private static void lost() throws Exception {
        try {
            batch(1, 7).transaction(SOURCE, CompleteWithJdbc::createTable);
        } catch (ClaimLostException e) {
            System.out.println(e.claim() + " " + e.getSQLState());
        }
    }

    private static void lostAlone() throws Exception {
        try {
            delivery(7).transaction(SOURCE, connection -> {
                createTable(connection);
                return Verdict.done();
            });
        } catch (ClaimLostException e) {
            System.out.println(e.claim() + " " + e.getSQLState());
        }
    }

    private static void withoutTransaction() throws SQLException {
        try (Connection connection = SOURCE.getConnection()) {
            for (Delivery delivery : List.of(delivery(1), delivery(2))) {
                try {
                    delivery.complete(connection);
                } catch (IllegalStateException e) {
                    System.out.println(e.getMessage());
                }
            }
        }
    }
}
