package io.inboxd;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.inboxd.Routes.Route;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.BiFunction;

/** Calls the functions, in the threads of an executor, and turns what happens into answers. */
final class Dispatcher {
    private static final Logger LOG = System.getLogger("io.inboxd");
    private static final Verdict NO_FUNCTION = Verdict.snooze(
                    Duration.ofSeconds(5), "this version of the handler has no function for the type")
            .code("NO_FUNCTION");

    private record Routed(Delivery delivery, Route route) {}

    private final Routes routes;
    private final Executor executor;
    private final boolean isOrdered;
    private final ObjectMapper mapper;
    private final BiFunction<Throwable, Delivery, Verdict> onError;

    Dispatcher(
            Routes routes,
            Executor executor,
            boolean isOrdered,
            ObjectMapper mapper,
            BiFunction<Throwable, Delivery, Verdict> onError) {
        this.routes = routes;
        this.executor = executor;
        this.isOrdered = isOrdered;
        this.mapper = mapper;
        this.onError = onError;
    }

    /** Starts the work on a message. */
    void acceptOne(Session session, Delivery delivery) {
        route(session, delivery).ifPresent(route -> {
            if (route.takesBatch()) {
                List<Delivery> alone = List.of(delivery);
                execute(session, alone, () -> runBatch(session, alone, route));
            } else {
                execute(session, List.of(delivery), () -> process(session, delivery, route));
            }
        });
    }

    /** Starts the work on the messages of a batch. */
    void acceptBatch(Session session, List<Delivery> deliveries) {
        List<Routed> routed = new ArrayList<>(deliveries.size());
        for (Delivery delivery : deliveries) {
            route(session, delivery).ifPresent(route -> routed.add(new Routed(delivery, route)));
        }
        if (!isOrdered) {
            startAll(session, routed);
        } else if (routed.stream().noneMatch(one -> one.route.takesBatch())) {
            startLanes(session, routed);
        } else if (!routed.isEmpty()) {
            execute(session, deliveries, () -> runInOrder(session, routed));
        }
    }

    /** The function for the message. Without one, the message waits for a version of the handler that has one. */
    private Optional<Route> route(Session session, Delivery delivery) {
        Event event = delivery.event();
        Optional<Route> route = routes.find(event.topic(), event.type());
        if (route.isEmpty()) {
            session.settle(delivery, answerTo(delivery, NO_FUNCTION));
        }
        return route;
    }

    private void execute(Session session, Collection<Delivery> deliveries, Runnable task) {
        try {
            executor.execute(task);
        } catch (RejectedExecutionException e) {
            LOG.log(Level.WARNING, "the executor of the handler takes no task: the messages come again", e);
            deliveries.forEach(delivery -> session.settle(delivery, Answer.SKIPPED));
        }
    }

    /** Each message, or each batch for a function, for itself. */
    private void startAll(Session session, List<Routed> routed) {
        Map<Route, List<Delivery>> batches = new LinkedHashMap<>();
        for (Routed one : routed) {
            if (one.route.takesBatch()) {
                batches.computeIfAbsent(one.route, route -> new ArrayList<>()).add(one.delivery);
            } else {
                execute(session, List.of(one.delivery), () -> process(session, one.delivery, one.route));
            }
        }
        batches.forEach((route, together) -> execute(session, together, () -> runBatch(session, together, route)));
    }

    // One message

    /** True if the messages behind this one may be processed. */
    private boolean process(Session session, Delivery delivery, Route route) {
        Work work = new Work();
        if (!session.begin(delivery, work)) {
            return false;
        }
        work.begin();
        Answer answer;
        try {
            Verdict verdict = route.forMessage().handle(delivery);
            answer = answerTo(delivery, verdict);
        } catch (Throwable e) {
            answer = answerToError(delivery, e);
        } finally {
            work.end();
        }
        session.settle(delivery, answer);
        return answer.isFinished() && !delivery.isCancelled();
    }

    /** The answer for what a function has returned. */
    private Answer answerTo(Delivery delivery, Verdict verdict) {
        try {
            Objects.requireNonNull(verdict, Delivery.NO_VERDICT);
            Verdict decided = delivery.decided();
            if (decided == null || decided == verdict || !saysDone(verdict)) {
                return Answer.to(verdict, mapper);
            }
            refuseLateEvents(verdict);
            return Answer.to(decided, mapper);
        } catch (JsonProcessingException | RuntimeException e) {
            return answerToError(delivery, e);
        }
    }

    private static boolean saysDone(Verdict verdict) {
        return verdict instanceof Verdict.Done || verdict instanceof Verdict.Settled;
    }

    /** Events beside a completion would be lost. */
    static void refuseLateEvents(Verdict verdict) {
        if (verdict instanceof Verdict.Done done && !done.emit().isEmpty()) {
            throw new IllegalStateException(
                    "the events of the verdict are lost, because a transaction has decided about the message:"
                            + " give them to the verdict in it");
        }
    }

