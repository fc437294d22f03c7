package io.inboxd;

/** inboxd refuses this handler, and another try would not help. */
public final class RefusedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The code of the protocol. */
    private final int code;

    RefusedException(int code, String message) {
        super("inboxd refuses this handler: " + message + " (" + code + ")");
        this.code = code;
    }

    /** {@return the code of the protocol} */
    public int code() {
        return code;
    }
}
