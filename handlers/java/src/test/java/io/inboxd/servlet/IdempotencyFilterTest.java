package io.inboxd.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.OffsetDateTime;
import org.junit.jupiter.api.Test;

/** tests/languages of the repository has tests with Tomcat and PostgreSQL. */
final class IdempotencyFilterTest {
    @Test
    void aDateHasTheFormOfHttp() {
        assertEquals(
                "Thu, 05 Nov 2026 23:00:07 GMT",
                IdempotencyFilter.httpDate(OffsetDateTime.parse("2026-11-06T01:00:07.9+02:00")));
    }
}
