package io.inboxd.spring;

import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Event;
import io.inboxd.Handler;
import io.inboxd.Payload;
import io.inboxd.Subscription;
import io.inboxd.Verdict;
import io.inboxd.VerdictException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.Supplier;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.core.GenericTypeResolver;
import org.springframework.util.ReflectionUtils;

/** A method with {@link InboxHandler}, as a function of the handler. */
final class HandlerMethod {
    private static final Log LOG = LogFactory.getLog(HandlerMethod.class);

    private final Method method; // as the class declares it
    private final Type[] parameters;
    private final Supplier<Object> bean;
    private final SpringTransactions transactions; // null: the method has no transaction
    private final PayloadConverter converter;
    private final HandlerObserver observer;

    HandlerMethod(
            Method method,
            Class<?> targetClass,
            Supplier<Object> bean,
            SpringTransactions transactions,
            PayloadConverter converter,
            HandlerObserver observer) {
        this.method = method;
        this.parameters = Arrays.stream(method.getGenericParameterTypes())
                .map(type -> GenericTypeResolver.resolveType(type, targetClass))
                .toArray(Type[]::new);
        this.bean = bean;
        this.transactions = transactions;
        this.converter = converter;
        this.observer = observer;
        check();
    }

    /** A method whose work ends after it returns would be done before its effects. */
    private void check() {
        if (Modifier.isPrivate(method.getModifiers())) {
            throw new IllegalStateException(this + " is private: a proxy of Spring could not call it");
        }
        Class<?> returned = method.getReturnType();
        if (returned != void.class && !Verdict.class.isAssignableFrom(returned)) {
            throw new IllegalStateException(this + " returns " + returned.getName()
                    + ": a method with @InboxHandler returns nothing or a Verdict. Verdict.done(result) has a result");
        }
        boolean takesBatch = takesBatch();
        if (takesBatch && (parameters.length > 1 || returned != void.class)) {
            throw new IllegalStateException(this + " must have no other parameter than the Batch, and return nothing:"
                    + " setVerdict() of a delivery is its verdict");
        }
        long payloads = Arrays.stream(parameters)
                .filter(type -> type != Delivery.class && type != Event.class && type != Batch.class)
                .count();
        if (payloads > 1) {
            throw new IllegalStateException(
                    this + " has several parameters for the payload. The others can be Delivery and Event");
        }
    }

    private boolean takesBatch() {
        return Arrays.asList(parameters).contains(Batch.class);
    }

    void addTo(Handler.Builder builder, Subscription subscription) {
        if (takesBatch()) {
            builder.onBatch(subscription, this::handleBatch);
        } else {
            builder.on(subscription, this::handle);
        }
    }

    private Verdict handle(Delivery delivery) throws Exception {
        long began = System.nanoTime();
        String outcome = "error";
        try {
            Object[] arguments = argumentsOf(delivery);
            Verdict verdict = transactions == null
                    ? verdictOf(call(arguments))
                    : delivery.transaction(transactions, connection -> verdictOf(call(arguments)));
            outcome = outcomeOf(verdict);
            return verdict;
        } catch (VerdictException e) {
            outcome = outcomeOf(e.verdict());
            throw e;
        } finally {
            observe(outcome, began);
        }
    }

    private void handleBatch(Batch batch) throws Exception {
        long began = System.nanoTime();
        String outcome = "error";
        try {
            if (transactions == null) {
                call(batch);
            } else {
                batch.transaction(transactions, connection -> call(batch));
            }
            outcome = "done";
        } finally {
            observe(outcome, began);
        }
    }

    /** Its exception must not change the verdict: the effects may have committed. */
    private void observe(String outcome, long began) {
        try {
            observer.called(toString(), outcome, Duration.ofNanos(System.nanoTime() - began));
        } catch (RuntimeException e) {
            LOG.warn("the observer of " + this + " failed", e);
        }
    }

    private static String outcomeOf(Verdict verdict) {
        String name = verdict.getClass().getSimpleName().toLowerCase(Locale.ROOT);
        return name.equals("settled") ? "done" : name;
    }

    private Verdict verdictOf(Object returned) {
        if (method.getReturnType() == void.class) {
            return Verdict.done();
        }
        return (Verdict) returned; // null is an error of the library
    }

    private Object[] argumentsOf(Delivery delivery) {
        Object[] arguments = new Object[parameters.length];
        for (int i = 0; i < arguments.length; i++) {
            if (parameters[i] == Delivery.class) {
                arguments[i] = delivery;
            } else if (parameters[i] == Event.class) {
                arguments[i] = delivery.event();
            } else {
                arguments[i] = payload(delivery.event().data(), parameters[i]);
            }
        }
        return arguments;
    }

    private Object payload(Payload data, Type type) {
        if (type == Payload.class) {
            return data;
        }
        if (type == byte[].class) {
            return data.isTombstone() ? null : data.bytes();
        }
        Object converted;
        try {
            converted = converter.convert(data, type);
        } catch (VerdictException e) {
            throw e;
        } catch (Exception e) {
            throw unreadable(String.valueOf(e.getMessage()), e);
        }
        if (converted == null && type instanceof Class<?> plain && plain.isPrimitive()) {
            throw unreadable("the event has no data for a parameter of the type " + plain, null);
        }
        return converted;
    }

    private static VerdictException unreadable(String reason, Exception cause) {
        return new VerdictException(Verdict.dead(reason).code("DATA"), cause);
    }

    private Object call(Object... arguments) throws Exception {
        Object target = bean.get();
        Method callable = AopUtils.selectInvocableMethod(method, target.getClass());
        ReflectionUtils.makeAccessible(callable);
        try {
            return callable.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            if (e.getTargetException() instanceof Error error) {
                throw error;
            }
            throw (Exception) e.getTargetException();
        }
    }

    /** The class and the name of the method. */
    @Override
    public String toString() {
        return method.getDeclaringClass().getSimpleName() + "." + method.getName();
    }
}
