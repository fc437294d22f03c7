package springboot;

import io.inboxd.Verdict;
import io.inboxd.spring.InboxHandler;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Spring Boot with JdbcTemplate: the message is completed in the transaction of the method. */
@SpringBootApplication
public class Invoices {
    record Order(long order, long cents) {}

    @Component
    static class Orders {
        private final JdbcTemplate jdbc;

        Orders(JdbcTemplate jdbc) {
            this.jdbc = jdbc;
        }

        @InboxHandler(topic = "orders", types = "order.*")
        @Transactional
        Verdict makeInvoice(Order order) {
            Long invoice = jdbc.queryForObject(
                    "INSERT INTO invoices (order_id, cents) VALUES (?, ?) RETURNING id",
                    Long.class,
                    order.order(),
                    order.cents());
            return Verdict.done(Map.of("invoice", invoice));
        }
    }

    public static void main(String[] args) {
        SpringApplication.run(Invoices.class, args);
    }
}
