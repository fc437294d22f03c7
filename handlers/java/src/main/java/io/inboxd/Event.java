package io.inboxd;

import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.OffsetDateTime;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * The event of a message: a CloudEvent.
 *
 * <p>{@link #source()} and {@link #id()} together identify the message. They are the same at each delivery.
 *
 * @param attributes all attributes as CloudEvents names them, also those that the producer has added. A value is a text, a number or
 *     a Boolean
 * @param data the payload
 */
public record Event(Map<String, Object> attributes, Payload data) {
    /** Copies the attributes. */
    public Event {
        attributes = Collections.unmodifiableMap(new LinkedHashMap<>(attributes));
        Objects.requireNonNull(data, "data");
    }

    /** {@return the id, which is unique for the source} */
    public String id() {
        return text("id");
    }

    /** {@return the source} */
    public String source() {
        return text("source");
    }

    /** {@return the type; empty if the message has none} */
    public String type() {
        return text("type");
    }

    /** {@return what the event is about} */
    public Optional<String> subject() {
        return attribute("subject");
    }

    /** {@return when the event happened; empty if the producer gave no time that CloudEvents allows} */
    public Optional<OffsetDateTime> time() {
        try {
            return attribute("time").map(OffsetDateTime::parse);
        } catch (DateTimeException e) {
            return Optional.empty();
        }
    }

    /** {@return the type of the content of the data} */
    public Optional<String> dataContentType() {
        return attribute("datacontenttype");
    }

    /** {@return the topic in Kafka} */
    public String topic() {
        return text("kafkatopic");
    }

    /** {@return the partition in Kafka} */
    public int partition() {
        return attributes.get("kafkapartition") instanceof Number number ? number.intValue() : 0;
    }

    /** {@return the offset in Kafka} */
    public long offset() {
        return attribute("kafkaoffset").map(Long::parseLong).orElse(0L);
    }

    /** {@return the key of the record} */
    public Optional<byte[]> key() {
        Optional<String> encoded = attribute("partitionkeybase64");
        return encoded.isPresent()
                ? encoded.map(Base64.getDecoder()::decode)
                : attribute("partitionkey").map(key -> key.getBytes(StandardCharsets.UTF_8));
    }

    /** {@return the key of the record, if it is a text in UTF-8} */
    public Optional<String> keyText() {
        return attribute("partitionkey");
    }

    /** {@return the trace that the producer has begun} */
    public Optional<TraceContext> trace() {
        return TraceContext.parse(
                attribute("traceparent").orElse(null), attribute("tracestate").orElse(null));
    }

    /**
     * An attribute as text.
     *
     * @param name as in CloudEvents, for example {@code dataschema}, or the name of an extension
     * @return empty if the event does not have it
     */
    public Optional<String> attribute(String name) {
        return Optional.ofNullable(attributes.get(name)).map(Object::toString);
    }

    private String text(String name) {
        Object value = attributes.get(name);
        return value == null ? "" : value.toString();
    }

    /** Names the event, without its payload. */
    @Override
    public String toString() {
        return (type().isEmpty() ? "the event" : type()) + " " + id() + " from " + source();
    }
}
