package io.inboxd.spring.boot;

import io.inboxd.spring.HandlerObserver;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** The metric {@code inboxd.handler.calls}: a timer for each method and outcome. */
final class MicrometerObserver implements HandlerObserver, MeterBinder {
    private final List<MeterRegistry> registries = new CopyOnWriteArrayList<>();

    @Override
    public void bindTo(MeterRegistry registry) {
        registries.add(registry);
    }

    @Override
    public void called(String method, String outcome, Duration duration) {
        for (MeterRegistry registry : registries) {
            Timer.builder("inboxd.handler.calls")
                    .description("Calls of methods with @InboxHandler, with their transactions")
                    .tag("method", method)
                    .tag("outcome", outcome)
                    .register(registry)
                    .record(duration);
        }
    }
}
