import static io.inboxd.Verdict.dead;
import static io.inboxd.Verdict.done;
import static io.inboxd.Verdict.snooze;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Payload;
import io.inboxd.Subscription;
import io.inboxd.Verdict;
import io.inboxd.VerdictException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;

/** Decodes Avro with a schema registry. Needs org.apache.avro:avro and SCHEMA_REGISTRY_URL. */
public final class SchemaRegistry {
    /** What this program reads. If the producer has an older schema, Avro sets the currency; it leaves out other fields. */
    private static final Schema ORDER = new Schema.Parser()
            .parse(
                    """
                    {"type": "record", "name": "Order", "fields": [
                        {"name": "order", "type": "long"},
                        {"name": "cents", "type": "long"},
                        {"name": "currency", "type": "string", "default": "EUR"}]}""");

    /** The registry says so; another 404 can also mean a wrong address. */
    private static final int NO_SCHEMA = 40403;

    private static final Duration LIMIT = Duration.ofSeconds(5);

    private final String url = System.getenv("SCHEMA_REGISTRY_URL");
    private final HttpClient http =
            HttpClient.newBuilder().connectTimeout(LIMIT).build();
    private final ObjectMapper json = new ObjectMapper();
    private final Map<Integer, Schema> schemas = new ConcurrentHashMap<>();

    public static void main(String[] args) {
        SchemaRegistry orders = new SchemaRegistry();
        Handler.builder("orders")
                .workers(4)
                .on(Subscription.types("order.*"), orders::take)
                .build()
                .run();
    }

    private Verdict take(Delivery delivery) throws InterruptedException {
        Payload data = delivery.event().data();
        if (data.isTombstone()) {
            return done();
        }
        GenericRecord order = decode(data.bytes());
        return done(Map.of(
                "order", order.get("order"),
                "cents", order.get("cents"),
                "currency", order.get("currency").toString()));
    }

    private GenericRecord decode(byte[] data) throws InterruptedException {
        if (data.length < 5 || data[0] != 0) {
            throw new VerdictException(
                    dead("not in the format of a schema registry").code("DATA"));
        }
        Schema writer = schema(ByteBuffer.wrap(data).getInt(1));
        try {
            var decoder = DecoderFactory.get().binaryDecoder(data, 5, data.length - 5, null);
            return new GenericDatumReader<GenericRecord>(writer, ORDER).read(null, decoder);
        } catch (IOException | RuntimeException e) {
            throw new VerdictException(dead("not an order: " + e).code("DATA"), e);
        }
    }

    /** The schema that the producer used. Functions that run at the same time may each request a new one. */
    private Schema schema(int id) throws InterruptedException {
        Schema known = schemas.get(id);
        if (known != null) {
            return known;
        }
        JsonNode answer;
        try {
            var request = HttpRequest.newBuilder(URI.create(url + "/schemas/ids/" + id))
                    .timeout(LIMIT)
                    .build();
            var response = http.send(request, BodyHandlers.ofByteArray());
            answer = json.readTree(response.body());
            if (answer.path("error_code").asInt() == NO_SCHEMA) {
                throw new VerdictException(dead("unknown schema " + id).code("DATA"));
            }
            if (!answer.path("schema").isTextual()) {
                throw new IOException("status " + response.statusCode());
            }
        } catch (IOException e) {
            throw new VerdictException(snooze(LIMIT, "schema registry: " + e).code("REGISTRY_AWAY"), e);
        }
        try {
            Schema schema = new Schema.Parser().parse(answer.path("schema").asText());
            schemas.put(id, schema);
            return schema;
        } catch (RuntimeException e) {
            throw new VerdictException(dead("not a schema of Avro: " + e).code("DATA"), e);
        }
    }
}
