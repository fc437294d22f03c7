/** A request with a key, in its transaction. */

import { createHash } from 'node:crypto';
import type { PooledClient } from './completion.js';
import {
  type Answer,
  DROPPED,
  type IdempotencyOptions,
  type KeyedRequest,
  keyOf,
  NOT_STORED,
  problem,
  REFUSALS,
} from './idempotency.js';

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : (JSON.stringify(body) ?? ''));
}

/** One request in its transaction. Ends with finish(). */
export class Exchange {
  private lost: Error | undefined;
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
    const exchange = new Exchange(await options.pool.connect());
    try {
      await exchange.client.query('BEGIN');
      const answer = key === undefined ? undefined : await exchange.start(key, request, options);
      if (answer !== undefined) {
        await exchange.rollBack();
      }
      return answer ?? exchange;
    } catch (error) {
      await exchange.rollBack();
      throw error;
    }
  }

  private async start(key: string, request: KeyedRequest, options: IdempotencyOptions): Promise<Answer | undefined> {
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
      [key, digest, options.scope?.(request) ?? '', operation, options.keep ?? '24 hours'],
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

  /** Stores the response and commits, or rolls back. Returns the headers that the response gets, too. */
  async finish(status: number, headers: Record<string, unknown>, body: Buffer): Promise<Record<string, string>> {
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
      await this.client.query('COMMIT');
    } catch (error) {
      await this.rollBack();
      throw error;
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
