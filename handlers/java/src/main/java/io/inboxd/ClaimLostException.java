package io.inboxd;

import java.sql.SQLException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The claim of the delivery is lost (SQLSTATE IB001). The transaction must roll back, so let this exception pass. */
public final class ClaimLostException extends SQLException {
    static final String SQLSTATE = "IB001";

    private static final long serialVersionUID = 1;
    private static final Pattern CLAIM = Pattern.compile("claim (\\S+) is lost");

    ClaimLostException(String message, Throwable cause) {
        super(message, SQLSTATE, cause);
    }

    /** The claim that is lost, one of a batch; empty if the message names none. */
    String claim() {
        Matcher found = CLAIM.matcher(getMessage());
        return found.find() ? found.group(1) : "";
    }
}
