package io.inboxd.servlet;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * A request that is sent twice with one {@code Idempotency-Key} has its effects once, and one response.
 *
 * <p>A request runs in a transaction, which the servlet finds as the attribute {@link #CONNECTION}. The effects, the key and the response
 * commit together, before the client gets the response. An exception, a response of 500 or more, and 401, 403, 408, 409, 425 and 429
 * roll back: the next copy of the request runs again. The database has the rules (docs/idempotency-keys.md of the repository).
 *
 * <p>The filter reads the body, so {@code getParameter()} has only the parameters of the query. It does not support asynchronous servlets.
 */
public class IdempotencyFilter implements Filter {
    /** The attribute of the request with its {@link Connection}. The servlet does not commit, and does not close it. */
    public static final String CONNECTION = "io.inboxd.connection";

    private static final Set<Integer> NOT_STORED = Set.of(401, 403, 408, 409, 425, 429);
    // Headers that belong to one connection or one client.
    private static final Pattern DROPPED = Pattern.compile("(?i)connection|keep-alive|proxy-.*|set-cookie2?|te|trailer|"
            + "transfer-encoding|upgrade|content-length|date");
    // A string of RFC 8941, or a bare value, as most clients send it.
    private static final Pattern KEY =
            Pattern.compile("\"(?<quoted>(?:[ !#-\\[\\]-~]|\\\\[\"\\\\])+)\"|(?<bare>[!#-+\\--~]+)");
    private static final String BEGIN =
            "SELECT verdict, token, status, headers, body, ceil(extract(epoch FROM retry_after)) AS retry_after,"
                    + " expires_at FROM inbox.request_begin(CAST(? AS text), CAST(? AS bytea), CAST(? AS text), CAST(? AS text),"
                    + " keep => CAST(? AS interval))";
    // Fails if an earlier statement of the transaction failed and the servlet hid the error. Otherwise the COMMIT would
    // silently roll back.
    private static final String ALIVE = "SELECT 1";
    // The database is unavailable or busy. The other errors are the service's.
    private static final Pattern AWAY = Pattern.compile("(08|40|53|57|25006).*");
    private static final System.Logger LOG = System.getLogger("io.inboxd");
    private static final String COMPLETE =
            "SELECT inbox.request_complete(CAST(? AS text), CAST(? AS int), CAST(? AS bytea),"
                    + " CAST(CAST(? AS text) AS jsonb))";
    // RFC_1123_DATE_TIME writes the days 1 to 9 with one digit; HTTP has two.
    private static final DateTimeFormatter HTTP_DATE =
            DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final DataSource source;
    private final Rules rules;

    /**
     * What the filter does with which request.
     *
     * @param scope whose keys they are: the tenant that the server knows, nothing that the client chooses
     * @param isRequired false: a request without a key runs in a transaction, but its response is not stored
     * @param methods other requests pass through
     * @param keep how long a key is kept
     * @param maxBody bytes of the body of a request
     */
    public record Rules(
            Function<HttpServletRequest, String> scope,
            boolean isRequired,
            Set<String> methods,
            Duration keep,
            int maxBody) {
        /** One scope, a required key for POST and PATCH, 24 hours, 1 MiB. */
        public Rules() {
            this(request -> "", true, Set.of("POST", "PATCH"), Duration.ofHours(24), 1 << 20);
        }
    }

    /**
     * A filter with the usual rules.
     *
     * @param source connections to the database of the inbox
     */
    public IdempotencyFilter(DataSource source) {
        this(source, new Rules());
    }

    /**
     * A filter with rules of its own.
     *
     * @param source connections to the database of the inbox
     * @param rules what it does with which request
     */
    public IdempotencyFilter(DataSource source, Rules rules) {
        this.source = source;
        this.rules = rules;
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        HttpServletRequest incoming = (HttpServletRequest) request;
        HttpServletResponse outgoing = (HttpServletResponse) response;
        if (!rules.methods.contains(incoming.getMethod())) {
            chain.doFilter(request, response);
            return;
        }
        String header = incoming.getHeader("Idempotency-Key");
        String key = header == null ? null : keyOf(incoming);
        if (key == null && (header != null || rules.isRequired)) {
            String detail = "send the header Idempotency-Key once, with a text of 1 to 255 printable characters";
            refuse(outgoing, 400, "Bad Request", header == null ? "key-missing" : "key-invalid", detail);
            return;
        }
        byte[] body;
        try {
            body = incoming.getInputStream().readNBytes(rules.maxBody + 1);
        } catch (IOException e) {
            refuseIncomplete(outgoing);
            return;
        }
        if (body.length > rules.maxBody) {
            String detail = "the body of a request with a key has at most " + rules.maxBody + " bytes";
            refuse(outgoing, 413, "Content Too Large", "request-too-large", detail);
            return;
        }
        if (body.length < incoming.getContentLengthLong()) {
            refuseIncomplete(outgoing);
            return;
        }
        try (Connection connection = source.getConnection()) {
            connection.setAutoCommit(false);
            try {
                handle(new HeldRequest(incoming, body), outgoing, chain, connection, key);
            } finally {
                connection.rollback(); // nothing happens after a commit
            }
        } catch (SQLException e) {
            fail(outgoing, e);
        }
    }

    /** The database failed. Then nothing has happened, or nobody knows: the next copy of the request tells. */
    private static void fail(HttpServletResponse outgoing, SQLException e) throws IOException, ServletException {
        if (outgoing.isCommitted()) {
            throw new ServletException(e);
        }
        LOG.log(System.Logger.Level.ERROR, "the request has no result", e);
        outgoing.reset(); // of what the servlet has set
        if (e.getSQLState() == null || AWAY.matcher(e.getSQLState()).matches()) {
            outgoing.setIntHeader("Retry-After", 1);
            String detail = "the request has no result; send it again with the same key";
            refuse(outgoing, 503, "Service Unavailable", "database-away", detail);
        } else {
            refuseInvalid(outgoing);
        }
    }

    private static void refuseInvalid(HttpServletResponse outgoing) throws IOException {
        String detail = "the request had no effect; the log of the service has the reason";
        refuse(outgoing, 500, "Internal Server Error", "response-invalid", detail);
    }

    private static void refuseIncomplete(HttpServletResponse outgoing) throws IOException {
        String detail = "the body of the request ended early; send it again with the same key";
        refuse(outgoing, 400, "Bad Request", "request-incomplete", detail);
    }

    private void handle(
            HeldRequest request, HttpServletResponse outgoing, FilterChain chain, Connection connection, String key)
            throws IOException, ServletException, SQLException {
        Begun begun = key == null ? null : begin(request, outgoing, connection, key);
        if (key != null && begun == null) {
            return; // this copy does not run
        }
        HeldResponse held = new HeldResponse(outgoing);
        request.setAttribute(CONNECTION, connection);
        chain.doFilter(request, held);
        if (held.isTooLarge()) {
            connection.rollback();
            LOG.log(System.Logger.Level.ERROR, "the response has more than 1 MiB, so it is not stored");
            outgoing.reset(); // of what the servlet has set
            refuseInvalid(outgoing);
            return;
        }
        if (held.getStatus() >= 500 || (begun != null && NOT_STORED.contains(held.getStatus()))) {
            connection.rollback();
        } else {
            if (begun != null) {
                complete(connection, begun.token, held);
            } else {
                try (PreparedStatement alive = connection.prepareStatement(ALIVE)) {
                    alive.execute();
                }
            }
            connection.commit();
            if (begun != null) {
                outgoing.setHeader("Idempotency-Expires", begun.expires);
            }
        }
        held.send();
    }

    private record Begun(String token, String expires) {}

    /** Null if the client has its answer already. */
    private Begun begin(HeldRequest request, HttpServletResponse outgoing, Connection connection, String key)
            throws IOException, SQLException {
        String operation = request.getMethod() + " " + request.getRequestURI();
        String target = request.getQueryString() == null ? operation : operation + "?" + request.getQueryString();
        try (PreparedStatement begin = connection.prepareStatement(BEGIN)) {
            begin.setString(1, key);
            begin.setBytes(2, digest(target, request.body()));
            begin.setString(3, rules.scope.apply(request));
            begin.setString(4, operation.substring(0, Math.min(operation.length(), 128)));
            begin.setString(5, rules.keep.toString());
            ResultSet row = begin.executeQuery();
            row.next();
            String verdict = row.getString("verdict");
            OffsetDateTime expires = row.getObject("expires_at", OffsetDateTime.class);
            String date = expires == null ? "" : httpDate(expires);
            if (row.getObject("retry_after") != null) {
                outgoing.setIntHeader("Retry-After", Math.max(row.getInt("retry_after"), 1));
            }
            switch (verdict) {
                case "started" -> {
                    return new Begun(row.getString("token"), date);
                }
                case "replay" -> replay(outgoing, row, date);
                case "busy" ->
                    refuse(
                            outgoing,
                            409,
                            "Conflict",
                            "request-outstanding",
                            "a request with this key runs at this moment; send it again later");
                case "lost" ->
                    refuse(
                            outgoing,
                            409,
                            "Conflict",
                            "outcome-unknown",
                            "nobody knows how far the request with this key came; ask the operator");
                default ->
                    refuse(
                            outgoing,
                            422,
                            "Unprocessable Content",
                            "key-reused",
                            "this key was used for another request; use a new key for each request");
            }
            return null;
        }
    }

    private static void replay(HttpServletResponse outgoing, ResultSet row, String expires)
            throws IOException, SQLException {
        String headers = row.getString("headers");
        if (headers != null) {
            JSON.readValue(headers, new TypeReference<Map<String, String>>() {}).forEach(outgoing::setHeader);
        }
        outgoing.setHeader("Idempotency-Expires", expires);
        outgoing.setHeader("Idempotent-Replayed", "true");
        outgoing.setStatus(row.getInt("status"));
        byte[] body = row.getBytes("body");
        if (body != null) {
            outgoing.setContentLength(body.length);
            outgoing.getOutputStream().write(body);
        }
    }

    private static void complete(Connection connection, String token, HeldResponse held)
            throws IOException, SQLException {
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String name : held.getHeaderNames()) {
            if (!DROPPED.matcher(name).matches()) {
                headers.put(name, String.join(", ", held.getHeaders(name)));
            }
        }
        if (held.getContentType() != null) {
            headers.put("Content-Type", held.getContentType());
        }
        try (PreparedStatement complete = connection.prepareStatement(COMPLETE)) {
            complete.setString(1, token);
            complete.setInt(2, held.getStatus());
            complete.setBytes(3, held.body());
            complete.setString(4, JSON.writeValueAsString(headers));
            complete.execute();
        }
    }

    /** Null if the header is not one valid key. */
    private static String keyOf(HttpServletRequest request) {
        Matcher found = KEY.matcher(request.getHeader("Idempotency-Key").strip());
        if (Collections.list(request.getHeaders("Idempotency-Key")).size() != 1 || !found.matches()) {
            return null;
        }
        String quoted = found.group("quoted");
        String key = quoted == null ? found.group("bare") : quoted.replaceAll("\\\\(.)", "$1");
        return key.length() <= 255 ? key : null;
    }

    private static byte[] digest(String target, byte[] body) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update((target + "\n").getBytes(UTF_8));
            return digest.digest(body);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every JDK has it
        }
    }

    static String httpDate(OffsetDateTime time) {
        return HTTP_DATE.format(time.withOffsetSameInstant(ZoneOffset.UTC));
    }

    private static void refuse(HttpServletResponse outgoing, int status, String title, String type, String detail)
            throws IOException {
        outgoing.setStatus(status);
        outgoing.setContentType("application/problem+json");
        Map<String, Object> problem = Map.of("type", type, "title", title, "status", status, "detail", detail);
        outgoing.getOutputStream().write(JSON.writeValueAsBytes(problem));
    }
}
