package io.inboxd;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Which function gets a message: the one with the most specific subscription, by the rules of inboxd. */
final class Routes {
    private static final int CACHE_MAX = 10_000;

    /** A function for a topic and a type, which may each be {@code *}. One of the two functions is null. */
    record Route(String topic, String type, MessageFunction forMessage, BatchFunction forBatch) {
        boolean takesBatch() {
            return forBatch != null;
        }

        /** How specific it is: an exact type, the longest prefix, no type; then a topic. -1 if it does not match. */
        private int rank(String ofTopic, String ofType) {
            if (!topic.equals("*") && !topic.equals(ofTopic)) {
                return -1;
            }
            int named = topic.equals("*") ? 0 : 1;
            if (!type.endsWith("*")) {
                return type.equals(ofType) ? Integer.MAX_VALUE - 1 + named : -1;
            }
            return ofType.startsWith(type.substring(0, type.length() - 1)) ? 2 * (type.length() - 1) + named : -1;
        }
    }

    private record Kind(String topic, String type) {}

    private final List<Route> routes = new ArrayList<>();
    private final Map<Kind, Optional<Route>> found = new ConcurrentHashMap<>();

    void add(Subscription subscription, MessageFunction forMessage, BatchFunction forBatch) {
        String topic = subscription.topic();
        for (String type : subscription.types()) {
            if (routes.stream().anyMatch(route -> route.topic.equals(topic) && route.type.equals(type))) {
                throw new IllegalArgumentException("two functions for topic " + topic + " and type " + type);
            }
            routes.add(new Route(topic, type, forMessage, forBatch));
        }
    }

    Optional<Route> find(String topic, String type) {
        Kind kind = new Kind(topic, type);
        Optional<Route> known = found.get(kind);
        if (known == null) {
            known = search(topic, type);
            if (found.size() < CACHE_MAX) {
                found.put(kind, known);
            }
        }
        return known;
    }

    private Optional<Route> search(String topic, String type) {
        Route best = null;
        int bestRank = -1;
        for (Route route : routes) {
            int rank = route.rank(topic, type);
            if (rank > bestRank) {
                best = route;
                bestRank = rank;
            }
        }
        return Optional.ofNullable(best);
    }

    boolean isEmpty() {
        return routes.isEmpty();
    }

    boolean haveBatches() {
        return routes.stream().anyMatch(Route::takesBatch);
    }

    /** The {@code subscribe} of a hello. Empty: everything. */
    List<Map<String, Object>> subscriptions() {
        Map<String, List<String>> byTopic = new LinkedHashMap<>();
        for (Route route : routes) {
            byTopic.computeIfAbsent(route.topic, topic -> new ArrayList<>()).add(route.type);
        }
        List<Map<String, Object>> subscriptions = new ArrayList<>();
        byTopic.forEach((topic, types) -> {
            Map<String, Object> subscription = new LinkedHashMap<>();
            if (!topic.equals("*")) {
                subscription.put("topic", topic);
            }
            if (!types.equals(List.of("*"))) {
                subscription.put("types", types);
            }
            subscriptions.add(subscription);
        });
        return subscriptions.equals(List.of(Map.of())) ? List.of() : subscriptions;
    }
}
