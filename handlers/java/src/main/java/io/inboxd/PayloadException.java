package io.inboxd;

/** The data of an event is not what the function expects. If a function lets it pass, the message is a retry. */
public final class PayloadException extends RuntimeException {
    private static final long serialVersionUID = 1;

    PayloadException(String message, Throwable cause) {
        super(message, cause);
    }
}
