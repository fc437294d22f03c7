package io.inboxd;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A header of the Kafka record.
 *
 * @param name its name; several headers may have the same one
 * @param value its bytes; null if it has none
 */
public record Header(String name, byte[] value) {
    /** {@return the value as text in UTF-8; null if there is none} */
    public String text() {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    /** Compares the value byte by byte. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Header header && name.equals(header.name) && Arrays.equals(value, header.value);
    }

    @Override
    public int hashCode() {
        return 31 * name.hashCode() + Arrays.hashCode(value);
    }

    @Override
    public String toString() {
        return "Header[name=" + name + "]";
    }
}
