package io.inboxd.servlet;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What the database says and stores in the transaction of a request. */
final class KeyedTransaction {
    private static final String BEGIN = "SELECT b.*, set_config('inboxd.traceparent', CAST(? AS text), true),"
            + " set_config('inboxd.tracestate', CAST(? AS text), true)" // the trace of the events that it emits
            + " FROM inbox.http_request_begin(CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS bytea),"
            + " CAST(? AS text), CAST(? AS interval), CAST(? AS boolean)) b";
    private static final String COMPLETE =
            "SELECT commits, expires FROM inbox.http_request_complete(CAST(? AS text), CAST(? AS int),"
                    + " CAST(CAST(? AS text) AS jsonb), CAST(? AS bytea))";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Connection connection;
    private String token;
    private String expires;

    KeyedTransaction(Connection connection) {
        this.connection = connection;
    }

    /** Null: the request runs. */
    Reply begin(HeldRequest request, byte[] compared, IdempotencyFilter.Rules rules) throws IOException, SQLException {
        List<String> keys = Collections.list(request.getHeaders("Idempotency-Key"));
        String query = request.getQueryString();
        try (PreparedStatement begin = connection.prepareStatement(BEGIN)) {
            begin.setString(1, request.getHeader("traceparent"));
            begin.setString(2, request.getHeader("tracestate"));
            begin.setString(3, keys.isEmpty() ? null : String.join(", ", keys));
            begin.setString(4, request.getMethod());
            begin.setString(5, request.getRequestURI() + (query == null ? "" : "?" + query));
            begin.setBytes(6, compared);
            begin.setString(7, keys.isEmpty() ? "" : rules.scope().apply(request));
            begin.setString(8, rules.keep().toString());
            begin.setBoolean(9, rules.isRequired());
            ResultSet row = begin.executeQuery();
            row.next();
            token = row.getString("token");
            if (row.getObject("status") == null) {
                return null;
            }
            Map<String, String> headers = JSON.readValue(row.getString("headers"), new TypeReference<>() {});
            boolean isBusy = "busy".equals(row.getString("verdict"));
            return new Reply(row.getInt("status"), headers, row.getBytes("body"), isBusy);
        }
    }

    /** Stores the response. False: its status is one that is not stored. */
    boolean complete(HeldResponse held, Map<String, List<String>> headers) throws IOException, SQLException {
        try (PreparedStatement complete = connection.prepareStatement(COMPLETE)) {
            complete.setString(1, token);
            complete.setInt(2, held.getStatus());
            complete.setString(3, JSON.writeValueAsString(headers));
            complete.setBytes(4, held.body());
            ResultSet row = complete.executeQuery();
            row.next();
            expires = row.getString("expires");
            return row.getBoolean("commits");
        }
    }

    /** Until when the response is stored, for a header; null if it is not. */
    String expires() {
        return expires;
    }
}
