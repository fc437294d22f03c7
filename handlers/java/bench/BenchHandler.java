import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * The handler of tests/bench/handlers.py of the repository: BenchHandler noop|least|once BATCH.
 *
 * <p>noop answers at once. least has an effect in a transaction of its own, and then answers done. once completes the message in the
 * transaction of the effect.
 */
public final class BenchHandler {
    record Order(long order, String customer) {}

    private static final int CONNECTIONS = 4;
    private static final String INSERT = "INSERT INTO effects (order_id, customer) VALUES (?, ?)";
    private static final String INSERT_ALL =
            "INSERT INTO effects (order_id, customer) SELECT * FROM unnest(?::bigint[], ?::text[])";

    private final HikariDataSource pool;
    private final boolean isOnce;

    private BenchHandler(HikariDataSource pool, boolean isOnce) {
        this.pool = pool;
        this.isOnce = isOnce;
    }

    public static void main(String[] args) {
        String kind = args[0];
        int size = Integer.parseInt(args[1]);
        Handler.Builder builder = Handler.builder("bench");
        if (kind.equals("noop")) {
            builder.workers(1).maxInFlight(1000).on(delivery -> Verdict.done());
        } else {
            BenchHandler bench = new BenchHandler(pool(), kind.equals("once"));
            builder.workers(CONNECTIONS).maxInFlight(200);
            if (size == 1) {
                builder.on(bench::one);
            } else {
                builder.batch(size, Duration.ofMillis(5)).onBatch(bench::many);
            }
        }
        Handler handler = builder.build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            handler.close();
            Runtime.getRuntime().halt(0);
        }));
        handler.serve();
    }

    private static HikariDataSource pool() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
                + System.getenv("PGDATABASE"));
        config.setUsername(System.getenv("PGUSER"));
        config.setMaximumPoolSize(CONNECTIONS);
        return new HikariDataSource(config);
    }

    private Verdict one(Delivery delivery) throws Exception {
        Order order = delivery.event().data().as(Order.class);
        if (isOnce) {
            return delivery.transaction(pool, connection -> {
                insert(connection, order);
                return Verdict.done();
            });
        }
        try (Connection connection = pool.getConnection()) {
            connection.setAutoCommit(false);
            insert(connection, order);
            connection.commit();
        }
        return Verdict.done();
    }

    private static void insert(Connection connection, Order order) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            insert.setLong(1, order.order());
            insert.setString(2, order.customer());
            insert.executeUpdate();
        }
    }

    private void many(Batch batch) throws Exception {
        List<Order> orders = new ArrayList<>();
        for (Delivery delivery : batch) {
            orders.add(delivery.event().data().as(Order.class));
        }
        if (isOnce) {
            batch.transaction(pool, connection -> insertAll(connection, orders));
            return;
        }
        try (Connection connection = pool.getConnection()) {
            connection.setAutoCommit(false);
            insertAll(connection, orders);
            connection.commit();
        }
    }

    private static void insertAll(Connection connection, List<Order> orders) throws SQLException {
        Object[] numbers = orders.stream().map(Order::order).toArray();
        Object[] customers = orders.stream().map(Order::customer).toArray();
        try (PreparedStatement insert = connection.prepareStatement(INSERT_ALL)) {
            insert.setArray(1, connection.createArrayOf("bigint", numbers));
            insert.setArray(2, connection.createArrayOf("text", customers));
            insert.executeUpdate();
        }
    }
}
