package io.inboxd;

import static java.nio.charset.StandardCharsets.UTF_8;

/** A batch on the wire: its answer is sent when each of its deliveries is answered or cancelled. */
final class Group {
    private final String idJson;
    private final StringBuilder entries = new StringBuilder();
    private int open;

    Group(String idJson, int count) {
        this.idJson = idJson;
        this.open = count;
    }

    /** Adds an answer; null is none. Returns the line if this was the last one, otherwise null. */
    synchronized byte[] add(Delivery delivery, Answer answer, int maxLine) {
        open--;
        if (answer != null) {
            // One character can have three bytes in UTF-8.
            boolean isLong = entries.length() + answer.members().length() > maxLine / 4;
            Answer chosen = isLong && answer.shorter() != null ? answer.shorter() : answer;
            entries.append(entries.length() > 0 ? "," : "").append("{\"id\":").append(delivery.idJson());
            entries.append(',').append(chosen.members()).append('}');
        }
        if (open > 0 || entries.length() == 0) {
            return null;
        }
        return ("{\"jsonrpc\":\"2.0\",\"id\":" + idJson + ",\"result\":{\"entries\":[" + entries + "]}}\n")
                .getBytes(UTF_8);
    }
}
