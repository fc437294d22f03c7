/**
 * A plugin for Fastify: `app.register(idempotency, { pool })`. The request finds the transaction as `request.connectionOfKey`, a client
 * of `pg`.
 *
 * @packageDocumentation
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { Exchange } from './exchange.js';
import { changed, type IdempotencyOptions, isUnread, type KeyedRequest, MAX_RESPONSE, Refused } from './idempotency.js';

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
const exchanges = new WeakMap<object, { exchange: Exchange; before: Record<string, unknown> }>();

/** Errors of COMMIT become the error of the request; the response that Fastify then sends passes unchanged. */
async function onSend(request: object, reply: Reply, payload: unknown): Promise<unknown> {
  const found = exchanges.get(request);
  if (found === undefined) {
    return payload;
  }
  const { exchange, before } = found;
  exchanges.delete(request);
  let body: Buffer;
  try {
    body = await bytesOf(payload);
  } catch (error) {
    await exchange.undo();
    throw error;
  }
  try {
    reply.headers(await exchange.finish(reply.statusCode, changed(reply.getHeaders(), before), body));
  } catch (error) {
    if (!(error instanceof Refused)) {
      throw error;
    }
    Object.keys(reply.getHeaders()).forEach((name) => reply.removeHeader(name));
    reply.code(error.answer.status);
    reply.headers({ ...before, ...error.answer.headers });
    return error.answer.body;
  }
  return payload === undefined || payload === null || typeof payload === 'string' ? payload : body;
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
    const { method, originalUrl: url, headers, body } = request as KeyedRequest & { originalUrl: string };
    const unread = isUnread(request.raw as IncomingMessage);
    const scope = () => (options.scope === undefined ? '' : options.scope(request));
    const exchange = await Exchange.begin({ method, url, headers, body, unread }, { ...options, scope });
    if (exchange instanceof Exchange) {
      exchanges.set(request, { exchange, before: { ...reply.getHeaders() } });
      request.connectionOfKey = exchange.client;
      exchange.watch(reply.raw);
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
