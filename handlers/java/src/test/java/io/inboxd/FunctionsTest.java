package io.inboxd;

import static io.inboxd.Sidecar.assertJson;
import static io.inboxd.Sidecar.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

@Timeout(20)
class FunctionsTest {
    private Sidecar sidecar;

    @BeforeEach
    void open() throws Exception {
        sidecar = new Sidecar();
    }

    @AfterEach
    void close() throws Exception {
        sidecar.close();
    }

    static Stream<Arguments> verdicts() {
        return Stream.of(
                Arguments.of(Verdict.done(), "{'status':'done'}"),
                Arguments.of(
                        Verdict.done().emit(Emit.to("t", "a")).emit(Emit.to("t", "b")),
                        "{'status':'done','emit':[{'topic':'t','type':'a'},{'topic':'t','type':'b'}]}"),
                Arguments.of(Verdict.done(Map.of("invoice", 88)), "{'status':'done','result':{'invoice':88}}"),
                Arguments.of(Verdict.done(Payload.ofJson("[1.50]")), "{'status':'done','result':[1.50]}"),
                Arguments.of(Verdict.retry("locked"), "{'status':'retry','reason':'locked'}"),
                Arguments.of(
                        Verdict.retry("503").after(Duration.ofMinutes(1)).code("UPSTREAM"),
                        "{'status':'retry','delay_ms':60000,'reason':'503','code':'UPSTREAM'}"),
                Arguments.of(Verdict.retry("").after(Duration.ofMillis(-5)), "{'status':'retry','delay_ms':0}"),
                Arguments.of(
                        Verdict.dead("no vat").code("SCHEMA"), "{'status':'dead','reason':'no vat','code':'SCHEMA'}"),
                Arguments.of(Verdict.snooze(Duration.ofSeconds(3)), "{'status':'snooze','delay_ms':3000}"),
                Arguments.of(
                        Verdict.snooze(Duration.ofSeconds(3), "night").code("N"),
                        "{'status':'snooze','delay_ms':3000,'reason':'night','code':'N'}"),
                Arguments.of(Verdict.settled(), "{'status':'settled'}"),
                Arguments.of(Verdict.skipped(), "{'status':'skipped'}"),
                Arguments.of(
                        Verdict.done()
                                .emit(
                                        Emit.to("invoices", "invoice.created")
                                                .key("c-17")
                                                .data(Map.of("n", 1))
                                                .headers(Map.of("tenant", "a"))
                                                .id("i")
                                                .source("s")
                                                .subject("u"),
                                        Emit.about("mail", "mail.wanted").data(new byte[] {-1}),
                                        Emit.about("mail", "copied").data(Payload.ofBytes(new byte[] {0})),
                                        Emit.to("invoices", "tombstone").data(Payload.TOMBSTONE)),
                        "{'status':'done','emit':[{'topic':'invoices','type':'invoice.created','key':'c-17',"
                                + "'headers':{'tenant':'a'},'id':'i','source':'s','subject':'u','data':{'n':1}},"
                                + "{'aggregate':'mail','type':'mail.wanted','data_base64':'/w=='},"
                                + "{'aggregate':'mail','type':'copied','data_base64':'AA=='},"
                                + "{'topic':'invoices','type':'tombstone'}]}"));
    }

    @ParameterizedTest
    @MethodSource("verdicts")
    void aVerdictThatIsReturned(Verdict verdict, String answer) throws Exception {
        sidecar.start(delivery -> verdict);
        sidecar.accept();
        sidecar.deliver(1);
        assertJson(answer, sidecar.answer());
    }

    @ParameterizedTest
    @MethodSource("verdicts")
    void aVerdictThatIsThrown(Verdict verdict, String answer) throws Exception {
        sidecar.start(delivery -> {
            throw new VerdictException(verdict);
        });
        sidecar.accept();
        sidecar.deliver(1);
        assertJson(answer, sidecar.answer());
    }

