package io.inboxd;

import static io.inboxd.Sidecar.assertJson;
import static io.inboxd.Sidecar.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
class BatchesTest {
    private static final String A = "{'partitionkey':'a'}";
    private static final String B = "{'partitionkey':'b'}";
    private static final String NO_KEY = "{}";

    private final Queue<Object> seen = new ConcurrentLinkedQueue<>();
    private Sidecar sidecar;

    @BeforeEach
    void open() throws Exception {
        sidecar = new Sidecar();
    }

    @AfterEach
    void close() throws Exception {
        sidecar.close();
    }

    private static List<String> idsOf(Iterable<Delivery> deliveries) {
        return StreamSupport.stream(deliveries.spliterator(), false)
                .map(Delivery::id)
                .toList();
    }

    @Test
    void aFunctionForBatchesGetsAllMessages() throws Exception {
        sidecar.start(sidecar.builder().onBatch(batch -> seen.add(idsOf(batch.deliveries()))));
        assertJson("{'max':100,'wait_ms':0}", sidecar.accept().path("batch"));
        sidecar.batch(A, B, A);
        assertEquals(List.of("done", "done", "done"), sidecar.statuses());
        assertEquals(List.of(List.of("d1", "d2", "d3")), List.copyOf(seen));
    }

    @Test
    void eachMessageMayHaveAVerdictOfItsOwn() throws Exception {
        sidecar.start(sidecar.builder().batch(10, Duration.ofMillis(20)).onBatch("orders", batch -> {
            batch.deliveries().get(0).setVerdict(Verdict.done(Map.of("invoice", 1)));
            batch.deliveries().get(1).setVerdict(Verdict.retry("locked"));
            batch.deliveries().get(2).setVerdict(Verdict.dead(""));
        }));
        assertJson("{'max':10,'wait_ms':20}", sidecar.accept().path("batch"));
        sidecar.batch(NO_KEY, NO_KEY, NO_KEY, NO_KEY);
        List<JsonNode> answers = sidecar.answers();
        assertJson("{'id':'d1','status':'done','result':{'invoice':1}}", answers.get(0));
        assertJson("{'id':'d2','status':'retry','reason':'locked'}", answers.get(1));
        assertJson("{'id':'d3','status':'dead'}", answers.get(2));
        assertJson("{'id':'d4','status':'done'}", answers.get(3));
    }

    @Test
    void anExceptionIsTheVerdictForAll() throws Exception {
        sidecar.start(sidecar.builder().onBatch(batch -> {
            throw new VerdictException(Verdict.snooze(Duration.ofSeconds(3)));
        }));
        sidecar.accept();
        sidecar.batch(A, A, B);
        assertEquals(List.of("snooze", "snooze", "snooze"), sidecar.statuses());
    }

    @Test
    void inAnOrderedBatchItIsTheVerdictForTheFirstOfEachKey() throws Exception {
        sidecar.start(sidecar.builder().ordered(true).onBatch(batch -> {
            throw new IllegalStateException("bug");
        }));
        assertTrue(sidecar.accept().path("batch").path("ordered").asBoolean());
        sidecar.batch(A, A, B, NO_KEY);
        assertEquals(List.of("retry", "skipped", "retry", "retry"), sidecar.statuses());
    }

    @Test
    void aLoopOverAnOrderedBatchLeavesOutWhatIsBehind() throws Exception {
        Map<String, Verdict> verdicts = Map.of("d1", Verdict.retry("locked"), "d3", Verdict.dead("bad"));
        sidecar.start(sidecar.builder().ordered(true).onBatch(batch -> {
            for (Delivery delivery : batch) {
                seen.add(delivery.id());
                if (verdicts.containsKey(delivery.id())) {
                    delivery.setVerdict(verdicts.get(delivery.id()));
                }
            }
        }));
        sidecar.accept();
        sidecar.batch(A, A, B, B);
        assertEquals(List.of("retry", "skipped", "dead", "done"), sidecar.statuses());
        assertEquals(List.of("d1", "d3", "d4"), List.copyOf(seen));
    }

    @Test
    void aLostClaimGivesTheOthersBack() throws Exception {
        sidecar.start(sidecar.builder().onBatch(batch -> {
            throw new IllegalStateException(
                    new ClaimLostException("ERROR: inbox.complete: claim 2.1.17 is lost", new SQLException()));
        }));
        sidecar.accept();
        sidecar.batch(NO_KEY, NO_KEY, NO_KEY);
        assertEquals(List.of("skipped", "settled", "skipped"), sidecar.statuses());
    }

