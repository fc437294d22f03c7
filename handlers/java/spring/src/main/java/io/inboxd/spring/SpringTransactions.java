package io.inboxd.spring;

import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Emit;
import io.inboxd.Outbox;
import io.inboxd.Transactions;
import io.inboxd.Verdict;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Objects;
import javax.sql.DataSource;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.ResourceTransactionManager;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.util.ReflectionUtils;

/**
 * Transactions of Spring: those of JdbcTemplate, JPA (Hibernate), jOOQ, and everything else that takes part in {@code @Transactional}.
 *
 * <p>In a transaction that is open, {@link #complete(Delivery)} completes a message. Without one, {@code delivery.transaction(this, …)}
 * makes it, and {@code new IdempotencyFilter(this, rules)} makes one for each request.
 */
public final class SpringTransactions implements Transactions {
    private static final String FAILED_BEFORE = "25P02"; // in_failed_sql_transaction
    private static final TransactionDefinition OPEN =
            new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_MANDATORY);

    private final PlatformTransactionManager manager;
    private final TransactionDefinition definition;

    /**
     * Transactions with the usual properties.
     *
     * @param manager of the database of the inbox: DataSourceTransactionManager, JdbcTransactionManager or JpaTransactionManager
     */
    public SpringTransactions(PlatformTransactionManager manager) {
        this(manager, new DefaultTransactionDefinition());
    }

    /**
     * Transactions with properties of their own.
     *
     * @param manager of the database of the inbox: DataSourceTransactionManager, JdbcTransactionManager or JpaTransactionManager
     * @param definition for example the isolation level
     */
    public SpringTransactions(PlatformTransactionManager manager, TransactionDefinition definition) {
        this.manager = Objects.requireNonNull(manager, "manager");
        this.definition = Objects.requireNonNull(definition, "definition");
    }

    /**
     * Calls the work in a transaction that is bound to the thread, or in the one that is open.
     *
     * @param work is called once
     * @return what the work has returned
     * @throws Exception what the work throws; a {@link SQLException} if the transaction cannot begin or commit
     */
    @Override
    public boolean run(Work work) throws Exception {
        TransactionStatus status = begin();
        boolean commits;
        try {
            commits = onConnection(work);
        } catch (Throwable e) {
            rollBack(status, e);
            throw e;
        }
        end(status, commits);
        return commits;
    }

    /**
     * Completes the message in the transaction that is open in this thread, for example in a method with {@code @Transactional}.
     *
     * @param delivery the message
     * @throws IllegalStateException if no transaction of the transaction manager is open
     */
    public void complete(Delivery delivery) {
        complete(delivery, Verdict.done());
    }

    /**
     * Completes the message like {@link #complete(Delivery)}, with a result or with events to publish.
     *
     * @param delivery the message
     * @param done the result and the events
     */
    public void complete(Delivery delivery, Verdict.Done done) {
        inOpenTransaction(connection -> {
            delivery.complete(connection, done);
            return null;
        });
    }

    /**
     * Completes every message of the batch that has no verdict by {@link Delivery#setVerdict}, in the transaction that is open.
     *
     * @param batch the messages
     */
    public void complete(Batch batch) {
        complete(batch, null);
    }

    /**
     * Completes the messages like {@link #complete(Batch)}, with results.
     *
     * @param batch the messages
     * @param results one for each message without a verdict, or null for none
     */
    public void complete(Batch batch, List<?> results) {
        inOpenTransaction(connection -> {
            batch.complete(connection, results);
            return null;
        });
    }

    /**
     * Emits an event of a service in the transaction that is open: inboxd publishes it if and only if the transaction commits. A handler
     * gives its events to {@link Verdict.Done#emit} instead.
     *
     * @param event what is published
     * @return the id of the event
     * @throws IllegalStateException if no transaction of the transaction manager is open
     */
    public String emit(Emit event) {
        return inOpenTransaction(connection -> Outbox.emit(connection, event));
    }

    /** Takes part in the transaction: after an exception it can only roll back, also if the program goes on. */
    private <T> T inOpenTransaction(ConnectionCallback<T> call) {
        TransactionStatus status;
        try {
            status = manager.getTransaction(OPEN);
        } catch (IllegalTransactionStateException e) {
            throw new IllegalStateException(
                    "there is no open transaction of " + manager.getClass().getSimpleName()
                            + ": use @Transactional on a method that another bean calls, or TransactionTemplate",
                    e);
        }
        T result;
        try {
            result = new JdbcTemplate(boundSource()).execute(call);
        } catch (Throwable e) {
            rollBack(status, e);
            throw e;
        }
        manager.commit(status); // ends only its part in the transaction
        return result;
    }

    private boolean onConnection(Work work) throws Exception {
        DataSource source = boundSource();
        Connection connection = DataSourceUtils.getConnection(source);
        try {
            return work.commits(connection);
        } finally {
            DataSourceUtils.releaseConnection(connection, source);
        }
    }

    /** A source without a connection in the transaction would give another one, which commits apart from it. */
    private DataSource boundSource() {
        DataSource source = sourceOf(manager);
        if (source == null || !TransactionSynchronizationManager.hasResource(source)) {
            throw new IllegalStateException("the transaction of "
                    + manager.getClass().getName() + " has no JDBC connection: use DataSourceTransactionManager,"
                    + " JdbcTransactionManager, or JpaTransactionManager with Hibernate");
        }
        return source;
    }

    /** Null if the manager has none. The class of JPA is not needed to compile this one. */
    private static DataSource sourceOf(PlatformTransactionManager manager) {
        if (manager instanceof ResourceTransactionManager one
                && one.getResourceFactory() instanceof DataSource source) {
            return source;
        }
        Method getter = ReflectionUtils.findMethod(manager.getClass(), "getDataSource");
        return getter != null && ReflectionUtils.invokeMethod(getter, manager) instanceof DataSource source
                ? source
                : null;
    }

    private TransactionStatus begin() throws SQLException {
        try {
            return manager.getTransaction(definition);
        } catch (TransactionException e) {
            throw asSqlException(e);
        }
    }

    private void end(TransactionStatus status, boolean commits) throws SQLException {
        try {
            if (commits) {
                manager.commit(status);
            } else {
                manager.rollback(status);
            }
        } catch (UnexpectedRollbackException e) {
            throw new SQLException(
                    "the transaction has rolled back, because a part of it had failed: " + e.getMessage(),
                    FAILED_BEFORE,
                    e);
        } catch (RuntimeException e) { // a flush of JPA can fail, too
            throw asSqlException(e);
        }
    }

    /** The error of the database that the exception wraps; the exception itself if there is none. */
    private static SQLException asSqlException(RuntimeException error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException found) {
                return found;
            }
        }
        throw error;
    }

    private void rollBack(TransactionStatus status, Throwable reason) {
        try {
            manager.rollback(status);
        } catch (RuntimeException e) {
            if (e != reason) {
                reason.addSuppressed(e); // the connection is lost, and its transaction with it
            }
        }
    }
}
