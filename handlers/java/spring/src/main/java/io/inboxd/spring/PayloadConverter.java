package io.inboxd.spring;

import io.inboxd.Payload;
import java.lang.reflect.Type;

/** Makes the argument of a method with {@link InboxHandler} from the data of an event. */
@FunctionalInterface
public interface PayloadConverter {
    /**
     * Converts the data. A method that wants a {@link Payload} or {@code byte[]} needs no conversion.
     *
     * @param payload the data of the event
     * @param type the declared type of the parameter
     * @return the argument; null for a tombstone
     * @throws Exception makes the message dead, with the code {@code DATA}; a {@link io.inboxd.VerdictException} has its own verdict
     */
    Object convert(Payload payload, Type type) throws Exception;
}
