/**
 * Tests of functions without inboxd, Kafka and network: `await deliver(handler, message({ order: 17 }, { topic: 'orders' }))`.
 *
 * The message takes the way of one of inboxd: the function is found by topic and type, its errors and results become a
 * verdict. `complete()` needs an open transaction, as always, but stores nothing in the inbox: the outcome has what it would
 * store. So the effects may go to a database that has no inbox, and roll back at the end of the test.
 *
 * @packageDocumentation
 */

import { readFile } from 'node:fs/promises';
import { type Completion, requireOpen } from './completion.js';
import { Delivery } from './delivery.js';
import { type BatchFunction, Handler, type MessageFunction } from './handler.js';
import type { Session } from './session.js';
import { type Answer, type Emit, toJSON } from './verdicts.js';

/** The params of a delivery: what {@link message} and {@link load} return. */
export interface TestMessage {
  delivery: Record<string, any>;
  event: Record<string, any>;
  headers?: [unknown, unknown][] | null;
}

/** Of a message, beside its data. Others, as `subject`, are attributes of the event. */
export interface MessageOptions {
  topic?: string;
  type?: string;
  key?: string;
  headers?: [name: string, value: string | null][];
  attempt?: number;
  maxAttempts?: number;
  replay?: boolean;
  consumer?: string;
  [attribute: string]: unknown;
}

/** What a delivery has led to. */
export interface Outcome {
  status: 'done' | 'retry' | 'dead' | 'snooze' | 'skipped';
  /** What inboxd would store, as JSON has it. */
  result?: any;
  /** What inboxd would publish. */
  events: (Emit & { data_base64?: string })[];
  /** The function has called `complete()` or `transaction()`. The status is then done. */
  completed: boolean;
  reason?: string;
  code?: string;
  delayMs?: number;
  /** The error of the function. */
  error?: unknown;
}

/** A message. A Uint8Array is data that is no JSON. Without data it is a tombstone. */
export function message(data?: unknown, options: MessageOptions = {}): TestMessage {
  const { topic = 'test', type = topic, key, headers = [], attempt = 1, maxAttempts = 10 } = options;
  const { topic: _topic, type: _type, key: _key, headers: _headers, attempt: _attempt, ...more } = options;
  const { maxAttempts: _max, replay = false, consumer, ...attributes } = more;
  const payload =
    data instanceof Uint8Array
      ? { data_base64: Buffer.from(data).toString('base64') }
      : data === undefined
        ? {}
        : { data: JSON.parse(toJSON(data)) };
  return {
    delivery: { claim: 'test', seq: '1', attempt, max_attempts: maxAttempts, replay, consumer },
    event: {
      specversion: '1.0',
      id: 'test-1',
      source: 'test',
      type,
      kafkatopic: topic,
      kafkapartition: 0,
      kafkaoffset: '0',
      ...(key === undefined ? {} : { partitionkey: key }),
      ...attributes,
      ...payload,
    },
    headers,
  };
}

/** A message that `inboxd export` has written to a file. */
export async function load(path: string | URL, parse: (text: string) => any = JSON.parse): Promise<TestMessage> {
  const found = parse(await readFile(path, 'utf8'));
  if (typeof found?.event !== 'object' || found.event === null) {
    throw new TypeError(`${String(path)} is not what \`inboxd export\` writes`);
  }
  return { delivery: {}, ...found };
}

/** Delivers a message to the function of the handler for it, or to a function. */
export async function deliver(handler: Handler | MessageFunction, message: TestMessage): Promise<Outcome> {
  const kit = new Kit(handler instanceof Handler ? handler : new Handler('test').on(handler), [message], 'none');
  const [outcome] = await kit.run((dispatcher, session, deliveries) =>
    dispatcher.acceptOne(session, deliveries[0] as Delivery),
  );
  return outcome as Outcome;
}

/** Delivers messages together. `ordering` is that of the consumer, for ordered batches. */
export async function deliverBatch(
  handler: Handler | BatchFunction,
  messages: readonly TestMessage[],
  { ordering = 'key' }: { ordering?: 'none' | 'key' | 'partition' } = {},
): Promise<Outcome[]> {
  const kit = new Kit(handler instanceof Handler ? handler : new Handler('test').onBatch(handler), messages, ordering);
  return kit.run((dispatcher, session, deliveries) => dispatcher.acceptBatch(session, deliveries));
}

type Dispatching = ReturnType<Handler['dispatcher']>;

/** One call: what the dispatcher of a handler needs of a session. */
class Kit {
  readonly timeoutMs = 30_000;
  readonly #handler: Handler;
  readonly #deliveries: Delivery[];
  readonly #answers = new Map<Delivery, Answer | undefined>();
  readonly #errors = new Map<Delivery, unknown>();
  readonly #completions = new Map<string, { result?: unknown; events: Emit[] }>();
  #resolve: () => void = () => {};

  constructor(
    handler: Handler,
    messages: readonly TestMessage[],
    readonly ordering: string,
  ) {
    this.#handler = handler;
    this.#deliveries = messages.map((one, index) => {
      const claim = `d${index + 1}`; // the completion names it
      const params = { ...one, delivery: { ...one.delivery, claim } };
      return new Delivery(this as unknown as Session, claim, params, 0, undefined);
    });
  }

  async run(accept: (dispatcher: Dispatching, session: Session, deliveries: Delivery[]) => void): Promise<Outcome[]> {
    if (this.#deliveries.length > 0) {
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
        const dispatcher = this.#handler.dispatcher((delivery, error) => this.#errors.set(delivery, error));
        accept(dispatcher, this as unknown as Session, this.#deliveries);
      });
    }
    return this.#deliveries.map((delivery) => this.#outcome(delivery));
  }

  begin(delivery: Delivery): boolean {
    delivery.started = true;
    return true;
  }

  settle(delivery: Delivery, answer: Answer | undefined): void {
    if (!this.#answers.has(delivery)) {
      this.#answers.set(delivery, answer);
      if (this.#answers.size === this.#deliveries.length) {
        this.#resolve();
      }
    }
  }

  extend(): void {} // nobody waits

  /** In place of the statements, which would fail because there is no inbox. */
  readonly calls = {
    complete: async (client: any, completion: Completion) => {
      await requireOpen(client);
      this.#keep(completion);
    },
    execute: (_client: unknown, completion: Completion) => Promise.resolve(this.#keep(completion)),
  };

  #keep({ values: [claims, results, emit] }: Completion): void {
    const json = (text: unknown) => (typeof text === 'string' ? JSON.parse(text) : undefined);
    for (const [index, claim] of [claims].flat().entries()) {
      const result = Array.isArray(results) ? results[index] : results;
      this.#completions.set(claim as string, { result: json(result), events: json(emit) ?? [] });
    }
  }

  #outcome(delivery: Delivery): Outcome {
    const answer = JSON.parse(`{${this.#answers.get(delivery)?.members ?? '"status":"skipped"'}}`);
    const completed = answer.status === 'settled';
    const said = completed ? this.#completions.get(delivery.claim) : { result: answer.result, events: answer.emit };
    return {
      status: completed ? 'done' : answer.status,
      result: said?.result,
      events: said?.events ?? [],
      completed,
      reason: answer.reason,
      code: answer.code,
      delayMs: answer.delay_ms,
      error: this.#errors.get(delivery),
    };
  }
}
