package io.inboxd;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The test handler of the conformance kit (tests/conformance/README.md of the repository): ConformanceHandler one|batch.
 *
 * <p>The argument is the kind of the functions: for one message, or for batches.
 */
public final class ConformanceHandler {
    private static final AtomicReference<Handler> HANDLER = new AtomicReference<>();
    private static boolean isBatch;

    private ConformanceHandler() {}

    public static void main(String[] args) {
        Handler.Builder builder = Handler.builder(option("NAME").orElse("conformance"));
        option("MAX_IN_FLIGHT").map(Integer::valueOf).ifPresent(builder::maxInFlight);
        option("TIMEOUT_MS").map(Long::valueOf).map(Duration::ofMillis).ifPresent(builder::timeout);
        option("CONSUMER").ifPresent(builder::consumer);
        option("BATCH_MAX").map(Integer::valueOf).ifPresent(builder::batch);
        option("BATCH_WAIT_MS")
                .map(Long::valueOf)
                .map(Duration::ofMillis)
                .ifPresent(wait ->
                        builder.batch(Integer.parseInt(option("BATCH_MAX").orElse("1")), wait));
        builder.ordered(option("ORDERED").equals(Optional.of("1")));
        for (String part : option("SUBSCRIBE").orElse("*").split(";")) {
            List<String> words = Arrays.asList(part.split(" "));
            Subscription subscription = new Subscription(words.get(0), words.subList(1, words.size()));
            isBatch = args[0].equals("batch");
            if (isBatch) {
                builder.onBatch(subscription, ConformanceHandler::handleAll);
            } else {
                builder.on(subscription, ConformanceHandler::handle);
            }
        }
        Handler handler = builder.build();
        HANDLER.set(handler);
        // The kit wants the exit code 0; that of a JVM after SIGTERM is 143.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            handler.close();
            Runtime.getRuntime().halt(0);
        }));
        try {
            handler.serve();
        } catch (RefusedException e) {
            System.err.println(e.getMessage());
            Runtime.getRuntime().halt(1);
        }
    }

    private static Optional<String> option(String name) {
        return Optional.ofNullable(System.getenv("CONFORMANCE_" + name));
    }

    private static void handleAll(Batch batch) throws Exception {
        for (Delivery delivery : batch) {
            try {
                delivery.setVerdict(handle(delivery));
            } catch (VerdictException e) {
                delivery.setVerdict(e.verdict());
            } catch (CancelledException | IllegalArgumentException e) {
                delivery.setVerdict(Verdict.retry(e.toString()));
            }
        }
    }

    private static Verdict handle(Delivery delivery) throws Exception {
        Event event = delivery.event();
        Duration delay = event.attribute("delayms")
                .map(Long::valueOf)
                .map(Duration::ofMillis)
                .orElse(null);
        String reason = event.attribute("reason").orElse("");
        String code = event.attribute("code").orElse(null);
        switch (event.type()) {
            case "retry":
                return new Verdict.Retry(reason, delay, code);
            case "dead":
                throw new VerdictException(new Verdict.Dead(reason, code));
            case "snooze":
                return new Verdict.Snooze(delay, reason, code);
            case "skipped":
                return Verdict.skipped();
            case "settled":
                return Verdict.settled();
            case "raise":
                throw new IllegalArgumentException(reason);
            case "result":
                return Verdict.done(event.data().as(JsonNode.class));
            case "echo":
                return Verdict.done(echo(delivery));
            case "emit":
                return new Verdict.Done(null, emits(event.data().as(JsonNode.class)));
            case "work":
                work(delivery, Long.parseLong(event.attribute("workms").orElseThrow()));
                return Verdict.done();
            case "extend":
                delivery.extend(Duration.ofMillis(
                        Long.parseLong(event.attribute("timeoutms").orElseThrow())));
                return Verdict.done();
            case "window":
                HANDLER.get()
                        .setWindow(Integer.parseInt(event.attribute("window").orElseThrow()));
                return Verdict.done();
            default:
                return Verdict.done();
        }
    }

    /** The thread is interrupted by a cancel. In a batch, only when all messages are cancelled. */
    private static void work(Delivery delivery, long millis) throws InterruptedException {
        if (!isBatch) {
            TimeUnit.MILLISECONDS.sleep(millis);
        }
        for (long rest = isBatch ? millis : 0; rest > 0; rest -= 20) {
            TimeUnit.MILLISECONDS.sleep(Math.min(rest, 20));
            delivery.throwIfCancelled();
        }
    }

    private static Map<String, Object> echo(Delivery delivery) {
        Event event = delivery.event();
        Map<String, Object> echo = new LinkedHashMap<>();
        echo.put("claim", delivery.claim());
        echo.put("seq", String.valueOf(delivery.seq()));
        echo.put("attempt", delivery.attempt());
        echo.put("replay", delivery.isReplay());
        echo.put("id", event.id());
        echo.put("source", event.source());
        echo.put("type", event.type());
        echo.put("topic", event.topic());
        echo.put("partition", event.partition());
        echo.put("offset", String.valueOf(event.offset()));
        event.trace().ifPresent(trace -> echo.putAll(trace.headers()));
        event.key().ifPresent(key -> echo.put("key_base64", encode(key)));
        if (event.data().isJson()) {
            echo.put("data", event.data().as(JsonNode.class));
        } else if (!event.data().isTombstone()) {
            echo.put("data_base64", encode(event.data().bytes()));
        }
        List<List<String>> headers = new ArrayList<>();
        for (Header header : delivery.headers()) {
            headers.add(Arrays.asList(header.name(), header.value() == null ? null : encode(header.value())));
        }
        echo.put("headers", headers);
        return echo;
    }

    private static List<Emit> emits(JsonNode events) {
        List<Emit> emits = new ArrayList<>();
        for (JsonNode event : events) {
            emits.add(Emit.to(event.path("topic").asText(), event.path("type").asText())
                    .key(event.path("key").asText())
                    .data(event.path("data")));
        }
        return emits;
    }

    private static String encode(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
