package io.inboxd;

import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/** A transaction on a connection of its own. */
final class JdbcTransaction {
    private static final Method SPRING_HAS_TRANSACTION = springHasTransaction();

    private JdbcTransaction() {}

    static boolean run(DataSource source, Transactions.Work work) throws Exception {
        refuseBesideSpring();
        try (Connection connection = source.getConnection()) {
            boolean commitsByItself = connection.getAutoCommit();
            connection.setAutoCommit(false);
            boolean commits;
            try {
                commits = work.commits(connection);
                if (commits) {
                    connection.commit();
                } else {
                    connection.rollback();
                }
            } catch (Throwable e) {
                rollBack(connection, e);
                throw e;
            }
            connection.setAutoCommit(commitsByItself); // not after a failure: it could commit
            return commits;
        }
    }

    /** Another connection would commit the completion before the transaction that Spring has begun in this thread. */
    private static void refuseBesideSpring() throws ReflectiveOperationException {
        if (SPRING_HAS_TRANSACTION != null && (Boolean) SPRING_HAS_TRANSACTION.invoke(null)) {
            throw new IllegalStateException(
                    "transaction() would commit apart from the transaction of Spring that is open in this thread: call complete()"
                            + " of SpringTransactions (inboxd-spring), or complete(DataSourceUtils.getConnection(source)),"
                            + " or leave out @Transactional");
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

    private static void rollBack(Connection connection, Throwable reason) {
        try {
            connection.rollback();
        } catch (SQLException e) {
            reason.addSuppressed(e); // the connection is lost, and its transaction with it
        }
    }
}
