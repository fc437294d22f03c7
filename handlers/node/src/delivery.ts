/** A delivery, and a batch of them: what a function gets. */

import {
  type Calls,
  completionOf,
  completionOfAll,
  databaseCalls,
  type Executor,
  type PooledClient,
  type TransactionClient,
  type TransactionOptions,
  type TransactionPool,
  transact,
} from './completion.js';
import { type EventMembers, InboxEvent } from './event.js';
import type { Group, Session } from './session.js';
import { Cancelled, Dead, Done, type Emit, refuseGenerator, Verdict } from './verdicts.js';

/** A header of the Kafka record: its name and its value. Bytes that are no text are a Buffer. */
export type Header = readonly [name: string | Buffer, value: string | Buffer | null];

/** The params of a `deliver`, or an entry of a `deliver_batch`. */
export interface DeliveryParams {
  delivery: Record<string, any>;
  event: EventMembers;
  headers?: [unknown, unknown][] | null;
}

/** The verdict of a message for which `setVerdict()` was not called. */
export const UNSET = Symbol('unset');

/** One message, delivered once. The message is identified by the source and the id of its event. */
export class Delivery<Data = any> {
  readonly event: InboxEvent<Data>;
  readonly #params: DeliveryParams;
  #abort: AbortController | undefined;
  #cancelled: string | undefined;

  /** @internal */
  readonly session: Session;
  /** @internal The batch that it came with. */
  readonly group: Group | undefined;
  /** @internal When it came, by `performance.now()`. */
  readonly received: number;
  /** @internal */
  deadlineAt: number;
  /** @internal True when a function has it. */
  started = false;
  /** @internal True when its transaction has called inbox.complete(). */
  completed = false;
  /** @internal What its transaction has stored. */
  stored: unknown;
  /** @internal */
  verdict: unknown = UNSET;

  /** @internal */
  constructor(
    session: Session,
    /** The id of this delivery. Another delivery of the message has another one. */
    readonly id: string,
    params: DeliveryParams,
    now: number,
    group: Group | undefined,
  ) {
    this.session = session;
    this.event = new InboxEvent(params.event);
    this.#params = params;
    this.group = group;
    this.received = now;
    this.deadlineAt = now + session.timeoutMs;
  }

  /** The argument of `inbox.complete()`; `complete()` passes it. */
  get claim(): string {
    return this.#params.delivery.claim;
  }

  /** The row in `inbox_messages`, as a text, because it has 64 bits. */
  get seq(): string {
    return String(this.#params.delivery.seq ?? '');
  }

  /** 1 is the first attempt. */
  get attempt(): number {
    return this.#params.delivery.attempt ?? 1;
  }

  get maxAttempts(): number {
    return this.#params.delivery.max_attempts ?? 0;
  }

  /** The first deadline, by the clock of inboxd. `extend()` does not change it. */
  get deadline(): Date | undefined {
    const text = this.#params.delivery.deadline;
    return text == null ? undefined : new Date(text);
  }

  /** True if an operator asked for another run: the message may have been processed before. */
  get replay(): boolean {
    return this.#params.delivery.replay === true;
  }

  /** The consumer, if the configuration of inboxd has several. */
  get consumer(): string | undefined {
    return this.#params.delivery.consumer ?? undefined;
  }

  /** The headers of the Kafka record, in order. A name may stand there several times. */
  get headers(): Header[] {
    return (this.#params.headers ?? []).map(([name, value]) => [
      textOrBytes(name),
      value == null ? null : textOrBytes(value),
    ]);
  }

  /** The value of the last header with this name; undefined if there is none. */
  header(name: string): string | Buffer | null | undefined {
    return this.headers.reverse().find(([found]) => found === name)?.[1];
  }

