/**
 * Handlers for inboxd: each message of Kafka once, with effects that happen exactly once.
 *
 * <p>Start with {@link io.inboxd.Handler}. A function gets a {@link io.inboxd.Delivery}, which has the {@link io.inboxd.Event}, and returns
 * a {@link io.inboxd.Verdict}.
 *
 * <p>What may be absent is an {@link java.util.Optional}. No parameter may be null, unless its description says so.
 */
package io.inboxd;
