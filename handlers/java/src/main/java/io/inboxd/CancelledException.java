package io.inboxd;

/** The delivery was cancelled: inboxd does not wait for its answer any more. */
public final class CancelledException extends RuntimeException {
    private static final long serialVersionUID = 1;

    CancelledException(String reason) {
        super("the delivery was cancelled: " + reason);
    }
}
