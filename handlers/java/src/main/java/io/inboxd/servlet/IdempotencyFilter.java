package io.inboxd.servlet;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Set;
import java.util.function.Function;
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

    // The database is away or busy. The other errors are the service's.
    private static final Pattern AWAY = Pattern.compile("(08|40|53|57|25006).*");
    private static final System.Logger LOG = System.getLogger("io.inboxd");

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
        HeldResponse held = new HeldResponse(outgoing);
        Reply reply = serve(incoming, held, new HeaderSnapshot(outgoing), chain);
        // The client may be slow, and the connection to the database is another request's by now.
        if (reply == null) {
            held.send();
        } else {
            reply.send(outgoing);
        }
    }

    /** Null: the client gets what the servlet has left in held. */
    private Reply serve(HttpServletRequest incoming, HeldResponse held, HeaderSnapshot before, FilterChain chain)
            throws IOException, ServletException {
        byte[] body;
        try {
            body = incoming.getInputStream().readNBytes(rules.maxBody + 1);
        } catch (IOException e) {
            return Reply.incomplete();
        } catch (IllegalStateException e) { // a filter has called getReader()
            return Reply.unread();
        }
        if (body.length > rules.maxBody) {
            String detail = "the body of a request with a key has at most " + rules.maxBody + " bytes";
            return Reply.problem(413, "Content Too Large", "request-too-large", detail);
        } else if (body.length == 0 && incoming.getContentLengthLong() > 0) {
            return Reply.unread();
        } else if (body.length < incoming.getContentLengthLong() && incoming.getHeader("Content-Encoding") == null) {
            return Reply.incomplete(); // a filter that decodes the body changes its length
        }
        HeldRequest request = new HeldRequest(incoming, body);
        try (Connection connection = source.getConnection();
                KeyedTransaction transaction = new KeyedTransaction(connection)) {
            Reply reply = transaction.begin(request, rules);
            if (reply != null) {
                return reply; // this copy does not run
            }
            request.setAttribute(CONNECTION, connection);
            chain.doFilter(request, held);
            if (held.isTooLarge()) {
                LOG.log(System.Logger.Level.ERROR, "the response has more than 1 MiB, so it is not stored");
                before.restore(held);
                return Reply.invalid();
            }
            if (held.getStatus() < 500) {
                transaction.complete(held, before.changed(held));
            }
            return null;
        } catch (SQLException e) {
            LOG.log(System.Logger.Level.ERROR, "the request has no result", e);
            before.restore(held);
            boolean isAway =
                    e.getSQLState() == null || AWAY.matcher(e.getSQLState()).matches();
            return isAway ? Reply.away() : Reply.invalid();
        }
    }
}
