/** The auto-configuration for Spring Boot: a bean {@link io.inboxd.spring.InboxContainer}, its properties, health and metrics. */
package io.inboxd.spring.boot;
