package io.inboxd.spring.boot;

import io.inboxd.spring.InboxContainer;

/** What health indicators say. Boot 3 and Boot 4 have each a class of their own for the same thing. */
record InboxdHealth(boolean isUp, String status) {
    static InboxdHealth of(InboxContainer container) {
        if (!container.isUsed()) {
            return new InboxdHealth(true, "no method has @InboxHandler");
        }
        if (container.refusal().isPresent()) {
            return new InboxdHealth(false, "refused: " + container.refusal().get());
        }
        return container.isConnected()
                ? new InboxdHealth(true, "connected")
                : new InboxdHealth(false, "not connected to inboxd");
    }
}
