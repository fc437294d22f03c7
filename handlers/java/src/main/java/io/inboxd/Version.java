package io.inboxd;

/** The version of the library. */
final class Version {
    static final String VERSION = "0.1.0";

    private Version() {}
}
