import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import java.time.Duration;

public final class ExactlyOnceBatch {
    record Order(long order, long cents) {}

    public static void main(String[] args) {
        try (HikariDataSource pool = Database.pool()) {
            Handler handler = Handler.builder("invoices")
                    .maxInFlight(100)
                    .workers(2)
                    .batch(50, Duration.ofMillis(10))
                    .ordered(true)
                    .onBatch("orders", batch -> makeInvoices(batch, pool))
                    .build();
            handler.run();
        }
    }

    private static void makeInvoices(Batch batch, HikariDataSource pool) throws Exception {
        batch.transaction(pool, connection -> {
            try (var insert = connection.prepareStatement("INSERT INTO invoices (order_id, cents) VALUES (?, ?)")) {
                for (Delivery delivery : batch) {
                    Order order = delivery.event().data().as(Order.class);
                    insert.setLong(1, order.order());
                    insert.setLong(2, order.cents());
                    insert.addBatch();
                }
                insert.executeBatch();
            }
        });
    }
}
