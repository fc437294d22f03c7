/** One connection to inboxd: it reads lines, keeps the open deliveries, and sends each answer once. */

import type { Socket } from 'node:net';
import type { Calls } from './completion.js';
import { Delivery, type DeliveryParams } from './delivery.js';
import { type Answer, SKIPPED } from './verdicts.js';

/** Where the library reports what it does. `console`, and the loggers of pino and winston, are such. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}

/** Takes the messages that come. */
export interface Receiver {
  acceptOne(session: Session, delivery: Delivery): void;
  acceptBatch(session: Session, deliveries: Delivery[]): void;
}

/** What a session needs of the handler. */
export interface Terms {
  readonly hello: Record<string, unknown>;
  readonly timeoutMs: number;
  readonly extendUpToMs: number;
  readonly parse: (line: string) => any;
  readonly logger: Logger;
  readonly receiver: Receiver;
  readonly onGreeted: () => void;
}

interface Message {
  id?: unknown;
  method?: string;
  params?: any;
  result?: any;
  error?: any;
}

const MAX_LINE = 33_554_432;
const HELLO_TIMEOUT_MS = 10_000;
const LIVED_MS = 10_000;
const LONGEST_TICK_MS = 60_000;
const FLUSH_AFTER_MS = 0.2;
const HELLO_ID = 1;
const DRAIN_ID = 2;
// Errors of a hello that another try does not correct.
const FINAL = new Set([-32000, -32001, -32003, -32005, -32602]);

class ProtocolError extends Error {}

/** A batch: its answer is sent when each of its deliveries is answered or cancelled. */
export class Group {
  readonly #id: unknown;
  #open: number;
  #entries: string[] = [];
  #length = 0;

  constructor(id: unknown, count: number) {
    this.#id = id;
    this.#open = count;
  }

  /** Returns the line when this was the last answer. */
  add(delivery: Delivery, answer: Answer | undefined, maxLine: number): string | undefined {
    this.#open -= 1;
    if (answer !== undefined) {
      // One character can have three bytes in UTF-8.
      const isLong = this.#length + answer.members.length > maxLine / 4;
      const { members } = (isLong && answer.short) || answer;
      const entry = `{"id":${JSON.stringify(delivery.id)},${members}}`;
      this.#entries.push(entry);
      this.#length += entry.length;
    }
    if (this.#open > 0 || this.#entries.length === 0) {
      return undefined;
    }
    return `{"jsonrpc":"2.0","id":${JSON.stringify(this.#id)},"result":{"entries":[${this.#entries.join(',')}]}}\n`;
  }
}

export class Session {
  /** The time that a delivery has, by the reply to hello. */
  timeoutMs: number;
  /** Which messages have an order, by the reply to hello. */
  ordering = 'none';
  /** True after the reply to hello. */
  greeted = false;
  draining = false;
  #hasDelivered = false;
  #greetedAt = Infinity;
  /** Why inboxd refuses the handler for good. */
  refusal: { code: number; message?: string } | undefined;
  readonly ended: Promise<void>;
  /** How messages are completed, if not in the database: the test kit. */
  readonly calls: Calls | undefined;

  readonly #socket: Socket;
  readonly #terms: Terms;
  readonly #open = new Map<unknown, Delivery>();
  #timer: NodeJS.Timeout;
  #drainTimer: NodeJS.Timeout | undefined;
  #parts: string[] = []; // of a line that has not ended
  #pending = 0;
  #maxLine = MAX_LINE;
  #now = performance.now(); // when the last data came
  #out = '';
  #outSince = 0;
  #reading = false;
  #flushIsDue = false;

