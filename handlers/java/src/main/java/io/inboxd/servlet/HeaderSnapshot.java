package io.inboxd.servlet;

import jakarta.servlet.http.HttpServletResponse;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The headers that outer filters have set. They belong to one copy of a request, and are neither stored nor lost. */
final class HeaderSnapshot {
    private final Map<String, List<String>> before;

    HeaderSnapshot(HttpServletResponse response) {
        before = headersOf(response);
    }

    private static Map<String, List<String>> headersOf(HttpServletResponse response) {
        Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String name : response.getHeaderNames()) {
            headers.put(name, List.copyOf(response.getHeaders(name)));
        }
        if (response.getContentType() != null) { // Tomcat does not name it
            headers.put("Content-Type", List.of(response.getContentType()));
        }
        return headers;
    }

    /** The headers that the servlet has added, or changed. */
    Map<String, List<String>> changed(HttpServletResponse response) {
        Map<String, List<String>> headers = headersOf(response);
        headers.entrySet().removeIf(header -> header.getValue().equals(before.get(header.getKey())));
        return headers;
    }

    /** Takes back what the servlet has set. */
    void restore(HttpServletResponse response) {
        response.reset();
        before.forEach((name, values) -> values.forEach(value -> response.addHeader(name, value)));
    }
}
