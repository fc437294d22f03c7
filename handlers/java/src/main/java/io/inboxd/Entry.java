package io.inboxd;

import java.util.List;

/** A message as inboxd has sent it: the params of a {@code deliver}, or an entry of a {@code deliver_batch}. */
final class Entry {
    String id = "";
    /** The id as the line had it; null if there was none. */
    String idJson;

    /** Null if the line had none, and likewise {@link #event}. */
    String claim;

    long seq;
    int attempt = 1;
    int maxAttempts;
    String deadline;
    boolean isReplay;
    String consumer;
    Event event;
    List<Header> headers = List.of();

    static Entry of(String claim, Event event) {
        Entry entry = new Entry();
        entry.idJson = "\"\"";
        entry.claim = claim;
        entry.event = event;
        return entry;
    }

    boolean isComplete() {
        return claim != null && event != null;
    }
}
