import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.table;

import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import org.jooq.DSLContext;
import org.jooq.SQLDialect;
import org.jooq.impl.DSL;

/** jOOQ with transactions of its own. */
public final class Jooq {
    record Order(long order, long cents) {}

    public static void main(String[] args) {
        System.setProperty("org.jooq.no-logo", "true");
        System.setProperty("org.jooq.no-tips", "true");
        try (HikariDataSource pool = Pool.open()) {
            DSLContext dsl = DSL.using(pool, SQLDialect.POSTGRES);
            Handler.builder("invoices")
                    .workers(pool.getMaximumPoolSize())
                    .on("orders", delivery -> makeInvoice(delivery, dsl))
                    .build()
                    .run();
        }
    }

    private static Verdict makeInvoice(Delivery delivery, DSLContext dsl) {
        Order order = delivery.event().data().as(Order.class);
        dsl.transaction(transaction -> {
            transaction
                    .dsl()
                    .insertInto(table("invoices"), field("order_id"), field("cents"))
                    .values(order.order(), order.cents())
                    .execute();
            transaction.dsl().connection(delivery::complete);
        });
        return Verdict.done();
    }
}
