package io.inboxd;

import java.sql.Connection;

/** Makes the effects of a message. */
@FunctionalInterface
public interface TransactionFunction {
    /**
     * Makes the effects. Does not commit.
     *
     * @param connection with an open transaction
     * @return {@link Verdict.Done} to complete the message and commit; another verdict to roll back
     * @throws Exception to roll back
     */
    Verdict apply(Connection connection) throws Exception;
}
