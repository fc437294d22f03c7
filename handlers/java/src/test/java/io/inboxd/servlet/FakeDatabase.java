package io.inboxd.servlet;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.sql.DataSource;

/** A database in which each request starts, or is a replay of `stored`. */
final class FakeDatabase {
    final List<String> calls = new ArrayList<>();
    final List<Object> begun = new ArrayList<>();
    final List<Object> completed = new ArrayList<>();
    String stored;
    int busy; // so many looks find that another copy runs
    SQLException failure; // of http_request_complete()
    SQLException rollbackFailure;

    private interface Method {
        Object call(String name, Object[] arguments) throws Throwable;
    }

    private static <T> T make(Class<T> type, Method method) {
        Object made = Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (proxy, called, arguments) ->
                        method.call(called.getName(), Objects.requireNonNullElse(arguments, new Object[0])));
        return type.cast(made);
    }

    DataSource source() {
        return make(DataSource.class, (name, arguments) -> make(Connection.class, this::connection));
    }

    private Object connection(String name, Object[] arguments) throws SQLException {
        switch (name) {
            case "prepareStatement" -> {
                boolean begins = arguments[0].toString().contains("http_request_begin");
                return make(PreparedStatement.class, (method, values) -> statement(begins, method, values));
            }
            case "getAutoCommit" -> {
                return true;
            }
            case "setAutoCommit" -> calls.add("autocommit " + arguments[0]);
            case "rollback" -> {
                calls.add(name);
                if (rollbackFailure != null) {
                    throw rollbackFailure;
                }
            }
            default -> calls.add(name);
        }
        return null;
    }

    private Object statement(boolean begins, String name, Object[] arguments) throws SQLException {
        if (name.startsWith("set")) {
            Object value = arguments[1] instanceof byte[] bytes ? new String(bytes, UTF_8) : arguments[1];
            (begins ? begun : completed).add(value);
        } else if (name.equals("executeQuery")) {
            calls.add(begins ? "begin" : "complete");
            boolean isBusy = begins && busy-- > 0;
            if (!begins && failure != null) {
                throw failure;
            }
            return make(
                    ResultSet.class,
                    (method, column) -> method.equals("next") ? true : value(isBusy, column[0].toString()));
        }
        return null;
    }

    private Object value(boolean isBusy, String column) {
        if (isBusy) {
            Map<String, Object> answer = Map.of(
                    "verdict", "busy", "status", 409, "headers", "{\"retry-after\":\"1\"}", "body", new byte[] {'b'});
            return answer.get(column);
        }
        if (stored == null) {
            return Map.<String, Object>of("token", "token", "commits", true, "expires", "tomorrow")
                    .get(column);
        }
        return Map.<String, Object>of(
                        "status", 201, "headers", "{\"location\":\"/orders/1\"}", "body", stored.getBytes(UTF_8))
                .get(column);
    }
}