    static Stream<Arguments> exceptions() {
        SQLException unique = new SQLException("duplicate key", "23505");
        return Stream.of(
                Arguments.of(
                        new IllegalStateException("no such order"),
                        "{'status':'retry','reason':'IllegalStateException: no such order',"
                                + "'code':'IllegalStateException'}"),
                Arguments.of(
                        new StackOverflowError(),
                        "{'status':'retry','reason':'StackOverflowError','code':'StackOverflowError'}"),
                Arguments.of(unique, "{'status':'retry','reason':'SQLException: duplicate key','code':'23505'}"),
                Arguments.of(
                        new RuntimeException("wrapped", unique),
                        "{'status':'retry','reason':'RuntimeException: wrapped','code':'23505'}"),
                Arguments.of(
                        new RuntimeException("wrapped", new VerdictException(Verdict.dead("no such order"))),
                        "{'status':'dead','reason':'no such order'}"),
                Arguments.of(
                        new RuntimeException("wrapped", new VerdictException(Verdict.dead("no such order"), unique)),
                        "{'status':'dead','reason':'no such order'}"),
                Arguments.of(
                        new SQLException("deadlock", "40P01"),
                        "{'status':'snooze','delay_ms':1000,'reason':'SQLException: deadlock','code':'40P01'}"),
                Arguments.of(
                        new SQLException("lock timeout", "55P03"),
                        "{'status':'snooze','delay_ms':1000,'reason':'SQLException: lock timeout','code':'55P03'}"),
                Arguments.of(
                        new SQLException("in use", "55006"),
                        "{'status':'snooze','delay_ms':1000,'reason':'SQLException: in use','code':'55006'}"),
                Arguments.of(
                        new SQLException("no such state", "55000"),
                        "{'status':'retry','reason':'SQLException: no such state','code':'55000'}"),
                Arguments.of(
                        new SQLTransientConnectionException("no connection in 5 s"),
                        "{'status':'snooze','delay_ms':1000,"
                                + "'reason':'SQLTransientConnectionException: no connection in 5 s','code':'DATABASE_AWAY'}"),
                Arguments.of(new SQLException("inbox.complete: claim 1.1.17 is lost", "IB001"), "{'status':'settled'}"),
                Arguments.of(
                        new RuntimeException(new SQLException("inbox.complete: claim 1.1.17 is lost", "IB001")),
                        "{'status':'settled'}"));
    }

    @ParameterizedTest
    @MethodSource("exceptions")
    void anException(Throwable error, String answer) throws Exception {
        sidecar.start(delivery -> {
            if (error instanceof Error failure) {
                throw failure;
            }
            throw (Exception) error;
        });
        sidecar.accept();
        sidecar.deliver(1);
        assertJson(answer, sidecar.answer());
    }

    @Test
    void aResultThatIsNotJsonDoesNotChangeTheVerdict() throws Exception {
        sidecar.start(delivery -> Verdict.done(delivery.attempt() == 1 ? new Object() : "x".repeat(1 << 21)));
        sidecar.accept();
        sidecar.deliver(1);
        assertTrue(sidecar.answer().path("result").path("inboxd").asText().startsWith("result not stored: "));
        sidecar.deliver(2, "{'delivery':{'attempt':2}}");
        JsonNode answer = sidecar.answer(2);
        assertEquals("done", answer.path("status").asText());
        assertEquals(
                "result not stored: 2097154 characters",
                answer.path("result").path("inboxd").asText());
    }

    @Test
    void eventsThatCannotBePublishedAreARetry() throws Exception {
        Emit made = Emit.to("t", "made");
        sidecar.start(delivery ->
                Verdict.done().emit(made.data(delivery.attempt() == 1 ? new Object() : "x".repeat(9 << 20))));
        sidecar.accept();
        sidecar.deliver(1);
        assertEquals("retry", sidecar.answer().path("status").asText());
        sidecar.deliver(2, "{'delivery':{'attempt':2}}");
        assertTrue(sidecar.answer(2).path("reason").asText().contains("more than 8388608"));
        assertThrows(
                IllegalArgumentException.class,
                () -> new Emit(null, null, "x", null, null, Map.of(), null, null, null));
    }

    @Test
    void aFunctionThatReturnsNullIsARetry() throws Exception {
        sidecar.start(delivery -> null);
        sidecar.accept();
        sidecar.deliver(1);
        assertEquals("NullPointerException", sidecar.answer().path("code").asText());
    }

    @Test
    void onErrorChoosesTheVerdict() throws Exception {
        sidecar.start(sidecar.builder()
                .on(delivery -> {
                    throw new IllegalStateException("slow");
                })
                .onError((error, delivery) -> switch (delivery.event().id()) {
                    case "A1" -> Verdict.snooze(Duration.ofSeconds(7), error.getMessage());
                    case "A2" -> null;
                    default -> throw new IllegalArgumentException("bug");
                }));
        sidecar.accept();
        sidecar.deliver(1);
        assertJson("{'status':'snooze','delay_ms':7000,'reason':'slow'}", sidecar.answer(1));
        for (int number = 2; number <= 3; number++) {
            sidecar.deliver(number);
            assertEquals("retry", sidecar.answer(number).path("status").asText());
        }
    }

    @Test
    void aLongReasonIsCutBetweenCharacters() throws Exception {
        sidecar.start(delivery -> Verdict.retry("x" + "😀".repeat(5000)).code("C".repeat(100)));
        sidecar.accept();
        sidecar.deliver(1);
        JsonNode answer = sidecar.answer();
        assertEquals("x" + "😀".repeat(2047), answer.path("reason").asText());
        assertEquals("C".repeat(64), answer.path("code").asText());
    }

