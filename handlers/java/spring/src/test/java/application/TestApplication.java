package application;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Emit;
import io.inboxd.Verdict;
import io.inboxd.servlet.IdempotencyFilter;
import io.inboxd.spring.InboxHandler;
import io.inboxd.spring.SpringTransactions;
import jakarta.persistence.EntityManager;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

/**
 * A program for tests/languages of the repository: TestApplication spring-mvc PORT is a service with idempotency keys, TestApplication
 * handler PORT one with methods that get messages.
 */
@SpringBootApplication
public class TestApplication {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final byte[] BYTES = {0x1f, (byte) 0x8b, 8, 0, 1, 2, 3, 0, -1};

    public static void main(String[] args) {
        new SpringApplicationBuilder(TestApplication.class)
                .run(
                        "--server.port=" + args[1],
                        "--server.address=127.0.0.1",
                        "--spring.main.web-application-type=servlet",
                        "--spring.datasource.hikari.maximum-pool-size=20",
                        "--spring.datasource.hikari.minimum-idle=0",
                        "--inboxd.enabled=" + args[0].equals("handler"),
                        "--management.endpoints.web.exposure.include=health,metrics",
                        "--management.endpoint.health.show-details=always");
    }

    @Bean
    FilterRegistrationBean<IdempotencyFilter> idempotency(PlatformTransactionManager manager) {
        IdempotencyFilter.Rules rules = new IdempotencyFilter.Rules(
                TestApplication::tenant,
                !"no".equals(System.getenv("KEY_REQUIRED")),
                Set.of("POST", "PATCH"),
                Duration.ofHours(24),
                100_000);
        return new FilterRegistrationBean<>(new IdempotencyFilter(new SpringTransactions(manager), rules));
    }

    private static String tenant(HttpServletRequest request) {
        String tenant = Objects.requireNonNullElse(request.getHeader("X-Tenant"), "");
        return tenant.equals("nobody") ? null : tenant;
    }

    /** Takes part in the transaction of the key, by JPA and by JDBC. */
    @Component
    static class OrderService {
        private final EntityManager entities;
        private final JdbcTemplate jdbc;
        private final SpringTransactions transactions;

        OrderService(EntityManager entities, JdbcTemplate jdbc, PlatformTransactionManager manager) {
            this.entities = entities;
            this.jdbc = jdbc;
            this.transactions = new SpringTransactions(manager);
        }

        @Transactional
        void make(long id, String tenant) {
            entities.createNativeQuery("INSERT INTO orders (id, tenant) VALUES (?1, ?2)")
                    .setParameter(1, id)
                    .setParameter(2, tenant)
                    .executeUpdate();
            transactions.emit(
                    Emit.to("orders", "order.created").key(Long.toString(id)).data(Map.of()));
        }

        @Transactional
        void refuse() {
            throw new IllegalArgumentException("as the test wants it");
        }

        void hide() {
            try {
                jdbc.execute("SELECT 1 / 0");
            } catch (DataAccessException e) {
                // as the test wants it
            }
        }
    }

    @RestController
    static class OrdersController {
        private final OrderService service;

        OrdersController(OrderService service) {
            this.service = service;
        }

        @GetMapping("/orders")
        void get(HttpServletResponse response) throws IOException {
            response.getWriter().write(TransactionSynchronizationManager.isActualTransactionActive() ? "yes" : "no");
        }

        @PostMapping("/orders")
        void post(HttpServletRequest request, HttpServletResponse response) throws IOException {
            JsonNode order = JSON.readTree(request.getInputStream());
            service.make(order.path("id").asLong(), tenant(request));
            switch (order.path("then").asText()) {
                case "raise" -> throw new IllegalStateException("as the test wants it");
                case "refuse" -> refuse(response);
                case "wait" -> sleep(3_600_000);
                case "hide" -> service.hide();
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
                case "nothing" -> response.setStatus(204);
                default -> {
                    sleep(order.path("ms").asLong());
                    response.setStatus(order.path("status").asInt(201));
                    response.setContentType("application/json");
                    response.setHeader("Location", "/orders/" + order.path("id").asLong());
                    response.addHeader("Set-Cookie", "a=b");
                    response.getWriter()
                            .write("{\"id\":" + order.path("id").asLong() + ",\"made\":" + System.nanoTime() + "}");
                }
            }
        }

        private void refuse(HttpServletResponse response) {
            try {
                service.refuse();
            } catch (IllegalArgumentException e) {
                response.setStatus(422);
            }
        }
    }

    record Order(long order, long cents) {}

    /** Each method writes its effect first. */
    @Component
    static class Handlers {
        private final JdbcTemplate jdbc;
        private final SpringTransactions transactions;

        Handlers(JdbcTemplate jdbc, PlatformTransactionManager manager) {
            this.jdbc = jdbc;
            this.transactions = new SpringTransactions(manager);
        }

        private void effect(long order) {
            jdbc.update("INSERT INTO invoices (order_id, cents) VALUES (?, 1)", order);
        }

        @InboxHandler(topic = "${test.topic:orders}", types = "typed")
        @Transactional
        public void typed(Order order, Delivery delivery) {
            effect(order.order());
            if (order.cents() == 2) {
                throw new IllegalStateException("as the test wants it");
            }
            if (order.cents() == 3) {
                transactions.complete(delivery, Verdict.done(Map.of("by", "itself")));
            }
        }

        @InboxHandler(topic = "orders", types = "verdict", transactional = true)
        Verdict verdict(Order order) {
            effect(order.order());
            return order.cents() == 1
                    ? Verdict.done(order).emit(Emit.to("shipments", "made").data(order))
                    : Verdict.dead("no").code("NO");
        }

        @InboxHandler(topic = "orders", types = "slow")
        @Transactional
        void slow(Order order) {
            effect(order.order());
            sleep(2_000);
        }
    }

    /** A method for batches, with the transaction of its class. */
    @Component
    @Transactional
    static class BatchHandlers {
        private final JdbcTemplate jdbc;

        BatchHandlers(JdbcTemplate jdbc) {
            this.jdbc = jdbc;
        }

        @InboxHandler(topic = "orders", types = "batch")
        public void batch(Batch batch) {
            for (Delivery delivery : batch) {
                Order order = delivery.event().data().as(Order.class);
                jdbc.update("INSERT INTO invoices (order_id, cents) VALUES (?, 1)", order.order());
            }
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