  /** Takes a socket that is connected. */
  constructor(socket: Socket, terms: Terms) {
    this.timeoutMs = terms.timeoutMs;
    this.#socket = socket;
    this.#terms = terms;
    this.#timer = setTimeout(() => this.#fail('no reply to hello'), HELLO_TIMEOUT_MS);
    this.ended = new Promise((resolve) => {
      socket.on('close', () => {
        this.#end();
        resolve();
      });
    });
    socket.setEncoding('utf8');
    socket.on('error', () => {}); // close follows
    socket.on('data', (data: string) => this.#onData(data));
    this.#send({ id: HELLO_ID, method: 'hello', params: terms.hello });
  }

  #end(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#drainTimer);
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const delivery of open) {
      delivery.cancel('connection_lost');
    }
  }

  /** True if the next connection may come soon. inboxd may end connections after each hello: then the waits grow. */
  get hasLived(): boolean {
    return this.#hasDelivered || performance.now() - this.#greetedAt >= LIVED_MS;
  }

  // Lines of inboxd

  #onData(data: string): void {
    this.#now = performance.now();
    this.#reading = true;
    try {
      this.#readLines(data);
    } catch (error) {
      this.#fail(`a line that is not in the protocol: ${String(error)}`);
    }
    this.#reading = false;
    this.#flush();
  }

  #readLines(data: string): void {
    let start = 0;
    for (let end = data.indexOf('\n'); end >= 0; end = data.indexOf('\n', start)) {
      let line = data.slice(start, end);
      start = end + 1;
      if (this.#parts.length > 0) {
        line = this.#parts.join('') + line;
        this.#parts = [];
        this.#pending = 0;
      }
      if (!this.#socket.destroyed) {
        this.#read(line);
      }
    }
    if (start < data.length) {
      this.#parts.push(start === 0 ? data : data.slice(start));
      this.#pending += data.length - start;
      if (this.#pending > MAX_LINE) {
        throw new ProtocolError('it has more than 32 MiB');
      }
    }
  }

  #read(line: string): void {
    const message: Message = this.#terms.parse(line);
    if (typeof message !== 'object' || message === null || Array.isArray(message)) {
      throw new ProtocolError('it is not an object');
    }
    const { method } = message;
    if (method == null) {
      this.#onReply(message);
    } else if (!this.greeted) {
      throw new ProtocolError(`${method} before the reply to hello`);
    } else if (method === 'deliver') {
      this.#onDeliver(message);
    } else if (method === 'deliver_batch') {
      this.#onDeliverBatch(message);
    } else if (method === 'cancel') {
      this.#onCancel(message.params ?? {});
    } else if ('id' in message) {
      this.#refuse(message, -32601, `this handler does not know ${method}`);
    }
  }

  #onReply(message: Message): void {
    if (!this.greeted && message.id === HELLO_ID) {
      this.#onHelloReply(message);
    } else if (message.id === DRAIN_ID && this.draining) {
      this.close();
    } else if (message.error != null) {
      this.#terms.logger.warn(`inboxd did not accept a line: ${JSON.stringify(message.error)}`);
    }
  }

  #onHelloReply({ error, result }: Message): void {
    if (error != null) {
      if (FINAL.has(Number(error.code))) {
        this.refusal = error;
      } else {
        this.#terms.logger.warn(`inboxd does not accept this handler now: ${error.message}`);
      }
      this.close();
      return;
    }
    this.greeted = true;
    this.#greetedAt = performance.now();
    this.#terms.onGreeted();
    this.ordering = result.ordering ?? 'none';
    this.timeoutMs = Number(result.timeout_ms ?? this.timeoutMs);
    this.#maxLine = Math.min(Number(result.max_line_bytes ?? MAX_LINE), MAX_LINE);
    clearTimeout(this.#timer);
    this.#timer = setInterval(() => this.#tick(), Math.min(this.timeoutMs / 4, LONGEST_TICK_MS));
  }

  #onDeliver(message: Message): void {
    const { id, params } = message;
    if (!isDelivery(params)) {
      this.#refuse(message, -32602, 'deliver needs a delivery and an event');
      return;
    }
    this.#hasDelivered = true;
    const delivery = new Delivery(this, id as string, params, this.#now, undefined);
    this.#open.set(id, delivery);
    this.#terms.receiver.acceptOne(this, delivery);
  }

  #onDeliverBatch(message: Message): void {
    const entries: ({ id: string } & DeliveryParams)[] | undefined = message.params?.entries;
    if (!Array.isArray(entries) || entries.length === 0 || !entries.every(isDelivery)) {
      this.#refuse(message, -32602, 'deliver_batch needs entries with a delivery and an event');
      return;
    }
    this.#hasDelivered = true;
    const group = new Group(message.id, entries.length);
    const deliveries = entries.map((entry) => new Delivery(this, entry.id, entry, this.#now, group));
    for (const delivery of deliveries) {
      this.#open.set(delivery.id, delivery);
    }
    this.#terms.receiver.acceptBatch(this, deliveries);
  }

  #onCancel(params: { delivery?: unknown; reason?: string | null }): void {
    const delivery = this.#open.get(params.delivery);
    if (delivery !== undefined) {
      delivery.cancel(params.reason ?? 'timeout');
      this.settle(delivery, undefined);
    }
  }

  #refuse(message: Message, code: number, text: string): void {
    if ('id' in message) {
      this.#send({ id: message.id, error: { code, message: text } });
    }
  }

  // Deliveries

  /** True if a function may have it now: the delivery is open, and the handler does not drain. */
  begin(delivery: Delivery): boolean {
    if (this.#open.get(delivery.id) !== delivery) {
      return false;
    }
    delivery.started = !this.draining;
    if (!delivery.started) {
      this.settle(delivery, SKIPPED);
    }
    return delivery.started;
  }

  /** Answers the delivery, unless it was answered or cancelled before. Undefined: it needs no answer. */
  settle(delivery: Delivery, answer: Answer | undefined): void {
    if (this.#open.get(delivery.id) !== delivery) {
      return;
    }
    this.#open.delete(delivery.id);
    if (delivery.group !== undefined) {
      const line = delivery.group.add(delivery, answer, this.#maxLine);
      if (line !== undefined) {
        this.#write(line);
      }
    } else if (answer !== undefined) {
      this.#write(`{"jsonrpc":"2.0","id":${JSON.stringify(delivery.id)},"result":{${answer.members}}}\n`);
    }
  }

  extend(delivery: Delivery, timeoutMs: number): void {
    delivery.deadlineAt = performance.now() + timeoutMs;
    this.#send({ method: 'extend', params: { delivery: delivery.id, timeout_ms: Math.max(Math.round(timeoutMs), 1) } });
  }

  /** Extends what has less than two thirds of its time left. */
  #tick(): void {
    const now = performance.now();
    for (const delivery of this.#open.values()) {
      const isDue = delivery.deadlineAt - now < (this.timeoutMs * 2) / 3;
      const deadlineAt = Math.min(now + this.timeoutMs, delivery.received + this.#terms.extendUpToMs);
      if (isDue && deadlineAt - Math.max(now, delivery.deadlineAt) > 1) {
        this.extend(delivery, deadlineAt - now);
      }
    }
  }

  setWindow(maxInFlight: number): void {
    if (this.greeted) {
      this.#send({ method: 'window', params: { max_in_flight: maxInFlight } });
    }
  }

  // The end

  /** Asks inboxd to end the connection. Messages that no function has seen come again at once. */
  drain(timeoutMs: number): void {
    if (!this.greeted) {
      this.close();
      return;
    }
    this.#drainTimer = setTimeout(() => {
      this.#terms.logger.warn(`functions still run after ${timeoutMs} ms: their messages come again`);
      this.abort();
    }, timeoutMs);
    this.draining = true;
    for (const delivery of [...this.#open.values()]) {
      if (!delivery.started) {
        this.settle(delivery, SKIPPED);
      }
    }
    this.#send({ id: DRAIN_ID, method: 'drain' });
  }

  /** Ends the connection when all lines are sent. */
  close(): void {
    this.#flush();
    this.#socket.destroySoon();
  }

  abort(): void {
    this.#socket.destroy();
  }

  #fail(why: string): void {
    this.#terms.logger.warn(`the connection to inboxd ends: ${why}`);
    this.abort();
  }

  // Sending

  #send(message: object): void {
    this.#write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  /** Lines are sent together with the others of this turn, unless the functions are slow. */
  #write(line: string): void {
    if (this.#out === '') {
      this.#outSince = performance.now();
    }
    this.#out += line;
    if (this.#reading) {
      if (performance.now() - this.#outSince > FLUSH_AFTER_MS) {
        this.#flush();
      }
    } else if (!this.#flushIsDue) {
      this.#flushIsDue = true;
      setImmediate(() => {
        this.#flushIsDue = false;
        this.#flush();
      });
    }
  }

  #flush(): void {
    if (this.#out !== '' && this.#socket.writable) {
      this.#socket.write(this.#out);
    }
    this.#out = '';
  }
}

function isDelivery(params: unknown): params is DeliveryParams {
  const { delivery, event } = (params ?? {}) as Partial<DeliveryParams>;
  return typeof delivery === 'object' && delivery !== null && typeof event === 'object' && event !== null;
}
