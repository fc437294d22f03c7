package io.inboxd;

/** A verdict that is thrown, from deep inside a function. A transaction of the library rolls back. */
public class VerdictException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What the answer says. */
    private final transient Verdict verdict;

    /**
     * Makes an exception of a verdict.
     *
     * @param verdict what the answer says
     */
    public VerdictException(Verdict verdict) {
        this(verdict, null);
    }

    /**
     * Makes an exception of a verdict, with a cause.
     *
     * @param verdict what the answer says
     * @param cause why; may be null
     */
    public VerdictException(Verdict verdict, Throwable cause) {
        super(verdict.getClass().getSimpleName() + ": " + Answer.reasonOf(verdict), cause);
        this.verdict = verdict;
    }

    /** {@return what the answer says} */
    public Verdict verdict() {
        return verdict;
    }
}
