package io.inboxd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import io.cloudevents.CloudEvent;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EventTest {
    private static final String TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /** The event of a line. The members are in JSON. */
    private static Event event(String members) throws IOException {
        byte[] line = ("  {\"params\":{\"delivery\":{\"claim\":\"1.1.17\"},\"event\":{" + members.replace('\'', '"')
                        + "}},\"method\":\"deliver\",\"id\":\"d1\"} ")
                .getBytes(StandardCharsets.UTF_8);
        return LineParser.parse(Json.MAPPER, line, 1, line.length - 1).entry.event;
    }

    @Test
    void theAttributesOfAnEvent() throws IOException {
        Event event = event("'specversion':'1.0','id':'A-ü','source':'urn:shop','type':'order.created','subject':'17',"
                + "'time':'2026-11-21T05:40:59.120Z','datacontenttype':'application/json','kafkatopic':'orders',"
                + "'kafkapartition':3,'kafkaoffset':'9007199254740993','partitionkey':'c-ü','traceparent':'"
                + TRACEPARENT
                + "','mine':true,'none':null,'data':{}");
        assertEquals(List.of("A-ü", "urn:shop", "order.created"), List.of(event.id(), event.source(), event.type()));
        assertEquals("17", event.subject().orElseThrow());
        assertEquals("2026-11-21T05:40:59.120Z", event.time().orElseThrow().toString());
        assertEquals("application/json", event.dataContentType().orElseThrow());
        assertEquals(
                List.of("orders", 3, 9007199254740993L), List.of(event.topic(), event.partition(), event.offset()));
        assertArrayEquals("c-ü".getBytes(StandardCharsets.UTF_8), event.key().orElseThrow());
        assertEquals("c-ü", event.keyText().orElseThrow());
        assertEquals(true, event.attributes().get("mine"));
        assertEquals("true", event.attribute("mine").orElseThrow());
        assertFalse(event.attributes().containsKey("none"));
        assertFalse(event.attributes().containsKey("data"));
        assertThrows(
                UnsupportedOperationException.class, () -> event.attributes().remove("mine"));
        assertEquals("order.created A-ü from urn:shop", event.toString());
    }

    @Test
    void anEventWithoutAttributes() throws IOException {
        Event event = event("'time':'yesterday','partitionkeybase64':'//4A'");
        assertEquals(
                List.of("", "", "", "", 0, 0L),
                List.of(event.id(), event.source(), event.type(), event.topic(), event.partition(), event.offset()));
        assertTrue(event.subject().isEmpty()
                && event.time().isEmpty()
                && event.trace().isEmpty());
        assertArrayEquals(new byte[] {-1, -2, 0}, event.key().orElseThrow());
        assertTrue(event.keyText().isEmpty());
        assertTrue(event.data().isTombstone());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"a\":[1,{\"b\":null}]}",
                "[]",
                "\"text \\\" ü 😀\"",
                "\"\"",
                "0",
                "-1.50",
                "12345678901234567890.10",
                "1e400",
                "true",
                "false",
                "null",
                "{ \"a\" : 1 }"
            })
    void dataIsKeptAsItStandsInTheLine(String data) throws IOException {
        for (String around : List.of("'data':%s", "'data' : %s ,'id':'1'", "'id':'1','data':\t%s \t")) {
            String members = around.replace('\'', '"').formatted(data);
            Payload payload = event(members).data();
            assertEquals(data, payload.text());
            assertTrue(payload.isJson());
            assertEquals(payload, Payload.ofJson(data));
        }
    }

    @Test
    void bytesAndTombstones() throws IOException {
        Payload bytes = event("'data_base64':'AAH/'").data();
        assertArrayEquals(new byte[] {0, 1, -1}, bytes.bytes());
        assertFalse(bytes.isJson() || bytes.isTombstone());
        assertThrows(PayloadException.class, () -> bytes.as(JsonNode.class));
        Payload empty = event("'data_base64':''").data();
        assertEquals(0, empty.bytes().length);
        assertFalse(empty.isTombstone());
        assertNotEquals(Payload.TOMBSTONE, empty);
        assertNull(Payload.TOMBSTONE.as(JsonNode.class));
        assertFalse(event("'data':null").data().isTombstone());
        assertEquals("3 bytes", bytes.toString());
    }

    @Test
    void dataAsObjects() {
        Payload payload = Payload.ofJson("[{\"n\":1.50}]");
        assertEquals("[{\"n\":1.50}]", payload.as(JsonNode.class).toString());
        assertEquals(
                "1.50",
                payload.as(new TypeReference<List<Map<String, Object>>>() {})
                        .get(0)
                        .get("n")
                        .toString());
        Exception failure = assertThrows(
                PayloadException.class, () -> Payload.ofJson("\"secret\"").as(Integer.class));
        assertTrue(failure.getMessage().startsWith("the data of the event is not java.lang.Integer"));
    }

    @Test
    void theTraceOfAnEvent() throws IOException {
        TraceContext trace = event("'traceparent':'" + TRACEPARENT + "','tracestate':'a=1'")
                .trace()
                .orElseThrow();
        assertEquals(Map.of("traceparent", TRACEPARENT, "tracestate", "a=1"), trace.headers());
        assertTrue(trace.isSampled());
        TraceContext child = trace.child();
        assertEquals(trace.traceId(), child.traceId());
        assertNotEquals(trace.parentId(), child.parentId());
        assertEquals(
                child,
                TraceContext.parse(child.headers().get("traceparent"), "a=1").orElseThrow());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "00",
                "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"
            })
    void aTraceThatIsNotValid(String traceparent) {
        assertTrue(TraceContext.parse(traceparent, null).isEmpty());
    }

    @Test
    void anEventOfTheSdkOfCloudEvents() throws IOException {
        CloudEvent event =
                CloudEvents.of(event("'specversion':'1.0','id':'A1','source':'my shop','type':'order.created',"
                        + "'subject':'17','time':'2026-11-21T05:40:59.120Z','datacontenttype':'application/json','dataschema':'urn:s',"
                        + "'kafkapartition':3,'mine':true,'partitionkey':'c-17','data':{'order':17}"));
        assertEquals("A1", event.getId());
        assertEquals(URI.create("my+shop"), event.getSource());
        assertEquals("order.created", event.getType());
        assertEquals("17", event.getSubject());
        assertEquals("2026-11-21T05:40:59.120Z", event.getTime().toString());
        assertEquals(URI.create("urn:s"), event.getDataSchema());
        assertEquals("application/json", event.getDataContentType());
        assertEquals(3, event.getExtension("kafkapartition"));
        assertEquals(true, event.getExtension("mine"));
        assertEquals("c-17", event.getExtension("partitionkey"));
        assertEquals("{\"order\":17}", new String(event.getData().toBytes(), StandardCharsets.UTF_8));
        CloudEvent tombstone = CloudEvents.of(event("'id':'A2','source':'shop'"));
        assertNull(tombstone.getData());
        assertEquals("unknown", tombstone.getType());
    }
}