  /**
   * Is aborted when inboxd does not wait for an answer any more. Pass it to `fetch()` and to the like. Its reason is a
   * {@link Cancelled}.
   */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#cancelled !== undefined) {
        this.#abort.abort(new Cancelled(this.#cancelled));
      }
    }
    return this.#abort.signal;
  }

  /** Why it was cancelled: `timeout`, `lease_lost`, `shutdown` or `connection_lost`. Undefined if it was not. */
  get cancelled(): string | undefined {
    return this.#cancelled;
  }

  /**
   * Moves the deadline to `timeoutMs` from now; without it, to the timeout of the handler.
   *
   * The library does this by itself for every message that it holds (`extendUpToMs` of {@link HandlerOptions}).
   */
  extend(timeoutMs?: number): void {
    if (this.#cancelled !== undefined) {
      throw new Cancelled(this.#cancelled);
    }
    this.session.extend(this, timeoutMs ?? this.session.timeoutMs);
  }

  /**
   * In a function for batches: the verdict of this message alone, for example `new Retry('locked')`. It takes what a
   * function for one message may return or throw: a result, {@link Done}, {@link SETTLED} or a {@link Verdict}.
   */
  setVerdict(verdict: unknown): void {
    this.verdict = verdict;
  }

  /**
   * Completes the message in a transaction of your own: its effects and the completion commit together, or neither. The
   * function then just returns.
   *
   * @param client a client of `pg` with an open transaction, to the database of the inbox, or a function that executes a
   *   statement in a transaction
   * @throws {@link ClaimLost} if the message is not yours any more; let it pass, and roll back
   */
  async complete(client: TransactionClient | Executor, result?: unknown, emit: readonly Emit[] = []): Promise<void> {
    await this.calls.complete(client, completionOf(this.claim, result, emit));
    this.completed = true;
  }

  /**
   * Calls a function in a transaction, completes the message in it, and commits. If anything fails, it rolls back and
   * throws. After a serialization failure or a deadlock it begins again (`repeats` of {@link TransactionOptions}). A plain value that the function returns is the result of the message; {@link Done} also has events to publish.
   *
   * @param pool a pool of `pg`, to the database of the inbox
   * @throws a {@link Snooze} if the database is unavailable: the message comes again, and no attempt is spent
   */
  async transaction<Client extends PooledClient, T>(
    pool: TransactionPool<Client>,
    work: (client: Client) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    const returned = await transact(pool, [this], options, async (client) => {
      const returned = await work(client);
      if (returned instanceof Verdict) {
        throw returned;
      }
      refuseGenerator(returned);
      const { result, emit } = Done.of(returned);
      await this.calls.execute(client, completionOf(this.claim, result, emit));
      return returned;
    });
    this.completed = true;
    this.stored = returned;
    return returned;
  }

  /** @internal */
  get calls(): Calls {
    return this.session.calls ?? databaseCalls;
  }

  /** @internal Returns what makes a transaction undone that does not commit. A failure needs no transaction, and stays. */
  remember(): () => void {
    const { completed, verdict } = this;
    return () => {
      this.completed = completed;
      if (!(this.verdict instanceof Verdict)) {
        this.verdict = verdict;
      }
    };
  }

  toString(): string {
    const { id, source, type } = this.event;
    return `delivery ${this.id} (attempt ${this.attempt} of ${type || 'the event'} ${id} from ${source})`;
  }

  /** @internal */
  cancel(reason: string): void {
    this.#cancelled = reason;
    this.#abort?.abort(new Cancelled(reason));
  }

  /** @internal What messages that must be processed one after the other have in common. One without order has its own. */
  lane(ordering: string): string {
    const { topic, partition, key } = this.event;
    if (ordering === 'partition') {
      return `${partition} ${topic}`;
    }
    return ordering === 'none' || key === undefined
      ? `id ${this.id}`
      : `${partition} ${topic} ${Buffer.from(key as string).toString('base64')}`;
  }
}

/**
 * The deliveries that a function for batches gets together.
 *
 * In an ordered batch, `for (const delivery of batch)` leaves out the messages behind one that has got a verdict like
 * {@link Retry} by `Delivery.setVerdict()`. They come again after it, in order.
 */
