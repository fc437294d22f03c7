package io.inboxd.servlet;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/** What a client gets in place of a response of the servlet. */
record Reply(int status, Map<String, String> headers, byte[] body, boolean isBusy) {
    private static final ObjectMapper JSON = new ObjectMapper();

    Reply(int status, Map<String, String> headers, byte[] body) {
        this(status, headers, body, false);
    }

    /** As RFC 9457 describes it. */
    static Reply problem(int status, String title, String type, String detail) {
        Map<String, Object> problem = Map.of("type", type, "title", title, "status", status, "detail", detail);
        try {
            return new Reply(
                    status, Map.of("Content-Type", "application/problem+json"), JSON.writeValueAsBytes(problem));
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e); // these are texts and a number
        }
    }

    static Reply incomplete() {
        String detail = "the body of the request ended early; send it again with the same key";
        return problem(400, "Bad Request", "request-incomplete", detail);
    }

    static Reply unread() {
        String detail = "the body was read before, so the server cannot compare the copies of the request";
        return problem(415, "Unsupported Media Type", "request-unread", detail);
    }

    static Reply tooLarge(String detail) {
        return problem(413, "Content Too Large", "request-too-large", detail);
    }

    static Reply invalid() {
        String detail = "nothing has happened; the log of the service says why";
        return problem(500, "Internal Server Error", "response-invalid", detail);
    }

    /** Nothing has happened, or nobody knows: the next copy of the request tells. */
    static Reply away() {
        String detail = "the request has no result; send it again with the same key";
        Reply problem = problem(503, "Service Unavailable", "database-away", detail);
        Map<String, String> headers = new HashMap<>(problem.headers);
        headers.put("Retry-After", "1");
        return new Reply(problem.status, headers, problem.body);
    }

    void send(HttpServletResponse outgoing) throws IOException {
        outgoing.setStatus(status);
        headers.forEach(outgoing::setHeader);
        if (status != 204 && status != 304) {
            outgoing.setContentLength(body.length);
            outgoing.getOutputStream().write(body);
        }
    }
}
