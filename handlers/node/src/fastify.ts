/**
 * A plugin for Fastify: `app.register(idempotency, { pool })`. The request finds the transaction as `request.connectionOfKey`, a client
 * of `pg`.
 *
 * @packageDocumentation
 */

import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { Exchange } from './exchange.js';
import { changed, type IdempotencyOptions, MAX_RESPONSE, Refused } from './idempotency.js';

export type { Answer, IdempotencyOptions, KeyedRequest } from './idempotency.js';

/** What the plugin needs of Fastify. */
export interface FastifyApp {
  decorateRequest(name: string, value: null): unknown;
  addHook(name: any, hook: (...values: any[]) => unknown): unknown;
}

interface Reply {
  raw: ServerResponse;
  statusCode: number;
  getHeaders(): Record<string, unknown>;
  header(name: string, value: string): unknown;
  removeHeader(name: string): unknown;
  headers(values: Record<string, unknown>): unknown;
  code(status: number): unknown;
  send(payload: unknown): unknown;
}

/** The exchange of a request, and the headers that the reply had before: each copy gets its own of other plugins. */
const exchanges = new WeakMap<object, { exchange: Exchange; before: Record<string, unknown>; isAnswered: boolean }>();

/**
 * Stores the first response, and sends it after the COMMIT. A response that the program sends meanwhile, for example because it throws,
 * is dropped. An error of the COMMIT becomes the error of the request. The response that Fastify then sends is not changed.
 */
async function onSend(request: object, reply: Reply, payload: unknown): Promise<unknown> {
  const found = exchanges.get(request);
  if (found === undefined) {
    return payload;
  } else if (found.isAnswered) {
    return new Promise(() => {});
  }
  found.isAnswered = true;
  const { exchange, before } = found;
  const { statusCode } = reply;
  const headers = { ...reply.getHeaders() };
  try {
    const body = await bytesOf(payload).catch(async (error: unknown) => {
      await exchange.undo();
      throw error;
    });
    const added = await exchange.finish(statusCode, changed(headers, before), body);
    exchanges.delete(request); // what is sent from now on is the error of another hook
    restart(reply, statusCode, { ...headers, ...added });
    return payload === undefined || payload === null || typeof payload === 'string' ? payload : body;
  } catch (error) {
    exchanges.delete(request);
    if (!(error instanceof Refused)) {
      throw error;
    }
    restart(reply, error.answer.status, { ...before, ...error.answer.headers });
    return error.answer.body;
  }
}

function restart(reply: Reply, status: number, headers: Record<string, unknown>): void {
  Object.keys(reply.getHeaders()).forEach((name) => reply.removeHeader(name));
  reply.code(status);
  reply.headers(headers);
}

async function bytesOf(payload: unknown): Promise<Buffer> {
  if (payload === undefined || payload === null) {
    return Buffer.of();
  }
  if (typeof payload === 'string' || payload instanceof Uint8Array) {
    return Buffer.from(payload as string);
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of payload as Readable) {
    chunks.push(Buffer.from(chunk));
    size += chunks.at(-1)!.length;
    if (size > MAX_RESPONSE) {
      break;
    }
  }
  return Buffer.concat(chunks);
}

export function idempotency(app: FastifyApp, options: IdempotencyOptions, done: () => void): void {
  app.decorateRequest('connectionOfKey', null);
  app.addHook('preHandler', async (request: any, reply: Reply) => {
    const exchange = await Exchange.begin(request, options);
    if (exchange instanceof Exchange) {
      exchanges.set(request, { exchange, before: { ...reply.getHeaders() }, isAnswered: false });
      request.connectionOfKey = exchange.client;
      exchange.watch(reply.raw, options.abandonAfter);
    } else if (exchange !== undefined) {
      reply.code(exchange.status);
      reply.headers(exchange.headers);
      return reply.send(exchange.body);
    }
  });
  app.addHook('onSend', onSend);
  app.addHook('onResponse', (request: object, _reply: unknown, next: () => void) => {
    exchanges.get(request)?.exchange.abandon('the response did not pass through reply.send()');
    next();
  });
  done();
}

// The hooks are for the routes of the program, and not only for those of this plugin.
Object.assign(idempotency, { [Symbol.for('skip-override')]: true });