    @Test
    void theMessagesOfAKeyAreProcessedOneAfterTheOtherAndKeysAtTheSameTime() throws Exception {
        CountDownLatch otherKeyEnds = new CountDownLatch(2);
        sidecar.start(sidecar.builder().ordered(true).batch(10).on(delivery -> {
            if (delivery.id().equals("d1")) {
                otherKeyEnds.await();
            }
            seen.add(delivery.id());
            otherKeyEnds.countDown();
            return delivery.id().equals("d4") ? Verdict.retry("") : Verdict.done();
        }));
        sidecar.accept();
        sidecar.batch(A, A, B, B, B);
        assertEquals(List.of("done", "done", "done", "retry", "skipped"), sidecar.statuses());
        assertEquals(List.of("d3", "d4", "d1", "d2"), List.copyOf(seen));
    }

    @Test
    void functionsOfBothKindsKeepTheOrderOfAKey() throws Exception {
        sidecar.start(sidecar.builder()
                .ordered(true)
                .on("orders", delivery -> {
                    seen.add(delivery.id());
                    return delivery.event().data().text().equals("\"fail\"") ? Verdict.retry("") : Verdict.done();
                })
                .onBatch(Subscription.of("orders", "order.paid"), batch -> seen.add(idsOf(batch))));
        sidecar.accept();
        String paid = "{'partitionkey':'a','type':'order.paid'}";
        String paidOfB = "{'partitionkey':'b','type':'order.paid'}";
        sidecar.batch(A, paid, paidOfB, "{'partitionkey':'a','data':'fail'}", paid, paidOfB, A);
        assertEquals(List.of("done", "done", "done", "retry", "skipped", "done", "skipped"), sidecar.statuses());
        assertEquals(List.of("d1", List.of("d2", "d3"), "d4", List.of("d6")), List.copyOf(seen));
    }

    @Test
    void anUnorderedBatchIsSplitByFunctions() throws Exception {
        sidecar.start(sidecar.builder()
                .on("orders", delivery -> Verdict.done(delivery.id()))
                .onBatch("payments", batch -> seen.add(batch.size())));
        sidecar.accept();
        String payment = "{'kafkatopic':'payments'}";
        sidecar.batch(payment, NO_KEY, payment, "{'kafkatopic':'refunds'}");
        List<JsonNode> answers = sidecar.answers();
        assertEquals("d2", answers.get(1).path("result").asText());
        assertEquals("snooze", answers.get(3).path("status").asText());
        assertEquals(List.of(2), List.copyOf(seen));
    }

    @Test
    void resultsThatAreTooLongTogetherAreLeftOut() throws Exception {
        String text = "x".repeat(3000);
        sidecar.start(sidecar.builder().batch(10).workers(1).on(delivery -> switch (delivery.id()) {
            case "d3" -> Verdict.dead("no");
            case "d4" -> Verdict.done(1).emit(Emit.to("t", "made").data(text));
            default -> Verdict.done(text);
        }));
        sidecar.accept("{'max_line_bytes':20000}");
        sidecar.batch(NO_KEY, NO_KEY, NO_KEY, NO_KEY);
        List<JsonNode> answers = sidecar.answers();
        assertEquals(text, answers.get(0).path("result").asText());
        assertTrue(answers.get(1).path("result").path("inboxd").asText().contains("result not stored"));
        assertJson("{'id':'d3','status':'dead','reason':'no'}", answers.get(2));
        assertJson("{'id':'d4','status':'skipped'}", answers.get(3)); // it comes again, and its events are published
    }

    @Test
    void theThreadIsInterruptedWhenNothingOfTheBatchIsLeft() throws Exception {
        sidecar.start(sidecar.builder().onBatch(batch -> {
            seen.add("begins");
            until(() -> batch.deliveries().get(0).isCancelled());
            seen.add("first");
            assertThrows(InterruptedException.class, () -> Thread.sleep(60_000));
            seen.add("both");
        }));
        sidecar.accept();
        sidecar.batch(NO_KEY, NO_KEY);
        until(() -> seen.size() == 1);
        sidecar.cancel(1, "timeout");
        until(() -> seen.size() == 2);
        sidecar.cancel(2, "lease_lost");
        until(() -> seen.size() == 3);
    }

    @Test
    void aBatchForTestsOfFunctions() {
        Event event = new Event(Map.of("id", "A1", "source", "orders"), Payload.ofJson("{}"));
        Batch batch = Batch.of(List.of(Delivery.of("1.1.17", event), Delivery.of("2.1.17", event)));
        batch.deliveries().get(0).setVerdict(Verdict.retry("locked"));
        assertEquals(2, batch.size());
        assertEquals("2.1.17", batch.deliveries().get(1).claim());
    }
}
