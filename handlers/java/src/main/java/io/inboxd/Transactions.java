package io.inboxd;

import java.sql.Connection;
import java.util.Objects;
import javax.sql.DataSource;

/** Makes transactions in the database of the inbox. A framework that has its own, such as Spring, is an implementation. */
@FunctionalInterface
public interface Transactions {
    /** What a transaction consists of. */
    @FunctionalInterface
    interface Work {
        /**
         * Does the work. Does not commit.
         *
         * @param connection with an open transaction
         * @return true to commit, false to roll back
         * @throws Exception to roll back
         */
        boolean commits(Connection connection) throws Exception;
    }

    /**
     * Calls the work in a transaction. Commits if the work returns true. Otherwise, and after an exception, it rolls back.
     *
     * @param work is called once
     * @return what the work has returned, after the COMMIT or the rollback
     * @throws Exception what the work throws; a {@link java.sql.SQLException} if the transaction cannot begin or commit
     */
    boolean run(Work work) throws Exception;

    /**
     * Transactions of JDBC, each on a connection of its own.
     *
     * @param source connections to the database of the inbox
     * @return what makes them
     */
    static Transactions of(DataSource source) {
        Objects.requireNonNull(source, "source");
        return work -> JdbcTransaction.run(source, work);
    }
}
