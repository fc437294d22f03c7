package io.inboxd;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a line of inboxd in one pass. Unknown members are skipped, and a member that is null, or of another type, counts as not given.
 * The data of an event is kept as it stands in the line.
 */
final class LineParser {
    private final ObjectMapper mapper;
    private final byte[] buffer;
    private final int offset;
    private final JsonParser in;

    private LineParser(ObjectMapper mapper, byte[] buffer, int offset, int length) throws IOException {
        this.mapper = mapper;
        this.buffer = buffer;
        this.offset = offset;
        this.in = Json.FACTORY.createParser(buffer, offset, length);
    }

    /** Loads the classes that a line needs. */
    static void warmUp() {
        String line =
                "{'id':'','method':'','params':{'delivery':{'claim':'','seq':'1'},'event':{'id':'','kafkapartition':1,"
                        + "'data':{}},'headers':[['','']]}}";
        byte[] bytes = line.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
        try {
            parse(Json.MAPPER, bytes, 0, bytes.length).entry.event.key();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** An IOException if the line is not one JSON object. The mapper is given to the payloads. */
    static Message parse(ObjectMapper mapper, byte[] buffer, int offset, int length) throws IOException {
        LineParser parser = new LineParser(mapper, buffer, offset, length);
        try (JsonParser in = parser.in) {
            if (in.nextToken() != JsonToken.START_OBJECT) {
                throw new IOException("it is not an object");
            }
            Message message = new Message();
            parser.readObject(name -> parser.readMember(message, name));
            if (in.nextToken() != null) {
                throw new IOException("there is something after the object");
            }
            return message;
        }
    }

    /** Takes a member; the parser is at its value. */
    private interface Members {
        void take(String name) throws IOException;
    }

    /** Reads the members of the object at which the parser is. If it is at something else, skips that. */
    private void readObject(Members members) throws IOException {
        if (!in.hasToken(JsonToken.START_OBJECT)) {
            in.skipChildren();
            return;
        }
        while (in.nextToken() == JsonToken.FIELD_NAME) {
            String name = in.currentName();
            in.nextToken();
            members.take(name);
        }
    }

    private void readMember(Message message, String name) throws IOException {
        switch (name) {
            case "id" -> {
                message.id = readText();
                message.idJson = raw();
                message.entry.id = message.id;
                message.entry.idJson = message.idJson;
            }
            case "method" -> message.method = readText();
            case "params" -> readObject(param -> readParam(message, param));
            case "result" -> message.result = readTree();
            case "error" -> message.error = readTree();
            default -> in.skipChildren();
        }
    }

    private void readParam(Message message, String name) throws IOException {
        switch (name) {
            case "entries" -> message.entries = readEntries();
            case "reason" -> message.reason = readText();
            case "delivery" -> {
                if (in.currentToken().isScalarValue()) {
                    message.cancelled = readText();
                } else {
                    readEntryMember(message.entry, name);
                }
            }
            default -> readEntryMember(message.entry, name);
        }
    }

    private List<Entry> readEntries() throws IOException {
        if (!in.hasToken(JsonToken.START_ARRAY)) {
            in.skipChildren();
            return null;
        }
        List<Entry> entries = new ArrayList<>();
        while (in.nextToken() != JsonToken.END_ARRAY) {
            Entry entry = new Entry();
            readObject(name -> {
                if (name.equals("id")) {
                    entry.id = readText();
                    entry.idJson = raw();
                } else {
                    readEntryMember(entry, name);
                }
            });
            entries.add(entry);
        }
        return entries;
    }

    private void readEntryMember(Entry entry, String name) throws IOException {
        switch (name) {
            case "delivery" -> {
                if (in.hasToken(JsonToken.START_OBJECT)) {
                    entry.claim = "";
                }
                readObject(member -> readDeliveryMember(entry, member));
            }
            case "event" -> entry.event = readEvent();
            case "headers" -> entry.headers = readHeaders();
            default -> in.skipChildren();
        }
    }

    private void readDeliveryMember(Entry entry, String name) throws IOException {
        switch (name) {
            case "claim" -> entry.claim = readText();
            case "seq" -> entry.seq = in.getValueAsLong();
            case "attempt" -> entry.attempt = in.getValueAsInt(1);
            case "max_attempts" -> entry.maxAttempts = in.getValueAsInt();
            case "deadline" -> entry.deadline = readText();
            case "replay" -> entry.isReplay = in.getValueAsBoolean();
            case "consumer" -> entry.consumer = readText();
            default -> {}
        }
        in.skipChildren();
    }

    private Event readEvent() throws IOException {
        if (!in.hasToken(JsonToken.START_OBJECT)) {
            in.skipChildren();
            return null;
        }
        Map<String, Object> attributes = new LinkedHashMap<>();
        Payload[] data = {Payload.TOMBSTONE};
        readObject(name -> {
            switch (name) {
                case "data" -> data[0] = Payload.ofJson(rawBytes(), mapper);
                case "data_base64" -> {
                    if (in.hasToken(JsonToken.VALUE_STRING)) {
                        data[0] = Payload.ofOwnBytes(decode(in.getText()));
                    }
                }
                default -> {
                    Object value = readAttribute();
                    if (value != null) {
                        attributes.put(name, value);
                    }
                }
            }
        });
        return new Event(attributes, data[0]);
    }

    private Object readAttribute() throws IOException {
        return switch (in.currentToken()) {
            case VALUE_STRING -> in.getText();
            case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> in.getNumberValue();
            case VALUE_TRUE, VALUE_FALSE -> in.getBooleanValue();
            default -> {
                in.skipChildren();
                yield null;
            }
        };
    }

    private List<Header> readHeaders() throws IOException {
        if (!in.hasToken(JsonToken.START_ARRAY)) {
            in.skipChildren();
            return List.of();
        }
        List<Header> headers = new ArrayList<>();
        while (in.nextToken() != JsonToken.END_ARRAY) {
            if (!in.hasToken(JsonToken.START_ARRAY)) {
                in.skipChildren();
                continue;
            }
            List<byte[]> parts = new ArrayList<>(2);
            while (in.nextToken() != JsonToken.END_ARRAY) {
                parts.add(readTextOrBytes());
            }
            if (parts.size() >= 2 && parts.get(0) != null) {
                headers.add(new Header(new String(parts.get(0), StandardCharsets.UTF_8), parts.get(1)));
            }
        }
        return List.copyOf(headers);
    }

    /** A text, or bytes as {@code {"base64":"…"}}, or null. */
    private byte[] readTextOrBytes() throws IOException {
        if (in.hasToken(JsonToken.VALUE_STRING)) {
            return in.getText().getBytes(StandardCharsets.UTF_8);
        }
        byte[][] bytes = new byte[1][];
        readObject(name -> {
            if (name.equals("base64") && in.hasToken(JsonToken.VALUE_STRING)) {
                bytes[0] = decode(in.getText());
            }
            in.skipChildren();
        });
        return bytes[0];
    }

    private static byte[] decode(String base64) throws IOException {
        try {
            return Base64.getDecoder().decode(base64);
        } catch (IllegalArgumentException e) {
            throw new IOException("it has bytes that are not base64", e);
        }
    }

    private JsonNode readTree() throws IOException {
        JsonNode tree = Json.MAPPER.readTree(in);
        return tree == null || tree.isNull() ? null : tree;
    }

    /** The text of a scalar; null if the value is null, an object or an array. */
    private String readText() throws IOException {
        if (in.hasToken(JsonToken.VALUE_NULL) || !in.currentToken().isScalarValue()) {
            in.skipChildren();
            return null;
        }
        return in.getText();
    }

    private String raw() throws IOException {
        return new String(rawBytes(), StandardCharsets.UTF_8);
    }

    /** The value at which the parser is, as it stands in the line. */
    private byte[] rawBytes() throws IOException {
        long from = in.currentTokenLocation().getByteOffset();
        if (in.currentToken().isScalarValue()) {
            in.finishToken();
        } else {
            in.skipChildren();
        }
        long to = in.currentLocation().getByteOffset();
        return Arrays.copyOfRange(buffer, offset + (int) from, offset + (int) to);
    }
}
