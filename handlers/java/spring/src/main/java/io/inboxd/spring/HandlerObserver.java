package io.inboxd.spring;

import java.time.Duration;

/** Is told about each call of a method with {@link InboxHandler}, for example for metrics. */
@FunctionalInterface
public interface HandlerObserver {
    /**
     * After a call, and after its COMMIT.
     *
     * @param method the class and the name of the method
     * @param outcome {@code done}, {@code retry}, {@code dead}, {@code snooze}, {@code skipped}, or {@code error} for an exception
     * @param duration of the call, with its transaction
     */
    void called(String method, String outcome, Duration duration);
}
