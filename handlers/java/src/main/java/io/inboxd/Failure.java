package io.inboxd;

import java.sql.SQLException;
import java.sql.SQLNonTransientConnectionException;
import java.sql.SQLRecoverableException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Pattern;

/** What an exception of a function means. Frameworks wrap exceptions, so the causes count, too. */
final class Failure {
    private static final Duration AWAY_DELAY = Duration.ofSeconds(1);
    // SQLSTATEs that the message has not caused: connection, standby, deadlock, no resources, locks, shutdown.
    private static final Pattern AWAY = Pattern.compile("(08|25006|40|53|55006|55P03|57P).*");
    private static final int CAUSES_MAX = 20;

    private Failure() {}

    /** The verdict for an exception: its own, or that the database is unavailable, or a retry. */
    static Verdict verdictOf(Throwable error) {
        VerdictException thrown = find(VerdictException.class, error);
        if (thrown != null) {
            return thrown.verdict();
        }
        if (isAway(error)) {
            return new Verdict.Snooze(
                    AWAY_DELAY, textOf(error), sqlStateOf(error).orElse("DATABASE_AWAY"));
        }
        return new Verdict.Retry(textOf(error), null, sqlStateOf(error).orElse(nameOf(error)));
    }

    /** True if the function has thrown a verdict. */
    static boolean isVerdict(Throwable error) {
        return find(VerdictException.class, error) != null;
    }

    /** True if the claim is lost. */
    static boolean isClaimLost(Throwable error) {
        return sqlStateOf(error).filter(ClaimLostException.SQLSTATE::equals).isPresent();
    }

    /** The claim that is lost; empty if the exception names none. */
    static String lostClaim(Throwable error) {
        SQLException found = find(SQLException.class, error);
        return found instanceof ClaimLostException lost ? lost.claim() : "";
    }

    /** True if the database caused the failure, not the message: such an attempt is not counted. */
    static boolean isAway(Throwable error) {
        SQLException found = find(SQLException.class, error);
        return found instanceof SQLTransientConnectionException
                || found instanceof SQLNonTransientConnectionException
                || found instanceof SQLRecoverableException
                || sqlStateOf(error)
                        .filter(state -> AWAY.matcher(state).matches())
                        .isPresent();
    }

    private static Optional<String> sqlStateOf(Throwable error) {
        return Optional.ofNullable(find(SQLException.class, error)).map(SQLException::getSQLState);
    }

    /** The first of this class among the exception and its causes; null if there is none. */
    private static <T extends Throwable> T find(Class<T> wanted, Throwable error) {
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < CAUSES_MAX; depth++) {
            if (wanted.isInstance(cause)) {
                return wanted.cast(cause);
            }
            cause = cause.getCause();
        }
        return null;
    }

    /** For people. */
    static String textOf(Throwable error) {
        return error.getMessage() == null ? nameOf(error) : nameOf(error) + ": " + error.getMessage();
    }

    private static String nameOf(Throwable error) {
        String name = error.getClass().getSimpleName();
        return name.isEmpty() ? error.getClass().getName() : name;
    }
}
