import static io.inboxd.Verdict.dead;
import static io.inboxd.Verdict.done;
import static io.inboxd.Verdict.snooze;

import io.inboxd.Delivery;
import io.inboxd.Emit;
import io.inboxd.Handler;
import io.inboxd.Subscription;
import io.inboxd.Verdict;
import java.time.Duration;
import java.time.LocalTime;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** What a service needs: several functions, verdicts, a long function, events to publish, and a stop without a loss. */
public final class Service {
    record Order(String customer, Long cents) {}

    private final Map<String, Long> totals = new ConcurrentHashMap<>();

    public static void main(String[] args) {
        Service service = new Service();
        Handler handler = Handler.builder("totals")
                .maxInFlight(32)
                .workers(4)
                .timeout(Duration.ofSeconds(30))
                .on(Subscription.of("orders", "order.*"), service::add)
                .on(Subscription.of("orders", "order.report"), service::report)
                .build();
        // run() does this by itself. A program that has more to stop has its own hook, in its own order.
        Runtime.getRuntime().addShutdownHook(new Thread(handler::close));
        handler.serve();
    }

    private Verdict add(Delivery delivery) {
        if (delivery.event().data().isTombstone()) {
            return done();
        }
        Order order = delivery.event().data().as(Order.class);
        if (order.cents() == null) {
            return dead("no cents in the order").code("SCHEMA");
        }
        long total = totals.merge(order.customer(), order.cents(), Long::sum);
        return done(Map.of("totalCents", total));
    }

    private Verdict report(Delivery delivery) throws InterruptedException {
        if (LocalTime.now().getHour() < 6) {
            return snooze(Duration.ofMinutes(10), "reports begin at six");
        }
        TimeUnit.SECONDS.sleep(60); // the library extends the deadline; a cancel interrupts the thread
        return done().emit(Emit.to("reports", "report.made").data(totals));
    }
}
