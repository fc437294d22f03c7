package io.inboxd.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method of a bean that gets messages, each in a thread of the handler.
 *
 * <p>Its parameters are the payload as an object of the declared type, and, as it needs them, {@link io.inboxd.Delivery} and {@link
 * io.inboxd.Event}. A method with the single parameter {@link io.inboxd.Batch} gets batches. The payload of a tombstone is null. A
 * payload that is not of the type makes the message dead, with the code {@code DATA}.
 *
 * <p>The method returns nothing, which is {@link io.inboxd.Verdict#done()}, or a {@link io.inboxd.Verdict}. An exception is a retry.
 *
 * <p>If the method or its class has {@code @Transactional}, the message is completed in this transaction: the effects and the completion
 * commit together, or neither. Any exception rolls back, whatever its {@code noRollbackFor} says, and so does any verdict but done.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface InboxHandler {
    /** {@return a topic of Kafka, whole; {@code *} is any topic; it may have placeholders such as ${orders.topic}} */
    String topic() default "*";

    /** {@return types of events; one that ends with {@code *} is a prefix; none: any type} */
    String[] types() default {};

    /** {@return true: the method runs in a transaction that completes the message, as with {@code @Transactional}} */
    boolean transactional() default false;
}
