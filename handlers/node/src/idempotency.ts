/**
 * What the middlewares for Express and Fastify have in common: a request that is sent twice with one Idempotency-Key has its effects
 * once, and one response.
 *
 * A request runs in a transaction of `pg`. The effects, the key and the response commit together, before the client gets the
 * response. A response of 500 or more, and those of NOT_STORED, roll back: the next copy of the request runs again. The database
 * has the rules (docs/idempotency-keys.md of the repository).
 */

import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { TransactionPool } from './completion.js';

/** What both middlewares need of a request. */
export interface KeyedRequest {
  method: string;
  url: string;
  headers: Record<string, string | string[] | undefined>;
  /** The body as it came, or as a parser has read it. */
  body?: unknown;
  /** It has a body that no parser has read. */
  unread?: boolean;
}

export interface IdempotencyOptions<Request = any> {
  pool: TransactionPool;
  /** Whose keys they are: the tenant that the server knows, nothing that the client chooses. */
  scope?: (request: Request) => string;
  /** False: a request without a key runs in a transaction, but its response is not stored. Default: it gets 400. */
  required?: boolean;
  /** Default: POST and PATCH. */
  methods?: readonly string[];
  /** How long a key is kept, as an interval of PostgreSQL. Default: 24 hours. */
  keep?: string;
}

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

export const NOT_STORED = new Set([401, 403, 408, 409, 425, 429]);
export const DROPPED = new Set(
  // headers that belong to one connection or one client
  (
    'connection keep-alive proxy-authenticate proxy-authorization proxy-connection set-cookie set-cookie2 te trailer ' +
    'transfer-encoding upgrade content-length date'
  ).split(' '),
);
export const REFUSALS: Record<string, [number, string, string]> = {
  busy: [409, 'request-outstanding', 'a request with this key runs at this moment; send it again later'],
  mismatch: [422, 'key-reused', 'this key was used for another request; use a new key for each request'],
  lost: [409, 'outcome-unknown', 'nobody knows how far the request with this key came; ask the operator'],
};

/** Bytes of the largest response that the database stores. */
export const MAX_RESPONSE = 1 << 20;

/** SQLSTATE: the database is unavailable or busy. The other errors are the service's. */
const AWAY = /^(08|40|53|57|25006)/;

/** An error of PostgreSQL or of the connection to it. The request had no effect, or the next copy of it shows the outcome. */
export function failed(error: unknown): Answer {
  console.error('the request has no result:', error);
  // errors of the server have a severity, unlike those of a socket
  const { code, severity } = (error ?? {}) as { code?: string; severity?: unknown };
  if (severity === undefined || AWAY.test(code ?? '')) {
    const detail = 'the request has no result; send it again with the same key';
    return problem(503, 'database-away', detail, { 'retry-after': '1' });
  }
  return invalid();
}

export function invalid(): Answer {
  return problem(500, 'response-invalid', 'the request had no effect; the log of the service has the reason');
}

/** The response of the program is not sent, and another one is. */
export class Refused extends Error {
  constructor(
    readonly answer: Answer,
    cause: unknown,
  ) {
    super('the request has no result', { cause });
  }
}

export function problem(status: number, type: string, detail: string, headers: Record<string, string> = {}): Answer {
  const body = Buffer.from(JSON.stringify({ type, title: STATUS_CODES[status], status, detail }));
  return { status, headers: { 'content-type': 'application/problem+json', ...headers }, body };
}

/** The fingerprint would be the same for each body that no parser has read. */
export function isUnread(request: Pick<IncomingMessage, 'headers' | 'readableEnded'>): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return (encoding !== undefined || Number(length ?? 0) > 0) && request.readableEnded === false;
}

/** The key, a string of RFC 8941 or a bare value, as most clients send it; undefined = none is needed. Or an answer. */
export function keyOf(header: string | string[] | undefined, required: boolean): string | Answer | undefined {
  if (header === undefined && !required) {
    return undefined;
  }
  const text = typeof header === 'string' ? header.trim() : '';
  const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(text);
  const key = quoted ? quoted[1]!.replace(/\\(.)/g, '$1') : /^[!#-+\--~]+$/.test(text) ? text : '';
  if (key.length >= 1 && key.length <= 255) {
    return key;
  }
  const detail = 'send the header Idempotency-Key once, with a text of 1 to 255 printable characters';
  return problem(400, header === undefined ? 'key-missing' : 'key-invalid', detail);
}
