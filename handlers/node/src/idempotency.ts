/**
 * What the middlewares for Express and Fastify have in common: a request that is sent twice with one Idempotency-Key has its effects
 * once, and one response.
 *
 * A request runs in a transaction of `pg`. The effects, the key and the response commit together, before the client gets the
 * response. The database has the rules (docs/idempotency-keys.md of the repository).
 */

import { STATUS_CODES } from 'node:http';
import type { TransactionPool } from './completion.js';

export type { KeyedRequest } from './fingerprint.js';

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
  /** The value that is compared in place of the body. Needed if a parser puts a part of the body where the middleware does not look. */
  fingerprint?: (request: Request) => string | Uint8Array | Promise<string | Uint8Array>;
  /** How long a copy waits while another one runs, before it gets 409, in milliseconds. Default: 250. */
  wait?: number;
  /** How long a request may go on after its client has gone, in milliseconds. Default: 10,000. */
  abandonAfter?: number;
}

export interface Answer {
  /** The verdict of the database if the request does not run. */
  verdict?: string;
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** Bytes of a response; the database stores no larger one. */
export const MAX_RESPONSE = 1 << 20;

/** The settings are the trace of the events that the request emits. */
export const BEGIN = `SELECT verdict, token, status, headers::text, body,
    set_config('inboxd.traceparent', $8::text, true), set_config('inboxd.tracestate', $9::text, true)
  FROM inbox.http_request_begin($1::text, $2::text, $3::text, $4::bytea, $5::text, $6::interval, $7::boolean)`;
export const COMPLETE = `SELECT commits, expires FROM inbox.http_request_complete($1::text, $2::int, $3::text::jsonb, $4::bytea)`;

/** SQLSTATE: the database is away or busy. The other errors of PostgreSQL are the service's. */
const AWAY = /^(08|25006|40|53|55006|55P03|57)/;
/** Codes of sockets and the resolver, such as ECONNREFUSED; those of mistakes, such as ERR_INVALID_ARG_TYPE, are not. */
const SOCKET = /^E(?!RR_)[A-Z_]+$/;
/** What `pg` says without a code, of connections, its pool and its time limits. */
const CONNECTION =
  /^(Connection terminated|timeout e|Query read timeout|Client (has|was)|Cannot use a pool|Connection ended)/;

/**
 * The answer to an error of PostgreSQL or of the connection to it. Then nothing has happened, or the next copy of the request
 * tells. Any other error is thrown again.
 */
export function failed(error: unknown): Answer {
  // errors of the server have a severity, unlike those of a socket
  const { code, severity, message } = (error ?? {}) as { code?: string; severity?: unknown; message?: string };
  const isAway =
    severity === undefined ? SOCKET.test(code ?? '') || CONNECTION.test(message ?? '') : AWAY.test(code ?? '');
  if (severity === undefined && !isAway) {
    throw error;
  }
  console.error('the request has no result:', error);
  if (isAway) {
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

export function unread(detail: string): Answer {
  return problem(415, 'request-unread', `the server cannot compare the copies of the request: ${detail}`);
}

/** The headers that the program has added to those of outer middlewares, or changed. */
export function changed(now: Record<string, unknown>, before: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(now).filter(([name, value]) => String(value) !== String(before[name])));
}