    @Test
    void theMostSpecificFunctionGetsTheMessage() throws Exception {
        sidecar.start(sidecar.builder()
                .on(delivery -> Verdict.done("any"))
                .on("orders", delivery -> Verdict.done("topic"))
                .on(Subscription.types("order.*"), delivery -> Verdict.done("prefix"))
                .on(Subscription.types("order.pa*"), delivery -> Verdict.done("longer prefix"))
                .on(Subscription.of("orders", "order.*"), delivery -> Verdict.done("both"))
                .on(Subscription.of("*", "order.paid"), delivery -> Verdict.done("exact")));
        assertEquals(
                Sidecar.json("{'a':[{'types':['*','order.*','order.pa*','order.paid']},"
                                + "{'topic':'orders','types':['*','order.*']}]}")
                        .path("a"),
                sidecar.accept().path("subscribe"));
        String[][] messages = {
            {"payments", "paid", "any"},
            {"orders", "audit", "topic"},
            {"payments", "order.made", "prefix"},
            {"orders", "order.made", "both"},
            {"orders", "order.part", "longer prefix"},
            {"orders", "order.paid", "exact"},
            {"orders", "", "topic"}
        };
        for (String[] message : messages) {
            sidecar.deliver(1, "{'kafkatopic':'" + message[0] + "','type':'" + message[1] + "'}");
            assertEquals(message[2], sidecar.answer().path("result").asText());
        }
    }

    @Test
    void twoFunctionsForTheSameMessagesAreRefused() {
        Handler.Builder builder =
                Handler.builder("billing").on(Subscription.of("orders", "a", "b"), delivery -> Verdict.done());
        Subscription same = Subscription.of("orders", "b");
        Exception refused =
                assertThrows(IllegalArgumentException.class, () -> builder.on(same, delivery -> Verdict.done()));
        assertEquals("two functions for topic orders and type b", refused.getMessage());
        assertThrows(
                IllegalStateException.class, () -> Handler.builder("billing").build());
        assertThrows(IllegalArgumentException.class, () -> builder.workers(0));
    }

    @Test
    void aMessageWithoutAFunctionWaits() throws Exception {
        sidecar.start(sidecar.builder().on(Subscription.of("orders", "order.paid"), delivery -> Verdict.done()));
        sidecar.accept();
        sidecar.deliver(1);
        assertEquals("NO_FUNCTION", sidecar.answer().path("code").asText());
    }

    @Test
    void functionsWorkAtTheSameTime() throws Exception {
        CountDownLatch together = new CountDownLatch(4);
        sidecar.start(delivery -> {
            together.countDown();
            assertTrue(together.await(10, TimeUnit.SECONDS));
            return Verdict.done();
        });
        sidecar.accept();
        for (int number = 1; number <= 4; number++) {
            sidecar.deliver(number);
        }
        Set<String> ids = new HashSet<>();
        for (int number = 1; number <= 4; number++) {
            ids.add(sidecar.read().path("id").asText());
        }
        assertEquals(Set.of("d1", "d2", "d3", "d4"), ids);
    }

    @Test
    void anExecutorThatTakesNoTaskGivesTheMessageBack() throws Exception {
        sidecar.start(sidecar.builder().on(delivery -> Verdict.done()).executor(task -> {
            throw new RejectedExecutionException("full");
        }));
        sidecar.accept();
        sidecar.deliver(1);
        assertJson("{'status':'skipped'}", sidecar.answer());
    }

    record Amount(BigDecimal cents) {}

    @Test
    void dataIsReadAsAnObjectOfAClass() throws Exception {
        sidecar.start(delivery ->
                Verdict.done(delivery.event().data().as(Amount.class).cents().toString()));
        sidecar.accept();
        sidecar.deliver(
                1,
                "{'data':{'cents':1.50000000000000000001,'later':1}}"
                        .replace("1.5", "'1.5")
                        .replace("1,", "1',"));
        assertEquals("1.50000000000000000001", sidecar.answer().path("result").asText());
        sidecar.deliver(2, "{'data':[1]}");
        JsonNode answer = sidecar.answer(2);
        assertEquals("PayloadException", answer.path("code").asText());
        assertTrue(answer.path("reason").asText().contains("the data of the event is not " + Amount.class.getName()));
    }

