/** The handler: functions by topic and type, and the connection to inboxd, which is made again whenever it ends. */

import { once } from 'node:events';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch, Delivery } from './delivery.js';
import { Dispatcher, type OnError } from './dispatcher.js';
import { type LargeNumbers, parserOf } from './numbers.js';
import { Routes, type Subscription, type TypedSubscription } from './routes.js';
import { type Logger, Session } from './session.js';
import { VERSION } from './version.js';

const DEFAULT_SOCKET = '/run/inboxd/inbox.sock';
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** inboxd refuses this handler, and another try would not help. `code` is that of the protocol. */
export class Refused extends Error {
  static {
    Refused.prototype.name = 'Refused';
  }

  constructor(
    readonly code: number,
    message: string,
  ) {
    super(`inboxd refuses this handler: ${message} (${code})`);
  }
}

export interface HandlerOptions {
  /** The Unix socket of inboxd. Otherwise `$INBOXD_SOCKET_PATH`, or `/run/inboxd/inbox.sock`. */
  socketPath?: string;
  /** The consumer in the configuration of inboxd, if it has several. */
  consumer?: string;
  /** Who this process is among those of the name, for operators. Otherwise the name of the host. */
  instance?: string;
  /** Messages that this process may hold at a time: the functions work on all of them at once. 64. */
  maxInFlight?: number;
  /** Milliseconds until an answer is late. The library extends it while the process is alive. 30,000. */
  timeoutMs?: number;
  /** Milliseconds after the arrival of a message until which the library extends its deadline. 600,000. */
  extendUpToMs?: number;
  /** Messages that come together. */
  batch?: BatchOptions;
  /** The first and the longest wait before it connects again; multiplied by a random number. 100 and 10,000. */
  backoffMs?: readonly [first: number, longest: number];
  /** Milliseconds that running functions have after `stop()`. 25,000. */
  drainTimeoutMs?: number;
  /** Is called with each error of a function, also a verdict. May return another verdict, but no promise of it. */
  onError?: OnError;
  /** Where the library reports what it does. `console`. */
  logger?: Logger;
  /**
   * How numbers of the payload arrive that JavaScript cannot hold, as 9007199254740993: as a text, or as a BigInt. Without
   * it, they lose digits, as with `JSON.parse`.
   */
  largeNumbers?: LargeNumbers;
  /** Parses a line of inboxd, in place of `JSON.parse` and of `largeNumbers`. */
  parse?: (text: string) => any;
}

export interface BatchOptions {
  /** Most messages that come together. 100 with a function for batches, and 1 without. */
  max?: number;
  /** Milliseconds for which a batch may wait to fill. 0. */
  waitMs?: number;
  /** True: a batch may have several messages of a key, in order. */
  ordered?: boolean;
}

/** A function for one message. A plain value that it returns is the result of the message; {@link Done} has any. */
export type MessageFunction<Data = any> = (delivery: Delivery<Data>) => unknown;
/** A function for many messages. When it returns, those without a verdict of their own are done. */
export type BatchFunction<Data = any> = (batch: Batch<Data>) => unknown;

type AnyFunction = (argument: any) => unknown;

/**
 * A handler of messages.
 *
 * All connections of one name share the messages of this name, so use one name for each use of the data. Register
 * functions with `on()` or `onBatch()`, then call `run()`.
 */
export class Handler {
  readonly #options: HandlerOptions;
  readonly #routes = new Routes();
  readonly #logger: Logger;
  #maxInFlight: number;
  #session: Session | undefined;
  #awaySince: number | undefined;
  #serving: Promise<void> | undefined;
  #stopping: AbortController | undefined;

  constructor(
    readonly name: string,
    options: HandlerOptions = {},
  ) {
    this.#options = options;
    this.#logger = options.logger ?? console;
    this.#maxInFlight = options.maxInFlight ?? 64;
  }

  /**
   * Registers a function for the messages of a topic, or of a subscription; without them, for any. The most specific
   * function gets a message.
   */
  on<Data = any>(fn: MessageFunction<Data>): this;
  on<Data>(subscription: TypedSubscription<Data>, fn: MessageFunction<Data>): this;
  on<Data = any>(subscription: string | Subscription, fn: MessageFunction<Data>): this;
  on(first: MessageFunction | string | Subscription, fn?: MessageFunction): this {
    return this.#register(false, first, fn);
  }

  /**
   * Registers a function that gets a {@link Batch}. When it returns, each message is done, except those for which it
   * called `Delivery.setVerdict()`. An error is the verdict for all others; in an ordered batch for the first one of each
   * key, and the later ones come again after it.
   */
  onBatch<Data = any>(fn: BatchFunction<Data>): this;
  onBatch<Data>(subscription: TypedSubscription<Data>, fn: BatchFunction<Data>): this;
  onBatch<Data = any>(subscription: string | Subscription, fn: BatchFunction<Data>): this;
  onBatch(first: BatchFunction | string | Subscription, fn?: BatchFunction): this {
    return this.#register(true, first, fn);
  }

