import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import io.inboxd.spring.SpringTransactions;
import java.util.Map;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Spring without Boot: the program makes the transaction, and completes the message in it. */
public final class SpringTemplate {
    record Order(long order, long cents) {}

    private final JdbcTemplate jdbc;
    private final TransactionTemplate template;
    private final SpringTransactions transactions;

    private SpringTemplate(HikariDataSource pool) {
        JdbcTransactionManager manager = new JdbcTransactionManager(pool);
        jdbc = new JdbcTemplate(pool);
        template = new TransactionTemplate(manager);
        transactions = new SpringTransactions(manager);
    }

    public static void main(String[] args) {
        try (HikariDataSource pool = Pool.open()) {
            SpringTemplate program = new SpringTemplate(pool);
            Handler.builder("invoices")
                    .workers(pool.getMaximumPoolSize())
                    .on("orders", program::makeInvoice)
                    .build()
                    .run();
        }
    }

    private Verdict makeInvoice(Delivery delivery) {
        Order order = delivery.event().data().as(Order.class);
        template.executeWithoutResult(status -> {
            Long invoice = jdbc.queryForObject(
                    "INSERT INTO invoices (order_id, cents) VALUES (?, ?) RETURNING id",
                    Long.class,
                    order.order(),
                    order.cents());
            transactions.complete(delivery, Verdict.done(Map.of("invoice", invoice)));
        });
        return Verdict.done();
    }
}
