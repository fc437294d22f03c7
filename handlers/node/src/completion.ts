/** Calls inbox.complete() in a transaction of `pg`, or of a driver with the same methods. Imports none of them. */

import {
  ClaimLost,
  DatabaseAway,
  type Emit,
  emitToJSON,
  isClaimLost,
  sqlstateOf,
  toJSON,
  Verdict,
} from './verdicts.js';

/** A connection with an open transaction: a `Client` or `PoolClient` of `pg`. */
export interface TransactionClient {
  query(text: string, values?: any[]): Promise<unknown>;
}

/** A client that `TransactionPool.connect()` gives: a `PoolClient` of `pg`. */
export interface PooledClient extends TransactionClient {
  release(error?: Error | boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** A `Pool` of `pg`. */
export interface TransactionPool<Client extends PooledClient = PooledClient> {
  connect(): Promise<Client>;
  connect(
    callback: (error: Error | undefined, client: Client | undefined, release: (error?: any) => void) => void,
  ): void;
}

/** A call of inbox.complete(). */
export interface Completion {
  readonly text: string;
  readonly values: unknown[];
}

/** The call for one message. */
export function completionOf(claim: string, result?: unknown, emit: readonly Emit[] = []): Completion {
  const json = result === undefined ? null : toJSON(result);
  if (emit.length > 0) {
    return {
      text: 'SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)',
      values: [claim, json, emitToJSON(emit)],
    };
  }
  return json === null
    ? { text: 'SELECT inbox.complete($1::text)', values: [claim] }
    : { text: 'SELECT inbox.complete($1::text, $2::text::jsonb)', values: [claim, json] };
}

/** The call for several messages, all of them or none. */
export function completionOfAll(claims: string[], results?: readonly unknown[]): Completion {
  if (results === undefined) {
    return { text: 'SELECT inbox.complete($1::text[])', values: [claims] };
  }
  const json = results.map((result) => (result === undefined ? null : toJSON(result)));
  return { text: 'SELECT inbox.complete($1::text[], $2::text[]::jsonb[])', values: [claims, json] };
}

/** Executes the call. ClaimLost: the transaction must roll back. */
export async function complete(client: TransactionClient, completion: Completion): Promise<void> {
  requireTransaction(client);
  try {
    await client.query(completion.text, completion.values);
  } catch (error) {
    throw isClaimLost(error) ? new ClaimLost((error as Error).message, { cause: error }) : error;
  }
}

/** Without a transaction the completion would commit alone, before the effects. */
function requireTransaction(client: TransactionClient): void {
  const { getTransactionStatus, totalCount } = client as {
    getTransactionStatus?: () => string | null;
    totalCount?: number;
  };
  if (totalCount !== undefined || getTransactionStatus?.call(client) === 'I') {
    throw new TypeError('complete() needs a client with an open transaction: await BEGIN, or use transaction(pool, …)');
  }
}

/**
 * Calls `work` in a transaction of its own, which `work` must complete with the client that it gets. Commits, or rolls back and throws.
 *
 * A connection that is lost, before or in COMMIT, is DatabaseAway: the message has not caused it.
 */
export async function transact<Client extends PooledClient, T>(
  pool: TransactionPool<Client>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client: Client = await orAway(pool.connect());
  let lost: Error | undefined;
  // Without a listener a connection that is lost between two queries would end the process.
  const onError = (error: Error) => {
    lost ??= error;
  };
  client.on('error', onError);
  try {
    await orAway(client.query('BEGIN'));
    const done = await work(client);
    await orAway(client.query('COMMIT'));
    client.release();
    return done;
  } catch (error) {
    const reason = lost === undefined || error instanceof Verdict ? error : new DatabaseAway(lost);
    await rollBack(client, lost);
    throw reason;
  } finally {
    client.removeListener('error', onError);
  }
}

/** A failure that has no SQLSTATE comes from the connection. */
async function orAway<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw sqlstateOf(error) === undefined ? new DatabaseAway(error) : error;
  }
}

async function rollBack(client: PooledClient, lost: Error | undefined): Promise<void> {
  try {
    if (lost === undefined) {
      await client.query('ROLLBACK');
    }
    client.release(lost);
  } catch (error) {
    client.release(error as Error);
  }
}
