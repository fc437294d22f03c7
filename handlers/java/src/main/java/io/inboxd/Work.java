package io.inboxd;

/**
 * A call of a function with one or more deliveries. Its thread is interrupted when all of them are cancelled.
 *
 * <p>Deliveries are added first, then the call begins. A cancel can come at any time.
 */
final class Work {
    private Thread thread;
    private int open;
    private boolean isInterrupted;

    synchronized void add() {
        open++;
    }

    synchronized void begin() {
        thread = Thread.currentThread();
        interruptIfNothingIsOpen();
    }

    synchronized void cancelOne() {
        open--;
        interruptIfNothingIsOpen();
    }

    private void interruptIfNothingIsOpen() {
        if (open == 0 && thread != null && !isInterrupted) {
            isInterrupted = true;
            thread.interrupt();
        }
    }

    /** An interrupt that came too late must not reach the next function of the thread. */
    synchronized void end() {
        thread = null;
        if (isInterrupted) {
            Thread.interrupted();
        }
    }
}
