/** Calls the functions and turns what happens into answers. */

import { Batch, type Delivery, refuseResult, UNSET } from './delivery.js';
import type { Route, Routes } from './routes.js';
import { applySchema, type StandardSchema } from './schema.js';
import type { Logger, Receiver, Session } from './session.js';
import {
  type Answer,
  answerTo,
  answerToError,
  claimLostIn,
  isAway,
  isClaimLost,
  SKIPPED,
  Snooze,
  textOf,
  Verdict,
  verdictIn,
} from './verdicts.js';

/** Is called with each error of a function, also a verdict. May return another verdict. */
export type OnError = (error: unknown, delivery: Delivery) => Verdict | void;

const NO_FUNCTION = new Snooze(5_000, 'this version of the handler has no function for the type', {
  code: 'NO_FUNCTION',
});

const LATE_VERDICT = new TypeError('it must return its verdict, not a promise of it: the verdict of the error holds');

type Routed = readonly [delivery: Delivery, route: Route];

/** The error of a function for batches, and what it answers for messages without a verdict of their own. */
interface Failure {
  readonly error: unknown;
  readonly answer: Answer;
}

export class Dispatcher implements Receiver {
  readonly #routes: Routes;
  readonly #ordered: boolean;
  readonly #logger: Logger;
  readonly #onError: OnError | undefined;

  constructor(routes: Routes, ordered: boolean, logger: Logger, onError: OnError | undefined) {
    this.#routes = routes;
    this.#ordered = ordered;
    this.#logger = logger;
    this.#onError = onError;
  }

  /** Starts the work on a message. */
  acceptOne(session: Session, delivery: Delivery): void {
    const route = this.#route(session, delivery);
    if (route?.takesBatch) {
      void this.#runBatch(session, [delivery], route);
    } else if (route !== undefined) {
      void this.#process(session, delivery, route);
    }
  }

  /** Starts the work on the messages of a batch. */
  acceptBatch(session: Session, deliveries: Delivery[]): void {
    const routed: Routed[] = [];
    for (const delivery of deliveries) {
      const route = this.#route(session, delivery);
      if (route !== undefined) {
        routed.push([delivery, route]);
      }
    }
    if (this.#ordered) {
      void this.#runInOrder(session, routed);
    } else {
      this.#runAll(session, routed);
    }
  }

