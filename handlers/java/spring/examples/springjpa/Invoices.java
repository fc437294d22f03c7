package springjpa;

import io.inboxd.spring.InboxHandler;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Spring Boot with JPA: Hibernate writes the entities at the end of the transaction that completes the message. */
@SpringBootApplication
public class Invoices {
    record Order(long order, long cents) {}

    @Entity
    @Table(name = "invoices")
    static class Invoice {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        private Long id;

        private long orderId;
        private long cents;

        protected Invoice() {}

        Invoice(Order order) {
            orderId = order.order();
            cents = order.cents();
        }
    }

    @Component
    static class Orders {
        private final EntityManager entities;

        Orders(EntityManager entities) {
            this.entities = entities;
        }

        @InboxHandler(topic = "orders", types = "order.*")
        @Transactional
        void makeInvoice(Order order) {
            entities.persist(new Invoice(order));
        }
    }

    public static void main(String[] args) {
        SpringApplication.run(Invoices.class, args);
    }
}