export class Batch<Data = any> implements Iterable<Delivery<Data>> {
  /** All of them, in order. */
  readonly deliveries: readonly Delivery<Data>[];
  readonly #ordering: string;
  #abort: AbortController | undefined;

  /** @internal */
  constructor(deliveries: readonly Delivery<Data>[], ordering: string) {
    this.deliveries = deliveries;
    this.#ordering = ordering;
  }

  get length(): number {
    return this.deliveries.length;
  }

  /** Is aborted when inboxd does not wait for any of them. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      const check = () => {
        const last = this.deliveries.at(-1)?.cancelled;
        if (last !== undefined && this.deliveries.every((delivery) => delivery.cancelled !== undefined)) {
          abort.abort(new Cancelled(last));
        }
      };
      for (const { signal } of this.deliveries) {
        signal.addEventListener('abort', check, { once: true });
      }
      check();
      this.#abort = abort;
    }
    return this.#abort.signal;
  }

  *[Symbol.iterator](): IterableIterator<Delivery<Data>> {
    const failed = new Set<string>();
    for (const delivery of this.deliveries) {
      const lane = delivery.lane(this.#ordering);
      if (!failed.has(lane)) {
        yield delivery;
      }
      if (delivery.verdict instanceof Verdict && !(delivery.verdict instanceof Dead)) {
        failed.add(lane);
      }
    }
  }

  /**
   * Completes, in a transaction of your own, every message that has no verdict by `Delivery.setVerdict()`: all or none.
   *
   * @param results one for each of these messages; undefined is none. See `Delivery.complete()`.
   */
  async complete(client: TransactionClient | Executor, results?: readonly unknown[]): Promise<void> {
    const chosen = this.#withoutVerdict();
    await callsOf(chosen).complete(client, completionOfAll(claimsOf(chosen), results));
    markCompleted(chosen);
  }

  /**
   * Calls a function in a transaction, completes in it every message that has no verdict by `Delivery.setVerdict()`, and
   * commits. See `Delivery.transaction()`.
   */
  async transaction<Client extends PooledClient, T>(
    pool: TransactionPool<Client>,
    work: (client: Client) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    let chosen: Delivery[] = [];
    const returned = await transact(pool, this.deliveries, options, async (client) => {
      const returned = await work(client);
      refuseResult(returned);
      chosen = this.#withoutVerdict();
      await callsOf(chosen).execute(client, completionOfAll(claimsOf(chosen)));
      return returned;
    });
    markCompleted(chosen);
    return returned;
  }

  #withoutVerdict(): Delivery[] {
    return [...this].filter((delivery) => delivery.verdict === UNSET);
  }

  /** @internal The deliveries of each lane, in order. */
  lanes(): Delivery[][] {
    const lanes = new Map<string, Delivery[]>();
    for (const delivery of this.deliveries) {
      const lane = delivery.lane(this.#ordering);
      const others = lanes.get(lane);
      if (others === undefined) {
        lanes.set(lane, [delivery]);
      } else {
        others.push(delivery);
      }
    }
    return [...lanes.values()];
  }
}

/** @internal What a function for batches returns is not stored: an error if something would be lost. */
export function refuseResult(returned: unknown): void {
  if (returned instanceof Verdict) {
    throw returned;
  }
  refuseGenerator(returned);
  if (returned instanceof Done && returned.emit.length > 0) {
    throw new TypeError('the events of Done are lost, because it is not that of a message: give it to setVerdict()');
  }
}

function callsOf(deliveries: readonly Delivery[]): Calls {
  return deliveries[0]?.calls ?? databaseCalls;
}

function claimsOf(deliveries: readonly Delivery[]): string[] {
  return deliveries.map((delivery) => delivery.claim);
}

function markCompleted(deliveries: readonly Delivery[]): void {
  for (const delivery of deliveries) {
    delivery.completed = true;
  }
}

function textOrBytes(value: unknown): string | Buffer {
  return typeof value === 'object' && value !== null && 'base64' in value
    ? Buffer.from(String(value.base64), 'base64')
    : String(value);
}
