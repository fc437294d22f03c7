package io.inboxd;

import static io.inboxd.Sidecar.assertJson;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** What a transaction decides about a message. tests/languages of the repository has transactions with PostgreSQL. */
@Timeout(20)
class TransactionTest {
    private static final Emit MADE = Emit.to("invoices", "made");

    private final List<String> calls = new ArrayList<>();
    private SQLException commitFails;
    private boolean autoCommit = true;
    private Sidecar sidecar;

    @BeforeEach
    void open() throws Exception {
        sidecar = new Sidecar();
    }

    @AfterEach
    void close() throws Exception {
        sidecar.close();
    }

    private interface Method {
        Object call(String name, Object[] arguments) throws Throwable;
    }

    private static <T> T make(Class<T> type, Method method) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (proxy, called, arguments) -> switch (called.getName()) {
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == arguments[0];
                    default -> method.call(called.getName(), Objects.requireNonNullElse(arguments, new Object[0]));
                }));
    }

    private final DataSource source =
            make(DataSource.class, (name, arguments) -> make(Connection.class, this::connection));

    private Object connection(String name, Object[] arguments) throws SQLException {
        switch (name) {
            case "prepareStatement", "createArrayOf" -> {
                return name.startsWith("create") ? null : make(PreparedStatement.class, this::statement);
            }
            case "getAutoCommit" -> {
                return autoCommit;
            }
            case "setAutoCommit" -> autoCommit = (Boolean) arguments[0];
            case "commit", "rollback" -> calls.add(name);
            default -> {
                return name.startsWith("is") ? (Object) false : name.equals("getTransactionIsolation") ? 2 : null;
            }
        }
        if (name.equals("commit") && commitFails != null) {
            throw commitFails;
        }
        return null;
    }

    private Object statement(String name, Object[] arguments) {
        if (name.equals("execute")) {
            calls.add("complete");
        }
        return name.equals("execute") ? (Object) true : null;
    }

    private void expect(String answer, MessageFunction function) throws Exception {
        sidecar.start(function);
        sidecar.accept();
        sidecar.deliver(1);
        assertJson(answer, sidecar.answer());
    }

    @Test
    void theVerdictOfTheTransactionCounts() throws Exception {
        expect("{'status':'retry','reason':'locked'}", delivery -> {
            delivery.transaction(source, connection -> Verdict.retry("locked"));
            return Verdict.done();
        });
        assertEquals(List.of("rollback"), calls);
    }

    @Test
    void eventsBesideTheVerdictOfATransactionAreAnError() throws Exception {
        expect(
                "{'status':'retry','code':'IllegalStateException','reason':'IllegalStateException: the events of the verdict"
                        + " are lost, because a transaction has decided about the message: give them to the verdict in it'}",
                delivery -> {
                    delivery.transaction(source, connection -> Verdict.retry("locked"));
                    return Verdict.done().emit(MADE);
                });
    }

    @Test
    void eventsAfterTheTransactionAreAnError() throws Exception {
        expect(
                "{'status':'retry','code':'IllegalStateException','reason':'IllegalStateException: the events of the verdict"
                        + " are lost, because a transaction has decided about the message: give them to the verdict in it'}",
                delivery -> {
                    delivery.transaction(source, connection -> Verdict.done());
                    return Verdict.done().emit(MADE);
                });
    }

    @Test
    void aTransactionThatCommitsSettlesTheMessage() throws Exception {
        expect("{'status':'settled'}", delivery -> {
            delivery.transaction(source, connection -> Verdict.retry("locked"));
            delivery.transaction(source, connection -> Verdict.done());
            return Verdict.done();
        });
        assertEquals(List.of("rollback", "complete", "commit"), calls);
    }

    @Test
    void aFailureOfTheFunctionCountsAfterARollback() throws Exception {
        expect("{'status':'dead','reason':'gave up'}", delivery -> {
            delivery.transaction(source, connection -> Verdict.retry("locked"));
            return Verdict.dead("gave up");
        });
    }

    @Test
    void aTransactionThatThrowsDoesNotDecide() throws Exception {
        commitFails = new SQLException("twice", "23505");
        expect("{'status':'done'}", delivery -> {
            assertThrows(SQLException.class, () -> delivery.transaction(source, connection -> Verdict.done()));
            return Verdict.done(); // it succeeds in another way
        });
    }

    @Test
    void aTransactionWithoutAVerdictRollsBack() throws Exception {
        expect(
                "{'status':'retry','code':'NullPointerException','reason':'NullPointerException: the function returned null"
                        + " instead of a verdict'}",
                delivery -> delivery.transaction(source, connection -> null));
        assertEquals(List.of("rollback"), calls);
    }

    @Test
    void aRolledBackTransactionOfABatchLeavesNoCompletion() throws Exception {
        commitFails = new SQLException("twice", "23505");
        Batch batch = Batch.of(List.of(delivery(1), delivery(2)));
        Delivery first = batch.deliveries().get(0);
        Delivery second = batch.deliveries().get(1);
        assertThrows(
                SQLException.class,
                () -> batch.transaction(source, connection -> {
                    first.complete(connection);
                    first.setVerdict(Verdict.settled()); // completed alone
                    second.setVerdict(Verdict.dead("no vat"));
                }));
        assertEquals(null, first.verdict());
        assertEquals(false, first.isCompleted());
        assertEquals(Verdict.dead("no vat"), second.verdict());
    }

    private static Delivery delivery(int number) {
        return Delivery.of(number + ".1.17", new Event(Map.of("id", "A" + number), Payload.TOMBSTONE));
    }

    @Test
    void aTransactionBesideThatOfSpringIsRefused() {
        TransactionTemplate template = new TransactionTemplate(new DataSourceTransactionManager(source));
        Delivery delivery = delivery(1);
        Batch batch = Batch.of(List.of(delivery));
        template.executeWithoutResult(status -> {
            for (Executable work : List.<Executable>of(
                    () -> delivery.transaction(source, connection -> Verdict.done()),
                    () -> batch.transaction(source, connection -> {}))) {
                Exception refused = assertThrows(IllegalStateException.class, work);
                assertTrue(refused.getMessage().contains("DataSourceUtils.getConnection"), refused.getMessage());
            }
            status.setRollbackOnly();
        });
        assertEquals(List.of("rollback"), calls); // only that of Spring
    }
}
