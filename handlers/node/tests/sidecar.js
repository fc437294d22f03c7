// A scripted sidecar on a socket, and handlers that are stopped after the test.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Handler } from 'inboxd';

const TIMEOUT_MS = 10_000;
export const silent = { warn() {}, error() {} };

/** One connection of a handler, spoken to in lines. */
export class Sidecar {
  #server = createServer();
  #accepted = [];
  #lines;
  #socket;

  static async listen(path) {
    const sidecar = new Sidecar();
    sidecar.#server.on('connection', (socket) => sidecar.#accepted.push(socket.on('error', () => {})));
    sidecar.#server.listen(path);
    await once(sidecar.#server, 'listening');
    return sidecar;
  }

  /** Takes the next connection, and returns its hello. */
  async connection() {
    this.hangUp();
    await until(() => this.#accepted.length > 0);
    this.#socket = this.#accepted.shift();
    this.#lines = linesOf(this.#socket);
    return this.read();
  }

  /** Returns the params of the hello, which is accepted. */
  async accept(terms = {}) {
    const hello = await this.connection();
    this.send({ id: 1, result: { protocol: 1, session: 's1', timeout_ms: 30_000, ordering: 'key', ...terms } });
    return hello.params;
  }

  /** The next line; undefined at the end of the connection. */
  async read() {
    const lines = this.#lines;
    await until(() => lines.length > 0);
    const line = lines.shift();
    return line === undefined ? undefined : JSON.parse(line);
  }

  send(message) {
    this.sendText(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  sendText(line) {
    this.#socket.write(`${line}\n`);
  }

  deliver(number, { delivery, headers, ...event } = {}) {
    this.send({ id: `d${number}`, method: 'deliver', params: params(number, event, delivery, headers) });
  }

  /** A batch b1 with the deliveries d1, d2, … */
  batch(...events) {
    const entries = events.map((event, index) => ({ id: `d${index + 1}`, ...params(index + 1, event) }));
    this.send({ id: 'b1', method: 'deliver_batch', params: { entries } });
  }

  cancel(number, reason = 'timeout') {
    this.send({ method: 'cancel', params: { delivery: `d${number}`, reason } });
  }

  /** The result of the answer that comes next. */
  async answer(number = 1) {
    const message = await this.read();
    assert.equal(message.id, `d${number}`, JSON.stringify(message));
    return message.result;
  }

  /** The entries of the answer for the batch, in the order of the batch. */
  async answers() {
    const message = await this.read();
    assert.equal(message.id, 'b1');
    const entries = new Map(message.result.entries.map(({ id, ...answer }) => [id, answer]));
    return [...entries.keys()].sort().map((id) => entries.get(id));
  }

  async statuses() {
    return (await this.answers()).map((answer) => answer.status);
  }

  hangUp() {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  close() {
    this.hangUp();
    for (const socket of this.#accepted) {
      socket.destroy();
    }
    this.#server.close();
  }
}

/** A list that grows by the lines that come, and by undefined at the end of the connection. */
function linesOf(socket) {
  const lines = [];
  let rest = '';
  socket.setEncoding('utf8').on('data', (data) => {
    const parts = (rest + data).split('\n');
    rest = parts.pop();
    lines.push(...parts);
  });
  socket.on('close', () => lines.push(undefined));
  return lines;
}

function params(number, event, delivery = {}, headers = []) {
  return {
    delivery: { claim: `${number}.1.17`, seq: String(number), attempt: 1, max_attempts: 10, ...delivery },
    event: {
      specversion: '1.0',
      id: `A${number}`,
      source: 'orders',
      type: 'order.created',
      kafkatopic: 'orders',
      kafkapartition: 3,
      kafkaoffset: '7',
      data: { order: number },
      ...event,
    },
    headers,
  };
}

/** A sidecar, and start(fn, options) → a handler that serves it. Both end with the test. */
export async function setUp(t) {
  const directory = await mkdtemp(join(tmpdir(), 'inboxd-'));
  const socketPath = join(directory, 'inbox.sock');
  const sidecar = await Sidecar.listen(socketPath);
  const handlers = [];
  t.after(async () => {
    const stopped = handlers.map((handler) => handler.stop());
    sidecar.close();
    await Promise.all(stopped);
    await rm(directory, { recursive: true });
  });

  /** `register`: a function that registers functions, or one to register for every message. */
  function start(register, options = {}) {
    const handler = new Handler('billing', {
      socketPath,
      drainTimeoutMs: 2_000,
      backoffMs: [10, 50],
      logger: silent,
      ...options,
    });
    register(handler);
    handlers.push(handler);
    handler.serve().catch(() => {});
    return handler;
  }
  return { sidecar, socketPath, start };
}

/** Waits until the function returns something true. */
export async function until(condition) {
  for (const end = Date.now() + TIMEOUT_MS; !condition(); await sleep(2)) {
    assert.ok(Date.now() < end, `in time: ${condition}`);
  }
}
