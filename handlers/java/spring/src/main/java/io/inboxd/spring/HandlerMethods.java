package io.inboxd.spring;

import io.inboxd.Handler;
import io.inboxd.Subscription;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.beans.factory.annotation.BeanFactoryAnnotationUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.scheduling.annotation.Async;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import org.springframework.transaction.interceptor.TransactionAttribute;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.util.StringUtils;

/** Finds the methods with {@link InboxHandler}, also of beans that are made when they are needed. */
final class HandlerMethods {
    private static final Set<Integer> APART = Set.of(
            TransactionDefinition.PROPAGATION_REQUIRES_NEW,
            TransactionDefinition.PROPAGATION_NOT_SUPPORTED,
            TransactionDefinition.PROPAGATION_NEVER);

    private final ConfigurableListableBeanFactory beans;
    private final PayloadConverter converter;
    private final HandlerObserver observer;
    private final AnnotationTransactionAttributeSource attributes = new AnnotationTransactionAttributeSource(false);

    HandlerMethods(ConfigurableListableBeanFactory beans, PayloadConverter converter, HandlerObserver observer) {
        this.beans = beans;
        this.converter = converter;
        this.observer = observer;
    }

    /** Registers each of them. False if there is none. */
    boolean addTo(Handler.Builder builder) {
        boolean isAny = false;
        for (String name : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type =
                    ScopedProxyUtils.isScopedTarget(name) ? null : AutoProxyUtils.determineTargetClass(beans, name);
            if (type == null || !AnnotationUtils.isCandidateClass(type, InboxHandler.class)) {
                continue;
            }
            Map<Method, InboxHandler> found =
                    MethodIntrospector.selectMethods(type, (MethodIntrospector.MetadataLookup<InboxHandler>)
                            method -> AnnotatedElementUtils.findMergedAnnotation(method, InboxHandler.class));
            for (Map.Entry<Method, InboxHandler> one : found.entrySet()) {
                add(builder, name, type, one.getKey(), one.getValue());
                isAny = true;
            }
        }
        return isAny;
    }

    private void add(Handler.Builder builder, String name, Class<?> type, Method method, InboxHandler annotation) {
        if (AnnotatedElementUtils.hasAnnotation(method, Async.class)
                || AnnotatedElementUtils.hasAnnotation(type, Async.class)) {
            throw new IllegalStateException(describe(method)
                    + " has @Async: the message would be done before its effects. The methods run in threads anyway");
        }
        SpringTransactions transactions = transactionsOf(method, type, annotation);
        new HandlerMethod(method, type, () -> beans.getBean(name), transactions, converter, observer)
                .addTo(builder, subscription(annotation));
    }

    private Subscription subscription(InboxHandler annotation) {
        return Subscription.of(
                beans.resolveEmbeddedValue(annotation.topic()),
                Stream.of(annotation.types()).map(beans::resolveEmbeddedValue).toArray(String[]::new));
    }

    /** The transaction that the method has, or wants. The method then takes part in it. Null: none. */
    private SpringTransactions transactionsOf(Method method, Class<?> type, InboxHandler annotation) {
        TransactionAttribute attribute = attributes.getTransactionAttribute(method, type);
        if (attribute == null) {
            return annotation.transactional() ? new SpringTransactions(manager(method, null)) : null;
        }
        if (APART.contains(attribute.getPropagationBehavior())) {
            throw new IllegalStateException(describe(method)
                    + " would commit apart from the completion of the message: its @Transactional must be REQUIRED");
        }
        if (attribute.isReadOnly()) {
            throw new IllegalStateException(
                    describe(method) + " has a transaction that is read only, which cannot complete a message");
        }
        DefaultTransactionDefinition definition = new DefaultTransactionDefinition();
        definition.setName(attribute.getName());
        definition.setIsolationLevel(attribute.getIsolationLevel());
        definition.setTimeout(attribute.getTimeout());
        return new SpringTransactions(manager(method, attribute.getQualifier()), definition);
    }

    private PlatformTransactionManager manager(Method method, String qualifier) {
        if (StringUtils.hasText(qualifier)) {
            return BeanFactoryAnnotationUtils.qualifiedBeanOfType(beans, PlatformTransactionManager.class, qualifier);
        }
        PlatformTransactionManager manager =
                beans.getBeanProvider(PlatformTransactionManager.class).getIfUnique();
        if (manager == null) {
            throw new IllegalStateException(describe(method)
                    + " needs a transaction manager for JDBC or JPA. If there are several, name one in @Transactional");
        }
        return manager;
    }

    private static String describe(Method method) {
        return method.getDeclaringClass().getSimpleName() + "." + method.getName();
    }
}
