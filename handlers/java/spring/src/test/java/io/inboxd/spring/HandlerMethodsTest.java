package io.inboxd.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.inboxd.Batch;
import io.inboxd.Delivery;
import io.inboxd.Handler;
import io.inboxd.Verdict;
import io.inboxd.spring.boot.InboxdAutoConfiguration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.mockito.Mockito;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.scheduling.annotation.Async;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** Which methods are refused when the application starts, because they would lose or repeat effects. */
class HandlerMethodsTest {
    private final ApplicationContextRunner runner = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(InboxdAutoConfiguration.class))
            .withPropertyValues("inboxd.handler=test", "inboxd.socket-path=/nonexistent/inbox.sock")
            .withBean(PlatformTransactionManager.class, () -> Mockito.mock(PlatformTransactionManager.class));

    static class Future {
        @InboxHandler
        CompletableFuture<Void> handle() {
            return null;
        }
    }

    static class Asynchronous {
        @InboxHandler
        @Async
        void handle() {}
    }

    static class Apart {
        @InboxHandler
        @Transactional(propagation = Propagation.REQUIRES_NEW)
        void handle() {}
    }

    @Transactional(readOnly = true)
    static class Reader {
        @InboxHandler
        void handle() {}
    }

    static class Several {
        @InboxHandler
        void handle(String one, Delivery delivery, String two) {}
    }

    static class BatchWithVerdict {
        @InboxHandler
        Verdict handle(Batch batch) {
            return null;
        }
    }

    static class Twice {
        @InboxHandler(topic = "orders")
        void one() {}

        @InboxHandler(topic = "orders")
        void two() {}
    }

    @ParameterizedTest
    @CsvSource({
        "Future, returns java.util.concurrent.CompletableFuture",
        "Asynchronous, has @Async",
        "Apart, commit apart from the completion",
        "Reader, read only",
        "Several, several parameters for the payload",
        "BatchWithVerdict, no other parameter than the Batch",
        "Twice, two functions for topic orders"
    })
    void aMethodThatCannotWorkEndsTheStart(String name, String reason) throws ClassNotFoundException {
        runner.withBean(Class.forName(HandlerMethodsTest.class.getName() + "$" + name))
                .run(context -> assertThat(context.getStartupFailure()).hasStackTraceContaining(reason));
    }

    static class Good {
        @InboxHandler(
                topic = "${topic:orders}",
                types = {"order.*", "order"})
        @Transactional
        void handle(String payload, Delivery delivery) {}
    }

    @Test
    void aHandlerStartsAndStopsWithTheApplication() {
        Handler.Builder[] customized = new Handler.Builder[1];
        runner.withBean(Good.class)
                .withBean(io.inboxd.spring.boot.HandlerCustomizer.class, () -> builder -> customized[0] = builder)
                .run(context -> {
                    InboxContainer container = context.getBean(InboxContainer.class);
                    assertThat(container.isRunning()).isTrue();
                    assertThat(container.isConnected()).isFalse();
                    assertThat(customized[0]).isNotNull();
                    container.stop();
                    assertThat(container.isRunning()).isFalse();
                    container.start();
                    assertThat(container.isRunning()).isTrue();
                    context.close();
                    assertThat(container.isRunning()).isFalse();
                });
    }

    @Test
    void withoutAMethodThereIsNoHandler() {
        runner.run(context -> {
            assertThat(context.getBean(InboxContainer.class).isUsed()).isFalse();
            assertThat(context).hasBean("inboxdHealthIndicator");
        });
        runner.withPropertyValues("inboxd.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean(InboxContainer.class));
    }
}
