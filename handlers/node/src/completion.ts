/** Calls inbox.complete() in a transaction of `pg`, or of a driver with the same methods. Imports none of them. */

import { setTimeout as sleep } from 'node:timers/promises';
import { claimLostIn, DatabaseAway, type Emit, emitToJSON, sqlstateOf, toJSON, verdictIn } from './verdicts.js';

const FIRST_PAUSE_MS = 20;
const LEVELS = new Set(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']);
const REPEATED = new Set(['40001', '40P01']); // serialization failure, deadlock
const NO_TRANSACTION = '25P01';
const NEEDS_TRANSACTION =
  'complete() needs a client with an open transaction: await BEGIN, or use transaction(pool, …)';

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

/** Executes a statement in an open transaction, with $1, $2 … for the values. For libraries whose objects are not like `pg`. */
export type Executor = (text: string, values: any[]) => PromiseLike<unknown>;

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

/** How the calls are executed. The test kit has other ones. */
export interface Calls {
  /** In a transaction of the program. */
  complete(client: TransactionClient | Executor, completion: Completion): Promise<void>;
  /** In one of the library. */
  execute(client: TransactionClient, completion: Completion): Promise<void>;
}

export const databaseCalls: Calls = {
  async complete(client, completion) {
    await execute({ query: await requireOpen(client) }, completion);
  },
  execute,
};

/** Returns what executes a statement in the transaction of the program, which must be open. */
export async function requireOpen(
  client: TransactionClient | Executor,
): Promise<(text: string, values?: any[]) => Promise<unknown>> {
  const executor = executorOf(client);
  await requireTransaction(client, executor);
  return executor;
}

/** Executes the call. ClaimLost: the transaction must roll back. */
async function execute(client: TransactionClient, { text, values }: Completion): Promise<void> {
  try {
    await client.query(text, values);
  } catch (error) {
    throw claimLostIn(error) ?? error;
  }
}

/** The transactions of Knex and postgres.js are functions, too, with other parameters. */
function executorOf(client: TransactionClient | Executor): (text: string, values?: any[]) => Promise<unknown> {
  const { query, raw, unsafe } = (client ?? {}) as { query?: unknown; raw?: unknown; unsafe?: unknown };
  if (typeof query === 'function') {
    return (text, values) => (client as TransactionClient).query(text, values);
  }
  if (typeof client === 'function' && raw === undefined && unsafe === undefined) {
    return async (text, values = []) => client(text, values);
  }
  throw new TypeError(
    'complete() needs a client of pg with an open transaction, or a function (text, values) => Promise that executes a' +
      ' statement in yours: docs/frameworks.md has that of your framework',
  );
}

/**
 * Without a transaction the completion would commit alone, before the effects. A client of `pg` knows whether it has one.
 * About all others PostgreSQL is asked.
 */
async function requireTransaction(
  client: TransactionClient | Executor,
  executor: (text: string) => Promise<unknown>,
): Promise<void> {
  const { getTransactionStatus, totalCount } = client as {
    getTransactionStatus?: () => string | null;
    totalCount?: number;
  };
  const status = totalCount === undefined ? (getTransactionStatus?.call(client) ?? undefined) : 'I';
  try {
    if (status === undefined) {
      await executor('SAVEPOINT inboxd');
      await executor('RELEASE SAVEPOINT inboxd');
    }
  } catch (error) {
    if (sqlstateOf(error) !== NO_TRANSACTION) {
      throw error;
    }
    throw new TypeError(NEEDS_TRANSACTION, { cause: error });
  }
  if (status === 'I') {
    throw new TypeError(NEEDS_TRANSACTION);
  }
}

/** How the library makes a transaction. */
export interface TransactionOptions {
  /** The isolation level. Without it: that of the database. */
  isolation?: 'read committed' | 'repeatable read' | 'serializable';
  /**
   * How often the transaction is repeated at most after a serialization failure or a deadlock (40001, 40P01). This spends no
   * attempt, but calls the function again. After the last one the message comes again after a second, which spends none either. 4.
   */
  repeats?: number;
}

/** What a transaction needs of a delivery. */
interface Participant {
  remember(): () => void;
  readonly cancelled: string | undefined;
}

/**
 * Calls `work` in a transaction of its own, which `work` must complete with the client that it gets. Commits, or rolls back and throws;
 * the deliveries then forget what was said about them in it.
 *
 * A connection that is lost, before or in COMMIT, is DatabaseAway: the message has not caused it.
 */
export async function transact<Client extends PooledClient, T>(
  pool: TransactionPool<Client>,
  deliveries: readonly Participant[],
  { isolation, repeats = 4 }: TransactionOptions,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const begin = isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${levelOf(isolation)}`;
  for (let left = repeats, longest = FIRST_PAUSE_MS; ; left--, longest *= 2) {
    try {
      return await attempt(pool, deliveries, begin, work);
    } catch (error) {
      const isOver = left <= 0 || deliveries.every((delivery) => delivery.cancelled !== undefined);
      if (isOver || verdictIn(error) !== undefined || !REPEATED.has(sqlstateOf(error) ?? '')) {
        throw error;
      }
    }
    await sleep(Math.random() * longest);
  }
}

function levelOf(isolation: string): string {
  const level = isolation.toUpperCase();
  if (!LEVELS.has(level)) {
    throw new RangeError(`the isolation level is read committed, repeatable read or serializable, not ${isolation}`);
  }
  return level;
}

async function attempt<Client extends PooledClient, T>(
  pool: TransactionPool<Client>,
  deliveries: readonly Participant[],
  begin: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const undo = deliveries.map((delivery) => delivery.remember());
  const client: Client = await orAway(pool.connect());
  let lost: Error | undefined;
  // Without a listener a connection that is lost between two queries would end the process.
  const onError = (error: Error) => {
    lost ??= error;
  };
  client.on('error', onError);
  try {
    await orAway(client.query(begin));
    const done = await work(client);
    await orAway(client.query('COMMIT'));
    client.release();
    return done;
  } catch (error) {
    for (const forget of undo) {
      forget();
    }
    const reason = lost === undefined || verdictIn(error) !== undefined ? error : new DatabaseAway(lost);
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
