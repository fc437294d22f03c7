/** A request with a key, in its transaction. */

import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { PooledClient } from './completion.js';
import {
  type Answer,
  DROPPED,
  failed,
  type IdempotencyOptions,
  invalid,
  type KeyedRequest,
  keyOf,
  MAX_RESPONSE,
  NOT_STORED,
  problem,
  REFUSALS,
  Refused,
} from './idempotency.js';

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : (JSON.stringify(body) ?? ''));
}

/** How long a request runs on whose client has gone. */
const ABANDON_MS = 10_000;

/** One request in its transaction. Ends with finish() or undo(). */
export class Exchange {
  private ended = false;
  private lost: Error | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly onError = (error: Error) => (this.lost ??= error);

  private constructor(
    readonly client: PooledClient,
    private token?: string,
    private expires = '',
  ) {
    client.on('error', this.onError);
  }

  /** undefined: the middleware has nothing to do with this request. An answer: the request does not run. */
  static async begin(request: KeyedRequest, options: IdempotencyOptions): Promise<Exchange | Answer | undefined> {
    if (!(options.methods ?? ['POST', 'PATCH']).includes(request.method)) {
      return undefined;
    }
    const key = keyOf(request.headers['idempotency-key'], options.required ?? true);
    if (typeof key === 'object') {
      return key;
    }
    if (key !== undefined && request.unread) {
      const detail = 'the server reads no body of this content type, so it cannot compare the copies of the request';
      return problem(415, 'request-unread', detail);
    }
    // an undefined one becomes NULL, which request_begin() refuses
    const scope = key === undefined || options.scope === undefined ? '' : options.scope(request);
    let exchange: Exchange;
    try {
      exchange = new Exchange(await options.pool.connect());
    } catch (error) {
      return failed(error);
    }
    try {
      await exchange.client.query('BEGIN');
      const answer = key === undefined ? undefined : await exchange.start(key, scope, request, options);
      if (answer !== undefined) {
        await exchange.rollBack();
      }
      return answer ?? exchange;
    } catch (error) {
      await exchange.rollBack();
      return failed(error);
    }
  }

  private async start(
    key: string,
    scope: string,
    request: KeyedRequest,
    options: IdempotencyOptions,
  ): Promise<Answer | undefined> {
    const { method, url } = request;
    const digest = createHash('sha256').update(`${method} ${url}\n`).update(bytesOf(request.body)).digest();
    const operation = Buffer.from(`${method} ${url.split('?')[0]}`)
      .subarray(0, 128)
      .toString()
      .replace(/\ufffd+$/, '');
    const { rows } = (await this.client.query(
      `SELECT verdict, token, status, headers::text, body, ceil(extract(epoch FROM retry_after))::int AS retry_after,
              extract(epoch FROM expires_at)::float8 AS expires
       FROM inbox.request_begin($1::text, $2::bytea, $3::text, $4::text, keep => $5::interval)`,
      [key, digest, scope, operation, options.keep ?? '24 hours'],
    )) as { rows: any[] };
    const found = rows[0];
    this.token = found.token ?? undefined;
    this.expires = new Date((found.expires ?? 0) * 1000).toUTCString();
    if (found.verdict === 'replay') {
      const headers = { ...JSON.parse(found.headers ?? '{}'), 'idempotency-expires': this.expires };
      return {
        status: found.status,
        headers: { ...headers, 'idempotent-replayed': 'true' },
        body: found.body ?? Buffer.of(),
      };
    }
    const wait: Record<string, string> =
      found.retry_after === null ? {} : { 'retry-after': String(Math.max(found.retry_after, 1)) };
    return found.verdict === 'started' ? undefined : problem(...REFUSALS[found.verdict]!, wait);
  }

  /**
   * After the client has gone, the program may never end its response, as with pipe(). Then the connection is closed and
   * not given back, because the program may still use it.
   */
  watch(response: ServerResponse): void {
    const begin = () => {
      if (!this.ended) {
        this.timer = setTimeout(() => this.abandon(), ABANDON_MS);
      }
    };
    if (response.destroyed) {
      begin();
    } else {
      response.once('close', begin);
    }
  }

  private abandon(): void {
    this.ended = true;
    this.lost ??= new Error('the client has gone, and the request did not end; nothing is committed');
    this.release();
  }

  /** From here on nothing but finish() and undo() ends it. */
  private end(): void {
    if (this.ended) {
      throw this.lost ?? new Error('the request has ended already');
    }
    this.ended = true;
    clearTimeout(this.timer);
  }

  /** Rolls back: there is no response. */
  async undo(): Promise<void> {
    this.end();
    await this.rollBack();
  }

  /** Stores the response and commits, or rolls back. Returns the headers that the response gets, too. */
  async finish(status: number, headers: Record<string, unknown>, body: Buffer): Promise<Record<string, string>> {
    this.end();
    if (body.length > MAX_RESPONSE) {
      await this.rollBack();
      const error = new Error(`the response has more than ${MAX_RESPONSE} bytes, so it is not stored`);
      console.error(error.message);
      throw new Refused(invalid(), error);
    }
    if (status >= 500 || (this.token !== undefined && NOT_STORED.has(status))) {
      await this.rollBack();
      return {};
    }
    const kept = Object.entries(headers).filter(
      ([name, value]) => value !== undefined && !DROPPED.has(name.toLowerCase()),
    );
    const stored = Object.fromEntries(
      kept.map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : String(value)]),
    );
    try {
      if (this.token !== undefined) {
        const values = [this.token, status, body, JSON.stringify(stored)];
        await this.client.query('SELECT inbox.request_complete($1::text, $2::int, $3::bytea, $4::text::jsonb)', values);
      }
      // without an error, PostgreSQL rolls back if the program has hidden one
      const { command } = (await this.client.query('COMMIT')) as { command?: string };
      if (command === 'ROLLBACK') {
        const message = 'a statement of the request had failed, so PostgreSQL rolled the transaction back';
        throw Object.assign(new Error(message), { severity: 'ERROR', code: '25P02' });
      }
    } catch (error) {
      await this.rollBack();
      throw new Refused(failed(error), error);
    }
    this.release();
    return this.token === undefined ? {} : { 'idempotency-expires': this.expires };
  }

  private async rollBack(): Promise<void> {
    await this.client.query('ROLLBACK').catch((error: Error) => (this.lost ??= error));
    this.release();
  }

  private release(): void {
    this.client.removeListener('error', this.onError);
    this.client.release(this.lost);
  }
}
