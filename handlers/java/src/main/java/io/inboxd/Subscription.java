package io.inboxd;

import java.util.List;

/**
 * The messages that a function gets.
 *
 * @param topic a topic of Kafka, whole; {@code *} is any topic
 * @param types types of events. One that ends with {@code *} is a prefix. No types, or {@code *}: any type, also messages without one
 */
public record Subscription(String topic, List<String> types) {
    /** Copies the list. */
    public Subscription {
        types = types.isEmpty() ? List.of("*") : List.copyOf(types);
    }

    /** {@return every message} */
    public static Subscription everything() {
        return new Subscription("*", List.of());
    }

    /**
     * Messages of a topic.
     *
     * @param topic a topic of Kafka, whole; {@code *} is any topic
     * @param types types of events; none: any type
     * @return the subscription
     */
    public static Subscription of(String topic, String... types) {
        return new Subscription(topic, List.of(types));
    }

    /**
     * Messages of these types, in any topic.
     *
     * @param types types of events
     * @return the subscription
     */
    public static Subscription types(String... types) {
        return new Subscription("*", List.of(types));
    }
}
