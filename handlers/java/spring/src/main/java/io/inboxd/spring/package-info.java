/**
 * Handlers for inboxd in Spring: {@link io.inboxd.spring.SpringTransactions} completes messages in transactions of Spring, and methods
 * with {@link io.inboxd.spring.InboxHandler} get messages. With Spring Boot, both need no configuration.
 */
package io.inboxd.spring;
