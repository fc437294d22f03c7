/** A request with a key, in its transaction. */

import type { ServerResponse } from 'node:http';
import type { PooledClient } from './completion.js';
import {
  type Answer,
  BEGIN,
  bytesOf,
  COMPLETE,
  failed,
  type IdempotencyOptions,
  invalid,
  type KeyedRequest,
  MAX_RESPONSE,
  problem,
  Refused,
} from './idempotency.js';

/** How long a request runs on whose client has gone. */
const ABANDON_MS = 10_000;

/** One request in its transaction. Ends with finish() or undo(). */
export class Exchange {
  private ended = false;
  private lost: Error | undefined;
  private timer: NodeJS.Timeout | undefined;
  private token: string | null = null;
  private readonly onError = (error: Error) => (this.lost ??= error);

  private constructor(readonly client: PooledClient) {
    client.on('error', this.onError);
  }

  /** undefined: the middleware has nothing to do with this request. An answer: the request does not run. */
  static async begin(request: KeyedRequest, options: IdempotencyOptions): Promise<Exchange | Answer | undefined> {
    if (!(options.methods ?? ['POST', 'PATCH']).includes(request.method)) {
      return undefined;
    }
    const header = request.headers['idempotency-key']?.toString();
    if (header !== undefined && request.unread) {
      const detail = 'the server reads no body of this content type, so it cannot compare the copies of the request';
      return problem(415, 'request-unread', detail);
    }
    // an undefined one becomes NULL, which the database refuses
    const scope = header === undefined || options.scope === undefined ? '' : options.scope(request);
    let exchange: Exchange | undefined;
    try {
      exchange = new Exchange(await options.pool.connect());
      await exchange.client.query('BEGIN');
      const values = [header, request.method, request.url, bytesOf(request.body), scope];
      const rules = [options.keep ?? '24 hours', options.required ?? true];
      const { token, status, headers, body } = await exchange.row(BEGIN, [...values, ...rules]);
      if (status === null) {
        exchange.token = token;
        return exchange;
      }
      await exchange.rollBack();
      return { status, headers: JSON.parse(headers), body };
    } catch (error) {
      await exchange?.rollBack();
      return failed(error);
    }
  }

  private async row(query: string, values: unknown[]): Promise<any> {
    return ((await this.client.query(query, values)) as { rows: unknown[] }).rows[0];
  }

  /** After the client has gone, the program may never end its response, as with pipe(). */
  watch(response: ServerResponse): void {
    const begin = () => {
      if (!this.ended) {
        this.timer = setTimeout(() => this.abandon('the client has gone, and the request did not end'), ABANDON_MS);
      }
    };
    if (response.destroyed) {
      begin();
    } else {
      response.once('close', begin);
    }
  }

  /** Closes the connection, and does not give it back, because the program may still use it. */
  abandon(reason: string): void {
    if (!this.ended) {
      this.end();
      this.lost ??= new Error(`${reason}; nothing is committed`);
      console.error(this.lost.message);
      this.release();
    }
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
    try {
      if (body.length > MAX_RESPONSE) {
        const error = new Error(`the response has more than ${MAX_RESPONSE} bytes, so it is not stored`);
        console.error(error.message);
        throw new Refused(invalid(), error);
      }
      const values = [this.token, status, JSON.stringify(headers), body];
      const { commits, expires } = status >= 500 ? { commits: false } : await this.row(COMPLETE, values);
      if (commits) {
        await this.client.query('COMMIT');
        this.release();
        return expires === null ? {} : { 'idempotency-expires': expires };
      }
      await this.rollBack();
      return {};
    } catch (error) {
      await this.rollBack();
      if (error instanceof Refused) {
        throw error;
      }
      // a statement had failed, as the response says
      if (status >= 400 && (error as { code?: string }).code === '25P02') {
        return {};
      }
      throw new Refused(failed(error), error);
    }
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