    @Test
    void aCancelInterruptsTheFunction() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        sidecar.start(sidecar.builder().workers(1).on(delivery -> {
            if (delivery.id().equals("d1")) {
                seen.add("begins");
                assertThrows(InterruptedException.class, () -> Thread.sleep(60_000));
                assertThrows(CancelledException.class, delivery::throwIfCancelled);
                assertThrows(CancelledException.class, () -> delivery.extend(Duration.ofSeconds(1)));
                seen.add(delivery.cancelReason().orElseThrow());
            }
            return Verdict.done(Thread.currentThread().isInterrupted());
        }));
        sidecar.accept();
        sidecar.deliver(1);
        assertEquals("begins", seen.poll(10, TimeUnit.SECONDS));
        sidecar.cancel(1, "lease_lost");
        sidecar.deliver(2);
        assertJson("{'status':'done','result':false}", sidecar.answer(2));
        assertEquals("lease_lost", seen.poll(10, TimeUnit.SECONDS));
    }

    @Test
    void anInterruptThatNobodySawDoesNotReachTheNextFunction() throws Exception {
        sidecar.start(sidecar.builder().workers(1).on(delivery -> {
            while (delivery.id().equals("d1") && !Thread.currentThread().isInterrupted()) {
                Thread.onSpinWait();
            }
            return Verdict.done(Thread.currentThread().isInterrupted());
        }));
        sidecar.accept();
        sidecar.deliver(1);
        sidecar.cancel(1, "timeout");
        sidecar.deliver(2);
        assertJson("{'status':'done','result':false}", sidecar.answer(2));
    }

    @Test
    void aLostConnectionInterruptsTheFunction() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        sidecar.start(delivery -> {
            if (delivery.id().equals("d1")) {
                seen.add("begins");
                assertThrows(InterruptedException.class, () -> Thread.sleep(60_000));
                seen.add(delivery.cancelReason().orElseThrow());
            }
            return Verdict.done();
        });
        sidecar.accept();
        sidecar.deliver(1);
        assertEquals("begins", seen.poll(10, TimeUnit.SECONDS));
        sidecar.accept();
        assertEquals("connection_lost", seen.poll(10, TimeUnit.SECONDS));
        sidecar.deliver(2);
        assertJson("{'status':'done'}", sidecar.answer(2));
    }

    @Test
    void theLibraryExtendsLongFunctionsUpToALimit() throws Exception {
        CountDownLatch ends = new CountDownLatch(1);
        sidecar.start(sidecar.builder().extendUpTo(Duration.ofMillis(700)).on(delivery -> {
            ends.await();
            return Verdict.done();
        }));
        sidecar.accept("{'timeout_ms':200}");
        sidecar.deliver(1);
        int extended = 0;
        for (JsonNode line = sidecar.read(); ; line = sidecar.read()) {
            assertEquals("extend", line.path("method").asText());
            assertJson("{'delivery':'d1','timeout_ms':200}", line.path("params"));
            extended++;
            if (extended == 2) {
                Thread.sleep(900); // no more comes after 700 ms
                ends.countDown();
                break;
            }
        }
        JsonNode line = sidecar.read();
        long last = 200;
        for (; line.has("method"); line = sidecar.read()) {
            extended++;
            last = line.path("params").path("timeout_ms").asLong();
        }
        assertEquals("done", line.path("result").path("status").asText());
        assertTrue(last < 200, "the last one asks for " + last + " ms, what is left until 700 ms");
        assertTrue(extended < 10, extended + " extends");
    }

    @Test
    void aDeliveryDescribesTheMessage() throws Exception {
        BlockingQueue<Delivery> seen = new LinkedBlockingQueue<>();
        sidecar.start(delivery -> {
            seen.add(delivery);
            return Verdict.done();
        });
        sidecar.accept();
        sidecar.deliver(
                1,
                "{'headers':[['a','1'],['a','2'],['n',null],['raw',{'base64':'//4='}]],"
                        + "'delivery':{'attempt':3,'replay':true,'consumer':'search','deadline':'2026-11-21T05:42:00.000Z'}}");
        sidecar.answer();
        Delivery delivery = seen.take();
        assertEquals("delivery d1 (attempt 3 of order.created A1 from orders)", delivery.toString());
        assertEquals(
                List.of("1.1.17", 1L, 3, 10),
                List.of(delivery.claim(), delivery.seq(), delivery.attempt(), delivery.maxAttempts()));
        assertEquals("search", delivery.consumer().orElseThrow());
        assertEquals("2026-11-21T05:42Z", delivery.deadline().orElseThrow().toString());
        assertTrue(delivery.isReplay());
        assertEquals("2", delivery.header("a").orElseThrow().text());
        assertEquals(new Header("raw", new byte[] {-1, -2}), delivery.headers().get(3));
        assertEquals(null, delivery.header("n").orElseThrow().text());
        assertTrue(delivery.header("b").isEmpty());
        assertFalse(delivery.isCancelled());
        until(() -> true);
    }
}
