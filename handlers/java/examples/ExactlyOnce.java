import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import java.util.Map;

public final class ExactlyOnce {
    record Order(long order, long cents) {}

    private static final String INSERT = "INSERT INTO invoices (order_id, cents) VALUES (?, ?) RETURNING id";

    public static void main(String[] args) {
        try (HikariDataSource pool = Database.pool()) {
            Handler handler = Handler.builder("invoices")
                    .workers(pool.getMaximumPoolSize())
                    .on("orders", delivery -> makeInvoice(delivery, pool))
                    .build();
            handler.run();
        }
    }

    private static Verdict makeInvoice(Delivery delivery, HikariDataSource pool) throws Exception {
        Order order = delivery.event().data().as(Order.class);
        return delivery.transaction(pool, connection -> {
            try (var insert = connection.prepareStatement(INSERT)) {
                insert.setLong(1, order.order());
                insert.setLong(2, order.cents());
                var rows = insert.executeQuery();
                rows.next();
                return Verdict.done(Map.of("invoice", rows.getLong(1)));
            }
        });
    }
}
