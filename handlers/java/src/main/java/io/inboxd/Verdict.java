package io.inboxd;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * What a function says about a message. A function returns it; deep inside, it can throw a {@link VerdictException}.
 *
 * <p>An exception that is no verdict is a retry, with its text as the reason.
 */
public sealed interface Verdict {
    /**
     * The message is processed.
     *
     * @param result is stored in the row, as JSON; null is no result
     * @param emit events that inboxd publishes
     */
    record Done(Object result, List<Emit> emit) implements Verdict {
        /** Copies the list. */
        public Done {
            emit = List.copyOf(emit);
        }

        /**
         * The verdict with more events to publish. inboxd stores them together with the completion of the message.
         *
         * @param events the events that come after those of this verdict
         * @return a new object
         */
        public Done emit(Emit... events) {
            return new Done(
                    result, Stream.concat(emit.stream(), Stream.of(events)).toList());
        }
    }

    /**
     * The attempt failed. The message comes again.
     *
     * @param reason for people; may be empty
     * @param delay until the next attempt; null is the backoff of inboxd
     * @param code groups failures, for operators; null is none
     */
    record Retry(String reason, Duration delay, String code) implements Verdict {
        /** Checks the reason. */
        public Retry {
            Objects.requireNonNull(reason, "reason");
        }

        /**
         * The verdict with a delay.
         *
         * @param delay until the next attempt
         * @return a new object
         */
        public Retry after(Duration delay) {
            return new Retry(reason, delay, code);
        }

        /**
         * The verdict with a code.
         *
         * @param code groups failures, for operators
         * @return a new object
         */
        public Retry code(String code) {
            return new Retry(reason, delay, code);
        }
    }

    /**
     * The message can never be processed. It does not come again unless an operator replays it.
     *
     * @param reason for people; may be empty
     * @param code groups failures, for operators; null is none
     */
    record Dead(String reason, String code) implements Verdict {
        /** Checks the reason. */
        public Dead {
            Objects.requireNonNull(reason, "reason");
        }

        /**
         * The verdict with a code.
         *
         * @param code groups failures, for operators
         * @return a new object
         */
        public Dead code(String code) {
            return new Dead(reason, code);
        }
    }

    /**
     * Not now: the message comes again after the delay. This spends no attempt.
     *
     * @param delay 100 ms at least
     * @param reason for people; may be empty
     * @param code groups failures, for operators; null is none
     */
    record Snooze(Duration delay, String reason, String code) implements Verdict {
        /** Checks the delay and the reason. */
        public Snooze {
            Objects.requireNonNull(delay, "delay");
            Objects.requireNonNull(reason, "reason");
        }

        /**
         * The verdict with a code.
         *
         * @param code groups failures, for operators
         * @return a new object
         */
        public Snooze code(String code) {
            return new Snooze(delay, reason, code);
        }
    }

    /** The program has called {@code inbox.complete()} by itself, in a transaction that has committed. */
    record Settled() implements Verdict {}

    /** The function did not try the message. It comes again, and nothing is counted. */
    record Skipped() implements Verdict {}

    /** {@return the message is processed} */
    static Done done() {
        return new Done(null, List.of());
    }

    /**
     * The message is processed, with a result.
     *
     * @param result is stored in the row, as JSON
     * @return the verdict
     */
    static Done done(Object result) {
        return new Done(result, List.of());
    }

    /**
     * The attempt failed.
     *
     * @param reason for people
     * @return a retry after the backoff of inboxd
     */
    static Retry retry(String reason) {
        return new Retry(reason, null, null);
    }

    /**
     * The message can never be processed.
     *
     * @param reason for people
     * @return the verdict
     */
    static Dead dead(String reason) {
        return new Dead(reason, null);
    }

    /**
     * Not now.
     *
     * @param delay until the message comes again; 100 ms at least
     * @return the verdict
     */
    static Snooze snooze(Duration delay) {
        return new Snooze(delay, "", null);
    }

    /**
     * Not now.
     *
     * @param delay until the message comes again; 100 ms at least
     * @param reason for people
     * @return the verdict
     */
    static Snooze snooze(Duration delay, String reason) {
        return new Snooze(delay, reason, null);
    }

    /** {@return the program has called {@code inbox.complete()} by itself, in a transaction that has committed} */
    static Settled settled() {
        return new Settled();
    }

    /** {@return the function did not try the message} */
    static Skipped skipped() {
        return new Skipped();
    }
}
