package io.inboxd;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * W3C trace context: the trace that the producer of a message has begun.
 *
 * <p>Programs with OpenTelemetry pass {@link #headers()} to the {@code extract()} of a propagator. Programs without a tracing library
 * send {@code child().headers()} with their own requests.
 *
 * @param traceId 32 hexadecimal digits
 * @param parentId 16 hexadecimal digits
 * @param flags 2 hexadecimal digits
 * @param state the {@code tracestate}, empty if there is none
 */
public record TraceContext(String traceId, String parentId, String flags, String state) {
    private static final Pattern TRACEPARENT =
            Pattern.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?");
    private static final Pattern ZEROS = Pattern.compile("0+");

    /** Checks that nothing is null. */
    public TraceContext {
        Objects.requireNonNull(traceId, "traceId");
        Objects.requireNonNull(parentId, "parentId");
        Objects.requireNonNull(flags, "flags");
        Objects.requireNonNull(state, "state");
    }

    /**
     * The context of these headers.
     *
     * @param traceparent may be null
     * @param tracestate may be null
     * @return empty if the headers are absent or not valid
     */
    public static Optional<TraceContext> parse(String traceparent, String tracestate) {
        Matcher found = TRACEPARENT.matcher(Objects.requireNonNullElse(traceparent, ""));
        if (!found.matches()
                || found.group(1).equals("ff")
                || (found.group(1).equals("00") && found.group(5) != null)
                || ZEROS.matcher(found.group(2)).matches()
                || ZEROS.matcher(found.group(3)).matches()) {
            return Optional.empty();
        }
        return Optional.of(new TraceContext(
                found.group(2), found.group(3), found.group(4), Objects.requireNonNullElse(tracestate, "")));
    }

    /** {@return true if the producer records the trace} */
    public boolean isSampled() {
        return (Integer.parseInt(flags, 16) & 1) == 1;
    }

    /** {@return the same trace with a new span as the parent} */
    public TraceContext child() {
        long span = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
        return new TraceContext(traceId, String.format("%016x", span), flags, state);
    }

    /** {@return {@code traceparent} and, if there is one, {@code tracestate}} */
    public Map<String, String> headers() {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("traceparent", "00-" + traceId + "-" + parentId + "-" + flags);
        if (!state.isEmpty()) {
            headers.put("tracestate", state);
        }
        return headers;
    }
}
