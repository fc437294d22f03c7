package io.inboxd;

import java.util.Map;
import java.util.Objects;

/**
 * An event that inboxd publishes when it stores the verdict. It needs a topic or an aggregate: {@code Emit.to("shipments",
 * "shipment.created").key("17").data(shipment)}.
 *
 * <p>Each method that changes something returns a new object.
 *
 * @param topic a topic of Kafka, or null
 * @param aggregate a kind of thing that the event is about, or null; the configuration of inboxd has its topic
 * @param type the type of the event
 * @param key events of a key have an order; null is no key
 * @param data a value that is written as JSON, or a {@code byte[]}, or a {@link Payload}; null is a tombstone
 * @param headers headers of the Kafka record
 * @param id identifies the event for its source, or null: inboxd then derives one that a repeated delivery repeats
 * @param source the source, or null for that of the configuration
 * @param subject the subject, or null
 */
public record Emit(
        String topic,
        String aggregate,
        String type,
        String key,
        Object data,
        Map<String, String> headers,
        String id,
        String source,
        String subject) {
    /** Checks what every event needs. */
    public Emit {
        Objects.requireNonNull(type, "type");
        headers = Map.copyOf(headers);
        if (topic == null && aggregate == null) {
            throw new IllegalArgumentException("an event needs a topic or an aggregate");
        }
    }

    /**
     * An event for a topic.
     *
     * @param topic a topic of Kafka
     * @param type the type of the event
     * @return a tombstone without a key
     */
    public static Emit to(String topic, String type) {
        return new Emit(topic, null, type, null, null, Map.of(), null, null, null);
    }

    /**
     * An event for the topic of an aggregate.
     *
     * @param aggregate a kind of thing that the event is about
     * @param type the type of the event
     * @return a tombstone without a key
     */
    public static Emit about(String aggregate, String type) {
        return new Emit(null, aggregate, type, null, null, Map.of(), null, null, null);
    }

    /**
     * The event with another key.
     *
     * @param key events of a key have an order
     * @return a new object
     */
    public Emit key(String key) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }

    /**
     * The event with other data.
     *
     * @param data a value that is written as JSON, or a {@code byte[]}, or a {@link Payload}; null is a tombstone
     * @return a new object
     */
    public Emit data(Object data) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }

    /**
     * The event with other headers.
     *
     * @param headers headers of the Kafka record
     * @return a new object
     */
    public Emit headers(Map<String, String> headers) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }

    /**
     * The event with an id of its own.
     *
     * @param id identifies the event for its source
     * @return a new object
     */
    public Emit id(String id) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }

    /**
     * The event with a source of its own.
     *
     * @param source the source
     * @return a new object
     */
    public Emit source(String source) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }

    /**
     * The event with a subject.
     *
     * @param subject the subject
     * @return a new object
     */
    public Emit subject(String subject) {
        return new Emit(topic, aggregate, type, key, data, headers, id, source, subject);
    }
}
