package io.inboxd.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.anyString;
import static org.mockito.Mockito.doThrow;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import io.inboxd.Delivery;
import io.inboxd.Event;
import io.inboxd.Payload;
import io.inboxd.Verdict;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Map;
import javax.sql.DataSource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.TransactionTemplate;

/** What commits and what rolls back. tests/languages of the repository has PostgreSQL. */
class SpringTransactionsTest {
    private final DataSource source = mock();
    private final Connection connection = mock();
    private final PreparedStatement statement = mock();
    private final DataSourceTransactionManager manager = new DataSourceTransactionManager(source);
    private final SpringTransactions transactions = new SpringTransactions(manager);
    private final Delivery delivery = Delivery.of("1.1.1", new Event(Map.of("id", "m"), Payload.TOMBSTONE));

    @BeforeEach
    void connect() throws SQLException {
        when(source.getConnection()).thenReturn(connection);
        when(connection.prepareStatement(anyString())).thenReturn(statement);
    }

    @Test
    void aCompletionInTheOpenTransactionCommitsWithIt() throws SQLException {
        new TransactionTemplate(manager).executeWithoutResult(status -> transactions.complete(delivery));
        verify(source, times(1)).getConnection();
        verify(statement).execute();
        verify(connection).commit();
    }

    @Test
    void aCompletionWithoutATransactionIsRefused() throws SQLException {
        IllegalStateException refused =
                assertThrows(IllegalStateException.class, () -> transactions.complete(delivery));
        assertTrue(refused.getMessage().contains("use @Transactional"), refused.getMessage());
        verify(statement, never()).execute();
    }

    /** A connection of this one would commit apart from the other one. */
    @Test
    void aTransactionOfAnotherManagerIsNone() throws SQLException {
        DataSource elsewhere = mock();
        when(elsewhere.getConnection()).thenReturn(mock(Connection.class));
        TransactionTemplate other = new TransactionTemplate(new DataSourceTransactionManager(elsewhere));
        other.executeWithoutResult(
                status -> assertThrows(IllegalStateException.class, () -> transactions.complete(delivery)));
        verify(statement, never()).execute();
    }

    @Test
    void aCompletionThatFailsRollsBackAlsoIfTheProgramGoesOn() throws SQLException {
        when(statement.execute()).thenThrow(new SQLException("claim 1.1.1 is lost", "IB001"));
        TransactionTemplate template = new TransactionTemplate(manager);
        assertThrows(
                UnexpectedRollbackException.class,
                () -> template.executeWithoutResult(
                        status -> assertThrows(DataAccessException.class, () -> transactions.complete(delivery))));
        verify(connection, never()).commit();
        verify(connection).rollback();
    }

    @Test
    void anotherVerdictRollsBackAndStays() throws Exception {
        Verdict verdict = delivery.transaction(transactions, ignored -> Verdict.retry("locked"));
        assertEquals(Verdict.retry("locked"), verdict);
        verify(connection).rollback();
        verify(statement, never()).execute();
    }

    /** The completion of an attempt that rolled back must not stand for that of the next one. */
    @Test
    void aRepeatedTransactionCompletesAgain() throws Exception {
        doThrow(new SQLException("deadlock", "40P01"))
                .doNothing()
                .when(connection)
                .commit();
        assertThrows(
                SQLException.class,
                () -> delivery.transaction(transactions, ignored -> {
                    transactions.complete(delivery);
                    return Verdict.done();
                }));
        assertEquals(Verdict.settled(), delivery.transaction(transactions, ignored -> Verdict.done()));
        verify(statement, times(2)).execute();
    }

    /** The same for a completion in a transaction of the program. */
    @Test
    void aTransactionAfterOneThatRolledBackCompletesAgain() throws Exception {
        new TransactionTemplate(manager).executeWithoutResult(status -> {
            transactions.complete(delivery);
            status.setRollbackOnly();
        });
        delivery.transaction(transactions, ignored -> Verdict.done());
        verify(statement, times(2)).execute();
    }

    @Test
    void aFunctionThatHasCompletedIsNotCompletedTwice() throws Exception {
        delivery.transaction(transactions, ignored -> {
            transactions.complete(delivery);
            return Verdict.done();
        });
        verify(statement, times(1)).execute();
    }

    @Test
    void anErrorOfTheDatabaseAtTheCommitIsThrownAsItIs() throws Exception {
        doThrow(new SQLException("away", "57P01")).when(connection).commit();
        SQLException thrown =
                assertThrows(SQLException.class, () -> delivery.transaction(transactions, ignored -> Verdict.done()));
        assertEquals("57P01", thrown.getSQLState());
    }
}
