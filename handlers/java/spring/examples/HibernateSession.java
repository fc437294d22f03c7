import com.zaxxer.hikari.HikariDataSource;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.Map;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Hibernate with transactions of its own. With an EntityManager, call unwrap(Session.class). */
public final class HibernateSession {
    record Order(long order, long cents) {}

    @Entity
    @Table(name = "invoices")
    static class Invoice {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        private Long id;

        private long order_id;
        private long cents;

        protected Invoice() {}

        Invoice(Order order) {
            order_id = order.order();
            cents = order.cents();
        }
    }

    public static void main(String[] args) {
        try (HikariDataSource pool = Pool.open();
                SessionFactory sessions = sessions(pool)) {
            Handler.builder("invoices")
                    .workers(pool.getMaximumPoolSize())
                    .on("orders", delivery -> makeInvoice(delivery, sessions))
                    .build()
                    .run();
        }
    }

    private static SessionFactory sessions(HikariDataSource pool) {
        Configuration configuration = new Configuration().addAnnotatedClass(Invoice.class);
        configuration.getProperties().put("hibernate.connection.datasource", pool);
        configuration.setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect");
        configuration.setProperty("hibernate.boot.allow_jdbc_metadata_access", "false");
        return configuration.buildSessionFactory();
    }

    private static Verdict makeInvoice(Delivery delivery, SessionFactory sessions) {
        Order order = delivery.event().data().as(Order.class);
        sessions.inTransaction(session -> {
            Invoice invoice = new Invoice(order);
            session.persist(invoice);
            session.flush(); // a result needs the id
            session.doWork(connection -> delivery.complete(connection, Verdict.done(Map.of("invoice", invoice.id))));
        });
        return Verdict.done();
    }
}
