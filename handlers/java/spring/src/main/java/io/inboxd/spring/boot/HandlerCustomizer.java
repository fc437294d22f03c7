package io.inboxd.spring.boot;

import io.inboxd.Handler;

/** A bean that changes the options of the handler, for what has no property: the executor, what an exception means, more functions. */
@FunctionalInterface
public interface HandlerCustomizer {
    /**
     * Is called at each start of the handler, after the properties are set.
     *
     * @param builder the options
     */
    void customize(Handler.Builder builder);
}
