package io.inboxd.servlet;

import io.inboxd.Transactions;
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
import java.util.Objects;
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
 * <p>The filter reads the body. {@code getParameter()} and {@code getParts()} return the content of the body. The filter does not support
 * asynchronous servlets.
 */
public class IdempotencyFilter implements Filter {
    /** The attribute of the request with its {@link Connection}. The servlet does not commit, and does not close it. */
    public static final String CONNECTION = "io.inboxd.connection";

    // The database is away or busy. The other errors are the service's.
    private static final Pattern AWAY = Pattern.compile("(08|25006|40|53|55006|55P03|57).*");
    private static final String FAILED_BEFORE = "25P02"; // in_failed_sql_transaction
    private static final long FIRST_LOOK_MS = 10;
    private static final System.Logger LOG = System.getLogger("io.inboxd");

    private final Transactions transactions;
    private final Rules rules;

    /**
     * What the filter does with which request.
     *
     * @param scope whose keys they are: the tenant that the server knows, nothing that the client chooses
     * @param isRequired false: a request without a key runs in a transaction, but its response is not stored
     * @param methods other requests pass through
     * @param keep how long a key is kept
     * @param maxBody bytes of the body of a request
     * @param fingerprint what is compared in place of the body; it may read the request. Null: the body, and of a form its parts
     * @param maxWait how long a copy waits while another one runs, before it gets 409
     */
    public record Rules(
            Function<HttpServletRequest, String> scope,
            boolean isRequired,
            Set<String> methods,
            Duration keep,
            int maxBody,
            Function<HttpServletRequest, byte[]> fingerprint,
            Duration maxWait) {
        /** One scope, a required key for POST and PATCH, 24 hours, 1 MiB, the body, 250 ms. */
        public Rules() {
            this(request -> "", true, Set.of("POST", "PATCH"), Duration.ofHours(24), 1 << 20);
        }

        /**
         * The body is compared, and a copy waits for 250 ms.
         *
         * @param scope whose keys they are
         * @param isRequired whether each request needs a key
         * @param methods other requests pass through
         * @param keep how long a key is kept
         * @param maxBody bytes of the body of a request
         */
        public Rules(
                Function<HttpServletRequest, String> scope,
                boolean isRequired,
                Set<String> methods,
                Duration keep,
                int maxBody) {
            this(scope, isRequired, methods, keep, maxBody, null, Duration.ofMillis(250));
        }

        /**
         * These rules with another fingerprint.
         *
         * @param function what is compared in place of the body; it may read the request
         * @return the rules
         */
        public Rules withFingerprint(Function<HttpServletRequest, byte[]> function) {
            return new Rules(scope, isRequired, methods, keep, maxBody, function, maxWait);
        }

        /**
         * These rules with another time for copies.
         *
         * @param time how long a copy waits while another one runs
         * @return the rules
         */
        public Rules withWait(Duration time) {
            return new Rules(scope, isRequired, methods, keep, maxBody, fingerprint, time);
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
        this(Transactions.of(source), rules);
    }

    /**
     * A filter with transactions of a framework: what the program does in them shares the transaction of the key.
     *
     * @param transactions makes the transactions
     * @param rules what it does with which request
     */
    public IdempotencyFilter(Transactions transactions, Rules rules) {
        this.transactions = transactions;
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
        HeldRequest request;
        byte[] compared;
        try {
            request = HeldRequest.of(incoming, rules.maxBody);
            compared = rules.fingerprint == null
                    ? request.compared()
                    : Objects.requireNonNull(rules.fingerprint.apply(request), "the fingerprint of a request is null");
            request.rewind();
        } catch (HeldRequest.Refusal refusal) {
            return refusal.reply;
        }
        long left = rules.maxWait.toMillis();
        for (long look = FIRST_LOOK_MS; ; look *= 2) {
            Reply reply = attempt(request, compared, held, before, chain);
            if (reply == null || !reply.isBusy() || left <= 0) {
                return reply;
            }
            pause(Math.min(look, left)); // without a connection
            left -= look;
        }
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Runs the request in a transaction, unless another copy has run or runs. */
    private Reply attempt(
            HeldRequest request, byte[] compared, HeldResponse held, HeaderSnapshot before, FilterChain chain)
            throws IOException, ServletException {
        Attempt attempt = new Attempt(request, compared, held, before, chain);
        try {
            if (transactions.run(attempt::commits) && attempt.expires != null) {
                held.setHeader("Idempotency-Expires", attempt.expires);
            }
            return attempt.reply;
        } catch (SQLException e) {
            if (FAILED_BEFORE.equals(e.getSQLState()) && attempt.hasRun && held.getStatus() >= 400) {
                return null; // a statement had failed, as the response says
            }
            LOG.log(System.Logger.Level.ERROR, "the request has no result", e);
            before.restore(held);
            boolean isAway =
                    e.getSQLState() == null || AWAY.matcher(e.getSQLState()).matches();
            return isAway ? Reply.away() : Reply.invalid();
        } catch (IOException | ServletException | RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new ServletException(e);
        }
    }

    /** What happens in the transaction. */
    private final class Attempt {
        private final HeldRequest request;
        private final byte[] compared;
        private final HeldResponse held;
        private final HeaderSnapshot before;
        private final FilterChain chain;
        private boolean hasRun;
        private Reply reply; // in place of what the servlet has left in held
        private String expires;

        Attempt(HeldRequest request, byte[] compared, HeldResponse held, HeaderSnapshot before, FilterChain chain) {
            this.request = request;
            this.compared = compared;
            this.held = held;
            this.before = before;
            this.chain = chain;
        }

        boolean commits(Connection connection) throws IOException, ServletException, SQLException {
            KeyedTransaction transaction = new KeyedTransaction(connection);
            reply = transaction.begin(request, compared, rules);
            if (reply != null) {
                return false; // this copy does not run
            }
            request.setAttribute(CONNECTION, connection);
            chain.doFilter(request, held);
            hasRun = true;
            if (held.isTooLarge()) {
                LOG.log(System.Logger.Level.ERROR, "the response has more than 1 MiB, so it is not stored");
                before.restore(held);
                reply = Reply.invalid();
                return false;
            }
            boolean commits = held.getStatus() < 500 && transaction.complete(held, before.changed(held));
            expires = transaction.expires();
            return commits;
        }
    }
}