  #register(takesBatch: boolean, first: AnyFunction | string | Subscription, second: AnyFunction | undefined): this {
    const [subscription, fn] = typeof first === 'function' ? [{}, first] : [first, second];
    if (typeof fn !== 'function') {
      throw new TypeError('the last argument must be a function');
    }
    this.#routes.add(typeof subscription === 'string' ? { topic: subscription } : subscription, takesBatch, fn);
    return this;
  }

  /**
   * A whole program: handles messages until SIGTERM or SIGINT, then drains. A second signal ends the process at once.
   *
   * @throws {@link Refused} if inboxd does not want this handler
   */
  async run(): Promise<void> {
    const onSignal = () => {
      ignoreSignals();
      void this.stop();
    };
    const ignoreSignals = () => {
      for (const signal of SIGNALS) {
        process.removeListener(signal, onSignal);
      }
    };
    for (const signal of SIGNALS) {
      process.on(signal, onSignal);
    }
    try {
      await this.serve();
    } finally {
      ignoreSignals();
    }
  }

  /** `run()` for a program that has its own handlers of signals: handles messages until `stop()`. */
  async serve(): Promise<void> {
    if (this.#routes.isEmpty) {
      throw new Error('the handler has no function: register one with on()');
    }
    if (this.#serving !== undefined) {
      throw new Error('the handler runs already');
    }
    this.#stopping = new AbortController();
    this.#serving = this.#connectAgainAndAgain(this.#stopping.signal);
    try {
      await this.#serving;
    } finally {
      this.#serving = undefined;
    }
  }

  /** Drains, and ends `run()` and `serve()`. Waits until they have ended. */
  async stop(): Promise<void> {
    this.#stopping?.abort();
    await this.#serving?.catch(() => {}); // serve() throws it
  }

  /** Changes how many messages this process may hold; 0 is a pause. Also for later connections. */
  setWindow(maxInFlight: number): void {
    this.#maxInFlight = maxInFlight;
    this.#session?.setWindow(maxInFlight);
  }

  // The connection

  async #connectAgainAndAgain(stop: AbortSignal): Promise<void> {
    const [first, longest] = this.#options.backoffMs ?? [100, 10_000];
    let failures = 0;
    this.#awaySince = undefined;
    while (!stop.aborted) {
      const session = await this.#connect();
      if (session !== undefined) {
        await this.#attend(session, stop);
        if (session.refusal !== undefined) {
          throw new Refused(session.refusal.code, String(session.refusal.message));
        }
        failures = session.hasLived ? 0 : failures;
      }
      this.#awaySince ??= performance.now();
      // Full jitter: many handlers that lost the same sidecar must not come back at the same time.
      const wait = Math.random() * Math.min(first * 2 ** failures, longest);
      failures = Math.min(failures + 1, 30);
      await sleep(wait, undefined, { signal: stop }).catch(() => {});
    }
  }

  async #connect(): Promise<Session | undefined> {
    const path = this.#options.socketPath ?? process.env.INBOXD_SOCKET_PATH ?? DEFAULT_SOCKET;
    const socket = connect({ path });
    try {
      await once(socket, 'connect');
    } catch (error) {
      this.#logger.warn(`cannot connect to inboxd at ${path}: ${(error as Error).message}`);
      return undefined;
    }
    const { timeoutMs = 30_000, extendUpToMs = 600_000, largeNumbers } = this.#options;
    const { parse = largeNumbers === undefined ? JSON.parse : parserOf(largeNumbers) } = this.#options;
    const logger = this.#logger;
    const receiver = this.dispatcher();
    const onGreeted = () => this.#isBack();
    return new Session(socket, {
      hello: this.#hello(timeoutMs),
      timeoutMs,
      extendUpToMs,
      parse,
      logger,
      receiver,
      onGreeted,
    });
  }

  /** @internal Calls the functions. The test kit sees the errors. */
  dispatcher(seen?: (delivery: Delivery, error: unknown) => void): Dispatcher {
    const { batch, onError } = this.#options;
    const hook: OnError | undefined =
      seen === undefined
        ? onError
        : (error, delivery) => {
            seen(delivery, error);
            return onError?.(error, delivery);
          };
    return new Dispatcher(this.#routes, batch?.ordered === true, this.#logger, hook);
  }

  /** Logs the end of the time without a connection, at the level of its beginning. */
  #isBack(): void {
    if (this.#awaySince !== undefined) {
      const seconds = ((performance.now() - this.#awaySince) / 1000).toFixed(1);
      this.#logger.warn(`connected to inboxd again after ${seconds} s`);
      this.#awaySince = undefined;
    }
  }

  /** Until the end of the connection. Drains it after `stop()`. */
  async #attend(session: Session, stop: AbortSignal): Promise<void> {
    const drain = () => session.drain(this.#options.drainTimeoutMs ?? 25_000);
    stop.addEventListener('abort', drain);
    if (stop.aborted) {
      drain();
    }
    this.#session = session;
    await session.ended;
    this.#session = undefined;
    stop.removeEventListener('abort', drain);
    if (session.greeted && !stop.aborted) {
      this.#logger.warn('the connection to inboxd was lost');
    }
  }

  #hello(timeoutMs: number): Record<string, unknown> {
    const { consumer, instance = hostname(), batch = {} } = this.#options;
    const subscribe = this.#routes.subscriptions();
    return {
      protocol: [1],
      handler: this.name,
      instance,
      client: `inboxd-node/${VERSION}`,
      max_in_flight: this.#maxInFlight,
      timeout_ms: Math.max(Math.round(timeoutMs), 1),
      batch: {
        max: batch.max ?? (this.#routes.hasBatches ? 100 : 1),
        wait_ms: Math.round(batch.waitMs ?? 0),
        ordered: batch.ordered || undefined,
      },
      subscribe: subscribe.length > 0 ? subscribe : undefined,
      consumer,
    };
  }
}
