import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.table;

import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import io.inboxd.spring.SpringTransactions;
import org.jooq.DSLContext;
import org.jooq.SQLDialect;
import org.jooq.impl.DSL;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.support.JdbcTransactionManager;

/** jOOQ in transactions of Spring: its connection is that of the transaction, as Spring Boot also configures it. */
public final class SpringJooq {
    record Order(long order, long cents) {}

    private final DSLContext dsl;
    private final SpringTransactions transactions;

    private SpringJooq(HikariDataSource pool) {
        dsl = DSL.using(new TransactionAwareDataSourceProxy(pool), SQLDialect.POSTGRES);
        transactions = new SpringTransactions(new JdbcTransactionManager(pool));
    }

    public static void main(String[] args) {
        try (HikariDataSource pool = Pool.open()) {
            SpringJooq program = new SpringJooq(pool);
            Handler.builder("invoices")
                    .workers(pool.getMaximumPoolSize())
                    .on("orders", program::makeInvoice)
                    .build()
                    .run();
        }
    }

    private Verdict makeInvoice(Delivery delivery) throws Exception {
        Order order = delivery.event().data().as(Order.class);
        return delivery.transaction(
                transactions,
                connection -> { // completes the message at its end, and commits
                    dsl.insertInto(table("invoices"), field("order_id"), field("cents"))
                            .values(order.order(), order.cents())
                            .execute();
                    return Verdict.done();
                });
    }
}
