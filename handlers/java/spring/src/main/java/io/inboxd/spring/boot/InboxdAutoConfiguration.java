package io.inboxd.spring.boot;

import io.inboxd.Handler;
import io.inboxd.spring.HandlerObserver;
import io.inboxd.spring.InboxContainer;
import io.inboxd.spring.PayloadConverter;
import io.inboxd.spring.SpringTransactions;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.Supplier;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.util.StringUtils;

/** Runs the methods with {@link io.inboxd.spring.InboxHandler}. */
@AutoConfiguration(
        afterName = {
            // Boot 3
            "org.springframework.boot.autoconfigure.jdbc.DataSourceTransactionManagerAutoConfiguration",
            "org.springframework.boot.autoconfigure.orm.jpa.HibernateJpaAutoConfiguration",
            // Boot 4
            "org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration",
            "org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration"
        })
@ConditionalOnProperty(prefix = "inboxd", name = "enabled", matchIfMissing = true)
@EnableConfigurationProperties(InboxdProperties.class)
public class InboxdAutoConfiguration {
    /** Makes the configuration. */
    public InboxdAutoConfiguration() {}

    /**
     * Reads payloads with the mapper of the handler.
     *
     * @return the converter
     */
    @Bean
    @ConditionalOnMissingBean
    PayloadConverter inboxdPayloadConverter() {
        return (payload, type) -> payload.as(type);
    }

    /**
     * Completes messages in the transactions of the application.
     *
     * @param manager the transaction manager
     * @return the transactions
     */
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnSingleCandidate(PlatformTransactionManager.class)
    SpringTransactions inboxdTransactions(PlatformTransactionManager manager) {
        return new SpringTransactions(manager);
    }

    /**
     * The handler.
     *
     * @param properties inboxd.…
     * @param environment has the name of the application
     * @param customizers change the options
     * @param converter reads payloads
     * @param observers are told about calls
     * @return what runs it
     */
    @Bean
    @ConditionalOnMissingBean
    InboxContainer inboxContainer(
            InboxdProperties properties,
            Environment environment,
            ObjectProvider<HandlerCustomizer> customizers,
            PayloadConverter converter,
            ObjectProvider<HandlerObserver> observers) {
        Supplier<Handler.Builder> options = () -> {
            Handler.Builder builder = options(properties, environment);
            customizers.orderedStream().forEach(one -> one.customize(builder));
            return builder;
        };
        InboxContainer container = new InboxContainer(options, converter, (method, outcome, duration) -> observers
                .orderedStream()
                .forEach(one -> one.called(method, outcome, duration)));
        container.setAutoStartup(properties.autoStartup());
        return container;
    }

    private static Handler.Builder options(InboxdProperties properties, Environment environment) {
        String name = StringUtils.hasText(properties.handler())
                ? properties.handler()
                : environment.getProperty("spring.application.name");
        if (!StringUtils.hasText(name)) {
            throw new IllegalStateException("set inboxd.handler or spring.application.name: the name of the handler");
        }
        Handler.Builder builder = Handler.builder(name)
                .consumer(properties.consumer())
                .instance(properties.instance())
                .maxInFlight(properties.window())
                .workers(properties.workers())
                .timeout(properties.timeout())
                .extendUpTo(properties.extendUpTo())
                .drainTimeout(properties.drainTimeout())
                .batch(properties.batch(), properties.batchWait())
                .ordered(properties.ordered());
        return properties.socketPath() == null ? builder : builder.socketPath(properties.socketPath());
    }

    /** Metrics, with Micrometer. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Metrics {
        @Bean
        MicrometerObserver inboxdObserver() {
            return new MicrometerObserver();
        }

        @Bean
        MeterBinder inboxdConnection(InboxContainer container) {
            return registry -> Gauge.builder("inboxd.handler.connected", container, one -> one.isConnected() ? 1 : 0)
                    .description("1: inboxd has accepted the connection of the handler")
                    .register(registry);
        }
    }

    /** The health indicator of Boot 3. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(org.springframework.boot.actuate.health.HealthIndicator.class)
    @ConditionalOnProperty(prefix = "management.health.inboxd", name = "enabled", matchIfMissing = true)
    static class Health3 {
        @Bean
        @ConditionalOnMissingBean(name = "inboxdHealthIndicator")
        org.springframework.boot.actuate.health.HealthIndicator inboxdHealthIndicator(InboxContainer container) {
            return () -> {
                InboxdHealth health = InboxdHealth.of(container);
                return org.springframework.boot.actuate.health.Health.status(health.isUp() ? "UP" : "DOWN")
                        .withDetail("handler", health.status())
                        .build();
            };
        }
    }

    /** The health indicator of Boot 4. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(org.springframework.boot.health.contributor.HealthIndicator.class)
    @ConditionalOnProperty(prefix = "management.health.inboxd", name = "enabled", matchIfMissing = true)
    static class Health4 {
        @Bean
        @ConditionalOnMissingBean(name = "inboxdHealthIndicator")
        org.springframework.boot.health.contributor.HealthIndicator inboxdHealthIndicator(InboxContainer container) {
            return () -> {
                InboxdHealth health = InboxdHealth.of(container);
                return org.springframework.boot.health.contributor.Health.status(health.isUp() ? "UP" : "DOWN")
                        .withDetail("handler", health.status())
                        .build();
            };
        }
    }
}
