package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The data of an event: JSON, or bytes, or nothing (a tombstone).
 *
 * <p>JSON is kept as the producer wrote it, so numbers keep their digits. It is parsed when {@link #as} is called.
 */
public final class Payload {
    /** No data: the record had no value. An empty value, or the JSON {@code null}, is not a tombstone. */
    public static final Payload TOMBSTONE = new Payload(new byte[0], false, Json.MAPPER);

    private final byte[] bytes;
    private final boolean isJson;
    private final ObjectMapper mapper;

    private Payload(byte[] bytes, boolean isJson, ObjectMapper mapper) {
        this.bytes = bytes;
        this.isJson = isJson;
        this.mapper = mapper;
    }

    /** Keeps the bytes, which are JSON in UTF-8. */
    static Payload ofJson(byte[] utf8, ObjectMapper mapper) {
        return new Payload(utf8, true, mapper);
    }

    /** Keeps the bytes. */
    static Payload ofOwnBytes(byte[] bytes) {
        return new Payload(bytes, false, Json.MAPPER);
    }

    /**
     * JSON, for tests of your functions.
     *
     * @param json the text
     * @return the payload
     */
    public static Payload ofJson(String json) {
        return ofJson(json.getBytes(StandardCharsets.UTF_8), Json.MAPPER);
    }

    /**
     * Data that is not JSON.
     *
     * @param bytes the data; it is copied
     * @return the payload
     */
    public static Payload ofBytes(byte[] bytes) {
        return new Payload(bytes.clone(), false, Json.MAPPER);
    }

    /** {@return true if the record had no value} */
    public boolean isTombstone() {
        return this == TOMBSTONE;
    }

    /** {@return true if the data is JSON} */
    public boolean isJson() {
        return isJson;
    }

    /** {@return a copy of the data as bytes: JSON as the producer wrote it; empty for a tombstone} */
    public byte[] bytes() {
        return bytes.clone();
    }

    /** {@return the data as text in UTF-8: JSON as the producer wrote it; empty for a tombstone} */
    public String text() {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /**
     * The data as an object of a class: a record, for example, or {@link JsonNode} for a tree.
     *
     * @param <T> the type
     * @param type its class
     * @return the object; null for a tombstone and for the JSON {@code null}
     * @throws PayloadException if the data is not JSON, or is no such object
     */
    public <T> T as(Class<T> type) {
        return as(mapper.constructType(type));
    }

    /**
     * The data as an object of a generic type.
     *
     * @param <T> the type
     * @param type describes it: {@code new TypeReference<List<Order>>() {}}
     * @return the object; null for a tombstone and for the JSON {@code null}
     * @throws PayloadException if the data is not JSON, or is no such object
     */
    public <T> T as(TypeReference<T> type) {
        return as(mapper.constructType(type.getType()));
    }

    /**
     * The data as an object of a type that is known only at run time, for frameworks.
     *
     * @param type for example that of a parameter
     * @return the object; null for a tombstone and for the JSON {@code null}
     * @throws PayloadException if the data is not JSON, or is no such object
     */
    public Object as(Type type) {
        return as(mapper.constructType(type));
    }

    private <T> T as(JavaType type) {
        if (isTombstone()) {
            return null;
        }
        if (!isJson) {
            throw new PayloadException("the data of the event is not JSON", null);
        }
        try {
            return mapper.readValue(bytes, type);
        } catch (JsonProcessingException e) {
            // Not getMessage(): the place in the text does not help.
            throw new PayloadException(
                    "the data of the event is not " + type.toCanonical() + ": " + e.getOriginalMessage(), e);
        } catch (IOException e) {
            throw new PayloadException("the data of the event cannot be read", e);
        }
    }

    /** Compares the data byte by byte. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Payload payload
                && isTombstone() == payload.isTombstone()
                && isJson == payload.isJson
                && Arrays.equals(bytes, payload.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** Describes the payload, without its content. */
    @Override
    public String toString() {
        return isTombstone() ? "a tombstone" : bytes.length + (isJson ? " bytes of JSON" : " bytes");
    }
}
