package io.inboxd;

import static io.inboxd.Sidecar.assertJson;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.logging.ConsoleHandler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
class ConnectionTest {
    private Sidecar sidecar;

    @BeforeEach
    void open() throws Exception {
        sidecar = new Sidecar();
    }

    @AfterEach
    void close() throws Exception {
        sidecar.close();
    }

    @Test
    void helloHasTheOptions() throws Exception {
        sidecar.start(sidecar.builder()
                .on(Subscription.of("orders", "order.*"), delivery -> Verdict.done())
                .consumer("search")
                .instance("billing-1")
                .maxInFlight(7)
                .timeout(Duration.ofSeconds(12))
                .batch(50, Duration.ofMillis(20))
                .ordered(true));
        assertJson(
                "{'protocol':[1],'handler':'billing','instance':'billing-1','client':'inboxd-java/" + Version.VERSION
                        + "','max_in_flight':7,'timeout_ms':12000,'batch':{'max':50,'wait_ms':20,'ordered':true},"
                        + "'subscribe':[{'topic':'orders','types':['order.*']}],'consumer':'search'}",
                sidecar.accept());
    }

    @Test
    void theWindowIsKeptForLaterConnections() throws Exception {
        Handler handler = sidecar.start(delivery -> Verdict.done());
        sidecar.accept();
        sidecar.deliver(1);
        sidecar.answer();
        handler.setWindow(3);
        JsonNode line = sidecar.read();
        assertEquals("window", line.path("method").asText());
        assertJson("{'max_in_flight':3}", line.path("params"));
        assertEquals(3, sidecar.accept().path("max_in_flight").asInt());
    }

    @Test
    void theLogSaysThatTheConnectionIsBack() throws Exception {
        List<String> lines = new CopyOnWriteArrayList<>();
        Logger log = Logger.getLogger("io.inboxd");
        log.setUseParentHandlers(false);
        log.setLevel(Level.WARNING);
        java.util.logging.Handler keep = new ConsoleHandler() {
            @Override
            public void publish(LogRecord line) {
                lines.add(line.getMessage());
            }
        };
        log.addHandler(keep);
        try {
            sidecar.start(delivery -> Verdict.done());
            sidecar.accept();
            sidecar.accept();
            sidecar.deliver(1);
            sidecar.answer();
        } finally {
            log.removeHandler(keep);
            log.setLevel(null);
        }
        assertTrue(
                lines.get(lines.size() - 1).matches("connected to inboxd again after [0-9.]+ s"),
                () -> lines.toString());
    }

    @Test
    void aRefusalEndsTheHandler() throws Exception {
        sidecar.start(delivery -> Verdict.done());
        sidecar.connection();
        sidecar.send("{'jsonrpc':'2.0','id':1,'error':{'code':-32003,'message':'audit has this subscription'}}");
        Throwable refused = assertThrows(
                        ExecutionException.class, () -> sidecar.serving().get())
                .getCause();
        assertEquals(-32003, assertInstanceOf(RefusedException.class, refused).code());
        assertTrue(refused.getMessage().contains("audit has this subscription"));
    }

    @Test
    void aHandlerThatIsNotAcceptedNowTriesAgain() throws Exception {
        sidecar.start(delivery -> Verdict.done());
        sidecar.connection();
        sidecar.send("{'jsonrpc':'2.0','id':1,'error':{'code':-32020,'message':'shutting down'}}");
        assertNull(sidecar.read());
        sidecar.accept();
    }

    @Test
    void linesOutsideOfTheProtocolEndTheConnection() throws Exception {
        sidecar.start(delivery -> Verdict.done());
        String[] lines = {
            "{'a':", "[1]", "x", "{} {}", "", "{'id':'d1','method':'deliver','params':{'event':{'data_base64':'%'}}}"
        };
        for (String line : lines) {
            sidecar.accept();
            sidecar.send(line);
            assertNull(sidecar.read(), line);
        }
        sidecar.connection();
        sidecar.send("{'jsonrpc':'2.0','method':'cancel','params':{}}"); // before the reply to hello
        assertNull(sidecar.read());
    }

    @Test
    void closeDrains() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch ends = new CountDownLatch(1);
        Handler handler = sidecar.start(sidecar.builder().workers(1).on(delivery -> {
            begun.countDown();
            ends.await();
            return Verdict.done();
        }));
        sidecar.accept();
        sidecar.deliver(1);
        sidecar.deliver(2);
        begun.await();
        handler.stop();
        List<JsonNode> lines = List.of(sidecar.read(), sidecar.read()); // in any order
        int drain = lines.get(0).has("method") ? 0 : 1;
        assertEquals("drain", lines.get(drain).path("method").asText());
        assertJson("{'status':'skipped'}", lines.get(1 - drain).path("result")); // d2: no function has seen it
        sidecar.deliver(3); // crosses the drain
        assertJson("{'status':'skipped'}", sidecar.answer(3));
        ends.countDown();
        assertJson("{'status':'done'}", sidecar.answer(1));
        sidecar.send("{'jsonrpc':'2.0','id':2,'result':{'in_flight':0}}");
        assertNull(sidecar.read());
        sidecar.serving().get();
        assertThrows(IllegalStateException.class, handler::serve);
    }

    @Test
    void theDrainHasADeadline() throws Exception {
        CountDownLatch interrupted = new CountDownLatch(1);
        Handler handler = sidecar.start(
                sidecar.builder().drainTimeout(Duration.ofMillis(100)).on(delivery -> {
                    try {
                        Thread.sleep(60_000);
                    } catch (InterruptedException e) {
                        interrupted.countDown();
                    }
                    return Verdict.done();
                }));
        sidecar.accept();
        sidecar.deliver(1);
        Thread.sleep(50);
        handler.close();
        assertEquals("drain", sidecar.read().path("method").asText());
        assertNull(sidecar.read());
        interrupted.await();
        sidecar.serving().get();
    }

    @Test
    void aHandlerThatIsNotAcceptedYetEndsAtOnce() throws Exception {
        Handler handler = sidecar.start(delivery -> Verdict.done());
        sidecar.connection();
        handler.close();
        assertNull(sidecar.read());
        sidecar.serving().get();
    }

    @Test
    void anInterruptEndsServe() throws Exception {
        Handler handler = sidecar.builder().on(delivery -> Verdict.done()).build();
        boolean[] wasInterrupted = new boolean[1];
        Thread serving = new Thread(() -> {
            handler.serve();
            wasInterrupted[0] = Thread.currentThread().isInterrupted();
        });
        serving.start();
        sidecar.accept();
        serving.interrupt();
        serving.join();
        assertTrue(wasInterrupted[0]);
        handler.close();
    }

    @Test
    void aHandlerThatWasClosedDoesNotServe() {
        Handler handler =
                Handler.builder("billing").on(delivery -> Verdict.done()).build();
        handler.close();
        handler.close();
        assertThrows(IllegalStateException.class, handler::serve);
    }

    @Test
    void aLineOfManyMegabytesIsRead() throws Exception {
        sidecar.start(delivery -> Verdict.done(delivery.event().data().bytes().length));
        sidecar.accept();
        sidecar.deliver(1, "{'data':'" + "x".repeat(5_000_000) + "'}");
        assertEquals(5_000_002, sidecar.answer().path("result").asInt());
        sidecar.deliver(2);
        assertNotNull(sidecar.answer(2));
    }
}
