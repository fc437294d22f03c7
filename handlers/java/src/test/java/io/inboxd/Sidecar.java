package io.inboxd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;

/** A scripted inboxd on a socket, and handlers that are closed after the test. Texts of JSON have ' instead of ". */
final class Sidecar implements AutoCloseable {
    static final ObjectMapper MAPPER = new ObjectMapper();

    private final Path directory = Files.createTempDirectory("inboxd-");
    private final Path path = directory.resolve("inbox.sock");
    private final ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    private final List<Handler> handlers = new ArrayList<>();
    private final List<CompletableFuture<Void>> serving = new ArrayList<>();
    private SocketChannel channel;
    private BufferedReader lines;

    Sidecar() throws IOException {
        server.bind(UnixDomainSocketAddress.of(path));
    }

    Path path() {
        return path;
    }

    Handler.Builder builder() {
        return Handler.builder("billing")
                .socketPath(path)
                .workers(4)
                .drainTimeout(Duration.ofSeconds(2))
                .backoff(Duration.ofMillis(10), Duration.ofMillis(50));
    }

    /** Serves the handler in a thread of its own. */
    Handler start(Handler.Builder builder) {
        Handler handler = builder.build();
        handlers.add(handler);
        serving.add(CompletableFuture.runAsync(handler::serve, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
        }));
        return handler;
    }

    Handler start(MessageFunction function) {
        return start(builder().on(function));
    }

    /** How the handler has ended. */
    CompletableFuture<Void> serving() {
        return serving.get(serving.size() - 1);
    }

    /** Takes the next connection, and returns its hello. */
    JsonNode connection() throws IOException {
        hangUp();
        channel = server.accept();
        lines = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8));
        return read();
    }

    /** Accepts the hello, and returns its params. The terms are members of the reply. */
    JsonNode accept(String terms) throws IOException {
        JsonNode hello = connection();
        ObjectNode reply = json("{'protocol':1,'session':'s1','timeout_ms':30000,'ordering':'key'}");
        reply.setAll(json(terms));
        send("{'jsonrpc':'2.0','id':1,'result':" + reply + "}");
        return hello.path("params");
    }

    JsonNode accept() throws IOException {
        return accept("{}");
    }

    /** The next line; null at the end of the connection. */
    JsonNode read() throws IOException {
        try {
            String line = lines.readLine();
            return line == null ? null : MAPPER.readTree(line);
        } catch (java.net.SocketException e) {
            return null;
        }
    }

    void send(String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap((line.replace('\'', '"') + "\n").getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    /** A delivery d{number} of the event A{number}. The members are more of the event. */
    void deliver(int number, String members) throws IOException {
        send("{'jsonrpc':'2.0','id':'d" + number + "','method':'deliver','params':" + params(number, members) + "}");
    }

    void deliver(int number) throws IOException {
        deliver(number, "{}");
    }

    /** A batch b1 with the deliveries d1, d2, … */
    void batch(String... events) throws IOException {
        List<String> entries = new ArrayList<>();
        for (String event : events) {
            int number = entries.size() + 1;
            ObjectNode entry = params(number, event);
            entry.put("id", "d" + number);
            entries.add(entry.toString());
        }
        send("{'jsonrpc':'2.0','id':'b1','method':'deliver_batch','params':{'entries':[" + String.join(",", entries)
                + "]}}");
    }

    private static ObjectNode params(int number, String members) {
        ObjectNode params = json("{'delivery':{'claim':'" + number + ".1.17','seq':'" + number
                + "','attempt':1,'max_attempts':10},'headers':[],'event':{'specversion':'1.0','id':'A" + number
                + "','source':'orders','type':'order.created','kafkatopic':'orders','kafkapartition':3,"
                + "'kafkaoffset':'7','data':{'order':" + number + "}}}");
        ObjectNode event = (ObjectNode) params.path("event");
        event.setAll(json(members));
        for (String name : List.of("headers", "delivery")) {
            JsonNode moved = event.remove(name);
            if (moved != null && moved.isArray()) {
                params.set(name, moved);
            } else if (moved != null) {
                ((ObjectNode) params.path(name)).setAll((ObjectNode) moved);
            }
        }
        return params;
    }

    void cancel(int number, String reason) throws IOException {
        send("{'jsonrpc':'2.0','method':'cancel','params':{'delivery':'d" + number + "','reason':'" + reason + "'}}");
    }

    /** The result of the answer that comes next. */
    JsonNode answer(int number) throws IOException {
        JsonNode message = read();
        assertTrue(message != null, "the connection has ended");
        assertEquals("d" + number, message.path("id").asText(), message.toString());
        return message.path("result");
    }

    JsonNode answer() throws IOException {
        return answer(1);
    }

    /** The entries of the answer for the batch, in the order of the batch. */
    List<JsonNode> answers() throws IOException {
        JsonNode message = read();
        assertEquals("b1", message.path("id").asText(), message.toString());
        TreeMap<String, JsonNode> entries = new TreeMap<>();
        message.path("result")
                .path("entries")
                .forEach(entry -> entries.put(entry.path("id").asText(), entry));
        return List.copyOf(entries.values());
    }

    List<String> statuses() throws IOException {
        return answers().stream().map(answer -> answer.path("status").asText()).toList();
    }

    void hangUp() {
        if (channel != null) {
            try {
                channel.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    @Override
    public void close() throws IOException {
        handlers.forEach(Handler::stop);
        hangUp();
        server.close();
        handlers.forEach(Handler::close);
        Files.deleteIfExists(path);
        Files.delete(directory);
    }

    static ObjectNode json(String text) {
        try {
            return (ObjectNode) MAPPER.readTree(text.replace('\'', '"'));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Compares without the order of members. */
    static void assertJson(String expected, JsonNode found) {
        assertEquals(json(expected), found);
    }

    /** Waits until the condition is true. */
    static void until(BooleanSupplier condition) throws InterruptedException {
        for (long end = System.nanoTime() + 10_000_000_000L; !condition.getAsBoolean(); Thread.sleep(2)) {
            assertTrue(System.nanoTime() < end, "in time");
        }
    }
}
