package io.inboxd;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;

/** A line of inboxd. What it does not have is null. The order of its members means nothing, so all methods share one class. */
final class Message {
    String id;
    /** The id as the line had it. */
    String idJson;

    String method;
    JsonNode result;
    JsonNode error;

    /** Of {@code deliver}. */
    Entry entry = new Entry();

    /** Of {@code deliver_batch}. */
    List<Entry> entries;

    /** Of {@code cancel}: the id of the delivery. */
    String cancelled;

    String reason;
}
