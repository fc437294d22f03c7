package io.inboxd;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The answer to a delivery.
 *
 * @param members as JSON
 * @param isFinished whether later messages of the key may be processed: done, dead or settled
 * @param shorter what is sent if the line would be too long; null if the answer is never long
 */
record Answer(String members, boolean isFinished, Answer shorter) {
    static final Answer DONE = new Answer("\"status\":\"done\"", true, null);
    static final Answer SETTLED = new Answer("\"status\":\"settled\"", true, null);
    static final Answer SKIPPED = new Answer("\"status\":\"skipped\"", false, null);
    /** After a lost claim the answer does not matter. This one makes inboxd look at the row at once. */
    static final Answer LOST = new Answer(SETTLED.members, false, null);

    private static final Answer WITHOUT_RESULT = new Answer(
            "\"status\":\"done\",\"result\":{\"inboxd\":\"result not stored: the answer of the batch is too long\"}",
            true,
            null);
    private static final int REASON_MAX = 4096;
    private static final int CODE_MAX = 64;
    private static final int RESULT_MAX = 1 << 20; // inboxd stores no longer one
    private static final int EMIT_MAX = 8 << 20;

    /** The answer for a verdict. An exception if the events to publish are not JSON, or too long. */
    static Answer to(Verdict verdict, ObjectMapper mapper) throws JsonProcessingException {
        if (verdict instanceof Verdict.Done done) {
            return done(done, mapper);
        }
        if (verdict instanceof Verdict.Retry retry) {
            return with("retry", retry.delay(), retry.reason(), retry.code(), false);
        }
        if (verdict instanceof Verdict.Dead dead) {
            return with("dead", null, dead.reason(), dead.code(), true);
        }
        if (verdict instanceof Verdict.Snooze snooze) {
            return with("snooze", snooze.delay(), snooze.reason(), snooze.code(), false);
        }
        return verdict instanceof Verdict.Settled ? SETTLED : SKIPPED;
    }

    /** The reason of a verdict; empty if it has none. */
    static String reasonOf(Verdict verdict) {
        if (verdict instanceof Verdict.Retry retry) {
            return retry.reason();
        }
        if (verdict instanceof Verdict.Dead dead) {
            return dead.reason();
        }
        return verdict instanceof Verdict.Snooze snooze ? snooze.reason() : "";
    }

    private static Answer done(Verdict.Done done, ObjectMapper mapper) throws JsonProcessingException {
        String members = DONE.members;
        if (done.result() != null) {
            members += ",\"result\":" + result(done.result(), mapper);
        }
        if (done.emit().isEmpty()) {
            return done.result() == null ? DONE : new Answer(members, true, WITHOUT_RESULT);
        }
        String events = emit(done.emit(), mapper);
        if (events.length() > EMIT_MAX) {
            throw new IllegalArgumentException(
                    "the events to publish have " + events.length() + " characters, more than " + EMIT_MAX);
        }
        // Without its events the message would not be done. It comes again, perhaps in a smaller batch.
        return new Answer(members + ",\"emit\":" + events, true, SKIPPED);
    }

    /** The result as JSON. One that is not JSON does not change the verdict, because the work is done. */
    private static String result(Object value, ObjectMapper mapper) {
        String why;
        try {
            String json = Json.write(mapper, value);
            if (json.length() <= RESULT_MAX) {
                return json;
            }
            why = json.length() + " characters";
        } catch (JsonProcessingException | RuntimeException e) {
            why = Failure.textOf(e);
        }
        return "{\"inboxd\":" + Json.quote("result not stored: " + why) + "}";
    }

    /** The events as the member {@code emit} of an answer, and as the argument of {@code inbox.complete()}. */
    static String emit(List<Emit> events, ObjectMapper mapper) throws JsonProcessingException {
        StringBuilder json = new StringBuilder("[");
        for (Emit event : events) {
            Map<String, Object> members = new LinkedHashMap<>();
            members.put("topic", event.topic());
            members.put("aggregate", event.aggregate());
            members.put("type", event.type());
            members.put("key", event.key());
            members.put("headers", event.headers().isEmpty() ? null : event.headers());
            members.put("id", event.id());
            members.put("source", event.source());
            members.put("subject", event.subject());
            members.values().removeIf(value -> value == null);
            String written = Json.MAPPER.writeValueAsString(members);
            json.append(json.length() > 1 ? "," : "").append(written, 0, written.length() - 1);
            json.append(data(event.data(), mapper)).append('}');
        }
        return json.append(']').toString();
    }

    private static String data(Object data, ObjectMapper mapper) throws JsonProcessingException {
        if (data == null || (data instanceof Payload payload && payload.isTombstone())) {
            return "";
        }
        if (data instanceof byte[] bytes) {
            return ",\"data_base64\":\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
        }
        if (data instanceof Payload payload && !payload.isJson()) {
            return data(payload.bytes(), mapper);
        }
        return ",\"data\":" + Json.write(mapper, data);
    }

    private static Answer with(String status, Duration delay, String reason, String code, boolean isFinished) {
        StringBuilder members =
                new StringBuilder("\"status\":\"").append(status).append('"');
        if (delay != null) {
            members.append(",\"delay_ms\":").append(Math.max(millis(delay), 0));
        }
        if (!reason.isEmpty()) {
            members.append(",\"reason\":").append(Json.quote(cut(reason, REASON_MAX)));
        }
        if (code != null && !code.isEmpty()) {
            members.append(",\"code\":").append(Json.quote(cut(code, CODE_MAX)));
        }
        return new Answer(members.toString(), isFinished, null);
    }

    /** Milliseconds; no overflow. */
    static long millis(Duration duration) {
        return duration.getSeconds() < Long.MAX_VALUE / 2000 ? duration.toMillis() : Long.MAX_VALUE / 2;
    }

    /** Cuts between characters: half of a surrogate pair could not be stored. */
    private static String cut(String text, int max) {
        if (text.length() <= max) {
            return text;
        }
        return text.substring(0, Character.isHighSurrogate(text.charAt(max - 1)) ? max - 1 : max);
    }

    /** The answer as a line. */
    byte[] line(String idJson) {
        return ("{\"jsonrpc\":\"2.0\",\"id\":" + idJson + ",\"result\":{" + members + "}}\n").getBytes(UTF_8);
    }
}
