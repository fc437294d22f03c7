package io.inboxd;

/** A function for one message. */
@FunctionalInterface
public interface MessageFunction {
    /**
     * Processes a message. The thread is interrupted when inboxd does not wait for the answer any more.
     *
     * @param delivery the message
     * @return the verdict
     * @throws Exception is a retry, with the text as reason, and the SQLSTATE or the name of the class as code
     */
    Verdict handle(Delivery delivery) throws Exception;
}
