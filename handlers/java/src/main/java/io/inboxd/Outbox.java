package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Events of a service, beside handlers. */
public final class Outbox {
    private static final String REST =
            "CAST(CAST(? AS text) AS jsonb), CAST(? AS text), CAST(? AS text), CAST(? AS text),"
                    + " CAST(? AS text))"; // headers, id, source, subject, aggregate
    private static final String JSON = "SELECT inbox.emit(CAST(? AS text), CAST(? AS text), CAST(? AS text),"
            + " CAST(CAST(? AS text) AS jsonb), " + REST;
    private static final String BYTES = "SELECT inbox.emit_bytes(CAST(? AS text), convert_to(CAST(? AS text), 'UTF8'),"
            + " CAST(? AS text), CAST(? AS bytea), NULL, " + REST;

    private Outbox() {}

    /**
     * Emits an event of a service in its transaction: inboxd publishes it if and only if the transaction commits. A handler gives its
     * events to {@link Verdict.Done#emit} instead, so that a repeated delivery repeats their ids.
     *
     * @param connection to the database of the inbox, with an open transaction
     * @param event what is published
     * @return the id of the event
     * @throws SQLException if the call fails
     */
    public static String emit(Connection connection, Emit event) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("emit() needs a connection with an open transaction: setAutoCommit(false)");
        }
        Object data = event.data() instanceof Payload payload && !payload.isJson() ? payload.bytes() : event.data();
        boolean isTombstone = event.data() instanceof Payload payload && payload.isTombstone();
        boolean isBytes = data instanceof byte[] && !isTombstone;
        try (PreparedStatement emit = connection.prepareStatement(isBytes ? BYTES : JSON)) {
            emit.setString(1, event.topic());
            emit.setString(2, event.key());
            emit.setString(3, event.type());
            if (isBytes) {
                emit.setBytes(4, (byte[]) data);
            } else {
                emit.setString(4, data == null || isTombstone ? null : Json.write(Json.MAPPER, data));
            }
            emit.setString(5, Json.MAPPER.writeValueAsString(event.headers()));
            emit.setString(6, event.id());
            emit.setString(7, event.source());
            emit.setString(8, event.subject());
            emit.setString(9, event.aggregate());
            try (ResultSet row = emit.executeQuery()) {
                row.next();
                return row.getString(1);
            }
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("the event cannot be written as JSON: " + e.getOriginalMessage(), e);
        }
    }
}
