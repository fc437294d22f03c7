package io.inboxd;

/** A function for many messages. */
@FunctionalInterface
public interface BatchFunction {
    /**
     * Processes the messages. When it returns, those without a verdict of their own ({@link Delivery#setVerdict}) are done. The
     * thread is interrupted when inboxd does not wait for any of them any more.
     *
     * @param batch the messages
     * @throws Exception is the verdict of all messages that have none of their own; in an ordered batch that of the first one of each
     *     key, and the later ones come again after it
     */
    void handle(Batch batch) throws Exception;
}
