/**
 * Idempotency keys for servlets: {@link io.inboxd.servlet.IdempotencyFilter}. Needs {@code jakarta.servlet}, which the container has.
 */
package io.inboxd.servlet;