  /** The function for the message. Without one, the message waits for a version of the handler that has one. */
  #route(session: Session, delivery: Delivery): Route | undefined {
    const route = this.#routes.find(delivery.event.topic, delivery.event.type);
    if (route === undefined) {
      session.settle(delivery, answerToError(NO_FUNCTION));
    }
    return route;
  }

  /** Each message, or each batch for a function, for itself. */
  #runAll(session: Session, routed: Routed[]): void {
    const batches = new Map<Route, Delivery[]>();
    for (const [delivery, route] of routed) {
      if (!route.takesBatch) {
        void this.#process(session, delivery, route);
      } else if (!batches.get(route)?.push(delivery)) {
        batches.set(route, [delivery]);
      }
    }
    for (const [route, together] of batches) {
      void this.#runBatch(session, together, route);
    }
  }

  // One message

  /** True if the messages behind this one may be processed. No promise if the function returns none: that is faster. */
  #process(session: Session, delivery: Delivery, route: Route): boolean | Promise<boolean> {
    if (!session.begin(delivery)) {
      return false;
    }
    let returned: unknown;
    try {
      returned =
        route.schema === undefined
          ? route.function(delivery)
          : applySchema(route.schema, delivery.event).then(() => route.function(delivery));
    } catch (error) {
      return this.#concludeError(session, delivery, error);
    }
    if (!isPromise(returned)) {
      return this.#conclude(session, delivery, returned);
    }
    return Promise.resolve(returned).then(
      (value) => this.#conclude(session, delivery, value),
      (error: unknown) => this.#concludeError(session, delivery, error),
    );
  }

  #conclude(session: Session, delivery: Delivery, returned: unknown): boolean {
    return this.#settle(session, delivery, this.#answerTo(delivery, returned));
  }

  #concludeError(session: Session, delivery: Delivery, error: unknown): boolean {
    return this.#settle(session, delivery, this.#answerToError(delivery, error));
  }

  #settle(session: Session, delivery: Delivery, answer: Answer): boolean {
    session.settle(delivery, answer);
    return answer.finished;
  }

  #answerTo(delivery: Delivery, returned: unknown): Answer {
    try {
      return answerTo(returned, delivery.completed, delivery.stored);
    } catch (error) {
      return this.#answerToError(delivery, error);
    }
  }

  #answerToError(delivery: Delivery, error: unknown): Answer {
    let verdict: unknown;
    const logFailure = (failure: unknown) => this.#logger.error(`onError failed: ${stackOf(failure)}`);
    try {
      verdict = this.#onError?.(error, delivery);
      if (isPromise(verdict)) {
        // The answer does not wait for it. A rejection that nobody handles would end the process.
        verdict.then((late) => late instanceof Verdict && logFailure(LATE_VERDICT), logFailure);
      }
    } catch (failure) {
      logFailure(failure);
    }
    if (verdict instanceof Verdict) {
      return answerToError(verdict);
    }
    if (delivery.cancelled === undefined && !isClaimLost(error)) {
      if (isAway(error)) {
        this.#logger.warn(`${String(delivery)} waits for the database: ${textOf(error)}`);
      } else if (verdictIn(error) === undefined) {
        this.#logger.error(`${String(delivery)} failed: ${stackOf(error)}`);
      }
    }
    return answerToError(error);
  }

  // Ordered batches

  /**
   * The messages of a lane one after the other, until one is not finished; lanes at the same time. With functions for
   * batches: messages that follow each other and have the same function at a time.
   */
  async #runInOrder(session: Session, routed: Routed[]): Promise<void> {
    if (!routed.some(([, route]) => route.takesBatch)) {
      await this.#runLanes(session, routed);
      return;
    }
    const unfinished = new Set<string>();
    for (const run of runsOf(routed)) {
      const ready: Routed[] = [];
      for (const one of run) {
        if (unfinished.has(one[0].lane(session.ordering))) {
          session.settle(one[0], SKIPPED);
        } else {
          ready.push(one);
        }
      }
      for (const lane of await this.#runRun(session, ready)) {
        unfinished.add(lane);
      }
    }
  }

  /** Messages for one function. Returns the lanes that have an unfinished one. */
  async #runRun(session: Session, run: Routed[]): Promise<Set<string>> {
    const route = run[0]?.[1];
    if (route?.takesBatch) {
      return this.#runBatch(
        session,
        run.map(([delivery]) => delivery),
        route,
      );
    }
    return this.#runLanes(session, run);
  }

  async #runLanes(session: Session, routed: Routed[]): Promise<Set<string>> {
    const routes = new Map(routed);
    const unfinished = new Set<string>();
    const runLane = async (lane: Delivery[]) => {
      let goesOn = true;
      for (const delivery of lane) {
        if (goesOn) {
          const finished = await this.#process(session, delivery, routes.get(delivery) as Route);
          goesOn = finished && delivery.cancelled === undefined;
        } else {
          session.settle(delivery, SKIPPED);
        }
      }
      if (!goesOn) {
        unfinished.add((lane[0] as Delivery).lane(session.ordering));
      }
    };
    await Promise.all(new Batch([...routes.keys()], session.ordering).lanes().map(runLane));
    return unfinished;
  }

  // Functions for batches

  /** Calls a function with all of these messages. Returns the lanes that have an unfinished one. */
  async #runBatch(session: Session, deliveries: Delivery[], route: Route): Promise<Set<string>> {
    const ordering = this.#ordered ? session.ordering : 'none';
    let begun = deliveries.filter((delivery) => session.begin(delivery));
    if (route.schema !== undefined) {
      begun = await this.#fitting(session, begun, route.schema);
    }
    if (begun.length === 0) {
      return new Set();
    }
    let failure: Failure | undefined;
    try {
      refuseResult(await route.function(new Batch(begun, ordering)));
    } catch (error) {
      // After a lost claim the transaction has rolled back, and only one of the messages is lost.
      failure = { error, answer: isClaimLost(error) ? SKIPPED : this.#answerToError(begun[0] as Delivery, error) };
    }
    const unfinished = new Set<string>();
    for (const delivery of begun) {
      const lane = delivery.lane(ordering);
      const answer = unfinished.has(lane) ? SKIPPED : this.#answerInBatch(delivery, failure);
      if (!this.#settle(session, delivery, answer)) {
        unfinished.add(lane);
      }
    }
    return unfinished;
  }

  /** The messages whose data fits. The others are answered. */
  async #fitting(session: Session, deliveries: Delivery[], schema: StandardSchema): Promise<Delivery[]> {
    const fitting: Delivery[] = [];
    for (const delivery of deliveries) {
      try {
        await applySchema(schema, delivery.event);
        fitting.push(delivery);
      } catch (error) {
        this.#concludeError(session, delivery, error);
      }
    }
    return fitting;
  }

  /** The answer by the verdict of the message, or by that of the batch. */
  #answerInBatch(delivery: Delivery, failure: Failure | undefined): Answer {
    if (delivery.verdict !== UNSET) {
      return this.#answerTo(delivery, delivery.verdict);
    }
    if (failure === undefined) {
      return this.#answerTo(delivery, undefined);
    }
    const isLost = isClaimLost(failure.error) && claimLostIn(failure.error)?.claim === delivery.claim;
    return isLost ? answerToError(failure.error) : failure.answer;
  }
}

/** Messages that follow each other and have the same function. */
function runsOf(routed: Routed[]): Routed[][] {
  const runs: Routed[][] = [];
  for (const one of routed) {
    const last = runs.at(-1);
    if (last !== undefined && last[0]?.[1] === one[1]) {
      last.push(one);
    } else {
      runs.push([one]);
    }
  }
  return runs;
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}

function stackOf(error: unknown): string {
  return (error instanceof Error && error.stack) || textOf(error);
}
