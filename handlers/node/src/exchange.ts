/** A request with a key, in its transaction. */

import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { PooledClient, TransactionPool } from './completion.js';
import { compared, type KeyedRequest, Unread } from './fingerprint.js';
import {
  type Answer,
  BEGIN,
  COMPLETE,
  failed,
  type IdempotencyOptions,
  invalid,
  MAX_RESPONSE,
  Refused,
  unread,
} from './idempotency.js';
import { placesOf } from './places.js';

const ABANDON_AFTER_MS = 10_000;
const WAIT_MS = 250;
const FIRST_LOOK_MS = 10;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One request in its transaction. Ends with finish() or undo(). */
export class Exchange {
  private ended = false;
  private lost: Error | undefined;
  private timer: NodeJS.Timeout | undefined;
  private token: string | null = null;
  private request: KeyedRequest | undefined;
  private encodings: string | string[] | undefined;
  private readonly onError = (error: Error) => (this.lost ??= error);

  private constructor(
    readonly client: PooledClient,
    private readonly pool: TransactionPool,
  ) {
    client.on('error', this.onError);
  }

  /** undefined: the middleware has nothing to do with this request. An answer: the request does not run. */
  static async begin<Request extends KeyedRequest & { originalUrl: string }>(
    request: Request,
    options: IdempotencyOptions<Request>,
  ): Promise<Exchange | Answer | undefined> {
    const { method, originalUrl: url, headers } = request;
    if (!(options.methods ?? ['POST', 'PATCH']).includes(method)) {
      return undefined;
    }
    const header = headers['idempotency-key']?.toString();
    let content: Buffer | undefined;
    try {
      content = header === undefined ? undefined : await compared(request, options.fingerprint);
    } catch (error) {
      if (error instanceof Unread) {
        return unread(error.message);
      }
      throw error;
    }
    // an undefined one becomes NULL, which the database refuses
    const scope = header === undefined || options.scope === undefined ? '' : options.scope(request);
    const rules = [options.keep ?? '24 hours', options.required ?? true];
    const values = [header, method, url, content, scope, ...rules, headers['traceparent'], headers['tracestate']];
    let left = options.wait ?? WAIT_MS;
    for (let look = FIRST_LOOK_MS; ; look *= 2) {
      const begun = await Exchange.attempt(options.pool, values);
      if (begun instanceof Exchange) {
        begun.request = request;
        begun.encodings = headers['accept-encoding'];
        headers['accept-encoding'] = 'identity'; // the copies that get the stored response may accept another one
        return begun;
      } else if (begun.verdict !== 'busy' || left <= 0) {
        return begun;
      }
      await pause(Math.min(look, left));
      left -= look;
    }
  }

  /** Looks at the key once. A copy that waits for another one holds no connection between two looks. */
  private static async attempt(pool: TransactionPool, values: unknown[]): Promise<Exchange | Answer> {
    let exchange: Exchange | undefined;
    try {
      exchange = await Exchange.connect(pool);
      await exchange.client.query('BEGIN');
      const { verdict, token, status, headers, body } = await exchange.row(BEGIN, values);
      if (status === null) {
        exchange.token = token;
        return exchange;
      }
      await exchange.rollBack();
      return { verdict, status, headers: JSON.parse(headers), body };
    } catch (error) {
      await exchange?.rollBack();
      return failed(error);
    }
  }

  private static async connect(pool: TransactionPool): Promise<Exchange> {
    await placesOf(pool).take();
    try {
      return new Exchange(await pool.connect(), pool);
    } catch (error) {
      placesOf(pool).give();
      throw error;
    }
  }

  private async row(query: string, values: unknown[]): Promise<any> {
    return ((await this.client.query(query, values)) as { rows: unknown[] }).rows[0];
  }

  /** After the client has gone, the program may never end its response, as with pipe(). */
  watch(response: ServerResponse, afterMs = ABANDON_AFTER_MS): void {
    const abandon = () => this.abandon('the client has gone, and the request did not end');
    const begin = () => {
      if (!this.ended) {
        this.timer = setTimeout(abandon, Math.min(afterMs, LONGEST_TIMER_MS));
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
    // outer middlewares may compress the response for this copy, so they get the header of the client back
    const headers = this.request?.headers ?? {};
    if (this.encodings === undefined) {
      delete headers['accept-encoding'];
    } else {
      headers['accept-encoding'] = this.encodings;
    }
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
    placesOf(this.pool).give(); // also if the program has released the client, which makes the next line throw
    this.client.release(this.lost);
  }
}
