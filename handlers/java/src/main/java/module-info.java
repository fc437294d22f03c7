/** Handlers for inboxd. */
@SuppressWarnings("requires-automatic") // the SDK of CloudEvents has no module descriptors
module io.inboxd {
    requires transitive com.fasterxml.jackson.databind;
    requires transitive java.sql;
    requires static io.cloudevents.api;
    requires static io.cloudevents.core;
    requires static transitive jakarta.servlet;

    exports io.inboxd;
    exports io.inboxd.servlet;
}
