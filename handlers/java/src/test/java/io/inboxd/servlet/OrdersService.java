package io.inboxd.servlet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.Set;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/**
 * A service with idempotency keys for tests/languages of the repository: OrdersService servlet PORT.
 *
 * <p>POST /orders makes an order, as its JSON says: {@code id}, {@code status}, and {@code then}: raise, wait, or what the response is
 * like.
 */
public final class OrdersService extends HttpServlet {
    private static final long serialVersionUID = 1;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final byte[] BYTES = {0x1f, (byte) 0x8b, 8, 0, 1, 2, 3, 0, -1};

    public static void main(String[] args) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
                + System.getenv("PGDATABASE"));
        config.setUsername(System.getenv("PGUSER"));
        config.setMaximumPoolSize(20);
        config.setMinimumIdle(0);
        config.setInitializationFailTimeout(-1);
        config.setConnectionTimeout(5_000);
        IdempotencyFilter.Rules rules = new IdempotencyFilter.Rules(
                OrdersService::tenant,
                !"no".equals(System.getenv("KEY_REQUIRED")),
                Set.of("POST", "PATCH"),
                Duration.ofHours(24),
                100_000);
        FilterDef filter = new FilterDef();
        filter.setFilterName("idempotency");
        filter.setFilter(new IdempotencyFilter(new HikariDataSource(config), rules));
        FilterMap everything = new FilterMap();
        everything.setFilterName("idempotency");
        everything.addURLPattern("/*");

        File directory = Files.createTempDirectory("inboxd-tomcat-").toFile();
        directory.deleteOnExit();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(directory.getPath());
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(Integer.parseInt(args[1]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", directory.getPath());
        context.addFilterDef(filter);
        context.addFilterMap(everything);
        Tomcat.addServlet(context, "orders", new OrdersService());
        context.addServletMappingDecoded("/orders", "orders");
        tomcat.start();
        tomcat.getServer().await();
    }

    private static String tenant(HttpServletRequest request) {
        String tenant = Objects.requireNonNullElse(request.getHeader("X-Tenant"), "");
        return tenant.equals("nobody") ? null : tenant;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().write(request.getAttribute(IdempotencyFilter.CONNECTION) == null ? "no" : "yes");
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        JsonNode order = JSON.readTree(request.getInputStream());
        try {
            make(order.path("id").asLong(), tenant(request), (Connection)
                    request.getAttribute(IdempotencyFilter.CONNECTION));
        } catch (SQLException e) {
            throw new IOException(e);
        }
        if (order.path("then").asText().equals("slow")) {
            sleep(order.path("ms").asLong());
        }
        switch (order.path("then").asText()) {
            case "raise" -> throw new IllegalStateException("as the test wants it");
            case "wait" -> sleep(3_600_000);
            case "hide" -> hide((Connection) request.getAttribute(IdempotencyFilter.CONNECTION));
            case "bytes" -> {
                response.setContentType("text/html");
                response.setHeader("Content-Encoding", "x-test");
                response.addHeader("Vary", "a");
                response.addHeader("Vary", "b");
                response.getOutputStream().write(BYTES);
                response.flushBuffer();
            }
            case "breaks" -> {
                response.setStatus(201);
                response.getOutputStream().write(1);
                throw new IOException("as the test wants it");
            }
            case "large" -> {
                for (int i = 0; i < 1025; i++) {
                    response.getOutputStream().write(new byte[1024]);
                }
            }
            case "asynchronous" -> request.startAsync();
            case "nothing" -> response.setStatus(204);
            case "error" -> response.sendError(404, "no such item");
            default -> {
                response.setStatus(order.path("status").asInt(201));
                response.setContentType("application/json");
                response.setHeader("Location", "/orders/" + order.path("id").asLong());
                response.addHeader("Set-Cookie", "a=b");
                response.getWriter()
                        .write("{\"id\":" + order.path("id").asLong() + ",\"made\":" + System.nanoTime() + "}");
            }
        }
    }

    private static void make(long id, String tenant, Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO orders (id, tenant) VALUES (?, ?)");
                PreparedStatement emit = connection.prepareStatement(
                        "SELECT inbox.emit('orders', CAST(? AS text), 'order.created', CAST('{}' AS jsonb))")) {
            insert.setLong(1, id);
            insert.setString(2, tenant);
            insert.executeUpdate();
            emit.setString(1, Long.toString(id));
            emit.execute();
        }
    }

    private static void hide(Connection connection) {
        try (PreparedStatement wrong = connection.prepareStatement("SELECT 1 / 0")) {
            wrong.execute();
        } catch (SQLException e) {
            // as the test wants it
        }
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
