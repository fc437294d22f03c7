package io.inboxd;

import java.sql.Connection;

/** Makes the effects of the messages of a batch. */
@FunctionalInterface
public interface BatchTransaction {
    /**
     * Makes the effects. Does not commit.
     *
     * @param connection with an open transaction
     * @throws Exception to roll back
     */
    void apply(Connection connection) throws Exception;
}