    /** The answer for what a function has thrown. */
    private Answer answerToError(Delivery delivery, Throwable error) {
        Verdict verdict = null;
        try {
            verdict = onError.apply(error, delivery);
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "onError failed", e);
        }
        if (verdict == null) {
            log(delivery, error);
            if (Failure.isClaimLost(error)) {
                return Answer.LOST;
            }
            verdict = Failure.verdictOf(error);
        }
        try {
            if (delivery.isCompleted()) {
                refuseLateEvents(verdict);
            }
            return Answer.to(verdict, mapper);
        } catch (JsonProcessingException | RuntimeException e) {
            return answerToFailure(e);
        }
    }

    /** The events of a verdict that was thrown cannot be written. */
    private Answer answerToFailure(Exception error) {
        try {
            return Answer.to(new Verdict.Retry(Failure.textOf(error), null, null), mapper);
        } catch (JsonProcessingException e) {
            return Answer.SKIPPED;
        }
    }

    private static void log(Delivery delivery, Throwable error) {
        if (delivery.isCancelled() || Failure.isVerdict(error) || Failure.isClaimLost(error)) {
            return;
        }
        if (Failure.isAway(error)) {
            LOG.log(Level.WARNING, "{0} waits for the database: {1}", delivery, Failure.textOf(error));
        } else {
            LOG.log(Level.ERROR, delivery + " failed", error);
        }
    }

    // Ordered batches

    /** The messages of a lane one after the other, until one is not finished; lanes at the same time. */
    private void startLanes(Session session, List<Routed> routed) {
        Map<Delivery, Route> routeOf = routesOf(routed);
        for (List<Delivery> lane : new Batch(List.copyOf(routeOf.keySet()), session.ordering()).lanes()) {
            execute(session, lane, () -> runLane(session, lane, routeOf));
        }
    }

    private void runLane(Session session, List<Delivery> lane, Map<Delivery, Route> routeOf) {
        boolean goesOn = true;
        for (Delivery delivery : lane) {
            if (goesOn) {
                goesOn = process(session, delivery, routeOf.get(delivery));
            } else {
                session.settle(delivery, Answer.SKIPPED);
            }
        }
    }

    private static Map<Delivery, Route> routesOf(List<Routed> routed) {
        Map<Delivery, Route> routeOf = new LinkedHashMap<>();
        routed.forEach(one -> routeOf.put(one.delivery, one.route));
        return routeOf;
    }

    /** With functions for batches: messages that follow each other and have the same function at a time. */
    private void runInOrder(Session session, List<Routed> routed) {
        Set<Object> unfinished = new HashSet<>();
        for (int start = 0; start < routed.size(); ) {
            Route route = routed.get(start).route;
            List<Delivery> run = new ArrayList<>();
            for (; start < routed.size() && routed.get(start).route == route; start++) {
                Delivery delivery = routed.get(start).delivery;
                if (route.takesBatch() && !unfinished.contains(delivery.lane(session.ordering()))) {
                    run.add(delivery);
                } else if (!route.takesBatch()) {
                    processBehind(session, delivery, route, unfinished);
                } else {
                    session.settle(delivery, Answer.SKIPPED);
                }
            }
            unfinished.addAll(runBatch(session, run, route));
        }
    }

    private void processBehind(Session session, Delivery delivery, Route route, Set<Object> unfinished) {
        Object lane = delivery.lane(session.ordering());
        if (unfinished.contains(lane)) {
            session.settle(delivery, Answer.SKIPPED);
        } else if (!process(session, delivery, route)) {
            unfinished.add(lane);
        }
    }

    // Functions for batches

    /** Calls a function with all of these messages. Returns the lanes that have an unfinished one. */
    private Set<Object> runBatch(Session session, List<Delivery> deliveries, Route route) {
        Work work = new Work();
        List<Delivery> begun =
                deliveries.stream().filter(one -> session.begin(one, work)).toList();
        if (begun.isEmpty()) {
            return Set.of();
        }
        String ordering = isOrdered ? session.ordering() : "none";
        Throwable error = null;
        work.begin();
        try {
            route.forBatch().handle(new Batch(begun, ordering));
        } catch (Throwable e) {
            error = e;
        } finally {
            work.end();
        }
        return settleAll(session, begun, ordering, error);
    }

    private Set<Object> settleAll(Session session, List<Delivery> deliveries, String ordering, Throwable error) {
        Answer general = generalAnswer(deliveries.get(0), error);
        Set<Object> unfinished = new HashSet<>();
        for (Delivery delivery : deliveries) {
            Object lane = delivery.lane(ordering);
            Answer answer = unfinished.contains(lane) ? Answer.SKIPPED : answerInBatch(delivery, error, general);
            session.settle(delivery, answer);
            if (!answer.isFinished() || delivery.isCancelled()) {
                unfinished.add(lane);
            }
        }
        return unfinished;
    }

    /** The answer for messages without a verdict of their own; null if the function has returned. */
    private Answer generalAnswer(Delivery first, Throwable error) {
        if (error == null) {
            return null;
        }
        // After a lost claim the transaction has rolled back, and only one of the messages is lost.
        return Failure.isClaimLost(error) ? Answer.SKIPPED : answerToError(first, error);
    }

    private Answer answerInBatch(Delivery delivery, Throwable error, Answer general) {
        if (delivery.verdict() != null) {
            return answerTo(delivery, delivery.verdict());
        }
        if (general == null) {
            return answerTo(delivery, Verdict.done());
        }
        boolean isLost = Failure.isClaimLost(error) && Failure.lostClaim(error).equals(delivery.claim());
        return isLost ? Answer.LOST : general;
    }
}
