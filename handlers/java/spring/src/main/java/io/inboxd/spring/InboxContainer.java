package io.inboxd.spring;

import io.inboxd.Handler;
import io.inboxd.RefusedException;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.BeansException;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.BeanFactoryAware;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Runs a handler with the methods that have {@link InboxHandler}, as long as the application runs. At the end of the application it
 * drains first: the running methods end while the beans and the database are still there.
 */
public final class InboxContainer implements SmartLifecycle, BeanFactoryAware {
    private static final Log LOG = LogFactory.getLog(InboxContainer.class);

    private final Supplier<Handler.Builder> options;
    private final PayloadConverter converter;
    private final HandlerObserver observer;
    private boolean isAutoStartup = true;
    private ConfigurableListableBeanFactory beans;
    private Thread thread;
    private volatile Handler handler;
    private volatile String refusal;

    /**
     * A container with the usual conversion.
     *
     * @param options makes the options of the handler, at each start
     */
    public InboxContainer(Supplier<Handler.Builder> options) {
        this(options, (payload, type) -> payload.as(type), (method, outcome, duration) -> {});
    }

    /**
     * A container.
     *
     * @param options makes the options of the handler, at each start
     * @param converter reads payloads
     * @param observer is told about each call
     */
    public InboxContainer(Supplier<Handler.Builder> options, PayloadConverter converter, HandlerObserver observer) {
        this.options = Objects.requireNonNull(options, "options");
        this.converter = Objects.requireNonNull(converter, "converter");
        this.observer = Objects.requireNonNull(observer, "observer");
    }

    /**
     * Whether it starts with the application. Otherwise call {@link #start()}.
     *
     * @param isAutoStartup true by default
     */
    public void setAutoStartup(boolean isAutoStartup) {
        this.isAutoStartup = isAutoStartup;
    }

    @Override
    public boolean isAutoStartup() {
        return isAutoStartup;
    }

    @Override
    public void setBeanFactory(BeanFactory beanFactory) throws BeansException {
        beans = (ConfigurableListableBeanFactory) beanFactory;
    }

    @Override
    public synchronized void start() {
        if (isRunning()) {
            return;
        }
        Handler.Builder builder = options.get();
        if (!new HandlerMethods(beans, converter, observer).addTo(builder)) {
            LOG.info("no bean has a method with @InboxHandler: there is no connection to inboxd");
            return;
        }
        Handler started = builder.build();
        handler = started;
        refusal = null;
        thread = new Thread(() -> serve(started), "inboxd-handler"); // keeps the application alive, as a server does
        thread.start();
    }

    private void serve(Handler started) {
        try {
            started.serve();
        } catch (RefusedException e) {
            refusal = e.getMessage();
            LOG.error("inboxd refuses this handler, so it gets no messages until the application starts again", e);
        } catch (IllegalStateException e) {
            LOG.debug("the handler was stopped before it ran", e);
        }
    }

    @Override
    public synchronized void stop() {
        Handler current = handler;
        if (current != null) {
            current.close();
        }
        thread = null;
    }

    @Override
    public synchronized boolean isRunning() {
        return thread != null && thread.isAlive();
    }

    /** {@return true if inboxd has accepted the connection of this handler} */
    public boolean isConnected() {
        Handler current = handler;
        return current != null && current.isConnected();
    }

    /** {@return true if there are methods with {@link InboxHandler}, and it was started} */
    public boolean isUsed() {
        return handler != null;
    }

    /** {@return why inboxd does not want this handler; empty if it does} */
    public Optional<String> refusal() {
        return Optional.ofNullable(refusal);
    }
}
